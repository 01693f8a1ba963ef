"""Functions that take terms apart and create new ones (SPARQL 1.1 §17.4.2).

STR, LANG, DATATYPE, IRI, STRDT, STRLANG. BNODE, UUID and STRUUID create a new term per call and are compiled
in `expressions`, which has their state. Invalid terms are errors: relative IRIs without a base, malformed
language tags. Invariant: IRI resolves a relative reference as the parser resolves those in the query text.
"""

from __future__ import annotations

from pyoxigraph import Literal, NamedNode

from sparqlive.sparql.functions.strings import simple_text_of
from sparqlive.sparql.syntax.terms import resolve
from sparqlive.sparql.values import (
    BLANK,
    ILL_TYPED,
    IRI,
    STRING,
    ExpressionError,
    Value,
    iri,
    language_string,
    string,
    value_of,
)

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TAGGED_DATATYPES = (_RDF + "langString", _RDF + "dirLangString")


def text(value: Value) -> Value:
    if value.kind is BLANK:
        raise ExpressionError("A blank node has no text")
    if value.kind is IRI:
        return string(value.value)
    return value if value.kind is STRING else string(value.lexical)


def language(value: Value) -> Value:
    if value.kind > ILL_TYPED:
        raise ExpressionError("Not a literal")
    return string(value.language)


def datatype(value: Value) -> Value:
    term = value.term
    if not isinstance(term, Literal):
        raise ExpressionError("Not a literal")
    return value_of(term.datatype)


def make_iri(value: Value, base: Value | None = None) -> Value:
    if value.kind == IRI:
        return value
    reference = simple_text_of(value)
    return iri(reference if base is None else resolve(reference, base.lexical))


def with_datatype(value: Value, kind: Value) -> Value:
    term = kind.term
    if not isinstance(term, NamedNode):
        raise ExpressionError("A datatype that is not an IRI")
    if term.value in _TAGGED_DATATYPES:
        raise ExpressionError("A literal of this datatype needs a language tag")
    return value_of(Literal(simple_text_of(value), datatype=term))


def with_language(value: Value, tag: Value) -> Value:
    content, name = simple_text_of(value), simple_text_of(tag)
    if not name:
        raise ExpressionError("An empty language tag")
    return language_string(content, name)
