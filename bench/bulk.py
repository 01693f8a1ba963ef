"""Bulk work in process beside its limit: the same delta rules as hand-written SQL on DuckDB.

A graph with a star and a path of three patterns (`bench/large.py`). Measured are the first computation of
both views, and batches of changes: from encoded changes to the view's delta, which is compared with
hand-written SQL over the same columns in memory, and from N-Triples text to a durable commit, which is
compared with the same batch row by row. A first computation is measured until its sorted rows are in memory,
against SQL that makes the rows; and until the view is durable, against SQL that makes, sorts and writes them
as Parquet, and against SQL that only makes them. Loading is compared with pyoxigraph's `bulk_load`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
from pyoxigraph import NamedNode, Quad, RdfFormat, Store

import sparqlive
from bench.large import PREFIX, VIEWS, Graph
from bench.measure import Report, Sizes, duration, run_alone, same, timed
from sparqlive.live.terms import Terms
from sparqlive.quads.scope import Scope
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.zset.run import Run

SIZES = {"triples": (10_000_000, 300_000), "rounds": (3, 1), "largest": (1_000_000, 30_000)}
_ROW_BY_ROW = replace(DEFAULT, column_rows=1 << 40, column_bytes=1 << 40)
_PREDICATES = {"star": ("a", "b", "c"), "path": ("p", "q", "r")}
_WHOLE = {
    "star": "SELECT a.s, a.o AS x, b.o AS y, c.o AS z, 1 AS w "
    "FROM {a} a JOIN {b} b USING (s) JOIN {c} c USING (s)",
    "path": "SELECT a.s AS x, c.o AS y, count(*) AS w "
    "FROM {a} a JOIN {b} b ON a.o = b.s JOIN {c} c ON b.o = c.s GROUP BY ALL",
}
_DELTA = {
    "star": (
        "SELECT s, x, y, z, sum(w) AS w FROM ("
        "SELECT d.s, d.o AS x, b.o AS y, c.o AS z, w FROM d_{a} d JOIN {b} b USING (s) JOIN {c} c USING (s) "
        "UNION ALL SELECT d.s, a.o, d.o, c.o, w FROM d_{b} d JOIN n_{a} a USING (s) JOIN {c} c USING (s) "
        "UNION ALL SELECT d.s, a.o, b.o, d.o, w FROM d_{c} d JOIN n_{a} a USING (s) JOIN n_{b} b USING (s)) "
        "GROUP BY ALL HAVING sum(w) <> 0"
    ),
    "path": (
        "SELECT x, y, sum(w) AS w FROM ("
        "SELECT d.s AS x, c.o AS y, w FROM d_{a} d JOIN {b} b ON d.o = b.s JOIN {c} c ON b.o = c.s "
        "UNION ALL SELECT a.s, c.o, w FROM d_{b} d JOIN n_{a} a ON a.o = d.s JOIN {c} c ON d.o = c.s "
        "UNION ALL SELECT a.s, d.o, w FROM d_{c} d JOIN n_{b} b ON b.o = d.s JOIN n_{a} a ON a.o = b.s) "
        "GROUP BY ALL HAVING sum(w) <> 0"
    ),
}


def run(sizes: Sizes) -> Report:
    report = Report()
    graph = Graph(sizes["triples"])
    batches = [count for count in (1_000, 100_000, 1_000_000) if count <= sizes["largest"]]
    with tempfile.TemporaryDirectory(prefix="sparqlive-bulk-") as name:
        folder = Path(name)
        file = folder / "data.nt"
        graph.write(file)
        _measure_load(report, graph, file, folder)
        measured = list[tuple[str, tuple[str, str], float]]()
        with sparqlive.open(folder / "store") as session:
            for view in VIEWS:
                _measure_view(report, session, view, folder)
            for view in VIEWS:
                for count in batches:
                    texts, seconds = _measure_batch(report, session, graph, view, count, sizes["rounds"])
                    measured.append((f"{view}, {count:,} changes", texts, seconds))
        with sparqlive.Session(folder / "store", tuning=_ROW_BY_ROW) as session:
            for (what, texts, seconds), count in zip(measured, len(VIEWS) * batches, strict=True):
                before = _row_by_row(session, *texts)
                wanted = {100_000: 5.0, 1_000_000: 3.0}.get(count)
                report.ratio_at_least(f"{what}, text to durable, peer row by row", seconds, before, wanted)
    return report


def _measure_load(report: Report, graph: Graph, file: Path, folder: Path) -> None:
    """Files to a durable store, on all cores, in process."""

    def load() -> None:
        with sparqlive.open(folder / "store") as session:
            same("load", session.load(file).inserted, graph.triples)

    _, ours = timed(load)
    peer = Store(str(folder / "peer"))
    _, theirs = timed(lambda: peer.bulk_load(path=str(file), format=RdfFormat.N_TRIPLES))
    same("load", len(peer), graph.triples)
    report.ratio_at_least(f"load of {graph.triples:,} N-Triples, peer pyoxigraph", ours, theirs, 1)


def _measure_view(report: Report, session: sparqlive.Session, view: str, folder: Path) -> None:
    """Twice: the first time, the session also reads columns that it then keeps in memory."""
    register = partial(session.view, view, VIEWS[view], strategy="duckdb")
    _, seconds = timed(register)
    report.note(f"{view}: first computation, with columns read from files", duration(seconds))
    session.drop(view)
    registered, durable = timed(register)
    hand = _Hand(session, view)
    rows, theirs = timed(hand.whole)
    same(view, len(registered), rows)
    rows, ours = timed(partial(first_rows, session, view))
    same(view, len(registered), rows)
    _, written = timed(partial(hand.write, folder / "peer.parquet"))
    compare_first(report, f"{view}: first computation", (ours, durable), (theirs, written), 3)


def first_rows(session: sparqlive.Session, view: str) -> int:
    """Computes a registered view once more, with what its operators store: rows in sorted runs."""
    content, epochs = session.views[view]._state.content, session._writer
    terms = Terms(epochs.terms.dictionary.extended())
    compiled = content.compiled
    assert compiled is not None
    quads = epochs.quads.snapshot()
    contents = epochs.strategies.contents_on(quads, terms.dictionary, epochs.reading)
    result = contents([*compiled.state_sources().values(), compiled.plan])[-1]
    return result.length if isinstance(result, Run) else len(result)


def compare_first(
    report: Report, what: str, ours: tuple[float, float], theirs: tuple[float, float], wanted: float
) -> None:
    """`ours`, `theirs`: the seconds until there are rows, and until they are durable."""
    for name, mine, peer in (
        ("to sorted rows, peer hand-written SQL to rows", ours[0], theirs[0]),
        ("until it is durable, peer hand-written SQL to a sorted Parquet file", ours[1], theirs[1]),
        ("until it is durable, peer hand-written SQL to rows", ours[1], theirs[0]),
    ):
        report.ratio_at_most(f"{what}, {name}", mine, peer, mine / peer, wanted)


def _measure_batch(
    report: Report, session: sparqlive.Session, graph: Graph, view: str, count: int, rounds: int
) -> tuple[tuple[str, str], float]:
    """Each batch is carried and undone again, by columns and by hand.

    Returns the texts of the last one, and the median of the seconds until a batch is durable.
    """
    carried, whole, theirs = [], [], []
    texts: tuple[str, str] = ("", "")
    for number in range(rounds):
        deletes, inserts = graph.batch(view, count, seed=count + number)
        texts = _text(deletes), _text(inserts)
        hand = _Hand(session, view)
        hand.take(deletes, inserts)
        rows, seconds = timed(hand.delta)
        theirs.append(seconds)
        delete, insert = texts
        epoch, seconds = timed(partial(session.apply, insert=insert, delete=delete, strategy="duckdb"))
        same(f"{view}, {count:,}", len(epoch.deltas[view]), rows)
        carried.append(epoch.choices[view].seconds)
        whole.append(seconds)
        session.apply(insert=delete, delete=insert, strategy="duckdb")
    best, ours, peer = median(whole), median(carried), median(theirs)
    what = f"{view}, {count:,} changes"
    report.ratio_at_most(f"{what}, encoded to delta, peer hand-written SQL", ours, peer, ours / peer, 3)
    limit = {100_000: 2.0, 1_000_000: 12.0}.get(count)
    if limit is not None:
        report.at_most(f"{what}, text to durable", best, limit, duration)
    return texts, best


def _row_by_row(session: sparqlive.Session, delete: str, insert: str) -> float:
    """The same batch parsed, encoded, staged and carried one quad at a time."""
    _, seconds = timed(lambda: session.apply(insert=insert, delete=delete, strategy="live"))
    session.apply(insert=delete, delete=insert, strategy="live")
    return seconds


def _text(quads: Iterable[Quad]) -> str:
    return "".join(f"{quad} .\n" for quad in quads)


class _Hand:
    """SQL as one would write it for one view, over the columns that the session has in memory."""

    def __init__(self, session: sparqlive.Session, view: str) -> None:
        self._view = view
        self._id_of = session.terms.dictionary.id_of
        self._ids = {name: self._id_of(NamedNode(PREFIX + name)) for name in _PREDICATES[view]}
        self._connection = duckdb.connect()
        unnamed = Scope("one", frozenset({DEFAULT_GRAPH}))
        for name, number in self._ids.items():
            (table,) = session._writer.quads.tables(unnamed, number, after=False)
            self._register(name, {"s": table.subjects, "o": table.objects})

    def _register(self, name: str, columns: dict[str, Any]) -> None:
        self._connection.register(name, pa.table(columns))

    def whole(self) -> int:
        a, b, c = self._ids
        return int(self._connection.sql(_WHOLE[self._view].format(a=a, b=b, c=c)).to_arrow_table().num_rows)

    def write(self, path: Path) -> None:
        a, b, c = self._ids
        write_sorted(self._connection, _WHOLE[self._view].format(a=a, b=b, c=c), path)

    def take(self, deletes: Iterable[Quad], inserts: Iterable[Quad]) -> None:
        rows = [
            (self._id_of(quad.subject), self._id_of(quad.predicate), self._id_of(quad.object), weight)
            for weight, quads in ((-1, deletes), (1, inserts))
            for quad in quads
        ]
        columns = dict(zip("spow", map(pa.array, zip(*rows, strict=True)), strict=True))
        self._register("changes", columns)

    def delta(self) -> int:
        a, b, c = self._ids
        parts = ", ".join(
            f"d_{name} AS (SELECT s, o, w FROM changes WHERE p = {number}), n_{name} AS ("
            f"SELECT s, o FROM {name} ANTI JOIN (SELECT s, o FROM d_{name} WHERE w < 0) USING (s, o) "
            f"UNION ALL SELECT s, o FROM d_{name} WHERE w > 0)"
            for name, number in self._ids.items()
        )
        text = f"WITH {parts} {_DELTA[self._view].format(a=a, b=b, c=c)}"
        return int(self._connection.sql(text).to_arrow_table().num_rows)


def write_sorted(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Writes the rows of a query as the store writes a relation: sorted, compressed, synced."""
    connection.sql(
        f"COPY (SELECT * FROM ({query}) ORDER BY ALL) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
