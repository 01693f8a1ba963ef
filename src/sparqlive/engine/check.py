"""Compares views with their recomputation, for `Session.check`.

Up to `Tuning.reference_quads` quads, the reference evaluator recomputes each view from its query and the
quads of the view's epoch. It shares no code with planning and maintenance, but works row by row. Above that,
a backend that did not carry the view recomputes its plan: DuckDB if the view was last computed or carried
live, the generated Python if DuckDB or Spark did it, and both if the store has no record. Of contents that
stay in files, a bulk backend also recomputes what their operators store: state, and totals of groups. It does
the same for contents that memory has no room to recompute, from what the store has of them. Invariant:
checking changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import Any

from sparqlive.engine.results import TermRow
from sparqlive.engine.stored_names import all_names
from sparqlive.engine.view_state import ViewState
from sparqlive.engine.writer import Writer
from sparqlive.errors import CheckFailed, ViewFailed
from sparqlive.live.materialization import Materialization
from sparqlive.live.once import compute_rewritten
from sparqlive.live.terms import Terms
from sparqlive.plan.checks import within_reach
from sparqlive.plan.operators import Listing, kept_of
from sparqlive.quads.current import Quads
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.runtime.memory import give_back
from sparqlive.sparql.ordering import order_key, rank_key
from sparqlive.sparql.reference import Reference
from sparqlive.sparql.values import Value, value_of
from sparqlive.zset.relation import Row, change_between, rows_of
from sparqlive.zset.run import Run

_EVALUATORS: Mapping[str | None, tuple[str, ...]] = {
    "live": ("duckdb",),
    "duckdb": ("live",),
    "spark": ("live",),
    None: ("duckdb", "live"),
}
"""What recomputes a content, by what last computed or carried it."""
_REMEDY = "`sparqlive check --repair`, or `repair()` of the session, computes it again."


def check(writer: Writer, union: bool) -> dict[str, tuple[str, ...]]:
    """Recomputes views and compares them; raises CheckFailed with the view and the rows that differ.

    Returns what recomputed each view. `union`: whether a query's default graph is the union of all graphs.
    Called under the lock.
    """
    compare = _comparison(writer, union)
    used = {name: compare(view) for name, view in writer.views.by_name.items() if _is_kept(view)}
    if writer.quads.size <= writer.tuning.reference_quads:
        for view, content in _file_contents(writer):
            _check_file_view(view, content, writer)
    return used


def _is_kept(view: ViewState) -> bool:
    """Whether a view is kept up to date; one that was found wrong still is."""
    return view.failure is None or view.is_wrong


def _comparison(writer: Writer, union: bool) -> Callable[[ViewState], tuple[str, ...]]:
    """The comparison of a view with its recomputation: raises CheckFailed, or returns what recomputed it."""
    if writer.quads.size > writer.tuning.reference_quads:
        writer.quads.check_size()
        return partial(_check_by_backends, writer)
    writer.quads.check()
    views, dictionary = writer.views.by_name, writer.terms.dictionary

    def reference(numbers: Iterable[tuple[int, int, int, int]]) -> Reference:
        return Reference(dictionary.quads(numbers), union=union, query_of=lambda name: views[name].query)

    current = reference(writer.quads)

    def compare(view: ViewState) -> tuple[str, ...]:
        is_current = view.epoch == writer.epoch
        _check_by_reference(view, current if is_current else reference(_quads_of(view, writer.quads)))
        return ("reference",)

    return compare


def _file_contents(writer: Writer) -> Iterator[tuple[ViewState, Materialization]]:
    """Contents that stay in files, each once, with a view that has them."""
    seen: set[Materialization] = set()
    for view in writer.views.by_name.values():
        for content in view.content.stored_parts() if _is_kept(view) else ():
            if not content.is_held and content not in seen:
                seen.add(content)
                yield view, content


def wrong_relations(writer: Writer, union: bool, damaged: Set[str]) -> set[str]:
    """The relations of the contents that differ from their recomputation.

    Contents with a damaged relation are not compared.
    """
    found: set[str] = set()
    for _, content in _file_contents(writer):
        if damaged.isdisjoint(all_names(content)):
            found |= _differing(content, writer)[1].keys()
    compare = _comparison(writer, union)
    for view in writer.views.by_name.values():
        names = all_names(view.content)
        if _is_kept(view) and view.content.is_held and damaged.isdisjoint(names):
            try:
                compare(view)
            except CheckFailed:
                found |= names
    return found


# By the reference evaluator


@within_reach()
def _check_by_reference(view: ViewState, stands: Reference) -> None:
    try:
        if isinstance(view.plan, Listing):
            listed = stands.listed(view.query)
            _compare(view, view.public.weights(), Counter(listed))
            _compare_order(view, listed)
        else:
            _compare(view, view.public.weights(), stands.weights(view.query))
    except ViewFailed as error:  # a read found it wrong
        raise CheckFailed(str(error)) from error


def _quads_of(view: ViewState, quads: Quads) -> Iterator[tuple[int, int, int, int]]:
    """The quads as of the epoch of a deferred view."""
    assert view.deferred is not None
    unseen = view.deferred.gathered
    yield from (quad for quad in quads if quad not in unseen)
    yield from (quad for quad, weight in unseen.items() if weight < 0)


# By another backend


def _check_by_backends(writer: Writer, view: ViewState) -> tuple[str, ...]:
    if view.is_wrong:
        raise CheckFailed(view.failure)
    by: set[str] = set()
    with _as_of(view, writer.quads):
        for content in view.content.stored_parts():
            stored = _in_store(view, content, writer)
            if stored is not None:
                by.add(_check_file_view(view, stored, writer))
                continue
            assert content.compiled is not None
            for evaluator in _EVALUATORS[content.compiled.evaluator]:
                give_back()  # the recomputed rows are in memory
                _check_content(view, content, writer, evaluator)
                by.add(evaluator)
    if isinstance(view.plan, Listing):
        _compare_order(view, _in_order(view))
    return tuple(sorted(by))


def _in_store(view: ViewState, content: Materialization, writer: Writer) -> Materialization | None:
    """The stored form of a content that stays in files, or that memory has no room to hold twice."""
    file_views, budget = writer.views.file_views, writer.budget
    if not content.is_held:
        return content
    is_stored = file_views is not None and not view.temporary and view.deferred is None
    if file_views is None or not is_stored or budget.fits(0, budget.needed(content.plan, content.size()[0])):
        return None
    return file_views.beside(content.plan)


@contextmanager
def _as_of(view: ViewState, quads: Quads) -> Iterator[None]:
    """Context in which the quads are those of the view's epoch."""
    if view.deferred is None or not view.deferred.gathered:
        yield
        return
    quads.add(view.deferred.undone())
    try:
        yield
    finally:
        quads.add(view.deferred.changes())


def _check_content(view: ViewState, content: Materialization, writer: Writer, evaluator: str) -> None:
    terms = Terms(writer.terms.dictionary.extended())
    recomputed: Mapping[Row, int] | Run
    if evaluator == "live":
        quads = writer.quads.snapshot()
        with writer.pinned():
            recomputed = compute_rewritten(content.plan, quads, terms, {})
    else:  # under the lock it can read the quads themselves
        contents = writer.strategies.contents_on(writer.quads, terms.dictionary, writer.reading)
        (recomputed,) = contents([content.plan])
    present = content.whole()
    differing = set(change_between(present, recomputed))
    if not differing:
        return
    # Compares terms: one that only one side has computed may have different ids.
    is_shown = content is view.content
    for width in (len(view.variables) if is_shown else None, None):
        _compare(
            view,
            _term_rows(present, differing, view.terms.dictionary, width),
            _term_rows(recomputed, differing, terms.dictionary, width),
        )


def _check_file_view(view: ViewState, content: Materialization, writer: Writer) -> str:
    """Compares in the store: a backend recomputes all relations, and joins them with the stored rows.

    Returns the backend's name.
    """
    name, differing = _differing(content, writer)
    if not differing:
        return name
    if content.name not in differing:
        count = sum(count for count, _ in differing.values())
        raise CheckFailed(
            f"What view {view.name!r} stores for its next delta differs from its recomputation, although "
            f"its result does not (relations: {', '.join(sorted(differing))}; differing rows: {count:,}). "
            f"{_REMEDY}"
        )
    count, missing = differing[content.name]
    shown = {tuple(map(view.terms.dictionary.term, row)): weight for row, weight in missing.items()}
    examples = "; ".join(
        f"({', '.join('UNDEF' if term is None else str(term) for term in row)}) occurs {abs(weight)} times "
        f"{'too rarely' if weight > 0 else 'too often'}"
        for row, weight in list(shown.items())[:5]
    )
    more = f" and {count - 5:,} more" if count > 5 else ""
    raise CheckFailed(
        f"View {view.name!r} differs from its recomputation in {count:,} rows: {examples}{more}. {_REMEDY}"
    )


def _differing(
    content: Materialization, writer: Writer
) -> tuple[str, Mapping[str, tuple[int, Mapping[Row, int]]]]:
    """The name of the backend that compares a content, and the relations that differ."""
    assert writer.views.file_views is not None
    file_views, strategies = writer.views.file_views, writer.strategies
    way = strategies.file_backend("auto", writer.quads.size)
    found: tuple[str, Mapping[str, tuple[int, Mapping[Row, int]]]] = strategies.by_files(
        way, "auto", lambda way: (way.name, file_views.differing(content, way))
    )
    return found


def _term_rows(
    rows: Mapping[Row, int] | Run, among: set[Row], dictionary: Dictionary, width: int | None
) -> dict[TermRow, int]:
    """Some rows as terms: their first columns, or all of them."""
    found: dict[TermRow, int] = {}
    for row, weight in rows_of(rows).items():
        if row in among:
            shown = tuple(map(dictionary.term, row[:width]))
            found[shown] = found.get(shown, 0) + weight
    return found


def _in_order(view: ViewState) -> list[TermRow]:
    """The solutions of a view with an ORDER BY, sorted by the definition of the order."""
    assert isinstance(view.plan, Listing)
    variables = kept_of(view.plan).variables
    places = [(variables.index(variable), descending) for variable, descending in view.plan.order]
    dictionary = view.terms.dictionary
    values = {number: _value(dictionary, number) for row, _ in view.content.items() for number in row}
    items = list(view.content.items())
    width = len(view.variables)
    items.sort(key=lambda item: [order_key(values[number]) for number in item[0][:width]])
    for place, descending in reversed(places):
        items.sort(key=lambda item, at=place: rank_key(values[item[0][at]]), reverse=descending)  # type: ignore[misc]
    return [tuple(map(dictionary.term, row[:width])) for row, weight in items for _ in range(weight)]


def _value(dictionary: Dictionary, number: int) -> Value | None:
    term = dictionary.term(number)
    return None if term is None else value_of(term)


# Comparing


def _compare(view: ViewState, weights: Mapping[TermRow, int], expected: Mapping[Any, int]) -> None:
    if weights == expected:
        return
    rows = [row for row in {*weights, *expected} if weights.get(row, 0) != expected.get(row, 0)]
    shown = "; ".join(
        f"({', '.join('UNDEF' if term is None else str(term) for term in row)}) "
        f"occurs {weights.get(row, 0)} times instead of {expected.get(row, 0)}"
        for row in rows[:5]
    )
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise CheckFailed(
        f"View {view.name!r} differs from its recomputation in {len(rows)} rows: {shown}{more}. {_REMEDY}"
    )


def _compare_order(view: ViewState, expected: Sequence[TermRow]) -> None:
    listed = [tuple(solution.get(name) for name in view.variables) for solution in view.public.solutions()]
    for place, (row, other) in enumerate(zip(listed, expected, strict=True), 1):
        if row != other:
            shown = [", ".join("UNDEF" if term is None else str(term) for term in r) for r in (row, other)]
            raise CheckFailed(
                f"View {view.name!r} differs from its recomputation in its order: "
                f"solution {place} is ({shown[0]}) instead of ({shown[1]}). {_REMEDY}"
            )
