"""Random searches for cliffs of cost: changes that cost more than asking again, and sizes that cost too much.

`change_costs` keeps a random query as a view, and compares each change with the same query asked once.
`growth` doubles the number of parts of a random query, and compares registration, the query asked once, and
`check()`. Both count executed lines of Python, so a busy machine does not decide, and the same seed gives the
same numbers. `python -m tests.random_costs --minutes 10` goes on for as long as one likes, and prints the
worst seeds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pyoxigraph as ox

import sparqlive
from tests.random_nested import MOST_CHARACTERS, Maker
from tests.random_queries import PREDICATES, PROLOGUE

EX = "http://example.org/"
QUADS = 160
CHANGES = 24
MOST_LINES = 400_000
"""Queries that take longer are left out: they are products, whose changes are as large as they are."""
FORMS = (
    "?s :p{i} ?o{i} .",
    "?v{i} :p{m} ?v{j} .",
    "?s :p{i} {i} .",
    "OPTIONAL {{ ?s :p{i} ?o{i} }}",
    "OPTIONAL {{ ?v{i} :p{m} ?v{j} }}",
    "MINUS {{ ?s :p{i} ?x }}",
    "FILTER NOT EXISTS {{ ?s :p{i} ?x }}",
    "{{ ?s :p{i} ?x }} UNION {{ ?s :q{i} ?x }}",
    "FILTER(?v0 != {i})",
    "BIND(?v0 + {i} AS ?z{i})",
    "VALUES ?w{i} {{ {i} }}",
    "?s :p{i}/:p{j} ?o{i} .",
    "?s (:p{i}|:q{i}) ?o{i} .",
    "GRAPH :g{m} {{ ?s :p{i} ?o{i} }}",
)


class TooLongError(Exception):
    """An action executed more lines than it may."""


def lines_of(action: Callable[[], Any], most: int | None = None) -> int:
    """The number of lines of Python that an action executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if most is not None and count > most:
                raise TooLongError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


@dataclass(frozen=True)
class Costs:
    """The lines that changes of a view take, each with the rows that it changes, and the query asked once."""

    text: str
    changes: list[tuple[int, int]]
    once: int

    @property
    def worst(self) -> int:
        return max(lines for lines, _ in self.changes)

    @property
    def against_once(self) -> float:
        return self.worst / self.once

    @property
    def against_median(self) -> float:
        """The worst change per changed row against the median change."""
        usual = statistics.median(lines for lines, _ in self.changes)
        return max(lines / (1 + rows) for lines, rows in self.changes) / usual

    def __str__(self) -> str:
        return f"{self.worst:,} lines for a change, {self.once:,} for the query: {self.text}"


def _ordinary(pick: random.Random) -> str:
    """A query of a usual kind: some patterns, with OPTIONAL, UNION, filters or groups around others."""

    def triple() -> str:
        start, end = pick.sample("abcd", 2)
        return f"?{start} :{pick.choice('pqr')} ?{end} ."

    def compared() -> str:
        return f"FILTER(?{pick.choice('abcd')} {pick.choice(('<', '>', '=', '!='))} ?{pick.choice('abcd')})"

    def element(depth: int) -> str:
        inside = triple() + (f" {element(depth - 1)}" if depth and pick.random() < 0.6 else "")
        return pick.choice(
            (
                triple(),
                compared(),
                f"OPTIONAL {{ {inside} }}",
                f"OPTIONAL {{ {inside} {compared()} }}",
                f"OPTIONAL {{ {inside} OPTIONAL {{ {triple()} FILTER(?{pick.choice('abcd')} > 5) }} }}",
                f"MINUS {{ {inside} }}",
                f"FILTER NOT EXISTS {{ {inside} }}",
                f"{{ {inside} }} UNION {{ {triple()} }}",
                f"{{ SELECT ?a (COUNT(*) AS ?n) {{ {inside} }} GROUP BY ?a }}",
            )
        )

    body = " ".join([triple(), *(element(2) for _ in range(pick.randint(1, 3)))])
    head, tail = pick.choice(
        (
            ("*", ""),
            ("DISTINCT ?a", ""),
            ("?a ?b", "ORDER BY ?a LIMIT 5"),
            ("?a (COUNT(*) AS ?m)", "GROUP BY ?a"),
        )
    )
    return f"{PROLOGUE}SELECT {head} {{ {body} }} {tail}"


def _quad(pick: random.Random) -> ox.Quad:
    node = lambda: ox.NamedNode(f"{EX}n{pick.randrange(QUADS // 4)}")  # noqa: E731
    end = node() if pick.random() < 0.7 else ox.Literal(pick.randrange(20))
    return ox.Quad(node(), pick.choice(PREDICATES), end)


def change_costs(seed: int) -> Costs | None:
    """Costs of a random view; None if its query is one that is left out."""
    pick = random.Random(seed)
    text = _ordinary(pick) if seed % 2 else Maker(seed, depth=2).query()
    if len(text) > MOST_CHARACTERS:
        return None
    quads = list({_quad(pick): None for _ in range(QUADS)})
    with sparqlive.open() as session:
        session.load(quads[CHANGES:])
        try:
            session.query(text)  # which also compiles it
            once = lines_of(lambda: list(session.query(text)), MOST_LINES)
        except (sparqlive.SyntaxError, sparqlive.Unsupported, TooLongError):
            return None
        view = session.view("v", text)
        for quad in quads[:CHANGES]:  # code that is written late, and indexes
            session.apply(insert=[quad])
            session.apply(delete=[quad])
        changes = []
        for quad in quads[:CHANGES]:
            before = view.weights()
            lines = lines_of(lambda quad=quad: session.apply(insert=[quad]))  # type: ignore[misc]
            after = view.weights()
            rows = sum(abs(after.get(row, 0) - before.get(row, 0)) for row in {*before, *after})
            changes.append((lines, rows))
        return Costs(text, changes, once)


@dataclass(frozen=True)
class Growth:
    """How many times as many lines a query of twice as many parts takes."""

    forms: tuple[str, ...]
    registration: float
    once: float
    check: float

    @property
    def worst(self) -> float:
        return max(self.registration, self.once, self.check)


def growth(seed: int, parts: int = 30) -> Growth:
    pick = random.Random(seed)
    forms = tuple(pick.sample(FORMS, pick.randrange(1, 3)))
    small, large = (_sizes(forms, count) for count in (parts, 2 * parts))
    return Growth(forms, *(more / less for less, more in zip(small, large, strict=True)))


def _sizes(forms: tuple[str, ...], parts: int) -> tuple[int, int, int]:
    body = " ".join(forms[i % len(forms)].format(i=i, j=i + 1, m=i % 7) for i in range(parts))
    text = f"{PROLOGUE}SELECT * {{ ?s :p ?v0 . {body} }}"
    with sparqlive.open() as session:
        session.update(f"{PROLOGUE}INSERT DATA {{ :a :p 1 . :a :p0 1 . :a :p1 :b }}")
        registration = lines_of(lambda: session.view("v", text))
        return registration, lines_of(lambda: list(session.query(text))), lines_of(session.check)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="the first seed; those after it follow (default: at random)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", sparqlive.EmptyResultWarning)  # random queries are often empty
    seed = random.randrange(10**9) if options.seed is None else options.seed
    found: list[tuple[float, str]] = []
    start = time.monotonic()
    while time.monotonic() - start < options.minutes * 60:
        costs = change_costs(seed)
        if costs is not None:
            found.append((costs.against_once, f"seed {seed}: {costs}"))
            found.append((costs.against_median / 100, f"seed {seed}, against its median: {costs}"))
        if seed % 10 == 0:
            grown = growth(seed)
            found.append((grown.worst, f"seed {seed}: {grown}"))
        seed += 1
    for ratio, text in sorted(found, reverse=True)[:20]:
        print(f"{ratio:8.2f}  {text}")
    print(f"{len(found)} measured; the next seed is {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
