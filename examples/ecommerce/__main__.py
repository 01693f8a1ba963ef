"""A pipeline on a local Spark: a million triples, five views, a stream of changes, sinks, a check.

`pipeline.toml` beside this file is the pipeline; `sparqlive run pipeline.toml` runs one of your own. This
program generates the data first, and prints a summary at the end.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sparqlive
from examples.ecommerce.generate import generate
from examples.ecommerce.stream import write_stream
from examples.ecommerce.summary import Summary
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import Job, start_spark
from sparqlive.pipeline.progress import Progress

_HERE = Path(__file__).parent


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.ecommerce", description=__doc__)
    parser.add_argument("--products", type=int, default=44_000, help="number of products (44000)")
    parser.add_argument("--batches", type=int, default=12, help="small batches per file of changes (12)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated data (1)")
    parser.add_argument("--master", default="local[*]", help="Spark's master (local[*])")
    parser.add_argument("--directory", type=Path, default=Path("shop-run"), help="folder (shop-run)")
    return parser.parse_args(given)


def make(folder: Path, options: argparse.Namespace, progress: Progress) -> None:
    """Writes the pipeline's file and queries, its data, and the files of changes."""
    spark = start_spark(options.master, progress)
    with progress.step(f"generating {options.products:,} products") as step:
        step.result = f"{generate(spark, options.products, folder / 'data', options.seed):,} triples"
    with progress.step("generating changes") as step:
        count = write_stream(folder / "incoming", options.products, options.batches, options.seed)
        step.result = f"{count:,} in files of small and large batches"
    shutil.copytree(_HERE / "queries", folder / "queries", dirs_exist_ok=True)
    shutil.copy(_HERE / "pipeline.toml", folder)


def run(folder: Path, options: argparse.Namespace, progress: Progress) -> None:
    """Runs the pipeline over the generated files, and checks every view."""
    pipeline = replace(read_pipeline(folder / "pipeline.toml"), master=options.master)
    summary = Summary()
    with Job(pipeline, progress, observer=summary.add) as job:
        job.prepare()
        job.follow(once=True)
        with progress.step("recomputing every view") as step:
            checked = job.session.check()  # raises CheckFailed with the rows that differ
            others = sorted({name for names in checked.values() for name in names})
            step.result = f"{len(checked)} views equal their recomputation by {' and '.join(others)}"
        failed = [view.failure for view in job.session.views.values() if view.failure is not None]
        if failed:
            raise sparqlive.ViewFailed(failed[0])
        summary.print(job.session)


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    progress, start = Progress(), time.monotonic()
    folder: Path = options.directory
    try:
        if not (folder / "pipeline.toml").exists():
            folder.mkdir(parents=True, exist_ok=True)
            make(folder, options, progress)
        run(folder, options, progress)
    except sparqlive.Error as error:
        print(f"sparqlive: {error}", file=sys.stderr)
        return 1
    progress.line(
        f"""
Done in {time.monotonic() - start:.0f} s. Everything is in {folder}/. Next:
  sparqlive serve --store {folder}/shop.store      the same views on a page, at http://127.0.0.1:8080/
  sparqlive explain --store {folder}/shop.store hop
  head -2 {folder}/out/features.jsonl              what a sink wrote; out/hop is a Delta Lake table
  sparqlive run {folder}/pipeline.toml             follows {folder}/incoming; move a file of changes there
The pipeline: examples/ecommerce/pipeline.toml. The tutorial: docs/tutorial.md."""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
