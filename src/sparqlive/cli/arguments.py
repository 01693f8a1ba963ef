"""What several commands are given: their flags and arguments, and the texts that these name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import sparqlive
from sparqlive.agent.tokens import LEAST
from sparqlive.numbers import MOST_PORT, number, seconds, whole


class Format(StrEnum):
    """How results are written: solutions and answers up to tsv, graphs from nt on."""

    table = "table"
    json = "json"
    xml = "xml"
    csv = "csv"
    tsv = "tsv"
    nt = "nt"
    nquads = "nquads"
    turtle = "turtle"
    trig = "trig"
    rdfxml = "rdfxml"
    jsonld = "jsonld"


class Strategy(StrEnum):
    """How an epoch is carried to the views."""

    auto = "auto"
    live = "live"
    spark = "spark"
    rebuild = "rebuild"


class DefaultGraph(StrEnum):
    """What a query's default graph is."""

    strict = "strict"
    union = "union"


def _checked(check: Callable[[str, Any], Any]) -> Callable[[Any], Any]:
    """Refuses a flag's number before anything happens."""

    def checked(value: Any) -> Any:
        if value is not None:
            try:
                check("it", value)
            except sparqlive.Error as error:
                raise typer.BadParameter(str(error)) from error
        return value

    return checked


check_port = _checked(partial(whole, most=MOST_PORT))
check_seconds = _checked(partial(seconds, least=0.001))
check_count = _checked(partial(whole, least=1))
check_rate = _checked(partial(number, least=LEAST))
check_epoch = _checked(whole)

Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="Store directory.")]
NewStore = Annotated[
    Path, typer.Option("--store", metavar="DIR", help="Store directory; created if missing.")
]
Default = Annotated[
    DefaultGraph | None,
    typer.Option(
        help="What a query's default graph is: the unnamed graph alone, or the union of all graphs."
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Solutions and answers: table (on a terminal), json, xml, csv, tsv (else); graphs: nt, …",
    ),
]
QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="SPARQL text, a file with it, or - for standard input.")
]
ChangeFiles = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Files of changes (.changes, .rdfp), or - for standard input."),
]


def query_text(given: str) -> str:
    """SPARQL text has a brace; anything else is the name of a file."""
    if given == "-":
        return sys.stdin.read()
    if "{" in given:
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise sparqlive.Error(f"{given} is neither a query nor a file that can be read: {error}.") from error


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise sparqlive.Error(f"{file} cannot be read: {error}.") from error
