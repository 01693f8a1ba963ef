"""Random programs over data of many shapes: `python -m tests.random_shapes --minutes 60`.

`tests.random_programs` nests queries over a handful of quads. Here the queries are what people ask, and the
data is so large and uneven that code with a bound on sizes takes each of its ways: thousands of graphs,
predicates and subjects, hubs, terms of all kinds, batches of one to some thousands of quads. Every view is
kept under random strategies, compaction, reopening and little memory, and compared with pyoxigraph, with the
same query asked once, and with the sum of its deltas; LIMIT without ORDER BY with the whole.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph as ox

import sparqlive
from tests.oracle import Weights, add, show, subtract
from tests.soaking import soak

EX = "http://example.org/"
INTEGER = ox.NamedNode("http://www.w3.org/2001/XMLSchema#integer")
STRATEGIES = ("auto", "auto", "auto", "live", "duckdb", "rebuild")
MOST_ROWS = 100_000
"""Of a view; a query with more is not kept, because comparing takes long."""
ODD: tuple[ox.NamedNode | ox.BlankNode | ox.Literal, ...] = (
    ox.Literal(""),
    ox.Literal(" "),
    ox.Literal('a "quoted" \\ text\nof two lines'),
    ox.Literal("x" * 3000),
    ox.Literal("chat", language="fr"),
    ox.Literal("chat", language="en-gb"),
    ox.Literal("\U0001d11e \u202e"),
    ox.Literal("x", datatype=ox.NamedNode(EX + "type")),
    ox.Literal("2020-01-01T00:00:00Z", datatype=ox.NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")),
    ox.Literal(True),
    ox.Literal(2.5),
    ox.NamedNode(EX + "?q=1&r=$%7Benv:HOME%7D#f"),
    ox.NamedNode("urn:x'y"),
    ox.BlankNode("b1"),
)


@dataclass
class Done:
    """How much was run and compared."""

    programs: int = 0
    steps: int = 0
    compared: int = 0
    quads: int = 0

    def __str__(self) -> str:
        return (
            f"{self.programs} programs of {self.steps} steps, {self.compared} comparisons of views, "
            f"{self.quads:,} quads in all"
        )


class Shape:
    """How uneven the data of a program is: how many graphs, predicates, nodes, and how often hubs are met."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self.graphs = pick.choice((0, 0, 1, 3, 300, 2000))
        self.predicates = pick.choice((3, 3, 20, 1500))
        self.nodes = pick.choice((5, 60, 1000, 20_000))
        self.quads = pick.choice((300, 3000, 3000, 12_000))
        self._hub = pick.choice((0.0, 0.0, 0.2, 0.7))
        self._odd = pick.choice((0.0, 0.05, 0.5))
        self._unnamed = pick.choice((0.0, 0.1, 0.9)) if self.graphs else 1.0

    def node(self) -> ox.NamedNode:
        return ox.NamedNode(
            f"{EX}n{0 if self._pick.random() < self._hub else self._pick.randrange(self.nodes)}"
        )

    def predicate(self) -> ox.NamedNode:
        if self._pick.random() < 0.3:
            return ox.NamedNode(f"{EX}p{self._pick.randrange(min(3, self.predicates))}")
        return ox.NamedNode(f"{EX}p{self._pick.randrange(self.predicates)}")

    def graph(self) -> ox.NamedNode | ox.DefaultGraph:
        if self._pick.random() < self._unnamed:
            return ox.DefaultGraph()
        return ox.NamedNode(f"{EX}g{self._pick.randrange(self.graphs)}")

    def object(self) -> ox.NamedNode | ox.BlankNode | ox.Literal:
        chance = self._pick.random()
        if chance < self._odd:
            return self._pick.choice(ODD)
        if chance < 0.6:
            return self.node()
        if chance < 0.85:
            return ox.Literal(self._pick.randrange(-50, 10 * self.nodes))
        return ox.Literal(f"text {self._pick.randrange(50)}")

    def quad(self) -> ox.Quad:
        return ox.Quad(self.node(), self.predicate(), self.object(), self.graph())


class Queries:
    """Writes queries over data of a shape. Each is one of which pyoxigraph is known to be right."""

    def __init__(self, pick: random.Random, shape: Shape) -> None:
        self._pick = pick
        self._shape = shape

    def text(self) -> str:
        """A query; its variables in SELECT are all columns of any ORDER BY with LIMIT."""
        p, q, r = (str(self._shape.predicate()) for _ in range(3))
        node, other = str(self._shape.node()), str(self._shape.object())
        if other.startswith(("_:", "<<")):  # a blank node in a query is a variable
            other = node
        graph = f"<{EX}g{self._pick.randrange(max(1, self._shape.graphs))}>"
        listed = " ".join(
            f"FROM <{EX}g{self._pick.randrange(max(1, self._shape.graphs))}>"
            for _ in range(self._pick.choice((1, 2, 40)))
        )
        number = self._pick.randrange(-50, 10 * self._shape.nodes)
        return self._pick.choice(
            (
                f"SELECT ?p ?o {{ {node} ?p ?o }}",
                f"SELECT ?s ?p {{ ?s ?p {other} }}",
                f"SELECT ?p {{ {node} ?p {other} }}",
                f"SELECT ?s {{ ?s {p} {other} }}",
                f"SELECT ?s ?o {{ ?s {p} ?o }}",
                "SELECT DISTINCT ?p { ?s ?p ?o }",
                "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p",
                f"SELECT (COUNT(DISTINCT ?s) AS ?n) {{ ?s {p} ?o }}",
                f"SELECT ?s (COUNT(*) AS ?n) (MAX(STR(?o)) AS ?m) {{ ?s {p} ?o }} GROUP BY ?s",
                f"SELECT ?s (SUM(?o) AS ?n) (MIN(?o) AS ?m) {{ ?s {p} ?o FILTER(DATATYPE(?o) = {INTEGER}) }} "
                f"GROUP BY ?s",
                f"SELECT (SUM(?o) AS ?n) {{ ?s {p} ?o FILTER(DATATYPE(?o) = {INTEGER}) }}",
                f"SELECT ?s (COUNT(?o) AS ?n) {{ ?s {p} ?o }} GROUP BY ?s HAVING (COUNT(?o) > 2)",
                f"SELECT ?s ?x {{ ?s {p} ?o . ?o {q} ?x }}",
                f"SELECT ?a ?b {{ {node} {p} ?a . {node} {q} ?b }}",
                f"SELECT ?s ?a ?b {{ ?s {p} ?a ; {q} ?b . ?s {r} {other} }}",
                f"SELECT ?x {{ {node} {p}/{q} ?x }}",
                f"SELECT ?x {{ {node} {p}+ ?x }}",
                f"SELECT ?s ?o ?x {{ ?s {p} ?o OPTIONAL {{ ?s {q} ?x }} }}",
                f"SELECT ?s ?o ?x {{ ?s {p} ?o OPTIONAL {{ ?o {q} ?x FILTER(?x != {other}) }} }}",
                f"SELECT ?s ?o {{ ?s {p} ?o MINUS {{ ?s {q} ?x }} }}",
                f"SELECT ?s ?o {{ ?s {p} ?o FILTER NOT EXISTS {{ ?o {q} ?x }} }}",
                f"SELECT ?s ?o {{ ?s {p} ?o FILTER EXISTS {{ ?s {q} ?o }} }}",
                f"SELECT ?s ?o {{ ?s {p} ?o FILTER(?o > {number}) }}",
                f"SELECT ?s ?o {{ ?s {p} ?o FILTER(CONTAINS(STR(?o), '1')) }}",
                f"SELECT ?s ?o {{ ?s {p} ?o FILTER(REGEX(STR(?o), '^text [0-3]', 'i')) }}",
                f"SELECT ?s ?o {{ ?s {p} ?o FILTER(LANG(?o) = 'fr' || ISBLANK(?o) || ISNUMERIC(?o)) }}",
                f"SELECT ?s ?o {{ {{ ?s {p} ?o }} UNION {{ ?o {q} ?s }} }}",
                f"SELECT ?s (STRLEN(STR(?o)) AS ?n) {{ ?s {p} ?o }}",
                f"SELECT ?n ?s {{ ?s {p} ?n FILTER(DATATYPE(?n) = {INTEGER}) }} "
                f"ORDER BY DESC(?n) ?s LIMIT {self._pick.choice((1, 10, 300))}",
                f"SELECT ?s {{ VALUES ?s {{ {node} {self._shape.node()} }} ?s {p} ?o }}",
                f"ASK {{ ?s {p} ?o . ?o {q} {node} }}",
                f"CONSTRUCT {{ ?o {q} ?s }} WHERE {{ ?s {p} ?o FILTER(ISIRI(?o)) }}",
                f"SELECT ?g {{ GRAPH ?g {{ {node} ?p ?o }} }}",
                f"SELECT ?g ?s {{ GRAPH ?g {{ ?s {p} {other} }} }}",
                f"SELECT ?g ?s ?x {{ GRAPH ?g {{ ?s {p} ?o . ?s {q} ?x }} }}",
                f"SELECT ?s ?o {{ GRAPH {graph} {{ ?s {p} ?o }} }}",
                f"SELECT ?s ?p ?o {{ GRAPH {graph} {{ ?s ?p ?o }} }}",
                "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
                f"SELECT ?s ?o {{ ?s {p} ?o . GRAPH {graph} {{ ?s {q} ?x }} }}",
                f"SELECT ?g {{ ?s {p} {other} . GRAPH ?g {{ ?s {q} ?x }} }}",
                f"SELECT ?s ?o {listed} {{ ?s {p} ?o }}",
                f"SELECT ?p ?o {listed} {{ {node} ?p ?o }}",
                f"SELECT ?s ?x {listed} {{ ?s {p} ?o . ?o {q} ?x }}",
            )
        )


class Program:
    """One session and what is known of it: its quads, its views, and the sums of their deltas."""

    def __init__(self, seed: int, path: Path, done: Done) -> None:
        self.pick = random.Random(seed)
        self.done = done
        self.shape = Shape(self.pick)
        self.queries = Queries(self.pick, self.shape)
        self.path = path if self.pick.random() < 0.7 else None
        self.union = self.pick.random() < 0.5
        self.memory = self.pick.choice((None, None, "300MB", 0)) if self.path else None
        self.data: dict[ox.Quad, None] = {}  # an ordered set: what a seed picks is the same each time
        self.named, self.merged = ox.Store(), ox.Store()
        self.sums: dict[str, Weights] = {}
        self.texts: dict[str, str] = {}
        self.count = 0
        self.session = self.open()

    def open(self) -> sparqlive.Session:
        default = "union" if self.union else "strict"
        return sparqlive.open(self.path, default_graph=default, memory=self.memory)

    def run(self, steps: int) -> None:
        ways: list[tuple[Callable[[], None], int]] = [
            (self.batch, 8),
            (self.replace_graph, 1),
            (self.add_view, 3),
            (self.drop_view, 1),
            (self.compact, 1),
            (self.reopen, 1),
            (self.ask, 4),
            (self.compare, 2),
        ]
        try:
            self.change({self.shape.quad(): None for _ in range(self.shape.quads)}, {})
            for _ in range(4):
                self.add_view()
            for _ in range(steps):
                self.done.steps += 1
                self.pick.choices([way for way, _ in ways], [share for _, share in ways])[0]()
            self.compare()
            self.done.quads += len(self.data)
        finally:
            self.session.close()

    # Steps

    def change(self, coming: dict[ox.Quad, None], going: dict[ox.Quad, None]) -> None:
        going = {quad: None for quad in going if quad not in coming}
        text = self.pick.random() < 0.3
        insert, delete = (
            "".join(f"{quad} .\n" for quad in quads) if text else list(quads) for quads in (coming, going)
        )
        epoch = self.session.apply(insert=insert, delete=delete, strategy=self.pick.choice(STRATEGIES))
        self.noted(coming, going)
        for name in self.sums:
            self.sums[name] = add(self.sums[name], epoch.deltas[name].weights())

    def noted(self, coming: Iterable[ox.Quad], going: Iterable[ox.Quad]) -> None:
        for quad in going:
            self.data.pop(quad, None)
            self.named.remove(quad)
        self.data.update(dict.fromkeys(coming))
        self.named.extend(coming)
        if self.union:
            self.merged = ox.Store()
            self.merged.extend(self.data)
            self.merged.extend(ox.Quad(q.subject, q.predicate, q.object) for q in self.data)

    def batch(self) -> None:
        count = self.pick.choice((1, 1, 1, 5, 40, 300, 600, 3000))
        coming = {self.shape.quad(): None for _ in range(self.pick.choice((0, count, count)))}
        known = list(self.data)
        some = min(len(known), self.pick.choice((0, 1, count, count)))
        self.change(coming, dict.fromkeys(self.pick.sample(known, some)))

    def replace_graph(self) -> None:
        """A graph is cleared, or its content replaced."""
        name = self.shape.graph()
        if isinstance(name, ox.DefaultGraph):
            return
        going = {quad: None for quad in self.data if quad.graph_name == name}
        coming = {
            ox.Quad(self.shape.node(), self.shape.predicate(), self.shape.object(), name): None
            for _ in "1234"
        }
        self.change(self.pick.choice(({}, coming)), going)

    def add_view(self) -> None:
        if len(self.sums) >= 6:
            return
        text = self.queries.text()
        if sum(self.expected(text).values()) > MOST_ROWS:
            return
        self.count += 1
        view = self.session.view(f"v{self.count}", text)
        self.texts[f"v{self.count}"] = text
        self.sums[f"v{self.count}"] = view.weights()

    def drop_view(self) -> None:
        if self.sums:
            name = self.pick.choice(sorted(self.sums))
            self.session.drop(name)
            del self.sums[name]

    def compact(self) -> None:
        self.session.compact()

    def reopen(self) -> None:
        if self.path is not None:
            self.session.close()
            self.session = self.open()

    # Comparing

    def expected(self, text: str) -> Weights:
        """What pyoxigraph finds. Of several FROM it would list equal triples twice: it gets them merged."""
        store = self.merged if self.union else self.named
        if " FROM " in text:
            names = {word for word in text.split() if word.startswith(f"<{EX}g") and word.endswith(">")}
            store = ox.Store()
            found = (quad for quad in self.data if str(quad.graph_name) in names)
            store.extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in found)
            text = " ".join(word for word in text.split() if word != "FROM" and word not in names)
        result = store.query(text)
        if isinstance(result, ox.QueryBoolean):
            return {(): 1} if result else {}
        if isinstance(result, ox.QueryTriples):
            return dict.fromkeys((tuple(triple) for triple in result), 1)
        assert isinstance(result, ox.QuerySolutions)
        names_found = [variable.value for variable in result.variables]
        return dict(Counter(tuple(solution[name] for name in names_found) for solution in result))

    def ask(self) -> None:
        """A query that is asked once, twice, and a part of it."""
        text = self.queries.text()
        expected = self.expected(text)
        if sum(expected.values()) > MOST_ROWS:
            return
        for _ in range(2):
            assert_same_rows(shown(self.session.query(text)), expected, f"asked once: {text}")
        self.done.compared += 2
        if text.startswith("SELECT") and "LIMIT" not in text:
            limit, offset = self.pick.choice((1, 7, 100, 5000)), self.pick.choice((0, 0, 3))
            part = self.session.query(f"{text} LIMIT {limit} OFFSET {offset}").weights()
            whole = sum(expected.values())
            assert sum(part.values()) == max(0, min(limit, whole - offset)), f"LIMIT {limit}: {text}"
            assert all(expected.get(row, 0) >= weight for row, weight in part.items()), f"a part: {text}"

    def compare(self) -> None:
        assert set(self.session.quads()) == set(self.data), "the quads differ"
        for name, total in self.sums.items():
            view, text = self.session.views[name], self.texts[name]
            assert view.failure is None, f"{view.failure}: {text}"
            expected = self.expected(text)
            assert_same_rows(shown(view), expected, f"{name}: {text}")
            assert_same_rows(total, view.weights(), f"the sum of the deltas of {name}: {text}")
            assert_same_rows(shown(self.session.query(text)), expected, f"asked once: {text}")
            self.done.compared += 3
        if len(self.data) < 1000:
            self.session.check()


def assert_same_rows(actual: Weights, expected: Weights, what: str) -> None:
    """Compares two zsets; of thousands of rows that differ, the first few are shown."""
    if actual != expected:
        lines = show(subtract(expected, actual))
        raise AssertionError(f"{what}\n  expected - actual: {len(lines)} rows: {lines[:5]}")


def shown(result: sparqlive.View | sparqlive.Answer) -> Weights:
    """The rows of a view or an answer; of a CONSTRUCT its triples, which are a set."""
    if result.form == "CONSTRUCT":
        return dict.fromkeys(((quad.subject, quad.predicate, quad.object) for quad in result.quads()), 1)
    return result.weights()


def run(seed: int, done: Done, steps: int = 15) -> None:
    """Runs one program; what differs is an AssertionError or a CheckFailed."""
    with tempfile.TemporaryDirectory() as folder:
        Program(seed, Path(folder, "store"), done).run(steps)
    done.programs += 1


def main() -> int:
    done = Done()
    return soak(__doc__, lambda seed: run(seed, done), lambda: done)


if __name__ == "__main__":
    sys.exit(main())
