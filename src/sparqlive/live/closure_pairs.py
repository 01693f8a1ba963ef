"""Maintains all pairs of nodes that a path connects: per strongly connected component, the reachable nodes.

Owns reachability between all nodes over one or more edges. The nodes of a component reach the same nodes, so
they share one compressed bitmap; in a taxonomy every node is its own component. A bitmap is replaced, never
changed in place, so the old bitmaps preserve the state before the change.

A new edge propagates to predecessors as long as they gain nodes. An edge that closes a cycle merges the
components on it. When an edge is removed, its component splits only if the remaining edges no longer connect
the ends of that edge. Nodes that a component may have lost are checked against its other edges, and real
losses propagate to its predecessors. Components that reach fewer nodes are processed first, so that the
successors of a component are final before the component itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush

from pyroaring import BitMap

from sparqlive.runtime.tuning import DEFAULT

Edge = tuple[int, int]
Ends = tuple[int, ...]

# If a change touches a larger fraction of the edges than 1/8, everything is recomputed from scratch.
_LARGE_PART = 8


class Pairs:
    """All pairs of connected nodes over a set of edges. Node numbers are bits in the bitmaps."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._number: dict[int, int] = {}
        self._node: list[int] = []
        self._free: list[int] = []
        self._after: list[set[int]] = []
        self._before: list[set[int]] = []
        self._edges = 0
        # One of its nodes identifies a component; the members are listed only if there are several.
        self._component: list[int] = []
        self._members: dict[int, set[int]] = {}
        self._reach: dict[int, BitMap] = {}
        self._old: dict[int, BitMap] = {}
        for edge in edges:
            self._link(edge)
        self._compute()
        self._old = {}

    def settle(self) -> None:
        """Makes the current state the *old* state, and drops nodes without edges."""
        for number in self._old:
            if not self._after[number] and not self._before[number]:
                del self._number[self._node[number]], self._reach[number]
                self._free.append(number)
        self._old = {}

    def change(self, gone: Collection[Edge], come: Collection[Edge]) -> None:
        if len(gone) + len(come) > max(DEFAULT.batch_pairs, self._edges // _LARGE_PART):
            for edge in gone:
                self._unlink(edge)
            for edge in come:
                self._link(edge)
            self._compute()
            return
        if gone:
            self._remove([self._unlink(edge) for edge in gone])
        for edge in come:
            self._insert(*self._link(edge))

    # Nodes and edges

    def _numbered(self, node: int) -> int:
        number = self._number.get(node)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self._node[number] = node
        else:
            number = len(self._node)
            self._node.append(node)
            self._after.append(set())
            self._before.append(set())
            self._component.append(number)
        self._number[node] = number
        self._component[number] = number
        self._reach[number] = self._old[number] = _NOTHING
        return number

    def _link(self, edge: Edge) -> Edge:
        at, to = self._numbered(edge[0]), self._numbered(edge[1])
        self._after[at].add(to)
        self._before[to].add(at)
        self._edges += 1
        return at, to

    def _unlink(self, edge: Edge) -> Edge:
        at, to = self._number[edge[0]], self._number[edge[1]]
        self._after[at].discard(to)
        self._before[to].discard(at)
        self._edges -= 1
        for number in (at, to):
            self._old.setdefault(number, self._reach[self._component[number]])
        return at, to

    def _of(self, component: int) -> Collection[int]:
        return self._members.get(component) or (component,)

    def _set(self, component: int, reach: BitMap) -> None:
        """Replaces a component's bitmap, and remembers the old one for each of its nodes."""
        old = self._reach[component]
        for number in self._of(component):
            self._old.setdefault(number, old)
        self._reach[component] = reach

    def _predecessors(self, component: int) -> set[int]:
        of = self._component
        predecessors = {of[at] for number in self._of(component) for at in self._before[number]}
        predecessors.discard(component)
        return predecessors

    # From scratch

    def _compute(self) -> None:
        for number in self._number.values():
            self._old.setdefault(number, self._reach[self._component[number]])
        self._reach, self._members = {}, {}
        numbers = set(self._number.values())
        for members in self._components(numbers):
            component = self._name(members)
            self._reach[component] = self._union_after(component)

    def _union_after(self, component: int) -> BitMap:
        """Returns the nodes that a component reaches through its edges, whose targets are final."""
        reach = BitMap()
        for number in self._of(component):
            for to in self._after[number]:
                other = self._component[to]
                if to not in reach:  # otherwise another edge already reached it, and everything beyond it
                    reach.add(to)
                    if other != component:
                        reach |= self._reach[other]
        return reach or _NOTHING

    def _name(self, members: list[int]) -> int:
        component = members[0]
        for number in members:
            self._component[number] = component
        if len(members) > 1:
            self._members[component] = set(members)
        return component

    def _components(self, numbers: set[int]) -> Iterator[list[int]]:
        """Yields the strongly connected components of a subgraph (Tarjan), each after its successors."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        open_: list[int] = []
        is_open: set[int] = set()
        for root in numbers:
            if root in index:
                continue
            index[root] = low[root] = len(index)
            open_.append(root)
            is_open.add(root)
            path = [(root, iter(self._after[root]))]
            while path:
                node, edges = path[-1]
                for to in edges:
                    if to not in numbers:
                        continue
                    if to not in index:
                        index[to] = low[to] = len(index)
                        open_.append(to)
                        is_open.add(to)
                        path.append((to, iter(self._after[to])))
                        break
                    if to in is_open:
                        low[node] = min(low[node], index[to])
                else:
                    path.pop()
                    if path:
                        parent = path[-1][0]
                        low[parent] = min(low[parent], low[node])
                    if low[node] == index[node]:
                        members = []
                        while True:
                            member = open_.pop()
                            is_open.discard(member)
                            members.append(member)
                            if member == node:
                                break
                        yield members

    # Adding an edge

    def _insert(self, at: int, to: int) -> None:
        component, other = self._component[at], self._component[to]
        if component == other:
            if at not in self._reach[component]:  # the first edge from a node to itself
                self._set(component, self._reach[component] | BitMap((at,)))
            return
        gain = self._reach[other] | BitMap((to,))
        gaining = self._merge(component, other, at, gain) if at in gain else {component}
        while gaining:
            component = gaining.pop()
            reach = self._reach[component]
            if not gain <= reach:
                self._set(component, reach | gain)
                gaining |= self._predecessors(component)

    def _merge(self, first: int, last: int, at: int, gain: BitMap) -> set[int]:
        """Merges all components between `last` and `first` into that of `at`; returns its predecessors."""
        merged, waiting = {first, last}, [last]
        while waiting:
            component = waiting.pop()
            for number in self._of(component):
                for to in self._after[number]:
                    other = self._component[to]
                    if other not in merged and at in self._reach[other]:
                        merged.add(other)
                        waiting.append(other)
        predecessors: set[int] = set()
        for component in merged:
            if self._reach[component] != gain:
                predecessors |= self._predecessors(component)
                self._set(component, gain)
        largest = max(merged, key=lambda component: len(self._of(component)))
        members = self._members.setdefault(largest, {largest})
        for component in merged - {largest}:
            numbers = self._of(component)
            for number in numbers:
                self._component[number] = largest
            members.update(numbers)
            self._members.pop(component, None)
            del self._reach[component]
        return predecessors - merged

    # Removing edges

    def _remove(self, edges: list[Edge]) -> None:
        losses = _Losses()
        apart: dict[int, tuple[Edge, _Side]] = {}
        for at, to in edges:
            component, other = self._component[at], self._component[to]
            if component != other:
                losses.suspect(component, self._reach[other] | BitMap((to,)))
            elif component not in self._members:
                losses.suspect(component, BitMap((at,)))
            elif at != to and component not in apart:
                side = self._cut_off(at, to)
                if side is not None:
                    apart[component] = ((at, to), side)
        for component in losses.suspects.keys() - apart:
            losses.wait(self._rank(component), component)
        for component, (edge, side) in apart.items():
            losses.suspects.pop(component, None)
            if len(edges) == 1:
                self._split_off(component, edge, side, losses)
            else:
                self._fall_apart(component, losses)
        self._lose(losses)

    def _lose(self, losses: _Losses) -> None:
        while losses.waiting:
            component = heappop(losses.waiting)[2]
            suspected = losses.suspects.pop(component)
            certain = losses.certain.get(component, _NOTHING)
            lost = self._unreached(component, suspected - certain) | certain
            if not lost:
                continue
            self._set(component, self._reach[component] - lost)
            for before in self._predecessors(component) - losses.spared:
                if before not in losses.suspects:
                    losses.wait(self._rank(before), before)
                losses.suspect(before, lost)

    def _rank(self, component: int) -> int:
        """Returns a rank above those of all successors: the size, because a component reaches them too."""
        reach = self._reach[component]
        return 2 * len(reach) + (component not in reach)

    def _fall_apart(self, component: int, losses: _Losses) -> None:
        """Splits a component. Each part may have lost any node that the component reached."""
        rank, reach = self._rank(component), self._reach.pop(component)
        parts = [self._name(members) for members in self._components(self._members.pop(component))]
        self._take_over(parts, reach)
        for place, part in enumerate(parts):
            losses.suspect(part, reach)
            losses.wait(rank, part, place)

    def _split_off(self, component: int, edge: Edge, side: _Side, losses: _Losses) -> None:
        """Splits a component after one edge is removed, without visiting all of a large component.

        A search backward from the end of the edge, or forward from its start, found a side that is now cut
        off from the rest. Paths through that side used the edge, so the rest stays connected if other paths
        join the nodes where they entered and left it.
        """
        at, to = edge
        small, forward = side
        rank, reach = self._rank(component), self._reach.pop(component)
        rest = self._members.pop(component) - small
        parts = [self._name(members) for members in self._components(small)]
        name = self._name(list(rest)) if component in small else component
        self._members.pop(name, None)
        if len(rest) > 1:
            self._members[name] = rest
        neighbours = self._before if forward else self._after
        ways = {other for node in small for other in neighbours[node] if other in rest}
        whole = all(self._cut_off(*((way, to) if forward else (at, way))) is None for way in ways)
        rests = [name]
        if not whole:
            self._members.pop(name, None)
            rests = [self._name(members) for members in self._components(rest)]
        ordered = [*parts, *rests] if forward else [*rests, *parts]
        self._take_over(ordered, reach)
        suspected = reach
        if whole:
            alone = BitMap(rest) if len(rest) == 1 else _NOTHING
            if forward:  # the rest still leads there; a single node may have reached itself through the edge
                losses.spared = set() if alone else {name}
            else:
                losses.certain[name] = BitMap(small)
                suspected = losses.certain[name] | alone | self._outside(small, rest)
        for place, part in enumerate(ordered):
            if part not in losses.spared:
                losses.suspect(part, suspected)
                losses.wait(rank, part, place)

    def _take_over(self, parts: list[int], reach: BitMap) -> None:
        """Initializes the parts of a component with the nodes that it reached."""
        for part in parts:
            self._reach[part] = reach

    def _outside(self, numbers: set[int], rest: set[int]) -> BitMap:
        """Returns the nodes reached by edges that leave the nodes and the rest of their old component."""
        reach = BitMap()
        for number in numbers:
            for to in self._after[number]:
                if to not in numbers and to not in rest:
                    reach.add(to)
                    reach |= self._reach[self._component[to]]
        return reach

    def _cut_off(self, start: int, end: int) -> _Side | None:
        """Returns None if their component still connects two nodes, else the side that a search exhausted.

        The search runs from both nodes: forward from `start`, and backward from `end`.
        """
        if start == end:
            return None
        component = self._component[start]
        of = self._component
        sides = [({start}, {start}, True), ({end}, {end}, False)]
        while True:
            sides.sort(key=lambda side: len(side[1]))
            seen, level, forward = sides[0]
            edges = self._after if forward else self._before
            following = {to for node in level for to in edges[node] if of[to] == component} - seen
            if not following:
                return seen, forward
            if not following.isdisjoint(sides[1][0]):
                return None
            sides[0] = (seen | following, following, forward)

    def _unreached(self, component: int, lost: BitMap) -> BitMap:
        """Returns the nodes of `lost` that no edge of a component reaches."""
        lost = lost & self._reach[component]
        members = self._of(component)
        if len(members) > 1:
            lost -= BitMap(members)
        seen = {component}
        for number in members:
            if not lost:
                break
            for to in self._after[number]:
                other = self._component[to]
                lost.discard(to)
                if other not in seen:
                    seen.add(other)
                    lost -= self._reach[other]
        return lost

    # Reading

    def delta(self) -> Iterator[tuple[Ends, int]]:
        """Yields the pairs that became connected (+1) and the pairs that are no longer connected (-1)."""
        known: dict[tuple[int, int], list[tuple[int, int]]] = {}
        node = self._node
        for number, old in self._old.items():
            new = self._reach[self._component[number]]
            if new is old:
                continue
            key = (id(old), id(new))
            if key not in known:
                known[key] = [(node[to], 1) for to in new - old] + [(node[to], -1) for to in old - new]
            start = node[number]
            for end, sign in known[key]:
                yield (start, end), sign

    def matches(self, ends: tuple[int | None, ...], old: bool) -> Iterator[Ends]:
        """Yields the pairs that match the given ends, in the old or the current state."""
        start, end = ends
        if start is None:
            return self._all(old) if end is None else self._to(end, old)
        return self._from(start, end, old)

    def _bits(self, number: int, old: bool) -> BitMap:
        was = self._old.get(number) if old else None
        return self._reach[self._component[number]] if was is None else was

    def _from(self, start: int, end: int | None, old: bool) -> Iterator[Ends]:
        number = self._number.get(start)
        if number is None:
            return
        reach = self._bits(number, old)
        if end is None:
            for to in reach:
                yield start, self._node[to]
        elif end in self._number and self._number[end] in reach:
            yield start, end

    def _to(self, end: int, old: bool) -> Iterator[Ends]:
        """Searches backwards, because only forward reachability is stored."""
        number = self._number.get(end)
        if number is None:
            return
        found: set[int] = set()
        waiting = [number]
        while waiting:
            following = self._before[waiting.pop()] - found
            found |= following
            waiting.extend(following)
        if old and self._old:
            found = {at for at in found if at not in self._old}
            found.update(at for at, reach in self._old.items() if number in reach)
        for at in found:
            yield self._node[at], end

    def _all(self, old: bool) -> Iterator[Ends]:
        """Yields all pairs. Consecutive nodes that share a bitmap reuse the list of reachable nodes."""
        known: dict[int, list[int]] = {}
        for component in self._reach:
            for number in self._of(component):
                reach = self._bits(number, old)
                if id(reach) not in known:
                    known = {id(reach): [self._node[to] for to in reach]}
                start = self._node[number]
                for end in known[id(reach)]:
                    yield start, end

    def count(self) -> int:
        return sum(len(self._of(component)) * len(reach) for component, reach in self._reach.items())

    @property
    def is_empty(self) -> bool:
        """Returns whether no edges are left."""
        return not self._edges

    @property
    def nbytes(self) -> int:
        """Estimates the memory in bytes: a bitmap stores two bytes per node, or one bit for each of all."""
        whole = len(self._node) // 8
        bitmaps = sum(200 + min(2 * len(reach), whole) for reach in self._reach.values() if reach)
        return bitmaps + 700 * len(self._number) + 60 * self._edges


_NOTHING = BitMap()
_Side = tuple[set[int], bool]


class _Losses:
    """Nodes that components may no longer reach, and the components to check, ordered by rank.

    certain: definite losses. spared: components known to have lost nothing.
    """

    def __init__(self) -> None:
        self.suspects: dict[int, BitMap] = {}
        self.waiting: list[tuple[int, int, int]] = []
        self.certain: dict[int, BitMap] = {}
        self.spared: set[int] = set()

    def suspect(self, component: int, lost: BitMap) -> None:
        known = self.suspects.get(component)
        self.suspects[component] = lost if known is None else known | lost

    def wait(self, rank: int, component: int, place: int = 0) -> None:
        heappush(self.waiting, (rank, place, component))
