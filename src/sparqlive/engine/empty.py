"""Says why a result is empty: a predicate or class that the graphs it reads do not have.

Owns the reasons, for all surfaces. A reason is a proof: the plan has a leaf without which it has no rows, and
no quad of the leaf's graphs matches the leaf. So optional and negated parts are never a reason, and of
alternatives all have to be empty. Only empty results are searched, by a bounded number of lookups.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyoxigraph import Literal, NamedNode

from sparqlive.errors import EmptyResultWarning, Error
from sparqlive.live.once import reads_of, runnable, stream_once
from sparqlive.live.scan import scope_of
from sparqlive.live.terms import Terms
from sparqlive.plan import operators as op
from sparqlive.plan.description import described_by
from sparqlive.plan.rewrites.walk import bottom_up
from sparqlive.quads.scope import EVERY_GRAPH, OBJECT, PREDICATE, SUBJECT, Scope
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.deadline import within
from sparqlive.sparql.algebra import Term, Var, VarOrTerm

if TYPE_CHECKING:
    from sparqlive.engine.writer import Writer

_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_SECONDS = 0.5
"""The time limit of trying a query on all graphs. Lookups are bounded by what they read, not by the clock, so
that the same data always gives the same reasons."""
_MOST_ROWS = 50_000
"""Beyond this number of quads, objects are not searched, and no query is tried on all graphs."""
"""Beyond this number of pairs of graph and predicate, a subject is not looked up."""
_MOST_REASONS = 3
_INSIDE = ("sparqlive", "contextlib")
"""Modules that a warning does not point to: the package, and what decorates its functions."""
_LONGEST = 200
_USE_GRAPH = "Use GRAPH ?g { ... }, or a store whose default graph is the union of all graphs."
_BEYOND = (
    "The query would have rows over all graphs together, but it reads the default graph, which is the "
    f"unnamed graph alone. {_USE_GRAPH}"
)
_UNNAMED = op.OneGraph(None)
_NAMED = Scope("named", None)


class Reason(NamedTuple):
    """A fact about the data that explains a result without rows, and what to do about it."""

    fact: str
    advice: str


Reasons = tuple[Reason, ...]
"""Why an operator has no rows; if empty, no quads with these names could give it rows."""


def seems_empty(plan: op.Operator, rows: Sequence[tuple[Term | None, ...]]) -> bool:
    """Whether a result has no rows, or is a total of nothing; `rows`: all, or more than one."""
    if not rows:
        return True
    return len(rows) == 1 and any(map(_is_nothing, rows[0])) and _below_totals(op.kept_of(plan))[1]


def _is_nothing(term: Term | None) -> bool:
    """Whether a value is one that an aggregate has over no solutions."""
    return term is None or (isinstance(term, Literal) and term.value in ("0", ""))


def why_empty(writer: Writer, plan: op.Operator, epoch: int) -> str | None:
    """Explains a result of a plan at an epoch that `seems_empty`; None if it finds no reason.

    It does not explain a session without quads: they are still to come.
    """
    plan, is_total = _below_totals(op.kept_of(plan))
    described = described_by(plan)
    needed = plan if described is None else described[0]
    terms = writer.terms.extended()
    reads = reads_of(plan)
    names = any(isinstance(graph, op.OneGraph) and graph != _UNNAMED for graph, _ in reads)
    with ExitStack() as files:
        with writer.capturing():
            if not writer.quads.size or writer.epoch != epoch:
                return None
            quads = writer.quads.snapshot()
            sizes = quads.graph_sizes() if names else {}
            files.enter_context(writer.pinned())

        def has_more_rows() -> bool:
            is_empty = not is_total or not _has_rows(plan, quads, terms)
            return is_empty and _has_rows(bottom_up(_over_all_graphs, plan), quads, terms)

        try:
            reasons = _Search(quads, terms, sizes).reasons(needed)
            if reasons is not None:
                return _sentence(reasons)
            if not any(graph == _UNNAMED for graph, _ in reads) or not _is_worth_a_try(quads):
                return None
            return _BEYOND if within(_SECONDS, has_more_rows) else None
        except (Error, RecursionError):  # a result without rows is not worth an error
            return None


def _sentence(reasons: Reasons) -> str | None:
    if not reasons:
        return None
    facts = dict.fromkeys(reason.fact for reason in reasons[:_MOST_REASONS])
    return f"{' '.join(facts)} {reasons[0].advice}"


def _below_totals(plan: op.Operator) -> tuple[op.Operator, bool]:
    """The part below a plan's totals, and True; without totals, the plan and False.

    Totals are groups without keys; one such group exists even without solutions.
    """
    found = plan
    while isinstance(found, op.Project | op.Extend | op.Filter | op.Distinct | op.Window):
        found = found.source
    match found:
        case op.Group(op.Project(op.Union((counted, _))), ()):
            return counted, True
    return plan, False


def _over_all_graphs(operator: op.Operator) -> op.Operator:
    """A leaf of the unnamed graph as one of all graphs."""
    if isinstance(operator, op.Scan | op.Nodes) and operator.graph == _UNNAMED:
        return replace(operator, graph=op.MergedGraphs(None))
    return operator


def _is_worth_a_try(quads: Snapshot) -> bool:
    """Whether named graphs have quads, and all quads are few enough to try the query on them."""
    return quads.size <= _MOST_ROWS and any(True for _ in quads.matching(_NAMED, {}))


def _has_rows(plan: op.Operator, quads: Snapshot, terms: Terms) -> bool:
    return any(True for _ in stream_once(runnable(plan), quads, terms, first=True))


class _Search:
    """The search for reasons, on the quads of one epoch."""

    def __init__(self, quads: Snapshot, terms: Terms, graph_sizes: Mapping[int, int]) -> None:
        """`graph_sizes`: the sizes of all graphs, if the plan reads one by its name."""
        self._quads = quads
        self._graph_sizes = graph_sizes
        self._dictionary = terms.dictionary
        self._shared: dict[op.Shared, Reasons | None] = {}

    def reasons(self, plan: op.Operator) -> Reasons | None:
        """Why an operator has no rows; None if it may have some."""
        match plan:
            case op.Scan():
                return self._of_scan(plan)
            case op.Nodes() | op.Names():
                return self._missing(plan.graph, {}, "triples")
            case op.Table():
                return None if plan.rows else ()
            case op.Union():
                return self._all(plan.parts)
            case op.Shared():
                if plan not in self._shared:
                    self._shared[plan] = self.reasons(plan.source)
                return self._shared[plan]
        return self._any(plan.required)

    def _any(self, parts: Sequence[op.Operator]) -> Reasons | None:
        """The reasons of the first part that has some; the operator needs all parts."""
        found = None
        for part in parts:
            reasons = self.reasons(part)
            if reasons:
                return reasons
            found = found if reasons is None else reasons
        return found

    def _all(self, parts: Sequence[op.Operator]) -> Reasons | None:
        """The reasons of all parts, if each has some; the operator needs only one part."""
        found: list[Reason] = []
        for part in parts:
            reasons = self.reasons(part)
            if reasons is None:
                return None
            found += reasons
        return tuple(found)

    def _of_scan(self, scan: op.Scan) -> Reasons | None:
        """Looks for the predicate or class first, then for all terms of the pattern."""
        subject, predicate, object_ = scan.positions
        given = {SUBJECT: subject, PREDICATE: predicate, OBJECT: object_}
        terms: dict[int, Term] = {place: term for place, term in given.items() if not isinstance(term, Var)}
        if not terms:
            return self._missing(scan.graph, {}, "triples")
        named = {place: term for place, term in terms.items() if place == PREDICATE}
        what = f"the predicate {_shown(predicate)}"
        if predicate == _TYPE and isinstance(object_, NamedNode):
            named, what = {PREDICATE: _TYPE, OBJECT: object_}, f"the class {_shown(object_)}"
        found = self._missing(scan.graph, named, what, is_name=True) if named else None
        if found is not None or len(terms) == len(named):
            return found
        return self._missing(scan.graph, terms, f"a triple that matches {_pattern(scan.positions)}")

    def _missing(
        self, graph: op.GraphChoice, terms: Mapping[int, Term], what: str, is_name: bool = False
    ) -> Reasons | None:
        """Why no quad of some graphs has these terms; None if one has, or may have.

        `is_name`: whether a term is a name, which is probably misspelt if no graph has it.
        """
        known = {place: self._dictionary.find(term) for place, term in terms.items()}
        scope = scope_of(self._dictionary, graph)
        if self._has((scope,) if scope.kind != "merged" else _each(scope), known):
            return None
        if not self._has(EVERY_GRAPH, known):
            return (Reason(f"No triple has {what}.", "Check its prefix and spelling."),) if is_name else ()
        match graph:
            case op.OneGraph(None):
                fact = f"Only named graphs have {what}, and the query reads the default graph, which is the "
                return (Reason(f"{fact}unnamed graph alone.", _USE_GRAPH),)
            case op.OneGraph(name) if not any(map(scope.covers, self._graph_sizes)):
                return (Reason(f"Graph {_shown(name)} has no triples.", "Check its name."),)
            case op.NamedGraphs(_, None):
                fact = f"Only the unnamed graph has {what}, and the query reads named graphs."
                return (Reason(fact, "Leave out GRAPH."),)
        return ()  # the query names its graphs: they may well have other data

    def _has(self, scopes: Sequence[Scope], known: Mapping[int, int | None]) -> bool:
        """Whether some quad has these terms; also true if finding out would take long."""
        terms = {place: number for place, number in known.items() if number is not None}
        if len(terms) < len(known):  # no quad has a term that is unknown
            return False
        found = (self._quads.matching(scope, terms) for scope in scopes)
        return any(True for _ in chain.from_iterable(found))


def _each(merged: Scope) -> Sequence[Scope]:
    """The graphs of a merged scope, one by one."""
    if merged.graphs is None:
        return EVERY_GRAPH
    return [Scope("one", frozenset({graph})) for graph in merged.graphs]


def _pattern(positions: Sequence[VarOrTerm]) -> str:
    names = zip(("?s", "?p", "?o"), positions, strict=True)
    return " ".join(name if isinstance(term, Var) else _shown(term) for name, term in names)


def _shown(term: VarOrTerm | None) -> str:
    text = str(term)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def warn_empty(what: str, hint: str) -> None:
    """Warns the caller of the package that a result is empty.

    An empty result is no error, even where warnings are errors.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    with suppress(EmptyResultWarning):
        warnings.warn(f"{what} has no rows. {hint}", EmptyResultWarning, stacklevel=level)
