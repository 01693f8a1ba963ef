"""How commands print results, deltas and rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sparqlive.cli.arguments import Format
from sparqlive.engine.view import GRAPH_FORMS, Answer, Delta, View
from sparqlive.sparql.results import json_delta, tsv_term

if TYPE_CHECKING:
    from sparqlive.web.event_stream import Followed


def write_result(result: View | Answer, output: Format | None) -> None:
    on_terminal = Format.table if sys.stdout.isatty() else Format.tsv
    chosen = output or (Format.nt if result.form in GRAPH_FORMS else on_terminal)
    if chosen is not Format.table:
        sys.stdout.write(result.serialize(chosen.value))
    elif result.form == "ASK":
        print("true" if result.answer() else "false")
    else:
        _write_table(result)


def _write_table(result: View | Answer) -> None:
    table = Table(*(f"?{name}" for name in result.variables))
    solutions = result.solutions()
    for solution in solutions:
        table.add_row(*(tsv_term(solution.get(name)) for name in result.variables))
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(f"{len(solutions):,} solutions")


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
