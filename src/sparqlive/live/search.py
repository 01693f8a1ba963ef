"""Chooses the order of a join's loops while they are written, without scanning all parts at each step.

Parts that share no unbound variable form separate groups; a group whose variables are not read later becomes
a factor. Each step costs only what it changes: a newly bound variable affects only the parts that use it.
Writing a join therefore takes time proportional to its parts. Writing all terms of its delta rule, one loop
nest per part, takes time proportional to their square, so `Compiler.segments` writes only some of them ahead.
Invariant: variables become bound one after another, and never unbound again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from sparqlive.live.code import Env
from sparqlive.live.extend import Item
from sparqlive.plan.delta import State
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.live.compiler import Node

Part = tuple["Node", State]
Group = tuple[list[Part], list[Item]]
Estimate = Callable[["Node", frozenset[Var]], float]


class Search:
    """The remaining parts and items (filters and bindings). Each is a numbered element, parts first.

    `needed` are the variables that are read after the join.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        items: Sequence[Item],
        env: Env,
        needed: frozenset[Var],
        estimate: Estimate,
    ) -> None:
        self.parts = parts
        self.items = items
        self._needed = needed
        self._estimate = estimate
        self._bound = {v for v, local in env.items() if local.bound}
        self._outputs = [frozenset(node.operator.variables) for node, _ in parts]
        self._outputs += [
            frozenset() if item.variable is None else frozenset({item.variable}) for item in items
        ]
        self._own = [*self._outputs[: len(parts)]]
        self._own += [item.reads | self._outputs[len(parts) + n] for n, item in enumerate(items)]
        self._at: dict[Var, list[int]] = {}
        self._to_come: dict[Var, int] = {}
        for element, variables in enumerate(self._own):
            for v in variables:
                self._at.setdefault(v, []).append(element)
        for variables in self._outputs:
            for v in variables:
                self._to_come[v] = self._to_come.get(v, 0) + 1
        self._alive = set(range(len(self._own)))
        self._latest: frozenset[Var] = frozenset()
        self._parts_left = len(parts)
        self._group_of: dict[int, int] = {}
        self._groups: dict[int, set[int]] = {}
        self._needed_count: dict[int, int] = {}
        self._quiet: list[tuple[float, int, int]] = []
        self._group_count = 0
        self._cheapest: list[tuple[float, int]] = []
        self._estimates = [0.0] * len(parts)
        self._ready: list[int] = []
        self._settled = set(self._bound)
        self._awaited = [
            sum(v not in self._bound and v in self._to_come for v in item.reads) for item in items
        ]
        for number, awaited in enumerate(self._awaited):
            if not awaited:
                heappush(self._ready, number)
        for number in range(len(parts)):
            self._rate(number)
        self._regroup(self._alive)

    # The next element

    @property
    def is_done(self) -> bool:
        return not self._parts_left

    def ready_item(self) -> Item | None:
        """Takes the first filter or binding whose variables no later element can still bind."""
        if not self._ready:
            return None
        number = heappop(self._ready)
        self._take([len(self.parts) + number])
        return self.items[number]

    def unread_group(self, may_be_last: Callable[[Group], bool], may_be_any: bool = True) -> Group | None:
        """Takes a group whose variables are not read later, the one with the fewest solutions.

        Takes the last group only if `may_be_last`; so all groups unless `may_be_any`.
        """
        while self._quiet:
            *_, group = self._quiet[0]
            if self._needed_count.get(group, 1):
                heappop(self._quiet)
                continue
            elements, width = sorted(self._groups[group]), len(self.parts)
            parts = [self.parts[element] for element in elements if element < width]
            found = parts, [self.items[element - width] for element in elements if element >= width]
            if (len(self._groups) == 1 or not may_be_any) and not may_be_last(found):
                return None
            self._take(elements)
            return found
        return None

    def cheapest_part(self) -> tuple[Part, frozenset[Var]]:
        """Takes the part to look up next; returns also those of its variables that are read later."""
        while True:
            estimate, number = heappop(self._cheapest)
            if number in self._alive and self._estimates[number] == estimate:
                break
        self._take([number])
        read = {
            v for v in self._own[number] if v in self._needed or any(e in self._alive for e in self._at[v])
        }
        return self.parts[number], frozenset(read)

    def take_tests(self, variables: frozenset[Var], has: Callable[[Item], bool]) -> list[Item]:
        """Takes the filters that read only one of the variables that the last taken part binds."""
        width, latest = len(self.parts), self._latest
        chosen = [
            number
            for number, item in enumerate(self.items)
            if width + number in self._alive and item.variable is None and len(item.reads) == 1
            if item.reads <= variables and has(item)
        ]
        for number in chosen:
            self._take([width + number])
            self._ready = [ready for ready in self._ready if ready != number]
        self._latest = latest
        return [self.items[number] for number in chosen]

    # Updates

    def bind(self, env: Env) -> None:
        """Marks the variables that the last taken element has bound."""
        new = [v for v in self._latest if v not in self._bound and v in env and env[v].bound]
        self._bound.update(new)
        touched: dict[int, set[int]] = {}
        for v in new:
            self._settle(v)
            near = [element for element in self._at[v] if element in self._alive]
            if near:
                group = self._group_of[near[0]]  # one group, because the variable was not bound before
                touched.setdefault(group, set()).update(near)
                self._needed_count[group] -= v in self._needed and self._to_come[v] > 0
            for element in near:
                if element < len(self.parts):
                    self._rate(element)
        for group, elements in touched.items():
            if len(elements) == 1:  # the group stays connected through this element
                self._note_if_quiet(group)
            else:
                del self._needed_count[group]
                self._regroup(self._groups.pop(group))

    def _take(self, elements: list[int]) -> None:
        self._latest = self._outputs[elements[0]]
        self._alive.difference_update(elements)
        for element in elements:
            self._parts_left -= element < len(self.parts)
            group = self._group_of.pop(element)
            members = self._groups[group]
            members.discard(element)
            for v in self._outputs[element]:
                self._to_come[v] -= 1
                if not self._to_come[v]:
                    self._settle(v)
                    self._needed_count[group] -= v in self._needed and v not in self._bound
            if members:
                self._note_if_quiet(group)
            else:
                del self._groups[group], self._needed_count[group]

    def _settle(self, variable: Var) -> None:
        """Marks a variable that no later element can bind; filters and bindings no longer wait for it."""
        if variable in self._settled:
            return
        self._settled.add(variable)
        width = len(self.parts)
        for element in self._at[variable]:
            if element >= width and element in self._alive and variable in self.items[element - width].reads:
                self._awaited[element - width] -= 1
                if not self._awaited[element - width]:
                    heappush(self._ready, element - width)

    def _rate(self, number: int) -> None:
        node, _ = self.parts[number]
        estimate = self._estimate(node, self._own[number] & self._bound)
        self._estimates[number] = estimate
        heappush(self._cheapest, (estimate, number))

    # Groups

    def _regroup(self, elements: set[int]) -> None:
        left = set(elements)
        for start in sorted(elements):
            if start not in left:
                continue
            left.discard(start)
            found, variables, to_visit = {start}, set[Var](), [start]
            while to_visit:
                for v in self._own[to_visit.pop()]:
                    if v not in self._bound and v not in variables:
                        variables.add(v)
                        near = [e for e in self._at[v] if e in left]
                        left.difference_update(near)
                        found.update(near)
                        to_visit += near
            self._group_count += 1
            self._groups[self._group_count] = found
            self._group_of.update(dict.fromkeys(found, self._group_count))
            self._needed_count[self._group_count] = sum(
                v in self._needed and self._to_come.get(v, 0) > 0 for v in variables
            )
            self._note_if_quiet(self._group_count)

    def _note_if_quiet(self, group: int) -> None:
        if not self._needed_count[group]:
            first = min(self._groups[group])
            if first < len(self.parts):
                heappush(self._quiet, (self._estimates[first], first, group))
