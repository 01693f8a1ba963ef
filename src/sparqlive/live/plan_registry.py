"""Registers the contents of plans, and shares work between them.

Owns the assignment of compiled plans to contents: equal plans share one content; a plan of independent parts
is the product of their contents; plans of one shape form a family with one set of delta rules. Returns the
work of an epoch (`work`) and receives the deltas (`ran`), but chooses no strategy. Invariant: contents do not
change before `commit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from sparqlive.errors import TooLarge
from sparqlive.live.compiled_plan import CompiledPlan, Inputs, Saved
from sparqlive.live.dispatch import Dispatcher
from sparqlive.live.limit import Limit
from sparqlive.live.materialization import Materialization, Product
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
    """Contents of one shape that share a compiled plan, by their constants."""

    def __init__(self, compiled: CompiledPlan, width: int) -> None:
        self.compiled = compiled
        self.width = width
        self.members: dict[Row, Materialization] = {}

    def parameters(self, constants: Row) -> dict[Var, int]:
        return dict(zip(self.compiled.plan.variables, constants, strict=False))

    def split(self, delta: Mapping[Row, int]) -> dict[Materialization, dict[Row, int]]:
        deltas: dict[Materialization, dict[Row, int]] = {}
        width = self.width
        for row, weight in delta.items():
            deltas.setdefault(self.members[row[:width]], {})[row[width:]] = weight
        return deltas


class PlanRegistry:
    """The contents of one scope. The same plan in another scope is a separate content, stored separately.

    `families`: plans of one shape are evaluated together. `limit` can stop plans that exceed their time.
    """

    def __init__(self, quads: Quads, terms: Terms, scope: str = "", families: bool = True) -> None:
        self.scope = scope
        self.limit: Limit | None = None
        self._has_families = families
        self._expanded_rows = EXPANDED_ROWS
        self._quads = quads
        self._terms = terms
        self._dispatcher = Dispatcher(quads)
        self._contents: dict[Any, Materialization] = {}
        self._single: dict[CompiledPlan, Materialization] = {}
        self._shapes: dict[op.Operator, dict[Row, Materialization]] = {}
        self._families: dict[op.Operator, _Family] = {}
        self._family_of: dict[CompiledPlan, _Family] = {}
        self._ran: list[CompiledPlan] = []
        self._changed: dict[Materialization, Mapping[Row, int]] = {}
        self._fresh: list[CompiledPlan] | None = None
        """Plans that are created while changes are still pending for them."""
        self._ready: Mapping[op.Operator, CompiledPlan] = {}
        """Plans that were compiled and loaded in advance, on a copy of the quads."""

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
    ) -> Materialization:
        """Returns the content of a plan, loaded or computed if it is new; `release` gives it back.

        `terms`: where the plan enters its computed terms. `key`: the key of the content, by default the plan.
        """
        key = plan if key is None else key
        content = self._contents.get(key)
        if content is None:
            content = self._contents[key] = self._new(plan, saved, terms, key)
        content.take()
        return content

    def is_known(self, plan: op.Operator) -> bool:
        """Returns whether keeping a plan is cheap: it already has a content, or would join a family."""
        if plan in self._contents:
            return True
        shapes = (self._shape(part) for part in independent_parts(plan) if part not in self._contents)
        return any(shape is not None and shape[0] in self._families for shape in shapes)

    def keep_prepared(
        self, plan: op.Operator, prepared: Prepared, changes: Sequence[Change], terms: Terms | None
    ) -> Materialization:
        """Keeps a content that was computed without the lock, and applies the changes made since then."""
        fresh: list[CompiledPlan] = []
        self._ready = prepared.plans
        if changes:
            self._fresh = fresh
            self._quads.add([(*change[:4], -change[4]) for change in changes])
        try:
            content = self.keep(plan, prepared.saved, terms)
            if changes:
                self._quads.stage(changes)
                try:
                    for compiled, inputs in self._dispatcher.dispatch(self._quads.staged).items():
                        if compiled in fresh:
                            self._catch_up(compiled, inputs)
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

    def _catch_up(self, compiled: CompiledPlan, inputs: Inputs) -> None:
        with self.limit.carrying(compiled) if self.limit is not None else nullcontext():
            delta = compiled.delta(inputs)
        compiled.commit()
        self._single[compiled].add(delta)

    def _new(self, plan: op.Operator, saved: Saved | None, terms: Terms | None, key: Any) -> Materialization:
        parts = independent_parts(plan)
        if len(parts) > 1:
            # A product with separate terms cannot share parts with contents that use other terms.
            keys = [None if terms is None else (plan, part) for part in parts]
            kept = [self.keep(part, saved, terms, key) for part, key in zip(parts, keys, strict=True)]
            return Product(plan, kept, self.scope, terms, key)
        shape = self._shape(plan)
        if shape is not None and shape[0] in self._families:
            content = Materialization(plan, self._families[shape[0]].compiled, self.scope, terms, key)
            self._join_family(self._families[shape[0]], shape[1], content, saved)
            return content
        content = Materialization(plan, self._compiled(plan, saved, terms), self.scope, terms, key)
        self._add_single(content, shape, saved)
        return content

    def _compiled(self, plan: op.Operator, saved: Saved | None, terms: Terms | None) -> CompiledPlan:
        compiled = self._ready.get(plan)
        if compiled is None:
            terms = terms or self._terms
            compiled = CompiledPlan(store_unreachable(plan), self._quads, terms, saved, self.scope)
        else:
            compiled.compiler.move(self._quads)
        return compiled

    def _add_single(
        self, content: Materialization, shape: tuple[op.Operator, Row] | None, saved: Saved | None
    ) -> None:
        compiled = content.compiled
        assert compiled is not None
        if not isinstance(compiled.plan, op.Distinct | op.Closure):
            content.load(saved, compiled.compute, self._terms.tuning)
        self._single[compiled] = content
        if self._fresh is not None:
            self._fresh.append(compiled)
        self._dispatcher.add(compiled)
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

    def _make_family(self, shape: op.Operator, members: dict[Row, Materialization]) -> None:
        """Replaces the plans of the members by one plan, and keeps their rows."""
        compiled = CompiledPlan(shape, self._quads, self._terms)
        family = _Family(compiled, len(next(iter(members))))
        for constants, content in members.items():
            assert content.compiled is not None
            self._dispatcher.remove(content.compiled)
            del self._single[content.compiled]
            content.join(compiled)
            self._enter(family, constants, content)
        self._families[shape] = self._family_of[compiled] = family
        del self._shapes[shape]

    def _enter(self, family: _Family, constants: Row, content: Materialization) -> None:
        family.compiled.add_parameters(constants)
        family.members[constants] = content
        self._dispatcher.add(family.compiled, family.parameters(constants))

    def _join_family(
        self, family: _Family, constants: Row, content: Materialization, saved: Saved | None
    ) -> None:
        content.load(saved, lambda: family.compiled.compute_member(constants), self._terms.tuning)
        self._enter(family, constants, content)

    def release(self, content: Materialization) -> None:
        """Gives back a content, and removes it after its last user."""
        if not content.give_back():
            return
        self._contents.pop(content.key, None)
        if isinstance(content, Product):
            for part in content.parts:
                part.products.remove(content)
                self.release(part)
            return
        assert content.compiled is not None
        shape = self._shape(content.plan)
        family = self._family_of.get(content.compiled)
        if family is None:
            self._dispatcher.remove(content.compiled)
            del self._single[content.compiled]
            if shape is not None:
                members = self._shapes[shape[0]]
                del members[shape[1]]
                if not members:
                    del self._shapes[shape[0]]
            return
        assert shape is not None
        family.compiled.remove_parameters(shape[1])
        self._dispatcher.remove(family.compiled, family.parameters(shape[1]))
        del family.members[shape[1]]
        if not family.members:
            del self._families[shape[0]], self._family_of[family.compiled]

    # Epochs

    def work(self) -> dict[CompiledPlan, Inputs]:
        """Returns the plans that the staged changes affect, with the changes of their leaves.

        The caller reports each plan with `ran` or `failed`, and then asks for the changes with `deltas`.
        """
        self._ran, self._changed = [], {}
        return self._dispatcher.dispatch(self._quads.staged)

    def ran(self, compiled: CompiledPlan, delta: Mapping[Row, int]) -> None:
        """Reports that a plan was evaluated, with the change of its result."""
        self._ran.append(compiled)
        if delta:
            single = self._single.get(compiled)
            if single is not None:
                self._changed[single] = delta
            else:
                self._changed.update(self._family_of[compiled].split(delta))

    def failed(
        self, compiled: CompiledPlan, error: Exception, failures: dict[Materialization, Exception]
    ) -> None:
        """Reports that a plan failed; marks its contents, and the products of them, as failed."""
        compiled.rollback()
        for content in self.contents_of(compiled):
            failures.update(dict.fromkeys((content, *content.products), error))

    def deltas(self, failures: dict[Materialization, Exception]) -> dict[Materialization, Mapping[Row, int]]:
        """Returns the deltas of all contents after all reports; products that change too much fail."""
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

    def rows_of(self, compiled: CompiledPlan) -> Mapping[Row, int] | Run:
        """Returns a plan's rows before the epoch; a family's rows include the parameters of its members."""
        single = self._single.get(compiled)
        if single is not None:
            run = single.rows.whole() if single.rows is not None else None
            return dict(single.items()) if run is None else run
        members = self._family_of[compiled].members
        return {(*key, *row): weight for key, content in members.items() for row, weight in content.items()}

    def derivations_of(self, compiled: CompiledPlan) -> int:
        """Returns the approximate number of a plan's rows in memory, counting duplicates."""
        return sum(content.size()[1] for content in self.contents_of(compiled))

    @property
    def is_used(self) -> bool:
        return bool(self._contents)

    def contents_of(self, compiled: CompiledPlan) -> list[Materialization]:
        single = self._single.get(compiled)
        return [single] if single is not None else list(self._family_of[compiled].members.values())

    def staged(self) -> dict[str, tuple[int, Mapping[Row, int]]]:
        """Returns the deltas of all stored relations in the current epoch, by name: width and rows."""
        deltas: dict[str, tuple[int, Mapping[Row, int]]] = {}
        for content, delta in self._changed.items():
            if delta:  # also if the rows are not stored: the delta is the view's history
                deltas[content.name] = (len(content.plan.variables), delta)
        for compiled in self._ran:
            for name, width, pending in compiled.staged_states():
                deltas[name] = (width, pending)
        return deltas

    def commit(self) -> None:
        for compiled in self._ran:
            compiled.commit()
        for content, delta in self._changed.items():
            content.add(delta)
        self._ran, self._changed = [], {}

    def rollback(self) -> None:
        for compiled in self._ran:
            compiled.rollback()
        self._ran, self._changed = [], {}
