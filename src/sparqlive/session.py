"""The session: one writer, views, epochs. The public Python API.

Owns the order of things: a batch is read and checked whole, staged, carried to the views that it concerns,
and committed; or nothing has happened. Refuses what cannot be kept. Invariant: between calls, every view
equals its query evaluated on the current quads, and belongs to the current epoch.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from sparqlive.errors import CheckFailed, Closed, Error, InvalidChange, Unsupported, ViewExists
from sparqlive.live.deadline import deadline
from sparqlive.live.keeper import Content, Keeper
from sparqlive.live.maintained import Maintained
from sparqlive.live.quads import Change, Quads
from sparqlive.live.terms import Terms
from sparqlive.plan.checks import check_functions
from sparqlive.plan.operators import Operator
from sparqlive.plan.reference import Reference
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.translate import translate
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.rdf.read import check_quad, read_objects, read_paths, read_text
from sparqlive.sparql.algebra import Query
from sparqlive.sparql.syntax import parse_query
from sparqlive.views import Answer, Delta, Deltas, Epoch, View, Views

Changes = str | Iterable[Any]
Strategy = Literal["auto", "live", "spark", "rebuild"]


def open(  # noqa: A001 - always used as sparqlive.open
    path: str | os.PathLike[str] | None = None, *, default_graph: Literal["strict", "union"] = "strict"
) -> Session:
    """Opens a session: in memory, if no path is given.

    `default_graph="union"`: a query's default graph is the union of the unnamed graph and all named ones.
    """
    if path is not None:
        raise Unsupported(
            "A store in a directory is not there yet: open a session in memory, without a path."
        )
    return Session(default_graph=default_graph)


class Session:
    """RDF data in memory, and the views over it."""

    def __init__(self, *, default_graph: Literal["strict", "union"] = "strict") -> None:
        if default_graph not in ("strict", "union"):
            raise Error(f'default_graph is "strict" or "union", not {default_graph!r}.')
        self.default_graph = default_graph
        self.epoch = 0
        self.dictionary = Dictionary()
        self._views = Views()
        self._quads = Quads()
        self._terms = Terms(self.dictionary)
        self._keeper = Keeper(self._quads, self._terms)
        self._readers: dict[Content, list[View]] = {}
        self._lock = threading.RLock()
        self._advanced = threading.Condition(self._lock)
        self._closed = False

    # Data

    def load(
        self,
        source: str | os.PathLike[str] | Iterable[Any],
        graph: str | NamedNode | None = None,
    ) -> Epoch:
        """Adds a file, files, a glob, or given quads, as one epoch.

        Triples, and quads of the unnamed graph, go into `graph` if one is named.
        """
        name = NamedNode(graph) if isinstance(graph, str) else graph
        with _collector_paused():
            return self._epoch((), list(_read_source(source, name)))

    def apply(self, insert: Changes = (), delete: Changes = (), *, strategy: Strategy = "auto") -> Epoch:
        """Applies one batch: deletes first, then inserts. Quads, triples, or N-Quads text.

        A batch that changes nothing makes no new epoch.
        """
        if strategy not in ("auto", "live"):
            raise Unsupported(f"The strategy {strategy!r} is not there yet: use 'auto' or 'live'.")
        return self._epoch(_read_changes(delete), _read_changes(insert))

    def quads(self) -> Iterator[Quad]:
        """The quads of the current epoch."""
        with self.reading():
            self.ensure_open()
            current = list(self._quads)
        term = self.dictionary.term
        for subject, predicate, object_, graph in current:
            name: Any = DefaultGraph() if graph == 1 else term(graph)
            yield Quad(term(subject), term(predicate), term(object_), name)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """The number of quads."""
        return self._quads.size

    # Views and queries

    @property
    def views(self) -> Mapping[str, View]:
        """The views by name."""
        return self._views

    def view(self, name: str, query: str, *, base: str | None = None, replace: bool = False) -> View:
        """Registers a query and computes it; from now on it is kept.

        The same name with the same query gives the view that is there; with another query it is an error,
        unless `replace` is set.
        """
        if not isinstance(name, str) or not name:
            raise Error("A view needs a name: a string that is not empty.")
        parsed, plan = self._plan(query, base, volatile=False)
        with self._lock:
            self.ensure_open()
            known = self._views.by_name.get(name)
            if known is not None and known.query == parsed and known.failure is None:
                return known
            if known is not None and not replace:
                raise ViewExists(
                    f"A view named {name!r} is there with another query. "
                    f"Choose another name, drop it first, or pass replace=True."
                )
            content = self._keeper.keep(rewrite(plan))
            if known is not None:
                self.drop(name)
            view = View(self, name, query, parsed, plan, content)
            self._views.by_name[name] = view
            self._readers.setdefault(content, []).append(view)
            return view

    def drop(self, name: str) -> None:
        """Forgets a view."""
        with self._lock:
            self.ensure_open()
            view = self._views[name]
            del self._views.by_name[name]
            self._release(view)

    def _release(self, view: View) -> None:
        readers = self._readers.get(view.content, [])
        if view in readers:
            readers.remove(view)
            if not readers:
                del self._readers[view.content]
            self._keeper.release(view.content)

    def query(self, query: str, *, base: str | None = None, timeout_seconds: float | None = None) -> Answer:
        """Evaluates a query once, on the current epoch."""
        parsed, plan = self._plan(query, base, volatile=True)
        with self._lock, deadline(timeout_seconds):
            self.ensure_open()
            with self._quads.temporary():
                rows = Maintained(store_unreachable(rewrite(plan)), self._quads, self._terms).compute()
            return Answer(parsed, rows, self.dictionary)

    def _plan(self, text: str, base: str | None, volatile: bool) -> tuple[Query, Operator]:
        parsed = parse_query(text, base)
        check_functions(parsed, volatile)
        return parsed, translate(parsed, self.default_graph == "union")

    def check(self) -> None:
        """Recomputes every view from scratch, by other code than keeps it, and compares.

        Raises CheckFailed with the view and the rows that differ.
        """
        with self._lock:
            self.ensure_open()
            reference = Reference(self.quads())
            self._quads.check()
            for view in self._views.by_name.values():
                if view.failure is None:
                    _compare(view, reference.content(view.plan).weights)

    # Epochs

    def _epoch(self, deletes: Iterable[Quad], inserts: Iterable[Quad]) -> Epoch:
        with self._lock:
            self.ensure_open()
            changes, ignored = self._effective(deletes, inserts)
            if not changes:
                return Epoch(self.epoch, 0, 0, ignored, Deltas(self.epoch, {}, self._views))
            with _collector_paused():
                return self._carry(changes, ignored)

    def _effective(self, deletes: Iterable[Any], inserts: Iterable[Any]) -> tuple[list[Change], int]:
        """The changes that change something: the last word on a quad wins, the graph is a set."""
        wanted: dict[tuple[int, int, int, int], int] = {}
        given = self._want(wanted, deletes, -1) + self._want(wanted, inserts, 1)
        changes = self._quads.effective(wanted)
        return changes, given - len(changes)

    def _want(self, wanted: dict[tuple[int, int, int, int], int], quads: Iterable[Any], weight: int) -> int:
        """Encodes quads; how many there were."""
        ids, id_of = self.dictionary.ids, self.dictionary.id_of
        given = 0
        for quad in quads:
            given += 1
            if type(quad) is Quad:
                subject, predicate, object_, graph = quad
                try:
                    wanted[ids[subject], ids[predicate], ids[object_], ids[graph]] = weight
                    continue
                except KeyError:  # a term that is new, or out of the cache
                    pass
            if type(quad) is not Quad or type(quad.object) is Triple:
                subject, predicate, object_, graph = check_quad(quad, None)
            wanted[id_of(subject), id_of(predicate), id_of(object_), id_of(graph)] = weight
            ids = self.dictionary.ids
        return given

    def _carry(self, changes: Sequence[Change], ignored: int) -> Epoch:
        number = self.epoch + 1
        if not self._readers:
            self._quads.add(changes)
            self.epoch = number
            self._advanced.notify_all()
            return self._made(number, changes, ignored, {})
        failed: list[tuple[View, str]] = []
        self._quads.stage(changes)
        try:
            results = self._keeper.carry(lambda content, error: failed.extend(self._failing(content, error)))
        except BaseException:
            self._keeper.rollback()
            self._quads.rollback()
            raise
        changed = {
            view.name: view.record(number, rows)
            for content, rows in results.items()
            if rows
            for view in self._readers.get(content, ())
        }
        self._keeper.commit()
        self._quads.commit()
        self.epoch = number
        for view, sentence in failed:
            view.failure = sentence
            self._release(view)
        self._advanced.notify_all()
        return self._made(number, changes, ignored, changed)

    def _failing(self, content: Content, error: Exception) -> Iterator[tuple[View, str]]:
        """A view that fails is marked, and does not block the epoch."""
        for view in self._readers.get(content, ()):
            yield (
                view,
                (
                    f"View {view.name!r} stopped at epoch {self.epoch + 1}: {type(error).__name__}: {error}. "
                    f"Register it again to compute it anew."
                ),
            )

    def _made(
        self, number: int, changes: Sequence[Change], ignored: int, changed: Mapping[str, Delta]
    ) -> Epoch:
        inserted = sum(change[4] > 0 for change in changes)
        deltas = Deltas(number, changed, self._views)
        return Epoch(number, inserted, len(changes) - inserted, ignored, deltas)

    # Reading and closing

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever is read inside belongs to one epoch."""
        with self._lock:
            yield

    def wait_beyond(self, epoch: int) -> bool:
        """Waits until there is a later epoch; False when the session is closed."""
        with self._advanced:
            self._advanced.wait_for(lambda: self._closed or self.epoch > epoch)
            return not self._closed

    def ensure_open(self) -> None:
        if self._closed:
            raise Closed("The session is closed: open a new one.")

    def close(self) -> None:
        """Ends the session; closing twice is no error."""
        with self._advanced:
            self._closed = True
            self._advanced.notify_all()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection inside: one over large views would stop an epoch for milliseconds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _read_changes(changes: Changes) -> list[Any]:
    if isinstance(changes, str):
        return list(read_text(changes))
    if isinstance(changes, Quad) or not isinstance(changes, Iterable):
        raise InvalidChange(f"Give a list of quads, or N-Quads text, not {changes!r}.")
    return list(changes)


def _read_source(source: Any, graph: NamedNode | None) -> Iterator[Quad]:
    if isinstance(source, str | os.PathLike):
        return read_paths([source], graph)
    if isinstance(source, list | tuple) and source and all(isinstance(s, str | os.PathLike) for s in source):
        return read_paths(source, graph)
    if not isinstance(source, Iterable):
        raise InvalidChange(f"load takes a path, paths, or an iterable of quads, not {source!r}.")
    return read_objects(source, graph)


def _compare(view: View, expected: Mapping[Any, int]) -> None:
    weights = view.weights()
    if weights == expected:
        return
    rows = [row for row in {*weights, *expected} if weights.get(row, 0) != expected.get(row, 0)]
    shown = "; ".join(
        f"({', '.join('UNDEF' if term is None else str(term) for term in row)}) "
        f"is there {weights.get(row, 0)} times, should be {expected.get(row, 0)}"
        for row in rows[:5]
    )
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise CheckFailed(
        f"View {view.name!r} differs from its recomputation in {len(rows)} rows: {shown}{more}."
    )
