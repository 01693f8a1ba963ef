"""The command line: a thin layer over a session's methods.

Owns the table of commands, the reference and the exit codes; makes no decision about data. An error prints
a sentence on standard error, and below it the line of a query where it has one, and exits with code 1. With
--json, it is also the last object on standard output.
`docs/reference/cli.md` is generated from the commands (`python -m sparqlive.cli.main --write-docs`).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import sparqlive
from sparqlive.cli import data, demo, run, serve, sources, tokens, upkeep, views
from sparqlive.cli.output import print_json
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
    demo.demo,
)
"""A command has the name of its function; `--help` lists them in this order."""

GROUPS: dict[str, typer.Typer] = {"source": sources.commands, "token": tokens.commands}
"""Commands with two words, by the first word."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"sparqlive {sparqlive.__version__}")
        raise typer.Exit


def _program() -> typer.Typer:
    app = typer.Typer(
        name="sparqlive",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command in COMMANDS:
        app.command()(command)
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
    return app


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Keep the results of SPARQL queries up to date while RDF data changes."""


app = _program()


def reference() -> str:
    """Returns the text of docs/reference/cli.md: the output of --help for each command."""
    command = typer.main.get_command(app)
    parts = [
        "# The command line\n\n"
        "Generated from `sparqlive --help` by `python -m sparqlive.cli.main --write-docs`; "
        "a test fails when this page differs.\n\n"
        "Options come after the command. The exit code is 0, 1 after an error, 2 after wrong usage, and 130 "
        "after Ctrl-C; `serve`, `run` and `demo` end with 0 then. An error is a sentence on standard error. "
        'With `--json`, one with code 1 is also the last line of standard output: `{"error": "…"}`.\n\n'
        + _help(command, "sparqlive", None)
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
    """Runs the program. Exit codes: 1 after an error, 2 after wrong usage."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--write-docs"]:
        Path("docs/reference/cli.md").write_text(reference(), encoding="utf-8")
        return
    as_json = "--json" in words
    warnings.simplefilter("ignore", sparqlive.EmptyResultWarning)  # commands say it themselves
    try:
        _reject_misplaced(words)
        app(words)
    except sparqlive.StoreLocked as error:
        _fail(str(locked(error)), as_json)
    except sparqlive.Error as error:
        _fail(str(error), as_json)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader of our output has closed it
    except Exception as error:
        if os.environ.get("SPARQLIVE_DEBUG"):
            raise
        first = str(error).strip().partition("\n")[0]
        _fail(f"{type(error).__name__}: {first} (Set SPARQLIVE_DEBUG=1 to see the traceback.)", as_json)


def _reject_misplaced(words: Sequence[str]) -> None:
    """Rejects an option before the command, as in `sparqlive --store DIR load FILE`."""
    commands = [word for word in words if word in {*GROUPS, *(command.__name__ for command in COMMANDS)}]
    if commands and words[0].startswith("-") and words[0] not in ("-h", "--help", "--version"):
        _fail(f"Options come after the command: sparqlive {commands[0]} {words[0]} …", code=2)


def _fail(sentence: str, as_json: bool = False, code: int = 1) -> None:
    """Prints an error. The lines after the first show a line of a query and a caret below it."""
    print(f"sparqlive: {sentence.rstrip()}", file=sys.stderr)
    if as_json:
        print_json({"error": sentence.rstrip()})
    sys.exit(code)


if __name__ == "__main__":
    main()
