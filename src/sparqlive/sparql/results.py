"""Solutions as text: SPARQL 1.1 results in JSON, CSV and TSV, and deltas as JSON lines.

Owns the formats of the W3C recommendations. CSV writes plain values and cannot tell an IRI from a string; TSV
and JSON keep terms whole.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.sparql.algebra import Term

FORMATS = ("json", "csv", "tsv")
_STRING = "http://www.w3.org/2001/XMLSchema#string"

Solutions = Iterable[Mapping[str, Term]]


def write_results(syntax: str, variables: Sequence[str], solutions: Solutions) -> Iterator[str]:
    """The pieces of text of a result in one of FORMATS."""
    match syntax:
        case "json":
            return _json(variables, solutions)
        case "csv":
            return _csv(variables, solutions)
        case "tsv":
            return _tsv(variables, solutions)
        case _:
            raise ValueError(f"results are written as {', '.join(FORMATS)}, not {syntax}")


def json_term(term: Term) -> dict[str, str]:
    """A term as the JSON results format writes it (SPARQL 1.1 Query Results JSON Format §3.2.2)."""
    match term:
        case NamedNode():
            return {"type": "uri", "value": term.value}
        case BlankNode():
            return {"type": "bnode", "value": term.value}
        case Literal():
            found = {"type": "literal", "value": term.value}
            if term.language is not None:
                found["xml:lang"] = term.language
            elif term.datatype.value != _STRING:
                found["datatype"] = term.datatype.value
            return found
        case _:
            raise TypeError(f"{term!r} is not a term of a solution")


def json_delta(
    epoch: int, reset: bool, variables: Sequence[str], weights: Mapping[tuple[Term | None, ...], int]
) -> str:
    """A delta as one line of JSON: `reset` says that it is the whole content."""
    rows = [
        {"weight": weight, "row": _json_row(dict(zip(variables, row, strict=True)))}
        for row, weight in weights.items()
    ]
    entry = {"epoch": epoch, "reset": reset, "variables": list(variables), "changes": rows}
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def tsv_term(term: Term | None) -> str:
    """A term in Turtle syntax; an unbound variable is empty (TSV format §4)."""
    return "" if term is None else str(term).replace("\t", "\\t")


def _json_row(row: Mapping[str, Term | None]) -> dict[str, Any]:
    return {name: json_term(term) for name, term in row.items() if term is not None}


def _json(variables: Sequence[str], solutions: Solutions) -> Iterator[str]:
    yield '{"head":{"vars":' + json.dumps(list(variables), ensure_ascii=False) + '},"results":{"bindings":['
    before = "\n"
    for solution in solutions:
        row = {name: solution[name] for name in variables if name in solution}
        yield before + json.dumps(_json_row(row), ensure_ascii=False, separators=(",", ":"))
        before = ",\n"
    yield "\n]}}\n"


def _csv(variables: Sequence[str], solutions: Solutions) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(variables)
    for solution in solutions:
        writer.writerow([_csv_value(solution.get(name)) for name in variables])
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _csv_value(term: Term | None) -> str:
    if term is None:
        return ""
    return f"_:{term.value}" if isinstance(term, BlankNode) else str(term.value)


def _tsv(variables: Sequence[str], solutions: Solutions) -> Iterator[str]:
    yield "\t".join(f"?{name}" for name in variables) + "\n"
    for solution in solutions:
        yield "\t".join(tsv_term(solution.get(name)) for name in variables) + "\n"
