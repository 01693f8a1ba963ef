"""The command `run`: runs a pipeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import sparqlive
from sparqlive.cli.output import signed_row
from sparqlive.engine.epoch import Epoch
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import run_pipeline
from sparqlive.pipeline.progress import Progress


def run(
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE", help="Pipeline file (pipeline.toml).")],
    once: Annotated[bool, typer.Option("--once", help="Apply the changes available now, then exit.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; overrides the one in the file.")
    ] = None,
    show: Annotated[
        list[str] | None, typer.Option(metavar="VIEW", help="Print the rows of this view as they change.")
    ] = None,
) -> None:
    """Run a pipeline: data, views, sources and sinks from one file.

    Example: sparqlive run pipeline.toml --once
    """
    read = read_pipeline(pipeline)
    known = {entry.name for entry in read.views}
    for name in show or ():
        if name not in known:
            raise sparqlive.Error(f"{pipeline}: --show {name}: the file has no [views.{name}].")
    if master is not None:
        read = replace(read, master=master)

    def print_rows(epoch: Epoch) -> None:
        for name in show or ():
            for row, weight in epoch.deltas[name].weights().items():
                print(f"  {name}\t{signed_row(row, weight)}", flush=True)

    run_pipeline(read, Progress(), once=once, observer=print_rows)
