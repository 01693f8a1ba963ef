"""One query under some updates, by one method: from scratch and incrementally.

Owns the clock. Invariant: after each update, the result from scratch has the checksum of the incremental one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import Quad, RdfFormat, parse

import sparqlive
from bench.measure import same, timed
from bench.paper.counting import Bgp, Counting, Pattern, Triple, digest

OURS = ("live", "duckdb", "spark")
COUNTING = ("counting", "counting, as published")
METHODS = (*OURS, *COUNTING)
"""Ours by strategy; the paper's method, tuned and as the paper writes it."""
_VIEW = "view"


@dataclass(frozen=True)
class Update:
    """Lines of N-Triples that go and that come."""

    name: str
    deletes: Sequence[str]
    inserts: Sequence[str]


@dataclass(frozen=True)
class Case:
    """`query` and `pattern` are the same, for ours and for the paper's method."""

    name: str
    query: str
    pattern: Pattern
    updates: Sequence[Update]


class Method(Protocol):
    """A way to keep one query over a graph. `load` comes first, then `begin` and `end` for each case."""

    def load(self, file: Path) -> None: ...
    def begin(self, case: Case) -> None: ...
    def update(self, deletes: Sequence[str], inserts: Sequence[str]) -> float:
        """Carries a change of the graph. Returns the seconds."""

    def change(self, deletes: Sequence[str], inserts: Sequence[str]) -> None:
        """Carries a change in any way."""

    def scratch(self) -> float:
        """Computes everything again. Returns the seconds."""

    def checksum(self) -> str: ...
    def facts(self) -> dict[str, Any]:
        """What is stored for the case, and of the paper's method the times of each operator."""

    def end(self) -> None: ...
    def close(self) -> None: ...


def method_of(name: str) -> Method:
    return _Ours(name) if name in OURS else _Paper(published=name != "counting")


def measure(method: Method, case: Case, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """An entry for each update. The first round is always finished; others only if it is within `seconds`.

    The method has begun the case. At the end, the graph is as before.
    """
    net: Counter[str] = Counter()
    for update in case.updates:
        start = time.perf_counter()
        scratch, incremental = [], []
        while not scratch or (
            len(scratch) < rounds
            and (time.perf_counter() - start) * (len(scratch) + 1) < seconds * len(scratch)
        ):
            if scratch:
                method.change(update.inserts, update.deletes)
            incremental.append(method.update(update.deletes, update.inserts))
            before = "" if scratch else method.checksum()
            scratch.append(method.scratch())
            if before:
                same(f"{case.name}, {update.name}, from scratch", method.checksum(), before)
                checksum = before
        net.update(update.inserts)
        net.subtract(update.deletes)
        yield {
            "update": update.name,
            "changes": len(update.deletes) + len(update.inserts),
            "scratch": median(scratch),
            "incremental": median(incremental),
            "rounds": len(scratch),
            "checksum": checksum,
            **method.facts(),
        }
    back = [[line for line, count in net.items() if count == sign] for sign in (1, -1)]
    if any(back):
        method.change(*back)
    method.end()


class _Ours:
    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self._session = sparqlive.open()
        self._query = ""

    def load(self, file: Path) -> None:
        self._session.load(file)
        if self._strategy == "spark":  # it starts before the clock does
            self._session.view(_VIEW, "SELECT * { ?none a <urn:none> }", strategy="spark")
            self.end()

    def begin(self, case: Case) -> None:
        self._query = case.query
        self.scratch()

    def update(self, deletes: Sequence[str], inserts: Sequence[str]) -> float:
        gone, new = _quads(deletes), _quads(inserts)
        _, seconds = timed(
            lambda: self._session.apply(delete=gone, insert=new, strategy=self._strategy).deltas[_VIEW]
        )
        return seconds

    def change(self, deletes: Sequence[str], inserts: Sequence[str]) -> None:
        self._session.apply(delete=_quads(deletes), insert=_quads(inserts))

    def scratch(self) -> float:
        self.end()
        _, seconds = timed(lambda: self._session.view(_VIEW, self._query, strategy=self._strategy))
        return seconds

    def checksum(self) -> str:
        view = self._session.views[_VIEW]
        table = view.to_arrow(typed=False, weights=True)
        with duckdb.connect() as connection:
            connection.register("given", table)
            return digest(connection, "SELECT * FROM given", view.variables, "_weight")

    def facts(self) -> dict[str, Any]:
        view = self._session.views[_VIEW]
        return {"result_rows": view._state.content.row_count(), "state_bytes": view.stats()["state_bytes"]}

    def end(self) -> None:
        if _VIEW in self._session.views:
            self._session.drop(_VIEW)

    def close(self) -> None:
        self._session.close()


class _Paper:
    def __init__(self, *, published: bool) -> None:
        self._published = published
        self._counting: Counting | None = None
        self._incremental: list[float] = []
        self._variables: tuple[str, ...] = ()

    def load(self, file: Path) -> None:
        columns = pc.split_pattern(pa.array(file.read_text(encoding="utf-8").splitlines()), " ", max_splits=2)
        texts = [pc.list_element(columns, place) for place in range(3)]
        texts[2] = pc.utf8_slice_codeunits(texts[2], 0, -2)  # without " ."
        table = pa.table([*texts, pa.array([1] * len(texts[0]), pa.int64())], list("spok"))
        nothing = Bgp((("?s", "?p", "?o"),))
        self._counting = Counting(table, nothing, published=self._published)

    @property
    def _it(self) -> Counting:
        assert self._counting is not None
        return self._counting

    def begin(self, case: Case) -> None:
        with sparqlive.open() as session:
            self._variables = tuple(session.view(_VIEW, case.query).variables)
        self._it.replace(case.pattern)
        self._it.compute()

    def update(self, deletes: Sequence[str], inserts: Sequence[str]) -> float:
        seconds = self._it.update([_triple(line) for line in deletes], [_triple(line) for line in inserts])
        self._incremental = [operator.seconds for operator in self._it.operators]
        return seconds

    def change(self, deletes: Sequence[str], inserts: Sequence[str]) -> None:
        self.update(deletes, inserts)

    def scratch(self) -> float:
        return self._it.compute()

    def checksum(self) -> str:
        return self._it.checksum(self._variables)

    def facts(self) -> dict[str, Any]:
        operators = zip(self._it.operators, self._incremental, strict=True)
        return {
            "stored_rows": self._it.rows(),
            "pattern_rows": self._it.rows(self._it.operators[0]),
            "operators": [
                [operator.pattern.label, operator.seconds, seconds] for operator, seconds in operators
            ],
        }

    def end(self) -> None: ...

    def close(self) -> None:
        self._it.close()


def _quads(lines: Sequence[str]) -> list[Quad]:
    return list(parse("\n".join(lines), RdfFormat.N_TRIPLES))


def _triple(line: str) -> Triple:
    subject, predicate, object_ = line.rstrip(" .\n").split(" ", 2)
    return subject, predicate, object_
