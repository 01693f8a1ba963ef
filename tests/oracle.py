"""Re-evaluates a query from scratch with pyoxigraph, which shares no code with the engine's evaluation.

Rows are compared by term; blank nodes by label, because quads that are given as objects keep theirs.

Not to be trusted, and how the tests live with it:
- Its store changes the lexical form of numbers ("01", "1.0" become "1"): data and constants of tests that use
  the oracle are canonical numbers, and no test computes decimals or doubles.
- Duplicates under a union default graph or several FROM: `Oracle` builds the merged default graph itself, as
  a set, and removes FROM clauses from the query.
- `GRAPH ?g` around anything but a basic graph pattern: tests give the oracle the union over the graph names
  that the specification defines it by (`graph_union`); fixtures have an `equivalent` query.
- Alternatives in paths: it removes duplicates of `(:p|:q)`, which are a bag (§18.4). Zero-length paths with a
  constant end that the graph does not hold: it gives nothing instead of the constant; so in EXISTS, where a
  term stands in place of an outer variable.
- Negated property sets when both ends are bound already: it counts one where each triple counts (§18.4).
- `<` and `>` between IRIs, which are errors (§17.3): it answers them.
- COUNT(DISTINCT *) over a path: it counts the nodes between as if they were variables of the solution.
- MINUS inside EXISTS: what is substituted counts there as a variable that both sides have. BIND inside EXISTS
  to a variable that has a value around: it is overwritten.
- `*` with constant ends over empty data, GROUP_CONCAT of tagged strings, COUNT of errors, sums beyond
  64 bits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pyoxigraph as ox

Term = ox.NamedNode | ox.BlankNode | ox.Literal
Row = tuple[Term | None, ...]
Weights = dict[Row, int]

FROM = re.compile(r"\bFROM\s+(NAMED\s+)?(<[^<>]*>|[\w-]*:[\w-]*)", re.IGNORECASE)
PREFIX = re.compile(r"\bPREFIX\s+([\w-]*:)\s*<([^<>]*)>", re.IGNORECASE)


class Oracle:
    """Evaluates queries over quads; `union` merges all graphs into the default graph."""

    def __init__(self, quads: Iterable[ox.Quad], *, union: bool = False) -> None:
        self.quads = set(quads)
        self.union = union

    def weights(self, query: str, variables: Sequence[str]) -> Weights:
        """The bag of rows of a SELECT, its columns in the order of the given variables; of an ASK one row."""
        return dict(Counter(self.rows(query, variables)))

    def rows(self, query: str, variables: Sequence[str]) -> list[Row]:
        """The rows of a SELECT, in its order; the triples of a CONSTRUCT."""
        store = ox.Store()
        store.extend(self.dataset(query))
        result = store.query(FROM.sub("", query))
        if isinstance(result, ox.QueryBoolean):
            return [()] if result else []
        if isinstance(result, ox.QueryTriples):
            return list({tuple(triple) for triple in result})
        assert isinstance(result, ox.QuerySolutions)
        found = {variable.value for variable in result.variables}
        assert found == set(variables), f"the oracle's variables are {found}, the view's {variables}"
        return [tuple(solution[name] for name in variables) for solution in result]

    def dataset(self, query: str) -> list[ox.Quad]:
        """The quads of the query's own dataset, merged as its FROM clauses say."""
        prefixes = {match[1]: match[2] for match in PREFIX.finditer(query)}
        default, named = set(), set()
        for match in FROM.finditer(query):
            (named if match[1] else default).add(resolve(match[2], prefixes))
        merged: Iterable[ox.Quad]
        if default or named:
            merged = {triple(quad) for quad in self.quads if quad.graph_name in default}
            return [*merged, *(quad for quad in self.quads if quad.graph_name in named)]
        if self.union:
            return list(self.quads | {triple(quad) for quad in self.quads})
        return list(self.quads)


def triple(quad: ox.Quad) -> ox.Quad:
    """The quad in the unnamed graph."""
    return ox.Quad(quad.subject, quad.predicate, quad.object)


def resolve(name: str, prefixes: dict[str, str]) -> ox.NamedNode:
    """An IRI or prefixed name of a query."""
    if name.startswith("<"):
        return ox.NamedNode(name[1:-1])
    prefix, _, local = name.partition(":")
    return ox.NamedNode(prefixes[prefix + ":"] + local)


def graph_names(quads: Iterable[ox.Quad]) -> list[ox.NamedNode]:
    """The named graphs that exist: those with a quad."""
    names = {quad.graph_name for quad in quads if isinstance(quad.graph_name, ox.NamedNode)}
    return sorted(names, key=str)


def graph_union(variable: str, body: str, names: Iterable[ox.NamedNode]) -> str:
    """`GRAPH ?variable { body }` as the specification defines it (§18.6): a union over the graph names."""
    parts = [f"{{ GRAPH {name} {{ {body} }} VALUES {variable} {{ {name} }} }}" for name in names]
    return " UNION ".join(parts) if parts else f"{{ VALUES {variable} {{ }} }}"


def add(left: Weights, right: Weights) -> Weights:
    """The sum of two zsets, without zeros."""
    total = Counter(left)
    for row, weight in right.items():
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


def subtract(left: Weights, right: Weights) -> Weights:
    return add(left, {row: -weight for row, weight in right.items()})


def show(weights: Weights) -> list[str]:
    """Readable, sorted lines for the messages of failing tests."""
    return sorted(
        f"{weight:+d} " + " ".join("UNDEF" if term is None else str(term) for term in row)
        for row, weight in weights.items()
    )


def assert_same(actual: Weights, expected: Weights, what: str) -> None:
    """Compare two zsets and show the rows that differ."""
    assert all(actual.values()), f"{what}: a zero weight is stored: {show(actual)}"
    if actual != expected:
        missing, extra = show(subtract(expected, actual)), show(actual)
        raise AssertionError(
            f"{what}\n  actual:   {extra}\n  expected: {show(expected)}\n  expected - actual: {missing}"
        )
