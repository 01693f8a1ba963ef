"""Generates a catalogue and a stream of changes, runs a pipeline over them, and checks every view."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sparqlive
from examples.ecommerce.generate import generate
from examples.ecommerce.stream import write_stream
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import Job, start_spark
from sparqlive.pipeline.progress import Progress

_HERE = Path(__file__).parent


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.ecommerce", description=__doc__)
    parser.add_argument("--products", type=int, default=2_000, help="number of products (2000)")
    parser.add_argument("--files", type=int, default=4, help="number of files of changes (4)")
    parser.add_argument("--batches", type=int, default=10, help="batches per file (10)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated data (1)")
    parser.add_argument("--master", default="local[*]", help="Spark's master (local[*])")
    parser.add_argument("--directory", type=Path, help="keep all files here; default: a temporary directory")
    return parser.parse_args(given)


def make(folder: Path, options: argparse.Namespace, progress: Progress) -> None:
    """Writes the pipeline's file and queries, its data, and the files of changes."""
    shutil.copytree(_HERE / "queries", folder / "queries", dirs_exist_ok=True)
    shutil.copy(_HERE / "pipeline.toml", folder)
    spark = start_spark(options.master, progress)
    with progress.step(f"generating {options.products:,} products") as step:
        step.result = f"{generate(spark, options.products, folder / 'data', options.seed):,} triples"
    with progress.step("generating changes") as step:
        incoming = folder / "incoming"
        count = write_stream(incoming, options.products, options.files, options.batches, options.seed)
        step.result = f"{count:,} in {options.files * options.batches} batches"


def run(folder: Path, options: argparse.Namespace, progress: Progress) -> int:
    """Runs the pipeline over the generated files; returns the exit code."""
    if not (folder / "pipeline.toml").exists():
        make(folder, options, progress)
    pipeline = replace(read_pipeline(folder / "pipeline.toml"), master=options.master)
    with Job(pipeline, progress) as job:
        job.prepare()
        job.follow(once=True)
        try:
            with progress.step("recomputing every view"):
                job.session.check()
        except sparqlive.CheckFailed as error:
            progress.line(f"check: {error}")
            return 1
        failed = [name for name, view in job.session.views.items() if view.failure is not None]
        if failed:
            progress.line(f"check: these views failed: {', '.join(failed)}")
            return 1
        progress.line(f"check: {len(job.session.views)} views equal their recomputation")
        return 0


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    progress = Progress()
    try:
        if options.directory is not None:
            options.directory.mkdir(parents=True, exist_ok=True)
            return run(options.directory, options, progress)
        with tempfile.TemporaryDirectory(prefix="sparqlive-") as folder:
            return run(Path(folder), options, progress)
    except sparqlive.Error as error:
        print(f"sparqlive: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
