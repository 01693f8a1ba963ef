"""Flags and arguments that several commands share, and reading the texts they name."""

from __future__ import annotations

import re
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
from sparqlive.rdf.files import is_address

_BEGINNING = re.compile(r"(?i)\s*(PREFIX|BASE|SELECT|ASK|CONSTRUCT|DESCRIBE)\s+\S")


class WrongUsage(typer.BadParameter):
    """Flags or arguments that contradict each other. Its message is a sentence, printed as it is."""

    def format_message(self) -> str:
        return self.message


class Format(StrEnum):
    """Output formats: `table` to `tsv` for solutions and answers, `nt` and later ones for graphs."""

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
    """How an epoch updates the views."""

    auto = "auto"
    live = "live"
    duckdb = "duckdb"
    spark = "spark"
    rebuild = "rebuild"


class DefaultGraph(StrEnum):
    """What queries see as the default graph."""

    strict = "strict"
    union = "union"


def _callback(check: Callable[[str, Any], Any]) -> Callable[[Any], Any]:
    """Returns a callback that rejects a flag's number before the command runs."""

    def callback(value: Any) -> Any:
        if value is not None:
            try:
                check("it", value)
            except sparqlive.Error as error:
                raise typer.BadParameter(str(error)) from error
        return value

    return callback


check_port = _callback(partial(whole, most=MOST_PORT))
check_seconds = _callback(partial(seconds, least=0.001))
check_count = _callback(partial(whole, least=1))
check_rate = _callback(partial(number, least=LEAST))
check_epoch = _callback(whole)


class Syntax(StrEnum):
    """RDF syntaxes, by the ending of their files."""

    nt = "nt"
    nq = "nq"
    ttl = "ttl"
    trig = "trig"
    rdf = "rdf"
    jsonld = "jsonld"


def _store_option(description: str) -> Any:
    return typer.Option("--store", metavar="DIR", parser=_directory, help=description)


def _directory(text: str) -> Path:
    """The directory of --store. `Path` would take an address for a path, and an empty text for `.`."""
    if not text:
        raise typer.BadParameter("The name of the store is empty.")
    if is_address(text):
        raise typer.BadParameter(
            f"{text} is an address, but a store is a local directory. For a running agent, use --agent."
        )
    return Path(text)


Store = Annotated[Path, _store_option("Store directory.")]
NewStore = Annotated[Path, _store_option("Store directory; created if missing.")]
# Commands that can also work on a running agent.
StoreOrAgent = Annotated[Path | None, _store_option("Store directory.")]
NewStoreOrAgent = Annotated[Path | None, _store_option("Store directory; created if missing.")]
TokenStore = Annotated[Path, _store_option("Store directory; the store need not exist yet.")]
WatchedStore = Annotated[Path | None, _store_option("Store directory, if NAME is not an address.")]
Agent = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of a running agent to use instead of --store.")
]
Token = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", envvar="SPARQLIVE_TOKEN", help="Token, if the agent requires one."),
]


def _on_the_store(value: str | None) -> None:
    if value is not None:
        raise WrongUsage(
            "This command works on the store itself, also while its agent runs. Run it on the agent's "
            "machine, with --store DIR."
        )


NoAgent = Annotated[
    str | None, typer.Option("--agent", hidden=True, is_eager=True, callback=_on_the_store, metavar="URL")
]
"""For commands that have nothing to ask an agent: a sentence, where people try it."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line; an error too.")]
Default = Annotated[
    DefaultGraph | None,
    typer.Option(
        help="What queries see as the default graph: all graphs (union, the default of a new store), or only "
        "the unnamed graph (strict)."
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Output format. Solutions: table (default on a terminal), json, xml, csv, tsv (default "
        "elsewhere). Graphs: nt (default) and the formats after it.",
    ),
]
QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="SPARQL query, file with a query, or - for standard input.")
]
ChangeFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="Change files (.changes, .rdfp), folders and globs, or - for standard input."
    ),
]


def store_or_agent(store: Path | None, agent: str | None) -> None:
    """Rejects a command that names neither a store nor an agent, or both."""
    if (store is None) == (agent is None):
        raise WrongUsage("Use either --store DIR for a store, or --agent URL for a running agent.")


def refuse_private(allow_private: bool) -> None:
    """Rejects --allow-private beside --agent."""
    if allow_private:
        raise sparqlive.Error(
            "--allow-private works with --store. An agent decides itself: see serve --help."
        )


def update_text(argument: str) -> str:
    """Returns the update that an argument holds or names: every request has a space, else a file name."""
    if argument == "-":
        return sys.stdin.read()
    if not argument.strip():
        raise sparqlive.Error("The update is empty.")
    if Path(argument).is_file() or not any(map(str.isspace, argument.strip())):
        return read_text(Path(argument))
    return argument


def query_text(argument: str) -> str:
    """Returns the query that an argument holds or names.

    Text with a brace is SPARQL, and so is what begins like a query, unless it names a file.
    """
    if argument == "-":
        return sys.stdin.read()
    if not argument.strip():
        raise sparqlive.Error("The query is empty.")
    if "{" in argument or (_BEGINNING.match(argument) and not Path(argument).is_file()):
        return argument
    try:
        return Path(argument).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise sparqlive.Error(
            f"{argument} is neither a query nor a readable file: {_reason(error)}."
        ) from error


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise sparqlive.Error(f"Cannot read {file}: {_reason(error)}.") from error


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
