"""Measures DataFrames in and out of a store: rows become an epoch, a view becomes a DataFrame.

Prints a line per step: seconds, and the anonymous memory of the driver's Python process after the step and at
most so far. `python -m bench.frames --output bench/results/frames.md` also writes them as a page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import sparqlive
from bench.provenance import command_of, provenance
from bench.scale import Memory, Steps
from bench.text import markdown_table
from sparqlive.bulk.backends.spark.start import start_session

WANTED_MEGABYTES = 400
VIEW = "SELECT ?s ?n { ?s <http://example.org/number> ?n }"


def main(arguments: argparse.Namespace) -> None:
    memory = Memory()
    steps = Steps(memory)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        with steps.step("start Spark"):
            spark = start_session(arguments.master)
            spark.range(1).count()
        # The first rows have the predicate that the view reads.
        rows = spark.range(0, arguments.rows, 1, arguments.partitions).selectExpr(
            "concat('<http://example.org/', id, '>') AS s",
            f"if(id < {arguments.view}, '<http://example.org/number>', '<http://example.org/other>') AS p",
            "concat('\"', id, '\"^^<http://www.w3.org/2001/XMLSchema#integer>') AS o",
        )
        with sparqlive.open(f"{folder}/store", spark=spark, memory=0) as session:
            with steps.step(f"load {arguments.rows:,} rows"):
                epoch = session.load(rows)
            assert epoch.inserted == arguments.rows
            with steps.step(f"compute a view of {arguments.view:,}"):
                view = session.view("numbers", VIEW, strategy=arguments.strategy)
            with steps.step("to_spark, which finds the types"):
                frame = view.to_spark()
            assert frame.dtypes == [("s", "string"), ("n", "bigint")]
            with steps.step("sum of the DataFrame"):
                [(total, count)] = frame.selectExpr("sum(n)", "count(*)").collect()
            assert (total, count) == (arguments.view * (arguments.view - 1) // 2, arguments.view)
            with steps.step(f"apply {arguments.changes:,} rows"):
                session.apply(changes=rows.limit(arguments.changes).selectExpr("s", "p", "o", "'-' AS op"))
    memory.stop()
    if arguments.output:
        arguments.output.write_text(page(steps, command_of("python -m bench.frames", sys.argv[1:])))


def page(steps: Steps, command: str) -> str:
    """The steps as a table, and whether the driver's memory stayed below what is wanted."""
    most = steps.measured[-1]["most_mebibytes"] * (1 << 20) / 1e6
    rows = [["step", "seconds", "processor time", "memory after it", "at most so far"]]
    for one in steps.measured:
        times = [f"{one[name]:.1f} s" for name in ("seconds", "processor_seconds")]
        sizes = [f"{one[name]} MiB" for name in ("mebibytes", "most_mebibytes")]
        rows.append([one["step"], *times, *sizes])
    return "\n".join(
        [
            "# DataFrames in and out of a store, measured\n",
            f"The driver's Python process had at most {most:.0f} MB of anonymous memory. Wanted: less than "
            f"{WANTED_MEGABYTES} MB; reached: {'yes' if most < WANTED_MEGABYTES else 'no'}.\n",
            *markdown_table(rows),
            "",
            *provenance(command, ("sparqlive", "pyspark", "pyarrow", "duckdb")),
            "",
        ]
    )


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--view", type=int, default=3_000_000, help="rows of the view")
    parser.add_argument("--changes", type=int, default=10_000, help="rows that are deleted at the end")
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--strategy", choices=("duckdb", "spark"), default="duckdb")
    parser.add_argument("--folder", help="for the store, which is removed afterwards")
    parser.add_argument("--output", type=Path, help="where to write the page")
    return parser.parse_args(given)


if __name__ == "__main__":
    main(parsed())
