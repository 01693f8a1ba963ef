"""Why a new view is empty: it names something that no triple has, or the data is in named graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyoxigraph import NamedNode

from sparqlive.plan.unfold import views_read
from sparqlive.session import Session
from sparqlive.sparql import algebra as al
from sparqlive.sparql.syntax import parse_query

_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")


def why_empty(session: Session, text: str) -> str | None:
    """A sentence about the first predicate or class of a query that the default graph does not have."""
    query = parse_query(text)
    if not len(session) or views_read(query):
        return None
    names_graphs = query.dataset is not None or any(_found(al.Graph, query.pattern))
    for predicate, class_ in dict.fromkeys(_names(query.pattern)):
        pattern = f"?s {predicate} {'?o' if class_ is None else class_}"
        title = f"predicate {predicate}" if class_ is None else f"class {class_}"
        in_default_graph = session.query(f"ASK {{ {pattern} }}").answer()
        if not in_default_graph and not session.query(f"ASK {{ GRAPH ?g {{ {pattern} }} }}").answer():
            return f"No triple has the {title}. Check its prefix and spelling."
        if not in_default_graph and not names_graphs:
            return (
                f"Only named graphs have the {title}, and the query reads the default graph. Use "
                f"GRAPH ?g {{ … }}, or a store created with --default-graph union."
            )
    return None


def _names(pattern: Any) -> Iterator[tuple[NamedNode, NamedNode | None]]:
    """The predicates of patterns, and for rdf:type the class."""
    for found in _found((al.Triple, al.PathPattern), pattern):
        if isinstance(found, al.PathPattern):
            yield from ((name, None) for name in _found(NamedNode, found.path))
        elif found.predicate == _TYPE and isinstance(found.object, NamedNode):
            yield _TYPE, found.object
        elif isinstance(found.predicate, NamedNode):
            yield found.predicate, None


def _found(kind: Any, item: Any) -> Iterator[Any]:
    """The parts of a piece of algebra that are of a kind, but not those inside SERVICE or a negated set."""
    if isinstance(item, kind):
        yield item
    if not isinstance(item, al.Service | al.NegatedSet):
        for part in al.parts_of(item):
            yield from _found(kind, part)
