"""The command line: a thin layer over a session's calls.

Owns the table of commands, the reference and exit codes; decides nothing about data. An error is one sentence
on standard error and exit code 1. `docs/CLI.md` is generated from the commands themselves
(`python -m sparqlive.cli.main --write-docs`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import typer

import sparqlive
from sparqlive.cli import data, run, serve, sources, tokens, upkeep, views
from sparqlive.opening import locked

COMMANDS: tuple[Callable[..., None], ...] = (
    data.load,
    views.view,
    data.apply,
    data.update,
    views.query,
    views.explain,
    upkeep.check,
    upkeep.compact,
    run.run,
    serve.serve,
    views.watch,
)
"""Each is called as its function is named; `--help` lists them in this order."""

GROUPS: dict[str, typer.Typer] = {"source": sources.commands, "token": tokens.commands}
"""Commands of two words, by the first."""


def _program() -> typer.Typer:
    app = typer.Typer(
        name="sparqlive",
        help="Keeps the results of SPARQL queries up to date while the RDF data under them changes.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for command in COMMANDS:
        app.command()(command)
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
    return app


app = _program()


def reference() -> str:
    """The text of docs/CLI.md: what --help says, for each command."""
    command = typer.main.get_command(app)
    parts = [
        "# The command line\n\n"
        "Written from `sparqlive --help` by `python -m sparqlive.cli.main --write-docs`; "
        "a test fails when it differs.\n\n" + _help(command, "sparqlive", None)
    ]
    context = command.make_context("sparqlive", [], resilient_parsing=True)
    for name, sub in cast("Any", command).commands.items():
        parts.append(f"## sparqlive {name}\n\n" + _help(sub, name, context))
        inner = sub.make_context(name, [], parent=context, resilient_parsing=True)
        for below, command_below in getattr(sub, "commands", {}).items():
            parts.append(f"## sparqlive {name} {below}\n\n" + _help(command_below, below, inner))
    return "\n".join(parts)


def _help(command: Any, name: str, parent: Any) -> str:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=100)
    text = "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())
    return f"```text\n{text}\n```\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program; the exit code is 1 after an error, 2 after a wrong command."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--write-docs"]:
        Path("docs/CLI.md").write_text(reference(), encoding="utf-8")
        return
    try:
        app(given)
    except sparqlive.StoreLocked as error:
        _fail(str(locked(error)), sys.stderr)
    except sparqlive.Error as error:
        _fail(str(error), sys.stderr)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has gone
    except Exception as error:
        if os.environ.get("SPARQLIVE_DEBUG"):
            raise
        first = str(error).strip().partition("\n")[0]
        _fail(f"{type(error).__name__}: {first} (SPARQLIVE_DEBUG=1 shows where.)", sys.stderr)


def _fail(sentence: str, stream: TextIO) -> None:
    print(f"sparqlive: {' '.join(sentence.split())}", file=stream)
    sys.exit(1)


if __name__ == "__main__":
    main()
