"""Registers, loads, repairs and drops views: from the text of a query to a content that is kept up to date.

Owns where a content comes from: computed in process or on Spark, loaded from a store, or recomputed. Rejects
queries that cannot be kept up to date. Invariant: a view is in the store before it is in the session, and its
content belongs to the view's epoch.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from sparqlive.engine.carry import FileBackend, Strategy
from sparqlive.engine.check import wrong_relations
from sparqlive.engine.deferred import Deferred, Refresh, check_refresh, stored_refresh
from sparqlive.engine.planning import Planning
from sparqlive.engine.stored_names import all_names
from sparqlive.engine.view_state import ViewState
from sparqlive.engine.views import readable
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error, ViewExists
from sparqlive.live.compiled_plan import is_of_totals
from sparqlive.live.materialization import Materialization
from sparqlive.live.plan_registry import PlanRegistry
from sparqlive.live.prepared import Bulk, Prepared, prepare, prepare_apart
from sparqlive.live.terms import Terms
from sparqlive.numbers import short_repr
from sparqlive.plan.operators import Operator, kept_of
from sparqlive.plan.parts import independent_parts
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.unfold import views_read
from sparqlive.quads.current import Quad, Quads
from sparqlive.quads.snapshot import Snapshot
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.runtime.deadline import limited, within
from sparqlive.sparql.algebra import Query
from sparqlive.zset.relation import Row, rows_of
from sparqlive.zset.run import Run

if TYPE_CHECKING:
    from sparqlive.engine.persistence import Persistence

_log = logging.getLogger("sparqlive.engine")

COMPUTING_TIMES = 8
"""Memory for computing rows, as a multiple of the result: for tables, joins and sorting."""
VIEW_NAME = r"[^\s/~.\ufffd-](?:[^/\ufffd]{0,126}[^\s/\ufffd])?"
"""Pattern of a view name, whose characters must also be printable. U+FFFD replaces undecodable bytes."""


def check_view_name(name: object) -> None:
    """Rejects an invalid name for a new view, by one rule for Python, the command line and HTTP.

    Views of older stores, created before this rule, keep their names.
    """
    if not isinstance(name, str) or not name.isprintable() or not re.fullmatch(VIEW_NAME, name):
        raise Error(
            f"Invalid view name {short_repr(name)}: a name has 1 to 128 printable characters without '/', "
            f"does not start with '~', '.' or '-', and does not start or end with a space."
        )


@dataclass(frozen=True)
class PlannedView:
    """A query to be registered as a view: its plan, and its content if that was computed without the lock."""

    query: Query
    plan: Operator
    kept: Operator
    temporary: bool
    terms: Terms | None = None
    prepared: Prepared | None = None
    gathered: dict[Quad, int] = field(default_factory=dict)
    needed_bytes: int = 0
    """The memory that it is estimated to need if it is held."""
    by_files: str | None = None
    """Why the content is computed from files to files; None if it is computed in memory."""
    stays: bool = False
    """Whether it is also carried from files to files."""


class Registration:
    """The registration of views. `union`: whether a query's default graph is the union of all graphs."""

    def __init__(self, writer: Writer, union: bool) -> None:
        self._writer = writer
        self._views = writer.views
        self._union = union
        self.planning = Planning(writer.views, union, writer.tuning)

    def check_name(self, name: object, temporary: bool) -> None:
        """Rejects a name that neither belongs to an existing view nor is valid for a new one.

        Names of temporary views, and only those, start with `~`.
        """
        if not isinstance(name, str) or not (name in self._views.by_name or (temporary and name[:1] == "~")):
            check_view_name(name)

    @contextmanager
    def compute(
        self, name: str, text: str, base: str | None, refresh: Refresh, strategy: Strategy, temporary: bool,
        seconds: float | None,
    ) -> Iterator[PlannedView]:  # fmt: skip
        """Plans a view, and computes its content without the lock; the view is registered inside the context.

        The content belongs to the current epoch; later changes are gathered. Nothing is computed here if the
        content already exists, or if Spark will compute it.
        """
        self.check_name(name, temporary)
        check_refresh(refresh)
        writer, began = self._writer, time.monotonic()
        what = f"Computing view {name!r}" if not temporary else "Computing the subscription"
        parsed, plan = within(seconds, lambda: self.planning.plan(text, base, name), what, began)
        planned = PlannedView(parsed, plan, rewrite(kept_of(plan)), temporary)
        with writer.reading():
            writer.ensure_open()
            known = self._views.by_name.get(name)
            is_there = known is not None and known.query == parsed and known.failure is None
            registry = self._views.temporary.registry if temporary else self._views.registry
            if refresh == "immediate" and registry.is_known(planned.kept):
                is_there = True
            if not is_there and not temporary and refresh == "immediate":
                needed, why = self._why_by_files(planned.kept, strategy)
                stays = why is not None and self._may_stay(planned.kept, strategy)
                if why is None and self._may_compute_by_files(planned.kept) and self._backend(strategy):
                    why = "Spark computes it"
                planned = replace(planned, by_files=why, stays=stays, needed_bytes=needed)
            if is_there or writer.read_only or planned.by_files or self._backend(strategy) is not None:
                with limited(seconds, what, began):
                    yield planned
                return
        with ExitStack() as files:
            with writer.reading():
                writer.ensure_open()
                terms = Terms(writer.terms.dictionary.extended())
                quads = writer.quads.snapshot()
                files.enter_context(writer.pinned())
                gathered = writer.net_changes.start()
            scope = name if refresh != "immediate" else registry.scope
            try:
                computed = within(
                    seconds,
                    partial(prepare_apart, planned.kept, quads, terms, scope)
                    if temporary
                    else partial(
                        prepare,
                        planned.kept,
                        quads,
                        terms,
                        scope,
                        self._bulk(strategy, quads, terms.dictionary),
                    ),
                    what,
                    began,
                    self._views.limits.temporary_rows if temporary else None,
                )
                yield replace(planned, prepared=computed, terms=terms, gathered=gathered)
            finally:
                with writer.reading():
                    writer.net_changes.stop(gathered)

    def register(
        self,
        name: str,
        text: str,
        base: str | None,
        replace: bool,
        refresh: Refresh,
        strategy: Strategy,
        owner: str | None,
        notes: Mapping[str, str],
        planned: PlannedView,
    ) -> ViewState:
        """Returns the view of this name and query, registered if it does not exist; see `Session.view`.

        The store records `notes` and the owner with a new view.
        """
        writer = self._writer
        with writer.changing():
            writer.ensure_open()
            parsed, plan = planned.query, planned.plan
            self._views.check_no_cycle(name, views_read(parsed))
            if views_read(parsed) and self.planning.translated(parsed) != plan:
                raise Error(
                    f"View {name!r} reads a view that was replaced while {name!r} was being computed. "
                    f"Register it again."
                )
            known = self._views.by_name.get(name)
            same = known is not None and known.query == parsed and known.refresh_setting == refresh
            if known is not None and same and known.failure is None:
                return known
            if known is not None and not same and not replace:
                raise ViewExists(
                    f"View {name!r} already exists with a different query or refresh setting. Use another "
                    f"name, drop it first, or pass replace=True to replace it."
                )
            if known is not None and not same:
                self._views.check_not_read(name)
            deferred = self._deferred(name, refresh, writer.epoch)
            registry = self._views.registry if deferred is None else deferred.registry
            if planned.temporary:
                registry = self._views.temporary.registry
                self._views.temporary.limit(self._views.limits)
            owner = owner if known is None else known.owner
            with self._new_content(registry, planned, strategy) as content:
                if writer.persistence is not None and not planned.temporary:
                    before = known if known is not None and known.failure is None else None
                    replaced = None if before is None else before.content
                    writer.persistence.keep(
                        name, text, base, refresh, owner, content, writer.epoch, replaced, notes
                    )
                    if not content.is_held and not planned.stays:
                        content = self._mapped(registry, content)
            if known is not None:
                self._views.release(known)
            terms = content.terms if planned.temporary else None
            view = self._add(name, text, parsed, plan, content, deferred, owner, terms)
            if not planned.temporary:
                writer.settle()
            return view

    @contextmanager
    def _new_content(
        self, registry: PlanRegistry, planned: PlannedView, strategy: Strategy
    ) -> Iterator[Materialization]:
        """The content of a view; released if the block, which stores it, fails."""
        file_views = self._views.file_views
        if planned.by_files is None or file_views is None:
            content = self._content(registry, planned, strategy)
            content.reserve(planned.needed_bytes)
            try:
                yield content
            except BaseException:
                registry.release(content)
                raise
            return
        by_files, for_live = self._by_files(strategy), not planned.stays
        with file_views.computed(planned.kept, by_files, planned.by_files, for_live=for_live) as content:
            yield content

    def _mapped(self, registry: PlanRegistry, content: Materialization) -> Materialization:
        """A content that was computed from files to files, and is carried in this process from now on."""
        persistence, file_views = self._writer.persistence, self._views.file_views
        assert persistence is not None and file_views is not None
        mapped = registry.keep(content.plan, persistence.saved)
        mapped.computed_by(next((part.carried for part in file_views.singles(content)), None))
        return mapped

    def _by_files(self, strategy: Strategy) -> Callable[[Callable[[FileBackend], None]], None]:
        """Returns a function that has a backend do work for new contents that stay in the store."""
        strategies = self._writer.strategies
        way = strategies.file_backend(strategy, self._writer.quads.size)
        return partial(strategies.by_files, way, strategy)

    def _may_stay(self, kept: Operator, strategy: Strategy) -> bool:
        """Whether a content stays in the store, carried from files to files, if memory has no room for it.

        This holds only if Spark does the work, so that its driver need not read what it carries, or if the
        files are not on this machine. Any other content is mapped, and needs memory only for its changes.
        """
        persistence, file_views = self._writer.persistence, self._views.file_views
        if persistence is None or file_views is None:
            return False
        is_known = any(file_views.known(part) for part in (kept, *independent_parts(kept)))
        is_spark = strategy == "spark" or self._writer.strategies.bulk == "spark"
        return is_known or is_spark or not persistence.store.is_local

    def _why_by_files(
        self, kept: Operator, strategy: Strategy, stored_rows: int | None = None
    ) -> tuple[int, str | None]:
        """The memory that a content needs to be computed or held, and why it has no room; None if it has."""
        file_views, budget = self._views.file_views, self._writer.budget
        if file_views is None or not self._may_compute_by_files(kept):
            return 0, None
        if any(file_views.known(part) for part in (kept, *independent_parts(kept))):
            return 0, "its content already stays in files"
        if strategy == "spark":
            return 0, "spark was requested"
        needed = budget.needed(kept, stored_rows)
        if self._may_stay(kept, strategy):
            used = self._views.reserved_bytes()
        else:  # computed in memory, and mapped
            needed, used = COMPUTING_TIMES * needed, self._writer.used_bytes()
        if budget.fits(used, needed):
            return needed, None
        return needed, (
            f"about {needed >> 20:,} MiB more would exceed the memory limit of {budget.limit >> 20:,} MiB, "
            f"of which {used >> 20:,} MiB are used"
        )

    def _may_compute_by_files(self, kept: Operator) -> bool:
        """Whether the session has a store, and holds no part of a content: a relation has one writer."""
        is_known = self._views.registry.is_known
        return self._views.file_views is not None and not any(map(is_known, (kept, *independent_parts(kept))))

    def _content(self, registry: PlanRegistry, planned: PlannedView, strategy: Strategy) -> Materialization:
        """The content of a view: computed without the lock and brought up to date, or else computed now."""
        computed, kept = planned.prepared, planned.kept
        terms = planned.terms if planned.temporary else None
        if computed is None or registry.is_known(kept):
            return self._computed_now(registry, kept, strategy, terms)
        changes = self._writer.net_changes.stop(planned.gathered)
        if changes is None:  # all quads were replaced meanwhile
            return self._computed_now(registry, kept, strategy, terms)
        if not planned.temporary:
            assert planned.terms is not None
            computed = self._enter(planned.terms.dictionary, computed)
        content = registry.keep_prepared(kept, computed, changes, terms)
        if not changes:  # otherwise it was last carried live
            for part in content.stored_parts():
                if part.plan in computed.by_columns:
                    part.computed_by("duckdb")
        return content

    def _computed_now(
        self, registry: PlanRegistry, kept: Operator, strategy: Strategy, terms: Terms | None
    ) -> Materialization:
        """The content of a plan, computed under the lock: on Spark, or in process."""
        backend = self._backend(strategy)
        if backend is None:
            return registry.keep(kept, None, terms)
        content = registry.keep(kept, self._writer.strategies.contents_by(backend), terms)
        content.computed_by(backend)
        return content

    def _enter(self, dictionary: Dictionary, computed: Prepared) -> Prepared:
        """Enters the terms that a computation created, and translates its relations to the session's ids."""
        enter = self._writer.terms.dictionary.enter
        others = {number: own for number, text in dictionary.entries() if (own := enter(text)) != number}
        if not others:
            return computed
        relations: dict[str, Mapping[Row, int] | Run] = {
            name: {
                tuple([others.get(number, number) for number in row]): weight
                for row, weight in rows_of(rows).items()
            }
            for name, rows in computed.relations.items()
        }
        return replace(computed, relations=relations)

    def _bulk(self, strategy: Strategy, quads: Quads | Snapshot, dictionary: Dictionary) -> Bulk | None:
        """How to compute a new view over many quads, without blocking writers."""
        if strategy not in ("auto", "duckdb") or "duckdb" not in self._writer.strategies.carriers:
            return None
        contents = self._writer.strategies.contents_on(quads, dictionary, self._writer.reading)
        return Bulk(contents, 0 if strategy == "duckdb" else self._writer.tuning.bulk_quads)

    def _backend(self, strategy: Strategy) -> str | None:
        """The backend that computes a new view, or None for this process."""
        strategies = self._writer.strategies
        size = self._writer.quads.size
        tuning = self._writer.tuning
        large = size > tuning.spark_quads and strategies.has_started_spark
        is_bulk = size > tuning.bulk_quads
        for_spark = is_bulk and strategies.bulk == "spark" and "spark" in strategies.carriers
        if strategy == "spark" or (strategy == "auto" and (large or for_spark)):
            strategies.ensure_available("spark")
            return "spark"
        return None

    def _deferred(self, name: str, refresh: Refresh, epoch: int) -> Deferred | None:
        """The state of a view that is not refreshed immediately."""
        if refresh == "immediate":
            return None
        return Deferred(name, refresh, epoch, self._writer.carried_quads, self._writer.terms)

    def _add(
        self,
        name: str,
        text: str,
        query: Query,
        plan: Operator,
        content: Materialization,
        deferred: Deferred | None,
        owner: str | None,
        terms: Terms | None = None,
    ) -> ViewState:
        if terms is not None and not terms.dictionary.is_swept:
            terms.dictionary.give_back()
        view = ViewState(self._writer, name, text, query, plan, content, deferred, owner, terms)
        self._views.add(view)
        return view

    def drop(self, name: str) -> None:
        """Drops a view."""
        writer = self._writer
        with writer.changing():
            writer.ensure_open()
            view = self._views.state(name)
            self._views.check_not_read(name)
            if writer.persistence is not None and not view.temporary:
                writer.persistence.drop(name, view.content, writer.epoch)
            self._views.remove(name)

    def repair(self) -> list[str]:
        """Recomputes views whose content is damaged, missing or wrong; see `Session.repair`."""
        with self._writer.changing():
            self._writer.ensure_open()
            persistence = self._writer.persistence
            damaged = set() if persistence is None else persistence.damaged()
            damaged |= wrong_relations(self._writer, self._union, damaged)
            stale = [
                view
                for view in self._views.by_name.values()
                if (view.failure is None or view.is_wrong) and not damaged.isdisjoint(all_names(view.content))
            ]
            for view in stale:
                self._views.release_content(view)
            held = [view for view in stale if view.content.is_held]
            in_files = [view for view in stale if not view.content.is_held]
            recomputed = [view for view in held if not self._repaired_by_files(persistence, view, damaged)]
            for view in recomputed:
                if view.deferred is not None and not view.deferred.agrees():
                    view.deferred.load({}, self._writer.epoch)
                keep = self._views.registry.keep if view.deferred is None else view.deferred.keep
                self._views.give(view, keep(rewrite(kept_of(view.plan)), None))
            for view in recomputed:
                view.history.move_to_store()
                view.history.begin(self._saved(persistence, view, damaged))
            if in_files:
                assert persistence is not None
                self._repair_in_store(persistence, in_files, damaged)
            return [view.name for view in stale]

    def _repaired_by_files(self, persistence: Persistence | None, view: ViewState, damaged: Set[str]) -> bool:
        """Computes a held content again from files to files, if memory has no room for it."""
        kept, file_views = rewrite(kept_of(view.plan)), self._views.file_views
        if persistence is None or file_views is None or view.temporary or view.deferred is not None:
            return False
        _, why = self._why_by_files(kept, "auto")
        if why is None:
            return False
        persistence.forget(damaged & all_names(view.content), [view.name])
        with file_views.computed(kept, self._by_files("auto"), why, for_live=True) as content:
            since = persistence.save(view.name, content, self._writer.epoch)
            self._views.give(view, self._mapped(self._views.registry, content))
        view.history.move_to_store()
        view.history.begin(since)
        return True

    def _saved(
        self, persistence: Persistence | None, view: ViewState, damaged: Set[str], since: int | None = None
    ) -> int:
        """Stores the recomputed content of a view, if there is a store; returns where its history starts."""
        if persistence is None or view.temporary:
            return view.epoch
        return persistence.save(view.name, view.content, view.epoch, damaged, since, view.deferred)

    def _repair_in_store(
        self, persistence: Persistence, views: Sequence[ViewState], damaged: Set[str]
    ) -> None:
        """Recomputes damaged relations of contents that stay in files; if this fails, opening tries again."""
        lost = {view: damaged & all_names(view.content) for view in views}
        without_history = [view for view in views if not all(map(is_of_totals, lost[view]))]
        persistence.forget(set[str]().union(*lost.values()), [view.name for view in without_history])
        for view in without_history:
            view.history.begin(self._writer.epoch)
        for view in views:
            kept, why = rewrite(kept_of(view.plan)), view.content.why
            content, since = self._file_content(persistence, view.name, kept, view.history.since, why)
            self._views.give(view, content)
            view.history.move_to_store()
            view.history.begin(since)

    # Views of a store

    def load(self, persistence: Persistence, progress: Callable[[int, int], None]) -> None:
        """Loads the views of a store with their rows, without computing them again."""
        entries = list(readable(persistence.store.catalog.views()))
        for number, entry in enumerate(entries):
            progress(number, len(entries))
            self._load_view(persistence, *entry)
        if not self._writer.read_only:
            persistence.trust_refreshes()

    def _load_view(
        self, persistence: Persistence, name: str, text: str, base: str | None, since: int, refresh: str
    ) -> None:
        read_only = self._writer.read_only
        parsed, plan = self.planning.plan(text, base)
        deferred = self._deferred(name, stored_refresh(refresh), since)
        if deferred is not None:
            persistence.load_deferred(name, deferred)
        kept = rewrite(kept_of(plan))
        needed, why = self._stays_in_store(kept) if deferred is None else (0, None)
        if why is not None:
            content, since = self._file_content(persistence, name, kept, since, why)
        else:
            content = self._stored_content(persistence, name, kept, deferred)
            content.reserve(needed)
        content.computed_by(None)
        view = self._add(name, text, parsed, plan, content, deferred, persistence.store.catalog.owner(name))
        view.history.begin(since)
        if not persistence.has(content):
            if read_only:
                view.fail(f"View {name!r} is not available yet: the store's writer has to recompute it.")
            else:
                view.history.begin(self._saved(persistence, view, frozenset(), since))

    def _stored_content(
        self, persistence: Persistence, name: str, kept: Operator, deferred: Deferred | None
    ) -> Materialization:
        """The held content of a stored view. If it is not that of the view's epoch, it is computed again."""
        registry = self._views.registry if deferred is None else deferred.registry
        if self._writer.read_only:
            return registry.keep(kept, persistence.saved)
        keep = registry.keep if deferred is None else deferred.keep
        agrees = deferred is None or (persistence.has_gathered_all(name, deferred) and deferred.agrees())
        if agrees:
            content = keep(kept, persistence.saved)
            epoch = self._writer.epoch if deferred is None else deferred.epoch
            if not persistence.is_beyond(content, epoch):
                return content
            registry.release(content)
        if deferred is not None:
            deferred.load({}, self._writer.epoch)
        content = keep(kept, None)
        stored = all_names(content) & persistence.store.catalog.relations()
        if stored:  # otherwise the view had failed, and has no content
            _log.warning("View %r may not have had the content of its epoch, and was computed again.", name)
            persistence.forget(stored)
        return content

    def _stays_in_store(self, kept: Operator) -> tuple[int, str | None]:
        """The memory that a stored view needs, and why it stays in files; None if it does not.

        A reader computes nothing that the store lacks.
        """
        file_views = self._views.file_views
        if file_views is None or (self._writer.read_only and not file_views.is_stored(kept)):
            return 0, None
        if not self._may_stay(kept, "auto"):
            return 0, None
        return self._why_by_files(kept, "auto", file_views.stored_rows(kept))

    def _file_content(
        self, persistence: Persistence, name: str, kept: Operator, since: int, why: str
    ) -> tuple[Materialization, int]:
        """The content of a stored view that stays in files, and the epoch at which its history starts.

        What held contents do not store, because an operator's state has it, is computed now.
        """
        file_views = self._views.file_views
        assert file_views is not None
        if file_views.is_stored(kept):
            content = file_views.keep(kept, why)
            if self._writer.read_only or not persistence.is_beyond(content, self._writer.epoch):
                return content, since
            file_views.release(content)
            persistence.forget(all_names(content) & persistence.store.catalog.relations(), [name])
        with file_views.computed(kept, self._by_files("auto"), why) as content:
            return content, persistence.save(name, content, self._writer.epoch, since=since)

    def follow(self, persistence: Persistence) -> None:
        """Brings a reader to the store's last epoch, after the store's writer has committed."""
        writer, views = self._writer, self._views
        with writer.reading():
            if writer.closed:
                return
            at = {view: view.epoch for view in views.by_name.values()}
            listed = {entry[0]: entry for entry in persistence.store.catalog.views()}
            writer.moved_to(persistence.advance())
            now = {entry[0]: entry for entry in persistence.store.catalog.views()}
            for name in [name for name, entry in listed.items() if now.get(name) != entry]:
                views.remove(name).fail(f"View {name!r} was dropped or replaced by the store's writer.")
            stale = [view for view in views.by_name.values() if persistence.changed(view.content, at[view])]
            for view in stale:
                views.release_content(view)
            for view in stale:
                registry = views.registry if view.deferred is None else view.deferred.registry
                kept = rewrite(kept_of(view.plan))
                needed, why = self._stays_in_store(kept) if view.deferred is None else (0, None)
                if why is not None and views.file_views is not None:
                    content = views.file_views.keep(kept, why)
                else:
                    content = registry.keep(kept, persistence.saved)
                    content.reserve(needed)
                content.computed_by(None)
                views.give(view, content)
            for entry in readable(now.values()):
                if entry[0] not in views.by_name:
                    self._load_view(persistence, *entry)
            for view, deferred in views.later.items():
                persistence.load_deferred(view.name, deferred)
            for view in views.by_name.values():
                view.history.move_to_store()
