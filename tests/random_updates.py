"""Hypothesis strategies for SPARQL Update requests, each operation with what it must do to a set of quads.

WHERE clauses are evaluated by pyoxigraph, in the rendering that it gets right (tests/random_queries.py). What
SPARQL leaves to the store is said here once more, in its own words: a named graph exists while it has a quad;
CREATE fails where the graph exists; ADD, MOVE and COPY fail where their source does not; SILENT makes a
failure no change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyoxigraph as ox
from hypothesis import strategies as st

from tests.oracle import graph_names
from tests.random_queries import (
    EX,
    GRAPHS,
    PROLOGUE,
    Text,
    constants,
    graphs,
    groups,
    nodes,
    predicates,
    quads,
    variables,
)

Data = set[ox.Quad]
DEFAULT = ox.DefaultGraph()


class RequestFailsError(Exception):
    """The operation fails, and with it the request."""


@dataclass(frozen=True)
class Operation:
    text: str
    effect: Callable[[Data], Data]

    def __repr__(self) -> str:
        return f"<{self.text}>"


def request(operations: Sequence[Operation]) -> str:
    return PROLOGUE + " ;\n".join(operation.text for operation in operations)


def effect(operations: Sequence[Operation], data: Data) -> Data:
    """The quads after a request; raises RequestFailsError."""
    for operation in operations:
        data = operation.effect(data)
    return data


def by_pyoxigraph(text: str, data: Data) -> Data:
    store = ox.Store()
    store.extend(data)
    store.update(PROLOGUE + text)
    return set(store)


@st.composite
def data_operations(draw: st.DrawFn) -> Operation:
    named = draw(st.lists(quads, min_size=1, max_size=4))
    keyword, insert = draw(st.sampled_from((("INSERT DATA", True), ("DELETE DATA", False))))
    text = f"{keyword} {{ {' '.join(statement(quad) for quad in named)} }}"
    return Operation(text, lambda data: data | set(named) if insert else data - set(named))


def statement(quad: ox.Quad) -> str:
    triple = f"{quad.subject} {quad.predicate} {quad.object} ."
    return triple if quad.graph_name == DEFAULT else f"GRAPH {quad.graph_name} {{ {triple} }}"


@st.composite
def templates(draw: st.DrawFn, blank: bool) -> str:
    ends = st.one_of(variables, variables, constants)
    parts = []
    for _ in range(draw(st.integers(0, 2))):
        subject = "_:made" if blank and draw(st.booleans()) else draw(st.one_of(variables, variables, nodes))
        triple = f"{subject} {draw(st.one_of(predicates, st.just('?p')))} {draw(ends)} ."
        graph = draw(st.sampled_from(("", "", ":g", "?g", "?a")))
        parts.append(f"GRAPH {graph} {{ {triple} }}" if graph else triple)
    return " ".join(parts)


@st.composite
def modifications(draw: st.DrawFn) -> Operation:
    """DELETE, INSERT or both, with WITH or USING at times."""
    body: Text = draw(groups(1, [0]))
    clauses = (
        *[("", "", None)] * 6,
        ("WITH :g ", "", None),
        ("", "USING :g ", []),
        ("WITH :h ", "USING :g USING NAMED :h ", [ox.NamedNode(EX + "h")]),
        ("", "USING NAMED :g ", [ox.NamedNode(EX + "g")]),
    )
    start, using, named = draw(st.sampled_from(clauses))
    delete, insert = draw(templates(False)), draw(templates(not using))
    head = {
        "both": f"DELETE {{ {delete} }} INSERT {{ {insert} }}",
        "delete": f"DELETE {{ {delete} }}",
        "insert": f"INSERT {{ {insert} }}",
    }[draw(st.sampled_from(("both", "delete", "insert")))]
    text = f"{start}{head} {using}WHERE {{ %s }}"

    def change(data: Data) -> Data:
        names = [name for name in graph_names(data) if named is None or name in named]
        return by_pyoxigraph(text % body.oracle(names), data)

    return Operation(text % body.text, change)


@st.composite
def delete_wheres(draw: st.DrawFn) -> Operation:
    triple = f"{draw(variables)} {draw(st.one_of(predicates, st.just('?p')))} {draw(variables)} ."
    graph = draw(st.sampled_from(("", ":g", "?g")))
    text = f"DELETE WHERE {{ {f'GRAPH {graph} {{ {triple} }}' if graph else triple} }}"
    return Operation(text, lambda data: by_pyoxigraph(text, data))


@st.composite
def graph_operations(draw: st.DrawFn) -> Operation:
    silent = draw(st.sampled_from(("", "SILENT ")))
    source, target = draw(st.sampled_from(GRAPHS)), draw(st.sampled_from(GRAPHS))
    kind = draw(st.sampled_from(("CLEAR", "DROP", "NAMED", "CREATE", "ADD", "MOVE", "COPY", "LOAD")))

    def fail(data: Data) -> Data:
        if not silent:
            raise RequestFailsError
        return data

    def transfer(data: Data) -> Data:
        moved = content(data, source)
        if source == target and (moved or source == DEFAULT):
            return data
        if not moved and source != DEFAULT:
            return fail(data)
        kept = (
            data - (content(data, target) if kind != "ADD" else set()) - (moved if kind == "MOVE" else set())
        )
        return kept | {ox.Quad(*quad.triple, target) for quad in moved}

    match kind:
        case "CLEAR" | "DROP":
            return Operation(f"{kind} {silent}{end(source)}", lambda data: data - content(data, source))
        case "NAMED":
            return Operation(f"CLEAR {silent}NAMED", lambda data: content(data, DEFAULT))
        case "CREATE":
            named = ox.NamedNode(EX + draw(st.sampled_from("gh")))
            return Operation(
                f"CREATE {silent}GRAPH {named}", lambda data: fail(data) if content(data, named) else data
            )
        case "LOAD":
            return Operation(f"LOAD {silent}<file:///nowhere.ttl>", fail)
    return Operation(f"{kind} {silent}{end(source)} TO {end(target)}", transfer)


def end(graph: ox.NamedNode | ox.DefaultGraph) -> str:
    return "DEFAULT" if graph == DEFAULT else f"GRAPH {graph}"


def content(data: Data, graph: ox.NamedNode | ox.DefaultGraph) -> Data:
    return {quad for quad in data if quad.graph_name == graph}


operations = st.one_of(
    data_operations(), modifications(), modifications(), modifications(), delete_wheres(), graph_operations()
)
requests = st.lists(operations, min_size=1, max_size=3)
starts = graphs
