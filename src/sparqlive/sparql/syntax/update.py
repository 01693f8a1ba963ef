"""Turns the parse tree of an update request into the update operations of the algebra.

Reads the operations and their quads. Rejects variables and literal subjects in data, blank nodes in
deletions, and a blank node label in two INSERT DATA of one request (the notes of §19.8). Invariant: a quad of
a template names its graph, or belongs to the default graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyoxigraph import NamedNode

from sparqlive.sparql.algebra import (
    Clear,
    Create,
    Dataset,
    DeleteData,
    Drop,
    InsertData,
    Load,
    Modify,
    QuadPattern,
    Transfer,
    UpdateOperation,
    Var,
)
from sparqlive.sparql.syntax.patterns import TemplateBlanks
from sparqlive.sparql.syntax.query import QueryReader
from sparqlive.sparql.syntax.terms import Names
from sparqlive.sparql.syntax.tree import Node, TextError, Token, tokens


def read_update(unit: Node, base: str | None) -> tuple[UpdateOperation, ...]:
    """Returns the operations of an `update_unit`. A prologue applies to everything after it."""
    names = Names(base)
    operations: list[UpdateOperation] = []
    labels: set[str] = set()
    following: Node | None = unit
    while following is not None:
        prologue, *rest = following.children
        names.declare(prologue)
        if rest:
            if rest[0].rule == "insert_data":
                _refuse_repeated_labels(rest[0], labels)
            operations.append(_OperationReader(names).read(rest[0]))
        following = rest[1] if len(rest) > 1 else None
    return tuple(operations)


def _refuse_repeated_labels(operation: Node, labels: set[str]) -> None:
    own = [token for token in tokens(operation) if token.type == "BLANK_LABEL"]
    for label in own:
        if label in labels:
            raise TextError(f"the blank node `{label}` is used in two INSERT DATA; use another label", label)
    labels.update(own)


class _OperationReader:
    """Reads one operation. Blank node labels are local to it."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.patterns = QueryReader(names).patterns

    def read(self, node: Node) -> UpdateOperation:
        children = node.children
        match node.rule:
            case "insert_data":
                return InsertData(self._data(children[0], "INSERT DATA"))
            case "delete_data":
                _refuse_blanks(children[0], "DELETE DATA")
                return DeleteData(self._data(children[0], "DELETE DATA"))
            case "delete_where":
                return self._delete_where(children[0])
            case "modify":
                return self._modify(children)
            case "load":
                silent, source, *graph = children
                return Load(self.names.iri(source), self._optional_iri(graph), silent is not None)
            case "clear":
                return Clear(self._target(children[-1]), children[0] is not None)
            case "drop":
                return Drop(self._target(children[-1]), children[0] is not None)
            case "create":
                return Create(self.names.iri(children[-1]), children[0] is not None)
            case "add":
                return Transfer("ADD", *self._ends(children), children[0] is not None)
            case "move":
                return Transfer("MOVE", *self._ends(children), children[0] is not None)
            case "copy":
                return Transfer("COPY", *self._ends(children), children[0] is not None)
        raise AssertionError(f"unknown operation in the grammar: {node.rule}")

    def _optional_iri(self, found: list[Any]) -> NamedNode | None:
        return self.names.iri(found[0]) if found and found[0] is not None else None

    def _target(self, token: Any) -> Any:
        keyword = token.type in ("DEFAULT", "NAMED", "ALL")
        return token.type if keyword else self.names.iri(token)

    def _ends(self, children: list[Any]) -> tuple[NamedNode | None, NamedNode | None]:
        source, target = (None if end.type == "DEFAULT" else self.names.iri(end) for end in children[1:])
        return source, target

    def _data(self, quads: Node, operation: str) -> tuple[QuadPattern, ...]:
        for token in tokens(quads):
            if token.type == "VAR":
                instead = operation.replace("DATA", "{ … } WHERE { … }")
                raise TextError(f"{operation} cannot contain variables; use {instead}", token)
        for subject in _subjects(quads):
            if _is_literal(subject):
                raise TextError(f"{operation} cannot contain a literal as a subject; use an IRI", subject)
        return self._quads(quads, None)

    def _quads(self, quads: Node, default: NamedNode | None) -> tuple[QuadPattern, ...]:
        blanks = TemplateBlanks()
        result: list[QuadPattern] = []
        for part in quads.children:
            graph: Var | NamedNode | None = default
            blocks = [part]
            if part.rule == "quads_of_graph":
                graph, blocks = self.patterns.var_or_iri(part.children[0]), part.children[1:]
            for triple in self.patterns.template(blocks, blanks):
                result.append(QuadPattern(triple.subject, triple.predicate, triple.object, graph))
        return tuple(result)

    def _delete_where(self, quads: Node) -> Modify:
        _refuse_blanks(quads, "DELETE WHERE")
        elements = [
            Node("graph", [part.children[0], Node("group", [Node("group_body", part.children[1:])])])
            if part.rule == "quads_of_graph"
            else part
            for part in quads.children
        ]
        pattern = self.patterns.group(Node("group", [Node("group_body", elements)]))
        return Modify(self._quads(quads, None), (), pattern)

    def _modify(self, children: list[Any]) -> Modify:
        parts = {child.rule: child for child in children if isinstance(child, Node)}
        graphs = [child for child in children if child is not None and not isinstance(child, Node)]
        with_graph = self._optional_iri(graphs)
        templates: dict[str, tuple[QuadPattern, ...]] = {}
        for clause in ("delete_clause", "insert_clause"):
            if clause in parts:
                templates[clause] = self._quads(parts[clause].children[0], with_graph)
        if "delete_clause" in parts:
            _refuse_blanks(parts["delete_clause"], "DELETE")
        return Modify(
            templates.get("delete_clause", ()),
            templates.get("insert_clause", ()),
            self.patterns.group(parts["group"]),
            self._dataset(parts["using"]),
            with_graph,
        )

    def _dataset(self, using: Node) -> Dataset | None:
        if not using.children:
            return None
        clauses = [(clause.rule, self.names.iri(clause.children[-1])) for clause in using.children]
        return Dataset(
            tuple(iri for rule, iri in clauses if rule == "using_default"),
            tuple(iri for rule, iri in clauses if rule == "using_named"),
        )


def _subjects(quads: Node) -> Iterator[Node | Token]:
    for part in quads.children:
        blocks = part.children[1:] if part.rule == "quads_of_graph" else [part]
        for block in blocks:
            yield from (triples.children[0] for triples in block.children)


def _is_literal(part: Node | Token) -> bool:
    if isinstance(part, Node):
        return part.rule == "rdf_literal"
    return part.type not in ("IRIREF", "PNAME", "BLANK_LABEL")


def _refuse_blanks(node: Node, operation: str) -> None:
    """Rejects blank nodes: those of a template are new, so the data never contains them."""
    for part in _blank_parts(node):
        raise TextError(f"{operation} cannot contain a blank node; match it with a variable in WHERE", part)


def _blank_parts(node: Node) -> list[Any]:
    found: list[Any] = []
    for child in node.children:
        if isinstance(child, Node):
            blank = child.rule in ("anonymous", "collection", "property_node")
            found += [node] if blank else _blank_parts(child)
        elif child is not None and child.type == "BLANK_LABEL":
            found.append(child)
    return found
