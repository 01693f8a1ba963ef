"""Keeps the content of plans, and shares the work between them.

Owns which compiled plan serves which content: equal plans are one content; a plan that falls apart is the
product of its parts; plans of one shape become a family, carried by one set of delta rules. Invariant:
`carry` changes nothing that is read before `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import nullcontext
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from sparqlive.errors import SparkFailed, TooLarge
from sparqlive.live.dispatch import Dispatcher
from sparqlive.live.limit import Limit
from sparqlive.live.maintained import Inputs, Maintained, Saved, Spent, rows_name
from sparqlive.live.prepared import Prepared
from sparqlive.live.quads import Change, Quads
from sparqlive.live.stored import StoredRows
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.shapes import shape_of
from sparqlive.sparql.algebra import Var
from sparqlive.zset.relation import Relation, Row
from sparqlive.zset.run import Run
from sparqlive.zset.zset import without_zeros

# Below this number views of one shape are cheaper each on its own: constants are the best keys.
FAMILY_SIZE = 8
# A product is not stored, but its change is listed: rows of one epoch's.
EXPANDED_ROWS = 1_000_000


class Content:
    """The rows of a plan. `rows` is None where the operator at the top keeps them: DISTINCT, or a closure."""

    def __init__(
        self, plan: op.Operator, maintained: Maintained | None, rows: Relation | None, scope: str = ""
    ) -> None:
        self.plan = plan
        self.scope = scope
        self.key: Any = plan
        """What a keeper knows it by."""
        self.terms: Terms | None = None
        """Where the terms of a content are that shares none with others."""
        self.maintained = maintained
        self.rows = rows
        self.users = 0
        self.products: list[Product] = []

    @cached_property
    def name(self) -> str:
        """The name of the relation that holds the rows."""
        return rows_name(self.plan, self.scope)

    def relations(self) -> Iterator[tuple[str, int, Relation | StoredRows]]:
        """Everything that is stored for this content: name, width and rows."""
        if self.rows is not None:
            yield self.name, len(self.plan.variables), self.rows
        if self.maintained is not None and self.shown() is self.maintained.plan:
            yield from self.maintained.states()

    def carried_by(self) -> Iterator[Maintained]:
        """The plans that carry this content."""
        if self.maintained is not None:
            yield self.maintained

    def items(self) -> Iterator[tuple[Row, int]]:
        if self.rows is not None:
            return self.rows.items()
        assert self.maintained is not None
        return ((row, 1) for row in self.maintained.top_state().own_rows())

    def copied(self) -> Callable[[], Iterator[tuple[Row, int]]]:
        """The rows as they are now, to be listed later; called under the lock, and cheap where it can be."""
        if self.rows is not None:
            return self.rows.copy().items
        assert self.maintained is not None
        top = self.maintained.top_state()
        if isinstance(top, Relation):
            counts = top.copy()
            return lambda: ((row, 1) for row, _ in counts.items())
        rows = list(top.own_rows())
        return lambda: ((row, 1) for row in rows)

    def add(self, delta: Mapping[Row, int]) -> None:
        if self.rows is not None:
            self.rows.stage(delta)
            self.rows.commit()

    def row_count(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        assert self.maintained is not None
        return int(self.maintained.top_state().row_count())

    def size(self) -> tuple[int, int]:
        """About how many rows are in memory, and the sum of their weights."""
        assert self.maintained is not None
        held = self.rows if self.rows is not None else self.maintained.top_state()
        return held.size() if isinstance(held, Relation) else (held.row_count(), held.row_count())

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes of what is stored, by the number of the operator; the result under -1."""
        found = {}
        if self.maintained is not None and self.shown() is self.maintained.plan:
            found = self.maintained.sizes()
        if self.rows is not None:
            found[-1] = (len(self.rows), self.rows.nbytes)
        return found

    def costs(self) -> list[tuple[int, int | None, Spent]] | None:
        """What carrying changes cost, by numbers of operators; None where it is not measured by itself."""
        if self.maintained is None or self.shown() is not self.maintained.plan:
            return None
        return list(self.maintained.costs())

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.sizes().values())

    def shown(self) -> op.Operator:
        """The plan to explain: with what is stored, unless the plan carries a family."""
        maintained = self.maintained
        alone = maintained is not None and maintained.plan.variables == self.plan.variables
        return maintained.plan if alone and maintained is not None else self.plan

    @property
    def sources(self) -> list[str]:
        """The generated code."""
        return self.maintained.sources if self.maintained is not None else []


class Product(Content):
    """The product of contents that share no variable: never stored, expanded when it is read."""

    def __init__(self, plan: op.Operator, parts: list[Content]) -> None:
        super().__init__(plan, None, None)
        self.parts = parts
        columns = [v for part in parts for v in part.plan.variables]
        self._order = [columns.index(v) if v in columns else None for v in plan.variables]

    def relations(self) -> Iterator[tuple[str, int, Relation | StoredRows]]:
        for part in self.parts:
            yield from part.relations()

    def carried_by(self) -> Iterator[Maintained]:
        for part in self.parts:
            yield from part.carried_by()

    def items(self) -> Iterator[tuple[Row, int]]:
        return self._expanded([list(part.items()) for part in self.parts])

    def copied(self) -> Callable[[], Iterator[tuple[Row, int]]]:
        parts = [part.copied() for part in self.parts]
        return lambda: self._expanded([list(part()) for part in parts])

    def _expanded(self, factors: list[list[tuple[Row, int]]]) -> Iterator[tuple[Row, int]]:
        if not all(factors):
            return
        for combination in product(*factors):
            joined: Row = ()
            weight = 1
            for row, times in combination:
                joined += row
                weight *= times
            yield tuple([0 if place is None else joined[place] for place in self._order]), weight

    def expand(self, changed: Mapping[Content, Mapping[Row, int]], most: int) -> dict[Row, int]:
        """Σᵢ P₁' × … × ΔPᵢ × … × Pₙ, before the parts take in their deltas; an error beyond `most` rows.

        Where the product was empty it is all that there is now, and where it becomes empty it is all that
        there was: a switch is turned without summing terms that cancel. Only the factors of a changed part
        are read, so that the cost is that of the rows which change.
        """
        was_empty = not all(any(part.items()) for part in self.parts)
        if was_empty and not all(part in changed or any(part.items()) for part in self.parts):
            return {}
        is_empty = any(_is_empty_after(part, changed) for part in self.parts)
        if was_empty:
            if is_empty:
                return {}
            after = [_after(part, changed) for part in self.parts]
            _check_size(after, most)
            return dict(self._expanded(after))
        if is_empty:
            before = [list(part.items()) for part in self.parts]
            _check_size(before, most)
            return {row: -weight for row, weight in self._expanded(before)}
        total: dict[Row, int] = {}
        for position, changed_part in enumerate(self.parts):
            if changed.get(changed_part):
                factors = [_after(part, changed) for part in self.parts[:position]]
                factors.append(list(changed[changed_part].items()))
                factors += [list(part.items()) for part in self.parts[position + 1 :]]
                _check_size(factors, most)
                for row, weight in self._expanded(factors):
                    total[row] = total.get(row, 0) + weight
        return without_zeros(total)

    def add(self, delta: Mapping[Row, int]) -> None:
        """Nothing: the parts hold what there is."""

    def row_count(self) -> int:
        count = 1
        for part in self.parts:
            count *= part.row_count()
        return count

    def sizes(self) -> dict[int, tuple[int, int]]:
        """What the parts store; the result of the i-th part under -i."""
        found = {}
        for number, part in enumerate(self.parts, 1):
            rows, size = part.row_count(), part.nbytes
            found[-number] = (rows, size)
        return found

    @property
    def sources(self) -> list[str]:
        return [source for part in self.parts for source in part.sources]


def _is_empty_after(part: Content, changed: Mapping[Content, Mapping[Row, int]]) -> bool:
    delta = changed.get(part, {})
    if len(delta) < part.row_count():  # some row stays as it is
        return False
    return not _after(part, changed)


def _check_size(factors: Sequence[Sized], most: int) -> None:
    if prod(map(len, factors)) > most:
        raise TooLarge(f"the change of a product has more than {most:,} rows")


def _after(part: Content, changed: Mapping[Content, Mapping[Row, int]]) -> list[tuple[Row, int]]:
    if part not in changed:
        return list(part.items())
    total = dict(part.items())
    for row, weight in changed[part].items():
        total[row] = total.get(row, 0) + weight
    return list(without_zeros(total).items())


def _rows(content: Content, saved: Saved | None, compute: Callable[[], dict[Row, int]]) -> Relation:
    width = len(content.plan.variables)
    rows = saved(content.name, content.plan) if saved is not None else None
    return Relation(width, compute() if rows is None else rows)


class _Family:
    """Contents of one shape under one maintained plan, by their constants."""

    def __init__(self, maintained: Maintained, width: int) -> None:
        self.maintained = maintained
        self.width = width
        self.members: dict[Row, Content] = {}

    def parameters(self, constants: Row) -> dict[Var, int]:
        return dict(zip(self.maintained.plan.variables, constants, strict=False))

    def split(self, delta: Mapping[Row, int]) -> dict[Content, dict[Row, int]]:
        found: dict[Content, dict[Row, int]] = {}
        width = self.width
        for row, weight in delta.items():
            found.setdefault(self.members[row[:width]], {})[row[width:]] = weight
        return found


class Keeper:
    """The contents of one scope: the same plan in another one is another content, and saved apart.

    `families`: plans of one shape are carried together. `limit`: what is carried can be stopped.
    """

    def __init__(
        self,
        quads: Quads,
        terms: Terms,
        scope: str = "",
        families: bool = True,
        limit: Limit | None = None,
        expanded_rows: int = EXPANDED_ROWS,
    ) -> None:
        self.scope = scope
        self.limit = limit
        self._has_families = families
        self.expanded_rows = expanded_rows
        self._quads = quads
        self._terms = terms
        self._dispatcher = Dispatcher(quads)
        self._contents: dict[Any, Content] = {}
        self._single: dict[Maintained, Content] = {}
        self._shapes: dict[op.Operator, dict[Row, Content]] = {}
        self._families: dict[op.Operator, _Family] = {}
        self._family_of: dict[Maintained, _Family] = {}
        self._ran: list[Maintained] = []
        self._changed: dict[Content, dict[Row, int]] = {}
        self._fresh: list[Maintained] | None = None
        """Those that are made while changes wait to be carried to them."""
        self._ready: Mapping[op.Operator, Maintained] = {}
        """Those that were compiled and loaded before, on a copy of the quads."""

    # Contents

    def keep(
        self, plan: op.Operator, saved: Saved | None = None, terms: Terms | None = None, key: Any = None
    ) -> Content:
        """The content of a plan, saved or computed if it is new; give it back with `release`.

        `terms`: those that the plan enters are entered there. `key`: what it is known by, if not by the plan.
        """
        key = plan if key is None else key
        content = self._contents.get(key)
        if content is None:
            content = self._contents[key] = self._new(plan, saved, terms)
            content.terms, content.key = terms, key
        content.users += 1
        return content

    def is_known(self, plan: op.Operator) -> bool:
        """Whether a plan has a content, or is to be carried together with others: it costs little then."""
        if plan in self._contents:
            return True
        shapes = (self._shape(part) for part in independent_parts(plan) if part not in self._contents)
        return any(shape is not None and shape[0] in self._families for shape in shapes)

    def keep_prepared(
        self, plan: op.Operator, prepared: Prepared, changes: Sequence[Change], terms: Terms | None
    ) -> Content:
        """The content of a plan that was computed beside the epochs; the changes since are carried to it."""
        fresh: list[Maintained] = []
        self._ready = prepared.plans
        if changes:
            self._fresh = fresh
            self._quads.add([(*change[:4], -change[4]) for change in changes])
        try:
            self._quads.adopt(prepared.quads)
            content = self.keep(plan, prepared.saved, terms)
            if changes:
                self._quads.stage(changes)
                try:
                    for maintained, inputs in self._dispatcher.dispatch(self._quads.staged).items():
                        if maintained in fresh:
                            self._catch_up(maintained, inputs)
                except BaseException:
                    self.release(content)
                    raise
                finally:
                    self._quads.rollback()
            return content
        finally:
            self._fresh, self._ready = None, {}
            if changes:
                self._quads.add(changes)

    def _catch_up(self, maintained: Maintained, inputs: Inputs) -> None:
        with self.limit.carrying(maintained) if self.limit is not None else nullcontext():
            delta = maintained.delta(inputs)
        maintained.commit()
        self._single[maintained].add(delta)

    def _new(self, plan: op.Operator, saved: Saved | None, terms: Terms | None) -> Content:
        parts = independent_parts(plan)
        if len(parts) > 1:
            # With terms of its own, a product shares no part with others, whose terms are other ones.
            keys = [None if terms is None else (plan, part) for part in parts]
            kept = [self.keep(part, saved, terms, key) for part, key in zip(parts, keys, strict=True)]
            content = Product(plan, kept)
            for part in kept:
                part.products.append(content)
            return content
        shape = self._shape(plan)
        if shape is not None and shape[0] in self._families:
            return self._join_family(self._families[shape[0]], shape[1], plan, saved)
        return self._new_single(plan, shape, saved, terms or self._terms)

    def _new_single(
        self, plan: op.Operator, shape: tuple[op.Operator, Row] | None, saved: Saved | None, terms: Terms
    ) -> Content:
        maintained = self._ready.get(plan)
        if maintained is None:
            maintained = Maintained(store_unreachable(plan), self._quads, terms, saved, self.scope)
        else:
            maintained.compiler.move(self._quads)
        content = Content(plan, maintained, None, self.scope)
        if not isinstance(maintained.plan, op.Distinct | op.Closure):
            content.rows = _rows(content, saved, maintained.compute)
        self._single[maintained] = content
        if self._fresh is not None:
            self._fresh.append(maintained)
        self._dispatcher.add(maintained)
        if shape is not None:
            members = self._shapes.setdefault(shape[0], {})
            members[shape[1]] = content
            if len(members) >= FAMILY_SIZE and self._fresh is None:
                self._make_family(shape[0], members)
        return content

    def _shape(self, plan: op.Operator) -> tuple[op.Operator, Row] | None:
        found = shape_of(plan) if self._has_families else None
        if found is None:
            return None
        return found[0], tuple(map(self._terms.dictionary.id_of, found[1]))

    def _make_family(self, shape: op.Operator, members: dict[Row, Content]) -> None:
        """From now on one plan carries them all; their rows stay where they are."""
        maintained = Maintained(shape, self._quads, self._terms)
        family = _Family(maintained, len(next(iter(members))))
        for constants, content in members.items():
            assert content.maintained is not None
            self._dispatcher.remove(content.maintained)
            del self._single[content.maintained]
            content.maintained = maintained
            self._enter(family, constants, content)
        self._families[shape] = self._family_of[maintained] = family
        del self._shapes[shape]

    def _enter(self, family: _Family, constants: Row, content: Content) -> None:
        family.maintained.add_parameters(constants)
        family.members[constants] = content
        self._dispatcher.add(family.maintained, family.parameters(constants))

    def _join_family(
        self, family: _Family, constants: Row, plan: op.Operator, saved: Saved | None
    ) -> Content:
        content = Content(plan, family.maintained, None, self.scope)
        content.rows = _rows(content, saved, lambda: family.maintained.compute_member(constants))
        self._enter(family, constants, content)
        return content

    def release(self, content: Content) -> None:
        """Forgets a content when its last user has given it back."""
        content.users -= 1
        if content.users:
            return
        self._contents.pop(content.key, None)
        if isinstance(content, Product):
            for part in content.parts:
                part.products.remove(content)
                self.release(part)
            return
        assert content.maintained is not None
        shape = self._shape(content.plan)
        family = self._family_of.get(content.maintained)
        if family is None:
            self._dispatcher.remove(content.maintained)
            del self._single[content.maintained]
            if shape is not None:
                members = self._shapes[shape[0]]
                del members[shape[1]]
                if not members:
                    del self._shapes[shape[0]]
            return
        assert shape is not None
        family.maintained.remove_parameters(shape[1])
        self._dispatcher.remove(family.maintained, family.parameters(shape[1]))
        del family.members[shape[1]]
        if not family.members:
            del self._families[shape[0]], self._family_of[family.maintained]

    # Epochs

    def carry(
        self,
        on_failure: Callable[[Content, Exception], None],
        delta_of: Callable[[Maintained, Inputs], dict[Row, int]] = Maintained.delta,
    ) -> Mapping[Content, dict[Row, int]]:
        """The deltas of the contents that the staged changes concern; a plan that fails is reported."""
        self._ran, self._changed = [], {}
        changed = self._changed
        limit = self.limit
        for maintained, inputs in self._dispatcher.dispatch(self._quads.staged).items():
            try:
                if limit is None:
                    delta = delta_of(maintained, inputs)
                else:
                    limit.begin(maintained)
                    try:
                        delta = delta_of(maintained, inputs)
                    finally:
                        limit.end(maintained)
            except SparkFailed:  # the way failed, not the plan: the epoch as a whole is given up
                self._ran.append(maintained)
                raise
            except Exception as error:
                maintained.rollback()
                for content in self.contents_of(maintained):
                    for user in (content, *content.products):
                        on_failure(user, error)
                continue
            self._ran.append(maintained)
            if delta:
                single = self._single.get(maintained)
                changed.update({single: delta} if single else self._family_of[maintained].split(delta))
        for content in list(changed):
            for whole in content.products:
                if whole not in changed:
                    try:
                        changed[whole] = whole.expand(changed, self.expanded_rows)
                    except TooLarge as error:
                        changed[whole] = {}
                        on_failure(whole, error)
        return changed

    def rows_of(self, maintained: Maintained) -> dict[Row, int] | Run:
        """The rows of a maintained plan before the epoch, with the parameters of a family's members."""
        single = self._single.get(maintained)
        if single is not None:
            run = single.rows.whole() if single.rows is not None else None
            return dict(single.items()) if run is None else run
        members = self._family_of[maintained].members
        return {(*key, *row): weight for key, content in members.items() for row, weight in content.items()}

    def size_of(self, maintained: Maintained) -> tuple[int, int]:
        """About how many rows a maintained plan has, and the sum of their weights; of what is in memory."""
        sizes = [content.size() for content in self.contents_of(maintained)]
        return sum(rows for rows, _ in sizes), sum(weight for _, weight in sizes)

    @property
    def is_used(self) -> bool:
        return bool(self._contents)

    def contents_of(self, maintained: Maintained) -> list[Content]:
        single = self._single.get(maintained)
        return [single] if single is not None else list(self._family_of[maintained].members.values())

    def staged(self) -> dict[str, tuple[int, Mapping[Row, int]]]:
        """The deltas of all stored relations in the epoch under way, by name: width and rows."""
        found: dict[str, tuple[int, Mapping[Row, int]]] = {}
        for content, delta in self._changed.items():
            if delta:  # also where the rows are not stored: it is the view's history
                found[content.name] = (len(content.plan.variables), delta)
        for maintained in self._ran:
            for name, width, pending in maintained.staged_states():
                found[name] = (width, pending)
        return found

    def commit(self) -> None:
        for maintained in self._ran:
            maintained.commit()
        for content, delta in self._changed.items():
            content.add(delta)
        self._ran, self._changed = [], {}

    def rollback(self) -> None:
        for maintained in self._ran:
            maintained.rollback()
        self._ran, self._changed = [], {}
