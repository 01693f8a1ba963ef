"""Queries asked once: those that people type into a new endpoint, and the explore queries of BSBM.

Both sides have the data in memory, above a million triples in a store on disk, and answer to the last
solution. Each query is asked once before it is timed; the first time is in the table of details. The answers
are compared: all solutions, or for a LIMIT their number and that each is a solution. Times are processor time
of all threads.

`python -m bench.explore --triples 200000 10000000 --output bench/results/explore.md` measures catalogues of
several sizes and writes a page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyoxigraph import RdfFormat, Store

import sparqlive
from bench import bsbm_data
from bench.answers import check, ours, peers
from bench.explore_data import EXPLORATORY, GATHERED, MEASURED_BEFORE, PREFIXES, Query, bsbm, write
from bench.measure import AllSizes, Report, Sizes, duration, figures_table, middle, sizes_of, unjudged
from bench.provenance import command_of, provenance
from bench.text import markdown_table

SIZES: AllSizes = {"triples": (200_000, 5_000), "rounds": (5, 2)}
WANTED_RATIO = 2.0
WANTED_SECONDS = 1.0
_MOST_IN_MEMORY = 1_000_000
_FAIR_SECONDS = 0.001
"""Below this, both sides are fast enough, and their ratio says nothing."""


def run(sizes: Sizes) -> Report:
    return measured([sizes["triples"]], sizes["rounds"])


def measured(triples: Sequence[int], rounds: int) -> Report:
    """Catalogues of some sizes, then the data of BSBM."""
    report = Report(details=[["query", "first time", "ours", "pyoxigraph", "ratio"]])
    for size in triples:
        _compare_on_catalogue(report, size, rounds)
    if bsbm_data.file().exists():
        with sparqlive.open() as session:
            quads = bsbm_data.read()
            store = Store()
            store.bulk_extend(quads)
            session.load(quads)
            _compare(report, "BSBM", session, store, _bsbm_queries(store), rounds)
    else:
        report.remarks.append(f"explore: BSBM was not measured, because {bsbm_data.file()} does not exist.")
    return report


def _compare_on_catalogue(report: Report, triples: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, on_disk = Path(folder) / "catalogue.nt", triples > _MOST_IN_MEMORY
        write(path, triples)
        store = Store(f"{folder}/theirs") if on_disk else Store()
        store.bulk_load(path=str(path), format=RdfFormat.N_TRIPLES)
        with sparqlive.open(f"{folder}/ours" if on_disk else None) as session:
            session.load(path)
            queries = [
                Query(query.name, PREFIXES + query.text, query.answer, query.key, query.whole)
                for query in (*MEASURED_BEFORE, *EXPLORATORY, *GATHERED)
            ]
            _compare(report, f"{triples:,} triples", session, store, queries, rounds)


def _bsbm_queries(store: Store) -> list[Query]:
    """With the type and features of a product that has offers and reviews."""
    vocabulary = bsbm_data.VOCABULARY
    review, product = _first(store, f"?a <{vocabulary}reviewFor> ?b")
    offer, _ = _first(store, f"?a <{vocabulary}product> ?b FILTER(?b = {product})")
    kind, _ = _first(store, f"{product} a ?a, ?b FILTER(?a != <{vocabulary}Product> && ?b != ?a)")
    features = sorted(
        str(row[0]) for row in store.query(f"SELECT ?f {{ {product} <{vocabulary}productFeature> ?f }}")
    )
    first, second, third = features[:3]
    return bsbm(product, kind, (first, second, third), offer, review)


def _first(store: Store, pattern: str) -> tuple[str, str]:
    rows: Any = store.query(f"SELECT ?a ?b {{ {pattern} }} ORDER BY ?b ?a LIMIT 1")
    first, second = next(iter(rows))
    return str(first), str(second)


def _compare(
    report: Report, data: str, session: sparqlive.Session, store: Store, queries: list[Query], rounds: int
) -> None:
    worst, slowest = ("", 0.0), ("", 0.0)
    for query in queries:
        start = time.process_time()
        found = ours(session, query.text)
        first = time.process_time() - start
        check(store, query, found)
        mine, theirs = [], []
        for _ in range(rounds if first < WANTED_SECONDS else 1):
            mine.append(_timed(lambda text: ours(session, text), query.text))
            theirs.append(_timed(lambda text: peers(store, text), query.text))
        here, there = middle(mine), middle(theirs)
        ratio = here / there
        report.details.append(
            [f"{data}: {query.name}", duration(first), duration(here), duration(there), f"{ratio:.2g}×"]
        )
        if ratio > worst[1] and here > _FAIR_SECONDS:
            worst = (query.name, ratio)
        if here > slowest[1] and not query.whole:
            slowest = (query.name, here)
    report.at_most(f"{data}, worst ratio: {worst[0]}", worst[1], WANTED_RATIO, lambda value: f"{value:.2g}×")
    report.at_most(f"{data}, slowest: {slowest[0]}", slowest[1], WANTED_SECONDS, duration)


def _timed(action: Any, text: str) -> float:
    start = time.process_time()
    action(text)
    return time.process_time() - start


def page(report: Report, command: str) -> str:
    lines = [
        "# Queries asked once, measured",
        "",
        *provenance(command, ("sparqlive", "pyoxigraph", "duckdb")),
        "",
        "Processor time of all threads, medians; both sides took turns in one process. A catalogue of up to",
        f"{_MOST_IN_MEMORY:,} triples is in memory, a larger one in stores on disk. The first time includes",
        "parsing, planning and reading files. The worst ratio is that of queries that take more than",
        f"{duration(_FAIR_SECONDS)}; the slowest query leaves out those that read most of the data.",
        "",
        *figures_table(report.figures),
        "",
        *markdown_table(report.details),
        *(f"\n{remark}" for remark in report.remarks),
    ]
    return "\n".join(lines) + "\n"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    for name, (full, quick) in SIZES.items():
        several = "+" if name == "triples" else None
        parser.add_argument(f"--{name}", type=int, nargs=several, help=f"default {full:,}, quick {quick:,}")
    parser.add_argument("--output", type=Path, help="where to write the page")
    options = parser.parse_args(given)
    sizes = sizes_of(SIZES, options.quick)
    report = measured(options.triples or [sizes["triples"]], options.rounds or sizes["rounds"])
    text = page(
        unjudged(report) if options.quick else report,
        command_of("python -m bench.explore", sys.argv[1:] if given is None else given),
    )
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
