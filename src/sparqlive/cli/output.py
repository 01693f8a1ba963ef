"""How commands print results, deltas, rows and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sparqlive.cli.arguments import Format, WrongUsage
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.results import GRAPH_FORMS, Answer, Delta
from sparqlive.engine.view import View
from sparqlive.opening import say
from sparqlive.pipeline.progress import solution_count
from sparqlive.sparql.results import json_delta, tsv_term

if TYPE_CHECKING:
    from sparqlive.web.event_stream import Followed


def new_quads(count: int) -> str:
    return f"{count:,} new quad{'' if count == 1 else 's'}"


def print_json(report: Mapping[str, Any]) -> None:
    """Prints one object on one line."""
    print(json.dumps(report, ensure_ascii=False), flush=True)


def say_empty(things: str, action: str, command: str, store: Path | None, agent: str | None) -> None:
    """Says that a list is empty, and which command changes that."""
    where = f"--agent {agent}" if agent is not None else f"--store {store}"
    say(f"There are no {things} yet. To {action}, run: sparqlive {command} {where}")


def say_hint(hint: str | None) -> None:
    """Says why a result has no rows, if there is something to say."""
    if hint is not None:
        say(hint)


def epoch_report(epoch: Epoch, source: str | None = None, seconds: float | None = None) -> dict[str, Any]:
    """What an epoch changed, with the members of an agent's answer first."""
    report: dict[str, Any] = {
        "epoch": epoch.number,
        "inserted": epoch.inserted,
        "deleted": epoch.deleted,
        "ignored": epoch.ignored,
        "strategy": epoch.strategy,
        "views": {name: len(epoch.deltas[name]) for name in epoch.deltas.changed()},
    }
    if source is not None:
        report |= {"source": source, "seconds": round(seconds or 0.0, 6)}
    return report


def asked_format(as_json: bool, output: Format | None) -> Format | None:
    """The format of --json or --format, which must not contradict each other."""
    if as_json and output not in (None, Format.json):
        raise WrongUsage(f"Use either --json or --format {output}.")
    return Format.json if as_json else output


def chosen_format(form: str, output: Format | None) -> Format:
    """The requested format, or the default for the form of a query."""
    on_terminal = Format.table if sys.stdout.isatty() else Format.tsv
    if output is Format.json and form in GRAPH_FORMS:
        return Format.jsonld
    return output or (Format.nt if form in GRAPH_FORMS else on_terminal)


def write_result(result: View | Answer, output: Format | None) -> None:
    chosen = chosen_format(result.form, output)
    if chosen is not Format.table:
        sys.stdout.writelines(result.pieces(chosen.value))
    elif result.form == "ASK":
        print("true" if result.answer() else "false")
    else:
        solutions = result.solutions()
        write_table(result.variables, [[one.get(name) for name in result.variables] for one in solutions])
    say_hint(result.hint)


def write_table(variables: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints solutions as a table, and their number below it."""
    table = Table(*(f"?{name}" for name in variables))
    for row in rows:
        table.add_row(*map(tsv_term, row))
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(solution_count(len(rows)))


def signed_row(row: Sequence[Any], weight: int) -> str:
    return "\t".join([f"{weight:+d}", *map(tsv_term, row)])


def print_delta(variables: Sequence[str], delta: Delta | Followed, as_json: bool) -> None:
    weights = delta.weights()
    if as_json:
        sys.stdout.write(json_delta(delta.epoch, delta.reset, variables, weights))
    else:
        print(f"@ epoch {delta.epoch}{', full content' if delta.reset else ''}")
        for row, weight in weights.items():
            print(signed_row(row, weight))
    sys.stdout.flush()
