"""One query under some updates, by every method: from scratch and incrementally, with equal results.

Owns the clock. Invariant: after each update, all methods must have the same result, or the run stops.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pyoxigraph import Quad, RdfFormat, parse

import sparqlive
from bench.measure import same, timed
from bench.paper.counting import Bgp, Counting, Filter, LeftJoin, Minus, Pattern, Project, Sum, Union, sparql

OURS = ("live", "duckdb", "spark")
COUNTING = ("counting", "counting, as published")
METHODS = (*OURS, *COUNTING)
"""Ours by strategy; the paper's method, tuned and as the paper writes it."""


@dataclass(frozen=True)
class Update:
    name: str
    deletes: Sequence[str]
    inserts: Sequence[str]
    """Lines of N-Triples."""


@dataclass(frozen=True)
class Case:
    """`query` and `pattern` are the same, for ours and for the paper's method."""

    name: str
    lines: Sequence[str]
    query: str
    pattern: Pattern
    updates: Sequence[Update]


@dataclass
class Timing:
    """Seconds of one method for one update, median of the rounds."""

    scratch: float = 0.0
    incremental: float = 0.0


@dataclass
class Measured:
    """What a case cost."""

    timings: dict[tuple[str, str], Timing] = field(default_factory=dict)
    """By update and method."""
    result_rows: int = 0
    pattern_rows: int = 0
    stored_rows: int = 0
    """Of the paper's method: rows of the lowest pattern, and of all operators."""
    state_bytes: int = 0
    """Of our view, with all that its operators keep."""
    operators: dict[str, list[tuple[str, float, float]]] = field(default_factory=dict)
    """For each update, the paper's operators, tuned: label, seconds from scratch and incrementally."""


def measure(case: Case, methods: Sequence[str], rounds: int) -> Measured:
    found = Measured()
    results: dict[str, Any] = {}
    for method in methods:
        run = _ours if method in OURS else _counting
        print(f"  {case.name}: {method}", flush=True)
        for update, result in run(case, method, rounds, found):
            key = f"{case.name}, {update}"
            same(f"{key}, {method} and the method before", result, results.setdefault(key, result))
    return found


@contextmanager
def _session(lines: Sequence[str]) -> Iterator[sparqlive.Session]:
    with tempfile.TemporaryDirectory(prefix="sparqlive-paper-") as folder, sparqlive.open() as session:
        file = Path(folder) / "graph.nt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        session.load(file)
        yield session


def _ours(case: Case, method: Any, rounds: int, found: Measured) -> Iterator[tuple[str, Any]]:
    with _session(case.lines) as session:
        session.view("view", case.query, strategy=method)
        for update in case.updates:
            deletes, inserts = _quads(update.deletes), _quads(update.inserts)
            scratch, incremental = [], []
            for number in range(rounds):
                if number:
                    session.apply(delete=inserts, insert=deletes)
                _, seconds = timed(
                    lambda: session.apply(delete=deletes, insert=inserts, strategy=method).deltas["view"]  # noqa: B023
                )
                incremental.append(seconds)
                view = session.views["view"]
                before = _weights(view) if number == rounds - 1 else None
                session.drop("view")
                view, seconds = timed(lambda: session.view("view", case.query, strategy=method))
                scratch.append(seconds)
                if before is not None:
                    same(f"{case.name}, {update.name}, {method} from scratch", _weights(view) == before, True)
                    found.result_rows = len(before)
                    found.state_bytes = max(found.state_bytes, view.stats()["state_bytes"])
                    yield update.name, before
            found.timings[update.name, method] = Timing(median(scratch), median(incremental))


def prefixes(case: Case, rounds: int) -> dict[str, list[Timing]]:
    """Ours keeps no result per operator. So each operator is measured as a view of the pattern up to it.

    Carried live; for each operator by its label, a timing per update.
    """
    found: dict[str, list[Timing]] = {}
    for pattern in _subpatterns(case.pattern):
        part = Case(case.name, case.lines, f"SELECT * {sparql(pattern)}", pattern, case.updates)
        measured = Measured()
        for _ in _ours(part, "live", rounds, measured):
            pass
        found[pattern.label] = list(measured.timings.values())
    return found


def _subpatterns(pattern: Pattern) -> Iterator[Pattern]:
    """Those below first, as operators are listed."""
    match pattern:
        case Bgp() | Sum():
            pass
        case Filter(child) | Project(child):
            yield from _subpatterns(child)
        case Union(left, right) | Minus(left, right) | LeftJoin(left, right):
            yield from _subpatterns(left)
            yield from _subpatterns(right)
    yield pattern


def _counting(case: Case, method: str, rounds: int, found: Measured) -> Iterator[tuple[str, Any]]:
    published = method != "counting"
    counting = Counting([_triple(line) for line in case.lines], case.pattern, published=published)
    counting.compute()
    variables = _variables(case)
    for update in case.updates:
        deletes, inserts = [_triple(x) for x in update.deletes], [_triple(x) for x in update.inserts]
        scratch, incremental = [], []
        for number in range(rounds):
            if number:
                counting.update(inserts, deletes)
            incremental.append(counting.update(deletes, inserts))
            by_update = [operator.seconds for operator in counting.operators]
            after = counting.weights(variables) if number == rounds - 1 else None
            found.stored_rows = max(found.stored_rows, counting.rows())
            found.pattern_rows = max(found.pattern_rows, counting.rows(counting.operators[0]))
            scratch.append(counting.compute())
            if after is not None:
                same(
                    f"{case.name}, {update.name}, {method} from scratch",
                    counting.weights(variables) == after,
                    True,
                )
                yield update.name, after
        found.timings[update.name, method] = Timing(median(scratch), median(incremental))
        if not published:
            found.operators[update.name] = [
                (operator.pattern.label, operator.seconds, seconds)
                for operator, seconds in zip(counting.operators, by_update, strict=True)
            ]
    counting.close()


def _variables(case: Case) -> tuple[str, ...]:
    with sparqlive.open() as session:
        return tuple(session.view("view", case.query).variables)


def _quads(lines: Sequence[str]) -> list[Quad]:
    return list(parse("\n".join(lines), RdfFormat.N_TRIPLES))


def _weights(view: sparqlive.View) -> dict[tuple[Any, ...], int]:
    """With terms as text. Sums are numbers, as in the paper's method."""
    summed = "total" in view.variables
    return {
        tuple(
            None if term is None else int(term.value) if summed and number else str(term)
            for number, term in enumerate(row)
        ): weight
        for row, weight in view.weights().items()
    }


def _triple(line: str) -> tuple[str, str, str]:
    subject, predicate, object_ = line.rstrip(" .\n").split(" ", 2)
    return subject, predicate, object_
