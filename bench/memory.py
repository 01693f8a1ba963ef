"""Loads encoded triples into indexes in both directions: seconds for the load, bytes per triple."""

from __future__ import annotations

import gc

import numpy as np
import psutil

from bench.measure import Report, Sizes, duration, run_alone, same, timed
from sparqlive.quads.current import GRAPH, OBJECT, PREDICATE, SUBJECT, Quads
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.zset.columns import ColumnRows, last_rows

SIZES = {"triples": (10_000_000, 500_000), "predicates": (10, 10)}
SECONDS_WANTED = 20.0
BYTES_WANTED = 60.0


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def columns(triples: int, predicates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Ids are hashes: random 64-bit numbers, a few triples a subject and a few an object."""
    chance = np.random.default_rng(8)
    everything = np.iinfo(np.int64)
    pool = chance.integers(everything.min, everything.max, triples // 4, dtype=np.int64)
    names = chance.integers(everything.min, everything.max, predicates, dtype=np.int64)
    subjects, objects = (pool[chance.integers(0, len(pool), triples)] for _ in range(2))
    return subjects, names[chance.integers(0, predicates, triples)], objects, names.tolist()


def loaded(quads: Quads, sizes: Sizes) -> float:
    """Fills the quads; the columns that they are made of are forgotten."""
    subjects, predicates, objects, names = columns(sizes["triples"], sizes["predicates"])

    def load() -> None:
        whole = np.full(len(subjects), DEFAULT_GRAPH), np.ones(len(subjects), np.int64)
        rows = ColumnRows((subjects, predicates, objects, *whole))
        quads.add(last_rows(rows, by=(PREDICATE, GRAPH, SUBJECT, OBJECT)))
        for name in names:
            quads.inverse(DEFAULT_GRAPH, name)

    elapsed = timed(load)[1]
    for place in range(0, len(subjects), len(subjects) // 100):
        subject, name, object_ = (int(column[place]) for column in (subjects, predicates, objects))
        same("memory", object_ in (quads.pairs(DEFAULT_GRAPH, name).before(subject) or ()), True)
        same("memory", subject in (quads.inverse(DEFAULT_GRAPH, name).before(object_) or ()), True)
    return elapsed


def run(sizes: Sizes) -> Report:
    report = Report()
    quads = Quads()
    before = resident_bytes()
    elapsed = loaded(quads, sizes)
    growth = (resident_bytes() - before) / quads.size
    counted = quads.nbytes / quads.size
    name = f"memory, {sizes['triples']:,} encoded triples, both directions"
    report.at_most(f"{name}: load", elapsed, SECONDS_WANTED, duration)
    report.at_most(f"{name}: growth of the process", growth, BYTES_WANTED, lambda b: f"{b:.1f} B a triple")
    report.note(f"{name}: as the indexes count themselves", f"{counted:.1f} B a triple")
    report.remarks.append(
        f"memory: {quads.size:,} distinct triples of {sizes['predicates']} predicates; no dictionary."
    )
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
