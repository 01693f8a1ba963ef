"""Keeps the contents of views that stay in files, for Spark and for remote stores.

A bulk backend carries these contents from files to files: it reads quads, terms and stored rows in place, and
writes deltas and first contents as files. Contents of a store on this machine are mapped into memory instead;
if memory does not suffice to compute one, it is computed here first. Owns the contents that stay in files.
Invariant: a content belongs to the last committed epoch, and all of its relations are in the store under the
names that they have for a view in memory, so a view can change from one form to the other.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sparqlive.bulk import stored_totals
from sparqlive.bulk.in_store import NO_CHANGES, Changes, InStore, StoreTerms
from sparqlive.bulk.stored_rows import StoredRelation
from sparqlive.engine.carry import IN_FILES, Choice, FileBackend, Outcome
from sparqlive.live.compiled_plan import key_of, names_of_totals, state_name
from sparqlive.live.compiler import Compiler
from sparqlive.live.materialization import Materialization, Product
from sparqlive.live.plan_registry import EXPANDED_ROWS
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.totals import width as width_of_totals
from sparqlive.quads.current import Quads
from sparqlive.runtime.memory import give_back
from sparqlive.store.compaction import Target
from sparqlive.store.saving import Saved, sorted_rows
from sparqlive.store.streaming import StoredParts, rows_of_saved
from sparqlive.zset.blocks import Blocks, cut
from sparqlive.zset.relation import Row

if TYPE_CHECKING:
    from sparqlive.bulk.ingest.effective import ChangeFiles
    from sparqlive.engine.persistence import Persistence


class FileContent(Materialization):
    """The content of a plan that stays in files. `first`: its relations before they are stored."""

    is_held = False

    def __init__(self, plan: op.Operator, terms: Terms, persistence: Persistence, why: str) -> None:
        stored_plan = store_unreachable(plan)
        key = key_of(stored_plan)
        super().__init__(plan, None, key=key)
        self.stored_plan = stored_plan
        self.carried = ""
        """How it was last computed or carried."""
        self.why = why
        self.first: dict[str, Saved] = {}
        self._persistence = persistence
        self._counted: tuple[Any, int] | None = None
        compiler = Compiler(self.stored_plan, Quads(terms.tuning), terms)
        operators = {number: compiler.nodes[number].operator for number in compiler.states}
        self.totals: dict[op.Group, str] = {}
        """The groups that follow from totals, with the names of the totals."""
        self.states: dict[op.Keeping, str] = {}
        """The operators with state, the lowest first, with the names of their rows: those of the source;
        for groups with totals, the rows that the totals leave out."""
        self.source_names: dict[op.Keeping, str] = {}
        """The names under which their sources are written, even if they are not kept."""
        for number, operator in operators.items():
            if isinstance(operator, op.Keeping):
                self.states[operator] = self.source_names[operator] = state_name(key, number)
            if isinstance(operator, op.Group) and operator.follows_from_totals:
                self.totals[operator], self.states[operator] = names_of_totals(key, number)

    def relations(self) -> Iterator[tuple[str, int, Any]]:
        yield self.name, len(self.plan.variables), self.first.get(self.name)
        for operator, name in self.states.items():
            yield name, len(operator.source.variables), self.first.get(name)
        for group, name in self.totals.items():
            yield name, width_of_totals(group), self.first.get(name)

    def saved(self) -> None:
        """Notes that the first relations are in the store."""
        self.first = {}

    def carried_by(self) -> Iterator[Any]:
        yield self

    # Reading

    def parts(self) -> StoredParts:
        return self._persistence.store.parts(self.name)

    def items(self) -> Iterator[tuple[Row, int]]:
        return self.parts().items()

    @property
    def capturable(self) -> bool:
        return False

    def captured(self) -> Blocks:
        """Captures where the rows are; the files stay as long as a reader may list them."""
        parts, pinned = self.parts(), ExitStack()
        pinned.enter_context(self._persistence.pins.pinned())
        weakref.finalize(parts, pinned.close)
        return lambda: chain.from_iterable(cut(columns, weights) for columns, weights in parts.pieces())

    def whole(self) -> Mapping[Row, int]:
        return dict(self.items())

    def add(self, delta: Mapping[Row, int]) -> None:
        """Does nothing, because the store has the delta."""

    def row_count(self) -> int:
        """The number of rows, counted once per state of the relation."""
        parts = self.parts()
        state = parts.addresses, len(parts.rows), parts.rows.sum()
        if self._counted is None or self._counted[0] != state:
            self._counted = state, parts.row_count()
        return self._counted[1]

    def size(self) -> tuple[int, int]:
        count = self.row_count()
        return count, count

    def total_weight(self) -> int:
        return self.parts().total_weight()

    def sizes(self) -> dict[int, tuple[int, int]]:
        return {}


class FileViews:
    """The contents that stay in files, by plan."""

    def __init__(self, persistence: Persistence, quads: Quads, terms: Terms) -> None:
        self._persistence = persistence
        self._store = persistence.store
        self._data = persistence.data
        self._quads = quads
        self._terms = terms
        self._contents: dict[op.Operator, Materialization] = {}

    def __bool__(self) -> bool:
        return bool(self._contents)

    def known(self, plan: op.Operator) -> bool:
        return plan in self._contents

    def keep(self, plan: op.Operator, why: str = "") -> Materialization:
        """Returns the content of a plan; `release` gives it back. A new one is computed by `compute`.

        `why` says why it stays in files.
        """
        content = self._contents.get(plan)
        if content is None:
            parts = independent_parts(plan)
            if len(parts) > 1:
                content = Product(plan, [self.keep(part, why) for part in parts])
            else:
                content = FileContent(plan, self._terms, self._persistence, why)
            self._contents[plan] = content
        content.take()
        return content

    def release(self, content: Materialization) -> None:
        """Releases a content, and removes it after its last user."""
        if not content.give_back():
            return
        del self._contents[content.plan]
        if isinstance(content, Product):
            for part in content.parts:
                part.products.remove(content)
                self.release(part)

    def _singles(self) -> list[FileContent]:
        return [content for content in self._contents.values() if isinstance(content, FileContent)]

    def singles(self, content: Materialization) -> Iterator[FileContent]:
        """The parts of a content that is kept here."""
        return (part for part in content.stored_parts() if isinstance(part, FileContent))

    # Computing

    def _in_store(self, way: FileBackend, target: Target, changes: Changes = NO_CHANGES) -> InStore:
        """The executor on files, for the deltas of an epoch or for first contents."""
        dictionary, data = self._terms.dictionary, self._data
        terms = StoreTerms(
            dictionary.id_of,
            lambda: dictionary.exceptions,
            dictionary.known,
            dictionary.enter_together,
            None if data.store.catalog.read_only else data.files_of_terms,
            data.stage_terms,
        )
        return InStore(
            lambda: way.create(target),
            data.sources,
            self._quads,
            target,
            terms,
            changes,
        )

    def _folder(self, attempt: str, way: FileBackend) -> str:
        """A folder of its own for each backend that tries the same work."""
        folder = f"{attempt}/{way.name}"
        self._store.place.make(folder)
        return folder

    def beside(self, plan: op.Operator) -> FileContent:
        """The stored part of a held content, for comparison."""
        return FileContent(plan, self._terms, self._persistence, "")

    def stored_rows(self, plan: op.Operator) -> int:
        """The approximate number of rows in the stored relations of a plan."""
        content = self.keep(plan)
        try:
            return sum(self._store.approximate_rows(name) for name, _, _ in content.relations())
        finally:
            self.release(content)

    def is_stored(self, plan: op.Operator) -> bool:
        """Whether all relations of a plan are in the store."""
        content = self.keep(plan)
        try:
            return self._persistence.has(content)
        finally:
            self.release(content)

    @contextmanager
    def computed(
        self,
        plan: op.Operator,
        by_files: Callable[[Callable[[FileBackend], None]], None],
        why: str = "",
        *,
        for_live: bool = False,
    ) -> Iterator[Materialization]:
        """The content of a plan, computed if it is new; released if the block, which stores it, fails.

        `by_files` has a backend do the work. `for_live`: a content in this process reads its relations and
        takes its place; it is released after the block.
        """
        with self.attempt() as folder:
            content = self.keep(plan, why)
            try:
                by_files(lambda way: self._compute_first(content, way, self._folder(folder, way)))
                yield content
            except BaseException:
                self.release(content)
                raise
            for part in self.singles(content):
                part.saved()
            if for_live:
                self.release(content)
        give_back()

    def _compute_first(self, content: Materialization, way: FileBackend, folder: str) -> None:
        """Computes the first relations of a content, as files in a folder of an attempt."""
        with self._data.staging():
            self._compute(content, way, self._store.target(folder))

    def _compute(self, content: Materialization, way: FileBackend, target: Target) -> None:
        in_store = self._in_store(way, target)
        for part in content.stored_parts():
            assert isinstance(part, FileContent)
            if part.first or (part.users > 1 and self._persistence.has(part)):
                continue
            known: dict[op.Operator, Saved] = {}
            totals: dict[op.Group, Saved] = {}
            for operator, name in part.states.items():
                source, of_source = operator.source, part.source_names[operator]
                if isinstance(operator, op.Group) and operator in part.totals:
                    names = part.totals[operator], name
                    if all(map(self._store.catalog.has, names)):
                        continue
                    if stored_totals.has_computed_keys(operator):
                        known[source] = in_store.content(source, of_source, known, totals)
                    totals[operator], others = in_store.totals(operator, names, known, totals)
                    part.first |= {names[0]: totals[operator], name: others}
                elif not self._store.catalog.has(name):
                    known[source] = part.first[name] = in_store.content(source, of_source, known, totals)
            if not self._store.catalog.has(part.name):
                part.first[part.name] = in_store.content(part.stored_plan, part.name, known, totals)
            part.carried = way.name

    @contextmanager
    def attempt(self) -> Iterator[str]:
        """A folder whose files last until the block ends, unless a commit names them; so do new terms."""
        with self._store.attempt() as folder, self._data.staging():
            yield folder

    def carry(self, epoch: int, changes: Changes, way: FileBackend, folder: str) -> Outcome:
        """Computes what an epoch changes, as files in a folder of an attempt."""
        with self._data.staging():
            return self._carry(changes, way, self._store.target(self._folder(folder, way), epoch))

    def _carry(self, changes: Changes, way: FileBackend, target: Target) -> Outcome:
        in_store, outcome = self._in_store(way, target, changes), Outcome()
        for content in self._singles():
            if in_store.is_concerned(content.stored_plan):
                begun = time.perf_counter()
                carry = self._rebuilt if way.strategy == "rebuild" else self._carried
                outcome.relations |= carry(in_store, content)
                outcome.deltas[content] = rows_of_saved(self._store.place, outcome.relations[content.name])
                seconds = time.perf_counter() - begun
                reason = (
                    way.reason.replace(IN_FILES, f"{IN_FILES} ({content.why})") if content.why else way.reason
                )
                outcome.choices[content] = Choice(way.strategy, seconds, reason)
                content.carried = way.strategy
        self._expand(outcome)
        if changes.count > self._store.tuning.catalog_rows:
            give_back()
        return outcome

    def _expand(self, outcome: Outcome) -> None:
        """Adds the changes of products, which are not stored, but are a view's history."""
        for product in {product for content in outcome.deltas for product in content.products}:
            rows = product.expand(outcome.deltas, EXPANDED_ROWS)
            outcome.deltas[product] = rows
            width = len(product.plan.variables)
            columns = [np.fromiter((row[n] for row in rows), np.int64, len(rows)) for n in range(width)]
            weights = np.fromiter(rows.values(), np.int64, len(rows))
            outcome.relations[product.name] = sorted_rows(columns, weights)

    def _carried(self, in_store: InStore, content: FileContent) -> dict[str, Saved]:
        """By the delta rules: the operators' state first, which the operators above read."""
        kept: dict[op.Keeping, StoredRelation] = {}
        totals: dict[op.Group, StoredRelation] = {}
        known: dict[op.Operator, Saved] = {}
        found: dict[str, Saved] = {}
        for operator, name in content.states.items():
            changed = in_store.delta(operator.source, content.source_names[operator], kept, known, totals)
            known[operator.source] = changed
            if isinstance(operator, op.Group) and operator in content.totals:
                of_totals = content.totals[operator]
                totals[operator] = self._stored(of_totals)
                if changed.count:
                    found[of_totals] = in_store.totals_delta(operator, of_totals, totals[operator], changed)
                    found[name] = in_store.others_delta(operator, name, changed)
            else:
                found[name], kept[operator] = changed, self._stored(name)
        found[content.name] = in_store.delta(content.stored_plan, content.name, kept, known, totals)
        return found

    def _rebuilt(self, in_store: InStore, content: FileContent) -> dict[str, Saved]:
        """From scratch: the rows that the store lacks, and those that it should not have."""
        found: dict[str, Saved] = {}

        def compare(difference: Callable[..., Saved], plan: op.Operator, name: str) -> None:
            give_back()  # this is the work that needs most memory
            found[name] = difference(plan, name, self._stored(name))

        for operator, name in content.states.items():
            if isinstance(operator, op.Group) and operator in content.totals:
                compare(
                    partial(in_store.group_difference, stored_totals.content),
                    operator,
                    content.totals[operator],
                )
                compare(partial(in_store.group_difference, stored_totals.others), operator, name)
            else:
                compare(in_store.difference, operator.source, name)
        compare(in_store.difference, content.stored_plan, content.name)
        return found

    def differing(
        self, content: Materialization, way: FileBackend
    ) -> dict[str, tuple[int, Mapping[Row, int]]]:
        """The relations of a content that differ from their recomputation.

        For each: how many rows are missing or (with negative weights) superfluous, and the first of them.
        """
        assert isinstance(content, FileContent)
        with self._store.scratch() as target, self._data.staging(only_here=True):
            found = self._rebuilt(self._in_store(way, target), content)
            return {
                name: (saved.count, dict(islice(rows_of_saved(target.place, saved).items(), 5)))
                for name, saved in found.items()
                if saved.count
            }

    def _stored(self, name: str) -> StoredRelation:
        return StoredRelation.of(self._store.parts(name), self._store.readers)


def changes_in(files: ChangeFiles) -> Changes:
    """The changes of an epoch that workers wrote."""
    stored = StoredRelation([files.place.uri(run.path) for run in files.runs], NO_CHANGES.relation.rows)
    return Changes(stored, len(files), files.deleted, files.predicates)
