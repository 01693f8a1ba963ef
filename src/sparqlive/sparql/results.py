"""Writes results as text: as JSON, XML, CSV, TSV and RDF.

Implements the formats of the W3C recommendations for solutions, ASK results and graphs; deltas are JSON
lines. CSV has plain values and does not distinguish an IRI from a string; the other formats keep terms
complete. Characters that XML 1.0 cannot represent are an error.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, serialize

from sparqlive.errors import Error
from sparqlive.sparql.algebra import Term

FORMATS = ("json", "xml", "csv", "tsv")
GRAPH_FORMATS = {
    "nt": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "turtle": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STRING = "http://www.w3.org/2001/XMLSchema#string"

Solutions = Iterable[Mapping[str, Term]]


def write_results(syntax: str, variables: Sequence[str], solutions: Solutions) -> Iterator[str]:
    """Yields the text of a result in one of FORMATS."""
    match syntax:
        case "json":
            return _json(variables, solutions)
        case "xml":
            return _xml(variables, solutions)
        case "csv":
            return _csv(variables, solutions)
        case "tsv":
            return _tsv(variables, solutions)
        case _:
            raise Error(
                f"Solutions cannot be written as {syntax!r}. Available formats: {', '.join(FORMATS)}."
            )


def write_answer(syntax: str, answer: bool) -> str:
    """Writes an ASK result. CSV and TSV, for which the recommendations define none, have the bare word."""
    word = "true" if answer else "false"
    match syntax:
        case "json":
            return f'{{"head":{{}},"boolean":{word}}}\n'
        case "xml":
            return f"{_XML_START}<head></head><boolean>{word}</boolean>{_XML_END}"
        case "csv":
            return f"{word}\r\n"
        case "tsv":
            return f"{word}\n"
        case _:
            raise Error(
                f"An ASK result cannot be written as {syntax!r}. Available formats: {', '.join(FORMATS)}."
            )


def write_graph(syntax: str, quads: Iterable[Quad]) -> str:
    """Writes a graph in one of GRAPH_FORMATS."""
    if syntax not in GRAPH_FORMATS:
        raise Error(
            f"A graph cannot be written as {syntax!r}. Available formats: {', '.join(GRAPH_FORMATS)}."
        )
    content = serialize(quads, format=GRAPH_FORMATS[syntax])
    assert content is not None
    return content.decode()


def json_term(term: Term) -> dict[str, str]:
    """Returns a term as in the JSON results format (SPARQL 1.1 Query Results JSON Format §3.2.2)."""
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
    """Writes a delta as one line of JSON. `reset` means that it is the whole content."""
    rows = [
        {"weight": weight, "row": _json_row(dict(zip(variables, row, strict=True)))}
        for row, weight in weights.items()
    ]
    entry = {"epoch": epoch, "reset": reset, "variables": list(variables), "changes": rows}
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def json_weighted(
    form: str, variables: Sequence[str], epoch: int, weights: Mapping[tuple[Term | None, ...], int]
) -> str:
    """Writes a content or a delta as one line: the JSON results format with the members epoch and weights.

    There is one weight per binding, in the same order. For an ASK, `boolean` is the answer as of the epoch.
    """
    ends = f'"epoch":{epoch},"weights":{json.dumps(list(weights.values()), separators=(",", ":"))}}}'
    if form == "ASK":
        answer = "true" if any(weight > 0 for weight in weights.values()) else "false"
        return f'{{"head":{{}},"boolean":{answer},{ends}'
    head = json.dumps(list(variables), ensure_ascii=False)
    rows = [_json_row(dict(zip(variables, row, strict=True))) for row in weights]
    bindings = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return f'{{"head":{{"vars":{head}}},"results":{{"bindings":{bindings}}},{ends}'


def tsv_term(term: Term | None) -> str:
    """Writes a term in Turtle syntax; an unbound variable is empty (TSV format §4)."""
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


_XML_START = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
_XML_END = "</sparql>\n"


def _xml(variables: Sequence[str], solutions: Solutions) -> Iterator[str]:
    names = "".join(f"<variable name={quoteattr(name)}/>" for name in variables)
    yield f"{_XML_START}<head>{names}</head><results>"
    for solution in solutions:
        bindings = "".join(
            f"<binding name={quoteattr(name)}>{_xml_term(solution[name])}</binding>"
            for name in variables
            if name in solution
        )
        yield f"\n<result>{bindings}</result>"
    yield f"\n</results>{_XML_END}"


def _xml_term(term: Term) -> str:
    """Writes a term by SPARQL Query Results XML Format §2.3.1."""
    match term:
        case NamedNode():
            return f"<uri>{_xml_text(term.value)}</uri>"
        case BlankNode():
            return f"<bnode>{_xml_text(term.value)}</bnode>"
        case Literal():
            kind = ""
            if term.language is not None:
                kind = f" xml:lang={quoteattr(term.language)}"
            elif term.datatype.value != _STRING:
                kind = f" datatype={quoteattr(term.datatype.value)}"
            return f"<literal{kind}>{_xml_text(term.value)}</literal>"


def _xml_text(text: str) -> str:
    found = _NO_XML.search(text)
    if found is not None:
        raise Error(
            f"XML cannot represent the character U+{ord(found[0]):04X} in {text!r}. Use json or tsv instead."
        )
    return escape(text, {"\r": "&#13;"})


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
