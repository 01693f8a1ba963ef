"""Reads the W3C tests of query and update evaluation: manifests, data, expected results, how to compare them.

Files are addressed below BASE, by their path in the suites, so that relative IRIs in manifests, data, queries
and results agree on every machine. Expected results become weights, as a view has them: `{(): 1}` or `{}` for
ASK, the triples' terms for CONSTRUCT.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path

import pyoxigraph as ox

from tests.oracle import Row, Term, Weights, assert_same

BASE = "http://w3c.example/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
UT = "http://www.w3.org/2009/sparql/tests/test-update#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
XSD = "http://www.w3.org/2001/XMLSchema#"

MANIFESTS = ("sparql10/manifest-evaluation.ttl", "sparql11/manifest-all.ttl")
ELSEWHERE = ("sparql11/entailment/", "sparql11/service/")  # other regimes; tests that need endpoints
_DOT = "SPARQL 1.1 has no decimals that end with a dot"
_WITHDRAWN = "withdrawn"
_STRINGS = "in RDF 1.1, simple literals are of the type xsd:string"
_REPETITIONS = "SPARQL 1.1 has no paths with {n,m}"
# What W3C has changed since the copy in rdflib's source package: names of evaluation tests, query files of
# syntax tests.
CHANGED = {
    "sparql10/basic/term-6": _DOT,
    "sparql10/basic/term-7": _DOT,
    "sparql10/basic/term-7.rq": _DOT,
    "sparql10/syntax-sparql1/syntax-lit-08.rq": _DOT,
    "sparql10/dataset/dawg-dataset-09": _WITHDRAWN,
    "sparql10/dataset/dawg-dataset-10": _WITHDRAWN,
    "sparql10/dataset/dawg-dataset-12": _WITHDRAWN,
    "sparql10/distinct/distinct-2": _STRINGS,
    "sparql10/distinct/distinct-9": _STRINGS,
    "sparql10/expr-builtin/dawg-datatype-2": _STRINGS,
    "sparql11/functions/strdt03": _STRINGS,
    "sparql11/functions/strlang03": _STRINGS,
    "sparql10/optional-filter/dawg-optional-filter-005-simplified": "SPARQL 1.1 reads it the other way",
    "sparql11/aggregates/agg-empty-group": "an empty pattern with GROUP BY has no groups",
    "sparql11/negation/temporalProximity02.rq": "its file is absent",
    "sparql11/property-path/path-2-1.rq": _REPETITIONS,
    "sparql11/property-path/path-2-3.rq": _REPETITIONS,
    "sparql11/property-path/path-3-1.rq": _REPETITIONS,
    "sparql11/property-path/path-3-2.rq": _REPETITIONS,
    "sparql11/property-path/path-3-4.rq": _REPETITIONS,
    "sparql11/property-path/pp04.rq": _REPETITIONS,
    "sparql11/property-path/pp05.rq": _REPETITIONS,
    "sparql11/property-path/pp13.rq": _REPETITIONS,
    "sparql11/property-path/pp15.rq": _REPETITIONS,
    "sparql11/syntax-query/qname-escape-01.rq": "names contain `:` without a backslash",
}
FROM = re.compile(r"\bFROM\s+(?:NAMED\s+)?<([^<>]*)>", re.IGNORECASE)
SYNTAX = {".ttl": ox.RdfFormat.TURTLE, ".rdf": ox.RdfFormat.RDF_XML, ".nt": ox.RdfFormat.N_TRIPLES}
RESULTS = {
    ".srx": ox.QueryResultsFormat.XML,
    ".srj": ox.QueryResultsFormat.JSON,
    ".tsv": ox.QueryResultsFormat.TSV,
}
FLOATING = {XSD + "decimal", XSD + "double", XSD + "float"}


class Graph:
    """A document with lookups by subject and predicate."""

    def __init__(self, path: Path, base: str, *, fresh_blank_nodes: bool = False) -> None:
        parsed = ox.parse(
            path=path, format=SYNTAX[path.suffix], base_iri=base, rename_blank_nodes=fresh_blank_nodes
        )
        self.triples = [quad.triple for quad in parsed]
        self._objects: dict[tuple[str, str], list[Term]] = defaultdict(list)
        for triple in self.triples:
            self._objects[str(triple.subject), triple.predicate.value].append(triple.object)

    def all(self, subject: Term, predicate: str) -> list[Term]:
        return self._objects[str(subject), predicate]

    def one(self, subject: Term, predicate: str) -> Term | None:
        found = self.all(subject, predicate)
        return found[0] if found else None

    def list(self, head: Term | None) -> Iterator[Term]:
        while head is not None and head.value != RDF + "nil":
            yield self._objects[str(head), RDF + "first"][0]
            head = self.one(head, RDF + "rest")


@dataclass(frozen=True)
class EvaluationTest:
    """One mf:QueryEvaluationTest; files are read when asked for."""

    root: Path
    name: str  # suite/category/name, unique
    query_file: str
    data_files: tuple[str, ...]
    graph_files: tuple[tuple[str, str], ...]  # (graph's IRI, file)
    result_file: str
    lax: bool

    @property
    def base(self) -> str:
        return BASE + self.query_file

    @cached_property
    def query(self) -> str:
        return (self.root / self.query_file).read_text(encoding="utf-8")

    def quads(self) -> list[ox.Quad]:
        """The dataset: default data, named graphs, and the files that FROM clauses name."""
        quads = [
            quad
            for name in self.data_files
            for quad in self._read(name, ox.DefaultGraph(), fresh=bool(self.graph_files))
        ]
        named = dict(self.graph_files)
        if not self.data_files and not named:
            folder = self.query_file.rpartition("/")[0]
            named = {f"{BASE}{folder}/{name}": f"{folder}/{name}" for name in FROM.findall(self.query)}
        for iri, name in sorted(named.items()):
            quads += self._read(name, ox.NamedNode(iri), fresh=True)
        return list(dict.fromkeys(quads))

    def _read(self, name: str, graph: ox.NamedNode | ox.DefaultGraph, *, fresh: bool) -> list[ox.Quad]:
        document = Graph(self.root / name, BASE + name, fresh_blank_nodes=fresh)
        return [ox.Quad(*triple, graph) for triple in document.triples]

    def expected_text(self) -> str:
        return (self.root / self.result_file).read_text(encoding="utf-8")

    def expected(self, variables: Iterable[str]) -> Weights | None:
        """The expected weights in the order of the given variables; None for CSV, which has no types."""
        path = self.root / self.result_file
        if path.suffix in RESULTS:
            return from_results(path, RESULTS[path.suffix], tuple(variables))
        if path.suffix in SYNTAX:
            return from_graph(Graph(path, BASE + self.result_file), tuple(variables))
        return None

    def expected_order(self, variables: Iterable[str]) -> list[Row] | None:
        """The expected rows in order, where the test numbers them (rs:index); else None."""
        path = self.root / self.result_file
        if path.suffix not in SYNTAX:
            return None
        graph = Graph(path, BASE + self.result_file)
        rows = []
        for solution, row in solutions_of(graph, tuple(variables)):
            index = graph.one(solution, RS + "index")
            if index is None:
                return None
            rows.append((int(index.value), row))
        rows.sort(key=lambda item: item[0])
        return [row for _, row in rows]


def known_failures(root: Path) -> dict[str, str]:
    """Tests that cannot pass, each with the reason: none in W3C's own repository of today."""
    return {} if (root / "sparql11" / "manifest-sparql11-query.ttl").is_file() else CHANGED


def read_tests(root: Path) -> list[EvaluationTest]:
    """All query evaluation tests below root (the folder that holds sparql10 and sparql11)."""
    return [test for manifest in MANIFESTS for test in read_manifest(root, manifest)]


def read_manifest(root: Path, name: str) -> Iterator[EvaluationTest]:
    for kind in ("QueryEvaluationTest", "CSVResultFormatTest"):
        for manifest, graph, entry in entries(root, name, kind):
            yield read_entry(root, manifest, graph, entry)


def entries(root: Path, name: str, kind: str) -> Iterator[tuple[str, Graph, Term]]:
    """The tests of one kind, with the manifests that hold them."""
    if name.startswith(ELSEWHERE):
        return
    graph = Graph(root / name, BASE + name)
    top = ox.NamedNode(BASE + name)
    for included in graph.list(graph.one(top, MF + "include")):
        yield from entries(root, included.value.removeprefix(BASE), kind)
    for entry in graph.list(graph.one(top, MF + "entries")):
        if ox.NamedNode(MF + kind) in graph.all(entry, RDF + "type"):
            yield name, graph, entry


@dataclass(frozen=True)
class UpdateTest:
    """One mf:UpdateEvaluationTest: a request, and the dataset before and after it."""

    root: Path
    name: str
    request_file: str
    before: tuple[tuple[str | None, str], ...]  # (graph's IRI or None, file)
    after: tuple[tuple[str | None, str], ...]

    @property
    def base(self) -> str:
        return BASE + self.request_file

    @cached_property
    def request(self) -> str:
        return (self.root / self.request_file).read_text(encoding="utf-8")

    def quads(self, state: tuple[tuple[str | None, str], ...]) -> list[ox.Quad]:
        """Blank nodes with one label are one node in all graphs of a state, as the tests mean them."""
        quads = []
        for iri, name in state:
            graph = ox.DefaultGraph() if iri is None else ox.NamedNode(iri)
            document = Graph(self.root / name, BASE + name)
            quads += [ox.Quad(*triple, graph) for triple in document.triples]
        return quads


def read_update_tests(root: Path) -> Iterator[UpdateTest]:
    for manifest, graph, entry in entries(root, MANIFESTS[1], "UpdateEvaluationTest"):
        action, result = graph.one(entry, MF + "action"), graph.one(entry, MF + "result")
        assert action is not None
        assert result is not None
        request = graph.one(action, UT + "request")
        assert request is not None
        yield UpdateTest(
            root=root,
            name=f"{manifest.rpartition('/')[0]}/{re.split('[#/]', entry.value)[-1]}",
            request_file=request.value.removeprefix(BASE),
            before=tuple(state_files(graph, action)),
            after=tuple(state_files(graph, result)),
        )


def state_files(graph: Graph, state: Term) -> Iterator[tuple[str | None, str]]:
    for data in graph.all(state, UT + "data"):
        yield None, data.value.removeprefix(BASE)
    for data in graph.all(state, UT + "graphData"):
        file, label = graph.one(data, UT + "graph") or data, graph.one(data, RDFS + "label")
        yield (label or file).value, file.value.removeprefix(BASE)


def read_entry(root: Path, manifest: str, graph: Graph, entry: Term) -> EvaluationTest:
    action, result = graph.one(entry, MF + "action"), graph.one(entry, MF + "result")
    assert action is not None
    assert result is not None
    query = graph.one(action, QT + "query")
    assert query is not None
    graphs = []
    for data in graph.all(action, QT + "graphData"):
        file, label = graph.one(data, QT + "graph") or data, graph.one(data, RDFS + "label")
        graphs.append(((label or file).value, file.value.removeprefix(BASE)))
    cardinality = graph.one(entry, MF + "resultCardinality")
    return EvaluationTest(
        root=root,
        name=f"{manifest.rpartition('/')[0]}/{re.split('[#/]', entry.value)[-1]}",
        query_file=query.value.removeprefix(BASE),
        data_files=tuple(data.value.removeprefix(BASE) for data in graph.all(action, QT + "data")),
        graph_files=tuple(graphs),
        result_file=result.value.removeprefix(BASE),
        lax=cardinality is not None and cardinality.value == MF + "LaxCardinality",
    )


def from_results(path: Path, syntax: ox.QueryResultsFormat, variables: tuple[str, ...]) -> Weights:
    parsed = ox.parse_query_results(path=path, format=syntax)
    if isinstance(parsed, ox.QueryBoolean):
        return {(): 1} if parsed else {}
    names = {variable.value for variable in parsed.variables}
    assert names <= set(variables), f"expected variables {names}, the view has {variables}"
    rows = (tuple(solution[name] if name in names else None for name in variables) for solution in parsed)
    return dict(Counter(rows))


def from_graph(graph: Graph, variables: tuple[str, ...]) -> Weights:
    """A result set described in RDF, or the graph that a CONSTRUCT gives."""
    sets = [t.subject for t in graph.triples if t.object == ox.NamedNode(RS + "ResultSet")]
    if not sets:
        booleans = [t.object.value for t in graph.triples if t.predicate.value == RS + "boolean"]
        if booleans:
            return {(): 1} if booleans == ["true"] else {}
        return {tuple(triple): 1 for triple in graph.triples}
    [subject] = sets
    boolean = graph.one(subject, RS + "boolean")
    if boolean is not None:
        return {(): 1} if boolean.value == "true" else {}
    return dict(Counter(row for _, row in solutions_of(graph, variables)))


def solutions_of(graph: Graph, variables: tuple[str, ...]) -> Iterator[tuple[Term, Row]]:
    """The solutions of a result set described in RDF: their nodes and rows."""
    for triple in graph.triples:
        if triple.predicate.value == RS + "solution":
            bindings = {}
            for binding in graph.all(triple.object, RS + "binding"):
                name, value = graph.one(binding, RS + "variable"), graph.one(binding, RS + "value")
                assert name is not None
                bindings[name.value] = value
            yield triple.object, tuple(bindings.get(name) for name in variables)


# Comparison


def same_order(actual: Iterable[Row], expected: Iterable[Row]) -> bool:
    """Equal row by row; a blank node stands for any."""

    def shape(row: Row) -> tuple[object, ...]:
        return tuple("blank" if isinstance(term, ox.BlankNode) else normal_term(term) for term in row)

    return [shape(row) for row in actual] == [shape(row) for row in expected]


def same_solutions(actual: Weights, expected: Weights, *, lax: bool = False) -> bool:
    """Equal as multisets, up to the names of blank nodes and the lexical form of decimals and doubles."""
    if isomorphic(actual, expected):
        return True
    actual, expected = normalise(actual), normalise(expected)
    if lax:  # REDUCED: each solution at least once, at most as often as without it
        return actual.keys() == expected.keys() and all(actual[row] <= expected[row] for row in actual)
    return isomorphic(actual, expected)


def normalise(weights: Weights) -> Weights:
    total: Counter[Row] = Counter()
    for row, weight in weights.items():
        total[tuple(normal_term(term) for term in row)] += weight
    return dict(total)


def normal_term(term: Term | None) -> Term | None:
    """Decimals and doubles by value; integers keep their lexical form, which some tests are about."""
    if not isinstance(term, ox.Literal) or term.datatype.value not in FLOATING:
        return term
    try:
        value = Decimal(term.value)
    except InvalidOperation:
        return term
    if not value.is_finite():
        return term
    if term.datatype.value != XSD + "decimal":
        value = Decimal(repr(float(value)))
    return ox.Literal(f"{value.normalize():f}", datatype=term.datatype)


def isomorphic(left: Weights, right: Weights) -> bool:
    """Whether a renaming of blank nodes makes the two equal: colours first, then a search among equals."""
    if left == right:
        return True
    left_colours, right_colours = colours(left), colours(right)
    if Counter(left_colours.values()) != Counter(right_colours.values()):
        return False
    nodes = sorted(
        left_colours, key=lambda node: (Counter(left_colours.values())[left_colours[node]], str(node))
    )
    return _search(left, right, nodes, left_colours, right_colours, {})


def assert_alike(actual: Weights, expected: Weights, what: str) -> None:
    """Equal up to the names that CONSTRUCT gives to blank nodes; shows the rows that differ."""
    if canonical(actual) != canonical(expected):
        assert_same(actual, expected, what)


def canonical(weights: Weights) -> Weights | set[ox.Quad]:
    """Triples with canonical blank nodes, a graph for each weight; other rows as they are."""
    try:
        quads = [ox.Quad(*row, ox.NamedNode(f"weight:{weight}")) for row, weight in weights.items()]
    except (TypeError, ValueError):  # no triples
        return weights
    dataset = ox.Dataset(quads)
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)


def _search(
    left: Weights,
    right: Weights,
    nodes: list[ox.BlankNode],
    left_colours: dict[ox.BlankNode, int],
    right_colours: dict[ox.BlankNode, int],
    renaming: dict[ox.BlankNode, ox.BlankNode],
) -> bool:
    if len(renaming) == len(nodes):
        renamed: Counter[Row] = Counter()
        for row, weight in left.items():
            renamed[tuple(renaming.get(t, t) if isinstance(t, ox.BlankNode) else t for t in row)] += weight
        return dict(renamed) == right
    node = nodes[len(renaming)]
    taken = set(renaming.values())
    return any(
        _search(left, right, nodes, left_colours, right_colours, {**renaming, node: other})
        for other, colour in right_colours.items()
        if colour == left_colours[node] and other not in taken
    )


def colours(weights: Weights) -> dict[ox.BlankNode, int]:
    """A number for each blank node by the rows it occurs in, refined until neighbours are seen as well."""
    result = {term: 0 for row in weights for term in row if isinstance(term, ox.BlankNode)}
    for _ in range(4):
        seen: dict[ox.BlankNode, list[int]] = defaultdict(list)
        for row, weight in weights.items():
            shape = tuple(result[t] if isinstance(t, ox.BlankNode) else t for t in row)
            for node in {term for term in row if isinstance(term, ox.BlankNode)}:
                seen[node].append(hash((shape, tuple(term == node for term in row), weight)))
        result = {node: hash(tuple(sorted(seen[node]))) for node in result}
    return result
