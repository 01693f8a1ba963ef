"""Translates terms and results between rdflib and pyoxigraph. Needs rdflib.

Rejects what no graph here can hold: formulas, variables, and relative IRIs unless they can be resolved
against an absolute one. A plain literal and one with the datatype xsd:string are the same term, and language
tags are lower case, as RDF 1.1 says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import rdflib
from pyoxigraph import BlankNode, Literal, NamedNode, Quad
from rdflib.query import Result

from sparqlive.errors import InvalidChange
from sparqlive.rdf.dictionary import Term

_STRING = NamedNode("http://www.w3.org/2001/XMLSchema#string")
_RELATIVE = "urn:rdflib:relative:"
"""Under which a relative IRI, or one with characters that IRIs do not have, is kept."""


def from_rdflib(term: Any, keep_relative: bool = False) -> Term:
    try:
        if isinstance(term, rdflib.URIRef):
            try:
                return NamedNode(str(term))
            except ValueError:
                if not keep_relative:
                    raise
                return NamedNode(_RELATIVE + quote(str(term), safe=""))
        if isinstance(term, rdflib.BNode):
            return BlankNode(str(term))
        if isinstance(term, rdflib.Literal):
            if term.language is not None:
                return Literal(str(term), language=term.language)
            return Literal(str(term), datatype=_STRING if term.datatype is None else NamedNode(term.datatype))
    except ValueError as error:
        raise InvalidChange(f"{term!r} cannot be stored: {error}. IRIs must be absolute.") from error
    raise InvalidChange(f"{term!r} cannot be stored. Use a URIRef, BNode or Literal.")


def to_rdflib(term: Term) -> rdflib.URIRef | rdflib.BNode | rdflib.Literal:
    if isinstance(term, NamedNode):
        kept = term.value.removeprefix(_RELATIVE)
        return rdflib.URIRef(kept if kept is term.value else unquote(kept))
    if isinstance(term, BlankNode):
        return rdflib.BNode(term.value)
    if term.language is not None:
        return rdflib.Literal(term.value, lang=term.language)
    if term.datatype == _STRING:
        return rdflib.Literal(term.value)
    return rdflib.Literal(term.value, datatype=rdflib.URIRef(term.datatype.value))


def graph_of(quads: Iterable[Quad]) -> rdflib.Graph:
    """A graph in memory with the triples of quads."""
    graph = rdflib.Graph()
    for quad in quads:
        graph.add(tuple(to_rdflib(term) for term in quad.triple))  # type: ignore[arg-type]
    return graph


def solutions_of(variables: Sequence[str], solutions: Iterable[Mapping[str, Term]]) -> Result:
    """The result of a SELECT query."""
    result = Result("SELECT")
    result.vars = [rdflib.Variable(name) for name in variables]
    result.bindings = [
        {rdflib.Variable(name): to_rdflib(term) for name, term in solution.items()} for solution in solutions
    ]
    return result


def answer_of(answer: bool) -> Result:
    """The result of an ASK query."""
    result = Result("ASK")
    result.askAnswer = answer
    return result
