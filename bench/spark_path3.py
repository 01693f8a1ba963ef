"""The first computation of a path of three edges on Spark, against storing the pattern and its projection.

The graph of the counting paper's first experiment (§5.2.1) at p = 1/25: 65 million derivations of a million
pairs. The peer, DuckDB, does what the paper does: tables in memory, the triples as strings, first the
pattern's solutions as a table, then their projection with counts. Ours is `session.view(…, strategy="spark")`
on a store, until the view's rows are committed; it sums out the inner variables before the next join. Both
have two threads.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import duckdb
import pyarrow as pa

import sparqlive
from bench.local_spark import local_spark
from bench.measure import Report, Sizes, duration, middle, run_alone, same, span, timed, watched
from bench.path3 import QUERY, graph

SIZES = {"nodes": (1000, 100), "one_in": (25, 10), "rounds": (3, 1)}
WANTED = 3.0
BYTES_WANTED = 4 << 30
Measured = tuple[list[float], int, tuple[int, int, int]]
"""The seconds of each round, the most memory, and what the rows are."""

_THREADS = 2
_SEED = 25

_LINK = "<http://example.org/link>"
_PATTERN = f"""CREATE TABLE pattern AS
    SELECT a.s AS x, a.o AS z1, b.o AS z2, c.o AS y, a.k * b.k * c.k AS k
    FROM triples a JOIN triples b ON b.s = a.o JOIN triples c ON c.s = b.o
    WHERE a.p = '{_LINK}' AND b.p = '{_LINK}' AND c.p = '{_LINK}'"""
_PROJECTION = "CREATE TABLE projection AS SELECT x, y, sum(k)::BIGINT AS k FROM pattern GROUP BY x, y"


def triples(sizes: Sizes) -> list[tuple[str, str, str]]:
    edges = graph(sizes["nodes"], sizes["one_in"], random.Random(_SEED))
    return [(str(edge.subject), str(edge.predicate), str(edge.object)) for edge in edges]


def ours(sizes: Sizes) -> Measured:
    lines = [f"{' '.join(triple)} .\n" for triple in triples(sizes)]
    seconds, memory, found = [], 0, (0, 0, 0)
    with local_spark("2g") as spark, tempfile.TemporaryDirectory(prefix="sparqlive-path3-") as name:
        file = Path(name) / "edges.nt"
        file.write_text("".join(lines))
        for round_ in range(sizes["rounds"] + 1):
            with sparqlive.open(Path(name) / f"store-{round_}", spark=spark) as session:
                session.load(file)
                view, elapsed, most = watched(lambda: session.view("path", QUERY, strategy="spark"))
                seconds.append(elapsed)
                memory = max(memory, most)
                found = _summary(Counter(w for _, w in view._state.content.items()))
    return seconds, memory, found


def peer(sizes: Sizes) -> Measured:
    rows = triples(sizes)
    columns = dict(zip("spo", map(pa.array, zip(*rows, strict=True)), strict=True))
    table = pa.table({**columns, "k": pa.array([1] * len(rows), pa.int64())})
    seconds, memory, found = [], 0, (0, 0, 0)
    for _ in range(sizes["rounds"]):
        with duckdb.connect(":memory:", config={"threads": str(_THREADS)}) as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.register("given", table)
            connection.execute("CREATE TABLE triples AS SELECT * FROM given")

            def compute() -> None:
                connection.execute(_PATTERN)
                connection.execute(_PROJECTION)

            _, elapsed, most = watched(compute)
            seconds.append(elapsed)
            memory = max(memory, most)
            weights = connection.execute("SELECT k, count(*) FROM projection GROUP BY k").fetchall()
            found = _summary(Counter(dict(weights)))
    return seconds, memory, found


def _summary(weights: Counter[int]) -> tuple[int, int, int]:
    """Rows, derivations, and a number that tells most differences of the weights."""
    pairs = weights.items()
    return weights.total(), sum(w * n for w, n in pairs), sum(w * w * n for w, n in pairs)


def alone(target: Callable[[Sizes], Measured], sizes: Sizes) -> Measured:
    """In a process of its own, whose memory is nobody else's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(target, dict(sizes)).result()


def run(sizes: Sizes) -> Report:
    report = Report()
    (peer_seconds, peer_memory, expected), peer_all = timed(lambda: alone(peer, sizes))
    (seconds, memory, found), all_ = timed(lambda: alone(ours, sizes))
    same("spark_path3: rows, derivations, squares", found, expected)
    first, *warm = seconds
    name = f"path3 on Spark, p = 1/{sizes['one_in']}, first computation"
    report.ratio_at_least(name, middle(warm), middle(peer_seconds), WANTED)
    report.ratio_at_least(f"{name}, the first job of a new Spark session", first, middle(peer_seconds))
    report.at_most(f"{name}: memory", memory, BYTES_WANTED, lambda size: f"{size / 2**30:.2f} GiB")
    report.note(f"{name}: memory of the peer", f"{peer_memory / 2**30:.2f} GiB")
    report.remarks.append(
        f"spark_path3: {found[1]:,} derivations of {found[0]:,} rows; ours {span(warm)}, "
        f"peer {span(peer_seconds)}; in all {duration(all_)} and {duration(peer_all)}. Memory is that of the "
        f"process and its children, the JVM and Python workers included; the peer's is its one process."
    )
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
