"""Chooses the format of a result: by `format`, `output` or `results`, else by Accept, else the first format.

Lenient, because clients send the same parameters and types with every request. Values that do not apply to a
result leave the choice to Accept (RFC 9110 §12.5.1). If nothing in Accept fits, the first format is used. No
result is rejected because of its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from starlette.requests import Request

from sparqlive.agent.operations import Parameter
from sparqlive.engine.results import GRAPH_FORMS, Readable
from sparqlive.web.headers import parts_of, quality_of, type_and_parameters

RESULT_TYPES = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
}
TABLE_TYPES = {
    "ndjson": "application/x-ndjson",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
"""Of solutions only: tables with typed columns."""
GRAPH_TYPES = {
    "turtle": "text/turtle; charset=utf-8",
    "nt": "application/n-triples",
    "rdfxml": "application/rdf+xml",
    "jsonld": "application/ld+json",
    "nquads": "application/n-quads",
    "trig": "application/trig",
}
PARAMETERS = ("format", "output", "results")
"""The parameter's names at different endpoints; many clients send all of them."""
FORMAT = Parameter(
    "format", "Format, as a name or media type; overrides Accept. Also accepted as output and results."
)
WEIGHTS = Parameter(
    "weights", "true: NDJSON, Arrow and Parquet have each distinct row once, with its _weight.", "boolean"
)
# CSV and TSV have no agreed syntax for the answer of an ASK.
_BOOLEAN = ("json", "xml")
# Other names that clients use.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "json": ("application/json", "text/json", "text/javascript", "application/javascript", "srj"),
    "xml": ("application/xml", "text/xml", "sparql", "srx"),
    "csv": (),
    "tsv": ("text/tsv",),
    "ndjson": ("application/ndjson", "application/jsonl", "application/x-jsonlines", "jsonl", "jsonlines"),
    "arrow": ("arrows", "ipc", "application/arrow", "application/x-apache-arrow-stream"),
    "parquet": ("application/parquet", "application/x-parquet"),
    "turtle": (
        *("ttl", "n3", "application/turtle", "application/x-turtle"),
        *("text/n3", "text/rdf+n3", "application/n3"),
    ),
    "nt": ("ntriples", "n-triples", "text/plain"),
    "rdfxml": ("rdf", "rdf+xml", "rdf/xml", "rdf-xml"),
    "jsonld": ("json-ld", "ld+json", "application/x-json+ld", "application/json+ld"),
    "nquads": ("nq", "n-quads", "text/x-nquads"),
    "trig": ("application/x-trig",),
}
# The format of a graph where a client names a family of formats; used if Accept allows it.
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "rdfxml": ("xml", "application/xml", "text/xml"),
    "jsonld": ("json", "application/json"),
}
_MOST_ASKED = 20
_MOST_CHARACTERS = 500


def result_format(request: Request, form: str, asked: Iterable[str] = ()) -> tuple[str, str]:
    """Returns the syntax and media type for a result of a query form.

    `asked`: the values of the format parameters, if they are not in the URL.
    """
    if form in GRAPH_FORMS:
        return choose_type(request, GRAPH_TYPES, asked)
    if form == "ASK":
        return choose_type(request, RESULT_TYPES, asked, _BOOLEAN)
    return choose_type(request, {**RESULT_TYPES, **TABLE_TYPES}, asked)


def written(answer: Readable, syntax: str, request: Request) -> Iterator[str] | Iterator[bytes]:
    """The pieces of a result in the chosen format."""
    if syntax not in TABLE_TYPES:
        return answer.pieces(syntax)
    return answer.typed_pieces(syntax, request.query_params.get("weights") == "true")


def choose_type(
    request: Request,
    types: Mapping[str, str],
    asked: Iterable[str] = (),
    negotiated: Sequence[str] | None = None,
) -> tuple[str, str]:
    """Returns the syntax and media type of the response.

    `types` are all available types; those not in `negotiated` must be requested by name.
    """
    accepted = _accept_ranges(request.headers.getlist("accept"))
    names = [*asked] or [value for name in PARAMETERS for value in request.query_params.getlist(name)]
    syntax = _named_format(names, types, accepted)
    if syntax is None:
        syntax = max(negotiated or types, key=lambda name: _fit(name, types, accepted))
    return syntax, types[syntax]


def _named_format(
    values: Sequence[str], types: Mapping[str, str], accepted: Mapping[str, tuple[float, int]]
) -> str | None:
    """The first available format that the parameters name."""
    for value in values[:_MOST_ASKED]:
        for part in parts_of(value[:_MOST_CHARACTERS]):
            # A plus sign that is not encoded is a space in a URL.
            name = type_and_parameters(part)[0].replace(" ", "+")
            for syntax in types:
                if name in _names(syntax, types) or (
                    name in _FAMILIES.get(syntax, ()) and _fit(syntax, types, accepted) > (0.0, 0)
                ):
                    return syntax
    return None


def _names(syntax: str, types: Mapping[str, str]) -> tuple[str, ...]:
    return (syntax, types[syntax].partition(";")[0], *_OTHER_NAMES[syntax])


def _fit(
    syntax: str, types: Mapping[str, str], accepted: Mapping[str, tuple[float, int]]
) -> tuple[float, int]:
    """The preference for a format: its quality, and how exactly it is named; (0, 0) if not accepted."""
    _, own, *others = _names(syntax, types)
    if own in accepted:
        return accepted[own]
    named = [accepted[name] for name in (*others, *_FAMILIES.get(syntax, ())) if name in accepted]
    if named:
        return max(named)
    wildcard = f"{own.partition('/')[0]}/*"
    return accepted.get(wildcard) or accepted.get("*/*") or (0.0, 0)


def _accept_ranges(headers: Sequence[str]) -> dict[str, tuple[float, int]]:
    """The ranges of Accept with quality and exactness; without any, everything is accepted."""
    found: dict[str, tuple[float, int]] = {}
    for part in parts_of(",".join(headers)):
        name, parameters = type_and_parameters(part)
        name = "*/*" if name == "*" else name
        quality = quality_of(parameters.get("q"))
        exactness = 2 - name.count("*") if quality else 0
        found[name] = max(found.get(name, (0.0, 0)), (quality, exactness))
    return found or {"*/*": (1.0, 0)}
