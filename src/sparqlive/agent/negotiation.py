"""Which format a result is sent in: by `?format=`, else by Accept (RFC 9110 §12.5.1), else the first."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from sparqlive.agent.problems import Refused
from sparqlive.views import GRAPH_FORMS

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
# What clients also call them.
_OTHER_NAMES = {"application/json": "json", "application/xml": "xml", "text/xml": "xml", "text/plain": "nt"}


def result_format(request: Request, form: str, asked: str | None = None) -> tuple[str, str]:
    """The syntax and the media type for a result of a form; `asked` by name, where it is not the address."""
    return chosen(request, GRAPH_TYPES if form in GRAPH_FORMS else RESULT_TYPES, asked)


def chosen(request: Request, types: Mapping[str, str], asked: str | None = None) -> tuple[str, str]:
    asked = asked or request.query_params.get("format")
    if asked is not None:
        if asked not in types:
            raise Refused(400, f"This is given as {', '.join(types)}, not as {asked!r}.")
        return asked, types[asked]
    accept = ",".join(request.headers.getlist("accept")) or "*/*"
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    best: tuple[float, str] | None = None
    for syntax, full in types.items():
        others = [name for name, other in _OTHER_NAMES.items() if other == syntax]
        exact = [quality for name, quality in ranges if name in others]
        quality = max(_quality(full.partition(";")[0], ranges), *exact, 0.0)
        if quality > 0 and (best is None or quality > best[0]):
            best = quality, syntax
    if best is None:
        offered = ", ".join(full.partition(";")[0] for full in types.values())
        raise Refused(406, f"None of the types in Accept can be given. There are: {offered}.")
    return best[1], types[best[1]]


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return name.lower(), quality


def _quality(name: str, ranges: list[tuple[str, float]]) -> float:
    """The most specific range counts."""
    for wanted in (name, f"{name.partition('/')[0]}/*", "*/*"):
        found = [quality for given, quality in ranges if given == wanted]
        if found:
            return max(found)
    return 0.0
