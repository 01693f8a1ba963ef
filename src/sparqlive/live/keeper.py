"""Keeps the contents of plans, and shares work between them.

Owns which compiled plan serves which content: equal plans share one content; a plan of independent parts is
the product of their contents; plans of one shape form a family with one set of delta rules. Returns the work
of an epoch (`work`) and receives the deltas (`ran`), but chooses no strategy. Invariant: contents do not
change before `commit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from sparqlive.errors import TooLarge
from sparqlive.live.content import PlanContent, Product
from sparqlive.live.dispatch import Dispatcher
from sparqlive.live.limit import Limit
from sparqlive.live.maintained import Inputs, Maintained, Saved
from sparqlive.live.prepared import Prepared
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.shapes import shape_of
from sparqlive.quads.current import Change, Quads
from sparqlive.sparql.algebra import Var
from sparqlive.zset.relation import Row
from sparqlive.zset.run import Run

# Maximum number of changed rows of a product per epoch: a product is not stored, but its change is listed.
EXPANDED_ROWS = 1_000_000


class _Family:
    """Contents of one shape with one maintained plan, by their constants."""

    def __init__(self, maintained: Maintained, width: int) -> None:
        self.maintained = maintained
        self.width = width
        self.members: dict[Row, PlanContent] = {}

    def parameters(self, constants: Row) -> dict[Var, int]:
        return dict(zip(self.maintained.plan.variables, constants, strict=False))

    def split(self, delta: Mapping[Row, int]) -> dict[PlanContent, dict[Row, int]]:
        found: dict[PlanContent, dict[Row, int]] = {}
        width = self.width
        for row, weight in delta.items():
            found.setdefault(self.members[row[:width]], {})[row[width:]] = weight
        return found


class Keeper:
    """The contents of one scope; the same plan in another scope is a separate content, stored separately.

    `families`: plans of one shape are carried together. `limit` can stop plans that take too long.
    """

    def __init__(self, quads: Quads, terms: Terms, scope: str = "", families: bool = True) -> None:
        self.scope = scope
        self.limit: Limit | None = None
        self._has_families = families
        self._expanded_rows = EXPANDED_ROWS
        self._quads = quads
        self._terms = terms
        self._dispatcher = Dispatcher(quads)
        self._contents: dict[Any, PlanContent] = {}
        self._single: dict[Maintained, PlanContent] = {}
        self._shapes: dict[op.Operator, dict[Row, PlanContent]] = {}
        self._families: dict[op.Operator, _Family] = {}
        self._family_of: dict[Maintained, _Family] = {}
        self._ran: list[Maintained] = []
        self._changed: dict[PlanContent, Mapping[Row, int]] = {}
        self._fresh: list[Maintained] | None = None
        """Plans that are created while changes wait to be carried to them."""
        self._ready: Mapping[op.Operator, Maintained] = {}
        """Plans that were compiled and loaded before, on a copy of the quads."""

    # Limits

    def set_limit(self, limit: Limit, expanded_rows: int = EXPANDED_ROWS) -> None:
        """Limits the time per plan, and the changed rows per product, of later epochs."""
        self.remove_limit()
        self.limit = limit
        self._expanded_rows = expanded_rows

    def remove_limit(self) -> None:
        """Removes the limit."""
        if self.limit is not None:
            self.limit.close()
            self.limit = None

    # Contents

    def keep(
        self, plan: op.Operator, saved: Saved | None = None, terms: Terms | None = None, key: Any = None
    ) -> PlanContent:
        """Returns the content of a plan, loaded or computed if it is new; `release` gives it back.

        `terms`: where the plan enters its terms. `key`: the key of the content, by default the plan.
        """
        key = plan if key is None else key
        content = self._contents.get(key)
        if content is None:
            content = self._contents[key] = self._new(plan, saved, terms, key)
        content.take()
        return content

    def is_known(self, plan: op.Operator) -> bool:
        """Whether a plan has a content or would join a family, so that keeping it is cheap."""
        if plan in self._contents:
            return True
        shapes = (self._shape(part) for part in independent_parts(plan) if part not in self._contents)
        return any(shape is not None and shape[0] in self._families for shape in shapes)

    def keep_prepared(
        self, plan: op.Operator, prepared: Prepared, changes: Sequence[Change], terms: Terms | None
    ) -> PlanContent:
        """Keeps a content that was computed without the lock, and carries the changes since then to it."""
        fresh: list[Maintained] = []
        self._ready = prepared.plans
        if changes:
            self._fresh = fresh
            self._quads.add([(*change[:4], -change[4]) for change in changes])
        try:
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

    def _new(self, plan: op.Operator, saved: Saved | None, terms: Terms | None, key: Any) -> PlanContent:
        parts = independent_parts(plan)
        if len(parts) > 1:
            # A product with separate terms cannot share parts with contents that have other terms.
            keys = [None if terms is None else (plan, part) for part in parts]
            kept = [self.keep(part, saved, terms, key) for part, key in zip(parts, keys, strict=True)]
            return Product(plan, kept, self.scope, terms, key)
        shape = self._shape(plan)
        if shape is not None and shape[0] in self._families:
            content = PlanContent(plan, self._families[shape[0]].maintained, self.scope, terms, key)
            self._join_family(self._families[shape[0]], shape[1], content, saved)
            return content
        content = PlanContent(plan, self._maintained(plan, saved, terms), self.scope, terms, key)
        self._add_single(content, shape, saved)
        return content

    def _maintained(self, plan: op.Operator, saved: Saved | None, terms: Terms | None) -> Maintained:
        maintained = self._ready.get(plan)
        if maintained is None:
            terms = terms or self._terms
            maintained = Maintained(store_unreachable(plan), self._quads, terms, saved, self.scope)
        else:
            maintained.compiler.move(self._quads)
        return maintained

    def _add_single(
        self, content: PlanContent, shape: tuple[op.Operator, Row] | None, saved: Saved | None
    ) -> None:
        maintained = content.maintained
        assert maintained is not None
        if not isinstance(maintained.plan, op.Distinct | op.Closure):
            content.load(saved, maintained.compute, self._terms.tuning)
        self._single[maintained] = content
        if self._fresh is not None:
            self._fresh.append(maintained)
        self._dispatcher.add(maintained)
        if shape is not None:
            members = self._shapes.setdefault(shape[0], {})
            members[shape[1]] = content
            if len(members) >= self._terms.tuning.family_views and self._fresh is None:
                self._make_family(shape[0], members)

    def _shape(self, plan: op.Operator) -> tuple[op.Operator, Row] | None:
        found = shape_of(plan) if self._has_families else None
        if found is None:
            return None
        return found[0], tuple(map(self._terms.dictionary.id_of, found[1]))

    def _make_family(self, shape: op.Operator, members: dict[Row, PlanContent]) -> None:
        """Replaces the plans of the members by one plan; their rows stay."""
        maintained = Maintained(shape, self._quads, self._terms)
        family = _Family(maintained, len(next(iter(members))))
        for constants, content in members.items():
            assert content.maintained is not None
            self._dispatcher.remove(content.maintained)
            del self._single[content.maintained]
            content.join(maintained)
            self._enter(family, constants, content)
        self._families[shape] = self._family_of[maintained] = family
        del self._shapes[shape]

    def _enter(self, family: _Family, constants: Row, content: PlanContent) -> None:
        family.maintained.add_parameters(constants)
        family.members[constants] = content
        self._dispatcher.add(family.maintained, family.parameters(constants))

    def _join_family(
        self, family: _Family, constants: Row, content: PlanContent, saved: Saved | None
    ) -> None:
        content.load(saved, lambda: family.maintained.compute_member(constants), self._terms.tuning)
        self._enter(family, constants, content)

    def release(self, content: PlanContent) -> None:
        """Releases a content, and removes it after its last user."""
        if not content.give_back():
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

    def work(self) -> dict[Maintained, Inputs]:
        """Returns the plans that the staged changes affect, with the changes of their leaves.

        The caller reports each of them with `ran` or `failed`; then `deltas` returns the changes.
        """
        self._ran, self._changed = [], {}
        return self._dispatcher.dispatch(self._quads.staged)

    def ran(self, maintained: Maintained, delta: Mapping[Row, int]) -> None:
        """Reports that a plan was carried, with the change of its result."""
        self._ran.append(maintained)
        if delta:
            single = self._single.get(maintained)
            if single is not None:
                self._changed[single] = delta
            else:
                self._changed.update(self._family_of[maintained].split(delta))

    def failed(
        self, maintained: Maintained, error: Exception, failures: dict[PlanContent, Exception]
    ) -> None:
        """Reports that a plan failed; marks its contents, and the products of them, as failed."""
        maintained.rollback()
        for content in self.contents_of(maintained):
            failures.update(dict.fromkeys((content, *content.products), error))

    def deltas(self, failures: dict[PlanContent, Exception]) -> dict[PlanContent, Mapping[Row, int]]:
        """The deltas of all contents, after each plan was carried; products that change too much fail."""
        changed = self._changed
        for content in list(changed):
            for whole in content.products:
                if whole not in changed:
                    try:
                        changed[whole] = whole.expand(changed, self._expanded_rows)
                    except TooLarge as error:
                        changed[whole] = {}
                        failures[whole] = error
        return changed

    def rows_of(self, maintained: Maintained) -> Mapping[Row, int] | Run:
        """The rows of a maintained plan before the epoch, with the parameters of a family's members."""
        single = self._single.get(maintained)
        if single is not None:
            run = single.rows.whole() if single.rows is not None else None
            return dict(single.items()) if run is None else run
        members = self._family_of[maintained].members
        return {(*key, *row): weight for key, content in members.items() for row, weight in content.items()}

    def derivations_of(self, maintained: Maintained) -> int:
        """The approximate number of a maintained plan's rows in memory, with their weights."""
        return sum(content.size()[1] for content in self.contents_of(maintained))

    @property
    def is_used(self) -> bool:
        return bool(self._contents)

    def contents_of(self, maintained: Maintained) -> list[PlanContent]:
        single = self._single.get(maintained)
        return [single] if single is not None else list(self._family_of[maintained].members.values())

    def staged(self) -> dict[str, tuple[int, Mapping[Row, int]]]:
        """The deltas of all stored relations in the current epoch, by name: width and rows."""
        found: dict[str, tuple[int, Mapping[Row, int]]] = {}
        for content, delta in self._changed.items():
            if delta:  # even if the rows are not stored, because it is the view's history
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
