"""A store for rdflib: `Graph(store="sparqlive")` keeps its triples in a session, whose views follow them.

`graph.store.session` is the session; its default graph is the union of all graphs. `graph.open(path)` uses a
store directory; otherwise everything is in memory. Each `add` and `remove` is an epoch, and so is each
`addN`. The first graph without a name of its own, and the default graph of a Dataset, are the unnamed graph.
Relative IRIs, which rdflib allows, are absolute ones in the session (`urn:rdflib:relative:…`). Refuses
formulas. Invariant: what rdflib reads belongs to the last epoch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad
from rdflib import BNode, Graph, URIRef
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.query import Result
from rdflib.store import VALID_STORE, Store
from rdflib.term import Identifier

import sparqlive
from sparqlive.errors import Unsupported
from sparqlive.rdf.rdflib_terms import from_rdflib, to_rdflib
from sparqlive.sparql.algebra import Dataset

_GraphName = NamedNode | BlankNode | DefaultGraph
_UNION = "__UNION__"
_stored = partial(from_rdflib, keep_relative=True)


class SparqliveStore(Store):
    context_aware = True
    graph_aware = True

    def __init__(
        self, configuration: str | None = None, identifier: Identifier | None = None, *, session: Any = None
    ) -> None:
        self._session: sparqlive.Session | None = session
        self._is_own = session is None
        self._unnamed: Identifier | None = None
        """The blank node that names the first graph without a name of its own."""
        self._namespaces: dict[str, URIRef] = {}
        self._prefixes: dict[URIRef, str] = {}
        self._graphs: set[_GraphName] = set()
        """Graphs that were added without quads: rdflib lists them."""
        super().__init__(configuration, identifier)

    @property
    def session(self) -> sparqlive.Session:
        """The session that holds the triples; register views on it."""
        if self._session is None:
            self._session = sparqlive.open(default_graph="union")
        return self._session

    def open(self, configuration: str | tuple[str, str], create: bool = False) -> int | None:
        if self._session is not None:
            raise Unsupported("The store is already open. Open it before anything is added.")
        self._session = sparqlive.open(str(configuration), default_graph="union", durability="relaxed")
        return VALID_STORE

    def close(self, commit_pending_transaction: bool = False) -> None:
        if self._session is not None and self._is_own:
            self._session.close()
            self._session = None

    # Changes

    def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
        self.addN([(*triple, context)], quoted)

    def addN(self, quads: Iterable[Any], quoted: bool = False) -> None:
        if quoted:
            raise Unsupported("Formulas cannot be stored.")
        self.session.apply(insert=[self._quad(*quad) for quad in quads])

    def _quad(self, subject: Any, predicate: Any, object_: Any, context: Any) -> Quad:
        terms = (_stored(subject), _stored(predicate), _stored(object_))
        return Quad(*terms, self._name(context))  # type: ignore[arg-type]

    def remove(self, triple: Any, context: Any = None) -> None:
        if context is not None and triple == (None, None, None):
            self._graphs.discard(self._name(context))
        self.session.apply(delete=list(self._matching(triple, context)))

    # Reading

    def triples(
        self, triple_pattern: Any, context: Any = None
    ) -> Generator[tuple[Any, Iterator[Any]], None, None]:
        graphs_of: dict[tuple[Any, Any, Any], list[_GraphName]] = {}
        for quad in self._matching(triple_pattern, context):
            graphs_of.setdefault((quad.subject, quad.predicate, quad.object), []).append(quad.graph_name)
        for (subject, predicate, object_), names in graphs_of.items():
            triple = (to_rdflib(subject), to_rdflib(predicate), to_rdflib(object_))
            yield triple, (self._context(name) for name in names)

    def _matching(self, pattern: Any, context: Any) -> Iterator[Quad]:
        """The quads that match a pattern in one graph, or in all graphs."""
        subject, predicate, object_ = (None if term is None else _stored(term) for term in pattern)
        name = None if context is None else self._name(context)
        return self.session.quads(name, subject=subject, predicate=predicate, object=object_)

    def __len__(self, context: Any = None) -> int:
        if context is None:
            return len({quad.triple for quad in self.session.quads()})
        return self.session.graphs().get(self._name(context), 0)  # type: ignore[arg-type]

    def contexts(self, triple: Any = None) -> Generator[Graph, None, None]:
        if triple is None or triple == (None, None, None):
            names = {name for name, size in self.session.graphs().items() if size} | self._graphs
        else:
            names = {quad.graph_name for quad in self._matching(triple, None)}
        for name in names:
            yield self._context(name)

    def add_graph(self, graph: Graph) -> None:
        self._graphs.add(self._name(graph))

    def remove_graph(self, graph: Graph) -> None:
        self.remove((None, None, None), graph)

    # Graphs

    def _name(self, context: Any) -> _GraphName:
        """The name of a graph that rdflib gives as a graph or as its identifier."""
        identifier = getattr(context, "identifier", context)
        if identifier is None or identifier == DATASET_DEFAULT_GRAPH_ID:
            return DefaultGraph()
        if isinstance(identifier, BNode):
            if self._unnamed is None:
                self._unnamed = identifier
            if identifier == self._unnamed:
                return DefaultGraph()
        name = _stored(identifier)
        assert isinstance(name, NamedNode | BlankNode)
        return name

    def _context(self, name: _GraphName) -> Graph:
        if isinstance(name, DefaultGraph):
            identifier: Any = DATASET_DEFAULT_GRAPH_ID if self._unnamed is None else self._unnamed
        else:
            identifier = to_rdflib(name)
        return Graph(store=self, identifier=identifier)

    # Namespaces

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        known = self._namespaces.get(prefix)
        if not override and (known is not None or namespace in self._prefixes):
            return
        if known is not None:
            del self._prefixes[known]
        old = self._prefixes.pop(namespace, None)
        if old is not None:
            del self._namespaces[old]
        self._namespaces[prefix], self._prefixes[namespace] = namespace, prefix

    def prefix(self, namespace: URIRef) -> str | None:
        return self._prefixes.get(namespace)

    def namespace(self, prefix: str) -> URIRef | None:
        return self._namespaces.get(prefix)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        yield from self._namespaces.items()

    # SPARQL

    def query(
        self,
        query: Any,
        initNs: Mapping[str, Any],
        initBindings: Any,
        queryGraph: Any,
        **options: Any,
    ) -> Result:
        """Evaluates a query, but leaves one that is parsed or has bindings to rdflib."""
        if initBindings or not isinstance(query, str):
            raise NotImplementedError
        answer = self.session.query(_with_prefixes(query, initNs), dataset=self._dataset(queryGraph))
        converted = answer.to_rdflib()
        if isinstance(converted, Result):
            return converted
        result = Result("CONSTRUCT")
        result.graph = converted
        return result

    def update(
        self,
        update: Any,
        initNs: Mapping[str, Any],
        initBindings: Any,
        queryGraph: Any,
        **options: Any,
    ) -> None:
        if initBindings or not isinstance(update, str) or not self._is_unnamed(queryGraph):
            raise NotImplementedError
        self.session.update(_with_prefixes(update, initNs))

    def _is_unnamed(self, graph: Any) -> bool:
        return graph == _UNION or isinstance(self._name(graph), DefaultGraph)

    def _dataset(self, graph: Any) -> Dataset | None:
        """The dataset of a query on one graph; None for all of them."""
        if graph == _UNION:
            return None
        name = self._name(graph)
        if isinstance(name, NamedNode):
            return Dataset((name,), None)
        if isinstance(name, DefaultGraph) and not any(self._named_graphs()):  # then the union is this graph
            return None
        raise NotImplementedError  # FROM cannot name it: rdflib evaluates the query itself

    def _named_graphs(self) -> Iterator[int]:
        return (size for name, size in self.session.graphs().items() if not isinstance(name, DefaultGraph))


def _with_prefixes(text: str, namespaces: Mapping[str, Any]) -> str:
    """Prepends prefixes to a request. Its own prefixes come later, and take precedence."""
    return "".join(f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in namespaces.items()) + text
