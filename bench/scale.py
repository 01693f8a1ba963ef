"""Measures a store of orders: load, first computation, batches, check, compaction.

By default the views stay in files; with `--strategy auto --bulk spark --memory 8GB`, Spark does the bulk work
for views that are held.

Prints a line per step: seconds, processor time (with that of Spark), and the anonymous memory of this process
(on Spark, the driver's) after the step and at most so far.
`python -m bench.scale --triples 30000000 --strategy duckdb --memory 1GB` measures one size; `bench.scale_all`
measures all of them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import sparqlive
from bench.measure import anonymous_bytes
from bench.orders import PREFIX, VIEWS, Catalogue
from sparqlive.spark import register as register_formats

_TRIPLES_PER_ORDER = 2.5
_LARGEST_TEXT = 100_000
"""Triples of a batch that is given as text; larger ones are files, on Spark DataFrames."""


class Memory:
    """Looks at the process's anonymous memory from time to time."""

    def __init__(self) -> None:
        self.peak = 0
        self._stopped = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._stopped.wait(0.05):
            self.peak = max(self.peak, anonymous_bytes())

    def stop(self) -> None:
        self._stopped.set()


def processor_seconds() -> float:
    """The processor time of this process and of those that it started and that are running."""
    found = time.process_time()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += sum(child.cpu_times()[:2])
    return found


class Steps:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.measured: list[dict[str, Any]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), processor_seconds()
        yield
        seconds, own = time.perf_counter() - wall, processor_seconds() - cpu
        now, peak = anonymous_bytes() >> 20, self._memory.peak >> 20
        print(f"{name:32} {seconds:9.2f} s {own:9.2f} s CPU {now:7} MiB, at most {peak:7} MiB", flush=True)
        self.measured.append(
            {
                "step": name,
                "seconds": seconds,
                "processor_seconds": own,
                "mebibytes": now,
                "most_mebibytes": peak,
                "load": os.getloadavg()[0],
            }
        )


def measure(store: str, catalogue: Catalogue, text: Path, arguments: argparse.Namespace) -> None:
    memory = Memory()
    steps = Steps(memory)
    bulk = arguments.bulk or ("auto" if arguments.strategy == "spark" else "duckdb")
    spark: Any = None if bulk == "duckdb" else "local[*]"
    with sparqlive.open(store, memory=arguments.memory, spark=spark, bulk=bulk) as session:
        if not len(session):
            with steps.step("load"):
                session.load(str(text))
        if spark and not arguments.cold:  # Java compiles what runs often: the second time is much faster
            register(session, steps, arguments.strategy, "first computation, cold")
            for name in VIEWS:
                session.drop(name)
        what = "first computation, cold" if arguments.cold else "first computation"
        register(session, steps, arguments.strategy, what)
        batches(session, catalogue, steps, text.parent.as_posix(), arguments)
        for name in VIEWS:
            with steps.step(f"{len(session.views[name]):,} solutions of {name}"):
                assert sum(1 for _ in session.views[name]._state.content.items()) > 0
        if arguments.check:
            with steps.step("check"):
                session.check()
            with steps.step("compact"):
                session.compact()
    memory.stop()
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(steps.measured))


def register(session: sparqlive.Session, steps: Steps, strategy: Any, what: str) -> None:
    for name, query in VIEWS.items():
        with steps.step(f"{what}: {name}"):
            session.view(name, f"PREFIX : <{PREFIX}> {query}", strategy=strategy)


def batches(
    session: sparqlive.Session, catalogue: Catalogue, steps: Steps, folder: str, arguments: Any
) -> None:
    number = 1_000_000
    for size in arguments.batches:
        for _ in range(arguments.repeat):
            orders = max(1, int(size / _TRIPLES_PER_ORDER))
            number += orders
            batch, forced = number // orders, arguments.forced
            if size <= _LARGEST_TEXT:
                commit = partial(session.apply, insert=catalogue.new_orders(orders, batch), strategy=forced)
            elif arguments.strategy == "spark":
                frame = frame_of(file_of(catalogue, orders, batch, folder))
                commit = partial(session.apply, insert=frame, strategy=forced)
            else:
                commit = partial(session.load, file_of(catalogue, orders, batch, folder))
            with steps.step(f"batch of {size:,}"):
                epoch = commit()
            assert epoch.inserted > 0


def file_of(catalogue: Catalogue, orders: int, batch: int, folder: str) -> Path:
    """New orders as a file, which another process writes, so that this one has no text."""
    path = Path(folder) / f"batch-{batch}.nt"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        other.submit(write_batch, catalogue, orders, batch, path).result()
    return path


def frame_of(path: Path) -> Any:
    """A file as a DataFrame of Spark."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    register_formats(spark)
    return spark.read.format("rdf").load(str(path))


def write_batch(catalogue: Catalogue, orders: int, batch: int, path: Path) -> None:
    path.write_text(catalogue.new_orders(orders, batch))


def main(arguments: argparse.Namespace) -> None:
    catalogue = Catalogue(arguments.triples)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        text = Path(arguments.text or f"{folder}/orders.nt")
        if not text.exists():
            catalogue.write(text)
        measure(arguments.store or f"{folder}/store", catalogue, text, arguments)


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add: Callable[..., Any] = parser.add_argument
    add("--triples", type=int, default=3_000_000)
    add("--strategy", choices=("duckdb", "spark", "auto"), default="duckdb", help="for first computations")
    add("--forced", choices=("duckdb", "spark", "auto", "rebuild"), default="auto", help="for batches")
    add("--bulk", choices=("duckdb", "spark", "auto"), help="of the session; auto with --strategy spark")
    add("--memory", default="0")
    add("--batches", type=int, nargs="*", default=[100, 10_000, 1_000_000])
    add("--repeat", type=int, default=3)
    add("--check", action="store_true")
    add("--cold", action="store_true", help="first computations only once, when Spark has just started")
    add("--json", help="a file for the figures")
    add("--folder", help="for the text and the store, which are removed afterwards")
    add("--text", help="an N-Triples file of an earlier run with as many triples")
    add("--store", help="a store that is kept")
    return parser.parse_args(given)


if __name__ == "__main__":
    main(parsed())
