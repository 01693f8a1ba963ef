"""Which format a result is sent in: by `format`, `output` or `results`, else by Accept, else the first.

Lenient, because clients send the same parameters and types with every request, whatever it gives: values that
mean nothing for a result leave the choice to Accept (RFC 9110 §12.5.1), and where nothing in that fits, the
first format is sent. No result is refused for its format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from starlette.requests import Request

from sparqlive.agent.operations import Parameter
from sparqlive.engine.results import GRAPH_FORMS
from sparqlive.web.headers import parts_of, type_and_parameters

RESULT_TYPES = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
}
GRAPH_TYPES = {
    "turtle": "text/turtle; charset=utf-8",
    "nt": "application/n-triples",
    "rdfxml": "application/rdf+xml",
    "jsonld": "application/ld+json",
    "nquads": "application/n-quads",
    "trig": "application/trig",
}
PARAMETERS = ("format", "output", "results")
"""What endpoints call the parameter; many clients send all of them."""
FORMAT = Parameter("format", "The format, by name or media type, before Accept; also as output and results.")
# CSV and TSV have no word for the answer of an ASK that clients agree on.
_BOOLEAN = ("json", "xml")
# What clients also call them.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "json": ("application/json", "text/json", "text/javascript", "application/javascript", "srj"),
    "xml": ("application/xml", "text/xml", "sparql", "srx"),
    "csv": (),
    "tsv": ("text/tsv",),
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
# What a graph is sent as where a client names a family of formats: taken if Accept allows it.
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "rdfxml": ("xml", "application/xml", "text/xml"),
    "jsonld": ("json", "application/json"),
}
_MOST_ASKED = 20
_MOST_CHARACTERS = 500


def result_format(request: Request, form: str, asked: Iterable[str] = ()) -> tuple[str, str]:
    """The syntax and the media type for a result of a form; `asked` where it is not in the address."""
    if form in GRAPH_FORMS:
        return chosen(request, GRAPH_TYPES, asked)
    return chosen(request, RESULT_TYPES, asked, _BOOLEAN if form == "ASK" else None)


def chosen(
    request: Request,
    types: Mapping[str, str],
    asked: Iterable[str] = (),
    negotiated: Sequence[str] | None = None,
) -> tuple[str, str]:
    """The syntax and the media type that a request is answered with.

    `types` are all that there are; those that are not `negotiated` must be asked for by name.
    """
    accepted = _accepted(request.headers.getlist("accept"))
    wanted = [*asked] or [value for name in PARAMETERS for value in request.query_params.getlist(name)]
    syntax = _named(wanted, types, accepted)
    if syntax is None:
        syntax = max(negotiated or types, key=lambda name: _fit(name, types, accepted))
    return syntax, types[syntax]


def _named(
    wanted: Sequence[str], types: Mapping[str, str], accepted: Mapping[str, tuple[float, int]]
) -> str | None:
    """The first format that is asked for by its name and that there is."""
    for value in wanted[:_MOST_ASKED]:
        for part in parts_of(value[:_MOST_CHARACTERS]):
            # A plus that was not encoded is a space in an address.
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
    """How much a format is wanted: by its quality, and by how exactly it is named. Not at all: (0, 0)."""
    _, own, *others = _names(syntax, types)
    if own in accepted:
        return accepted[own]
    named = [accepted[name] for name in (*others, *_FAMILIES.get(syntax, ())) if name in accepted]
    if named:
        return max(named)
    wildcard = f"{own.partition('/')[0]}/*"
    return accepted.get(wildcard) or accepted.get("*/*") or (0.0, 0)


def _accepted(headers: Sequence[str]) -> dict[str, tuple[float, int]]:
    """The ranges of Accept with their quality, and how exact each is; without any, everything is accepted."""
    found: dict[str, tuple[float, int]] = {}
    for part in parts_of(",".join(headers)):
        name, parameters = type_and_parameters(part)
        name = "*/*" if name == "*" else name
        quality = _quality(parameters.get("q"))
        exactness = 2 - name.count("*") if quality else 0
        found[name] = max(found.get(name, (0.0, 0)), (quality, exactness))
    return found or {"*/*": (1.0, 0)}


def _quality(given: str | None) -> float:
    """From 0 to 1; what is no number is as if it were not said."""
    try:
        quality = 1.0 if given is None else float(given)
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(quality) else min(1.0, max(0.0, quality))
