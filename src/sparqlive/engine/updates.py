"""SPARQL Update: translates the operations of a request into quads to insert and delete.

Implements each operation (SPARQL 1.1 Update §3 and §4): templates, the dataset of a WHERE clause, graph
management. LOAD fetches Web documents under the rules of sources, all of them before the first operation, and
never reads files. Invariant: an operation sees the effects of the operations before it. After a request,
successful or failed, the quads are as they were before it: the writer applies the result.

A named graph exists while it has a quad (§3.2 leaves this to the store). So CREATE changes nothing, and fails
if the graph exists; CLEAR and DROP are the same, and succeed if it does not; ADD, MOVE and COPY fail if their
source graph does not exist. SILENT ignores a failure. DEFAULT is the unnamed graph, even if queries read the
union of all graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode
from pyoxigraph import Quad as Statement

from sparqlive.engine.batches import Batch
from sparqlive.engine.carry import Strategy
from sparqlive.engine.epoch import Epoch
from sparqlive.engine.limits import LOADED_DOCUMENTS, UPDATE_OPERATIONS
from sparqlive.engine.writer import Writer
from sparqlive.errors import Error, Timeout, TooLarge, Unsupported
from sparqlive.live.once import compute_once
from sparqlive.live.terms import Terms
from sparqlive.plan.checks import check_functions
from sparqlive.plan.once import fixed, without_services
from sparqlive.plan.operators import Operator
from sparqlive.quads.current import Change, Quad, Quads
from sparqlive.rdf.dictionary import DEFAULT_GRAPH, UNDEF, Dictionary
from sparqlive.rdf.read import check_quad
from sparqlive.runtime.collector import collector_paused
from sparqlive.runtime.deadline import seconds_left, within
from sparqlive.runtime.interrupts import interruptible
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import QuadPattern, Var
from sparqlive.sparql.syntax import parse_update
from sparqlive.zset.relation import Row

Documents: TypeAlias = Mapping[NamedNode, Sequence[Statement] | Error]
"""The content of documents by address, or the error that prevented loading."""

# The update's own limit comes first: its error says more.
_MORE_SECONDS = 1.0


@dataclass(frozen=True)
class PreparedUpdate:
    """An update that was read, with the documents of its LOADs: it waits for nothing more."""

    operations: Sequence[al.UpdateOperation]
    documents: Documents
    timeout_seconds: float | None


def prepare_update(
    text: str,
    base: str | None = None,
    dataset: al.Dataset | None = None,
    allow_private: bool = False,
    timeout_seconds: float | None = None,
) -> PreparedUpdate:
    """Reads an update and fetches its documents, without a session: this may wait for the network.

    `timeout_seconds` limits the reading, and the fetching of all documents together.
    """
    operations = within(timeout_seconds, lambda: parse_update(text, base), "Reading the update")
    check_size(operations)
    if dataset is not None:
        operations = on_dataset(operations, dataset)
    return PreparedUpdate(
        operations, documents_of(operations, allow_private, timeout_seconds), timeout_seconds
    )


def on_dataset(
    operations: Iterable[al.UpdateOperation], dataset: al.Dataset
) -> tuple[al.UpdateOperation, ...]:
    """Sets the dataset of operations to the one passed with the request (SPARQL 1.1 Protocol §2.2.3)."""
    given = tuple(operations)
    for operation in given:
        if isinstance(operation, al.Modify) and (operation.dataset or operation.with_graph):
            raise Error(
                "The update contains USING or WITH, and a dataset was passed with it too. Remove one of them."
            )
    return tuple(
        replace(operation, dataset=dataset) if isinstance(operation, al.Modify) else operation
        for operation in given
    )


def check_size(operations: Sequence[al.UpdateOperation]) -> None:
    """Rejects a request with too many operations or too many documents to load."""
    if len(operations) > UPDATE_OPERATIONS:
        raise TooLarge(
            f"The update has {len(operations):,} operations; the limit is {UPDATE_OPERATIONS:,}. Split it, "
            f"or combine insertions into one INSERT DATA."
        )
    loaded = {operation.source for operation in operations if isinstance(operation, al.Load)}
    if len(loaded) > LOADED_DOCUMENTS:
        raise TooLarge(
            f"The update loads {len(loaded):,} documents; the limit is {LOADED_DOCUMENTS:,}. Split it."
        )


def documents_of(
    operations: Iterable[al.UpdateOperation], allow_private: bool, timeout_seconds: float | None
) -> Documents:
    """Fetches the documents of all LOAD operations, as sources do, before anything else happens.

    A document that does not arrive in time is a failed LOAD, which SILENT ignores.
    """
    began = time.monotonic()
    found: dict[NamedNode, Sequence[Statement] | Error] = {}
    late: Timeout | None = None
    for operation in operations:
        if isinstance(operation, al.Load) and operation.source not in found:
            if late is not None:
                found[operation.source] = late
                continue
            try:
                found[operation.source] = within(
                    timeout_seconds,
                    partial(_fetch, operation.source.value, allow_private),
                    "Fetching the documents of the update",
                    began,
                )
            except Timeout as error:
                late = found[operation.source] = error
            except Error as error:
                found[operation.source] = error
    return found


def _fetch(address: str, allow_private: bool) -> Sequence[Statement]:
    if find_spec("httpx") is None:
        raise Unsupported("LOAD needs an HTTP client. Run: pip install 'sparqlive[sources]'")
    from sparqlive.web.document import fetch_document
    from sparqlive.web.network import ReachOnce

    reach, left = ReachOnce(allow_private=allow_private), seconds_left()
    if left is not None:
        reach = replace(reach, timeout_seconds=min(reach.timeout_seconds, left + _MORE_SECONDS))
    return fetch_document(address, reach)


def carry_out(
    writer: Writer, plan_of: Callable[[al.Query], Operator], update: PreparedUpdate, strategy: Strategy
) -> Epoch:
    """Executes an update; see `Session.update`. `plan_of` plans its WHERE clauses."""
    with writer.changing(), collector_paused():
        writer.ensure_open()
        ids, given = requested_changes(
            update.operations,
            writer.quads,
            writer.terms,
            plan_of,
            update.documents,
            writer.assertions.is_asserted,
            update.timeout_seconds,
        )
        return writer.commit(Batch(strategy=strategy, ids=ids, given=given))


def requested_changes(
    operations: Iterable[al.UpdateOperation],
    quads: Quads,
    terms: Terms,
    plan_of: Callable[[al.Query], Operator],
    documents: Documents,
    is_asserted: Callable[[Quad], bool],
    timeout_seconds: float | None = None,
) -> tuple[dict[Quad, int], int]:
    """Returns the quads to insert (+1) and delete (-1), and how many quads the request named.

    `plan_of` plans the WHERE clauses, which share `timeout_seconds`. `documents` are the contents for its
    LOADs. `is_asserted` tells whether a source asserts a quad, so that a request cannot delete it.
    """
    draft = _Draft(quads, is_asserted)
    request = _Request(draft, quads, terms, plan_of, documents, timeout_seconds)
    try:
        for operation in operations:
            request.carry_out(operation)
    finally:
        draft.undo()
    return draft.changes, draft.count


class _Draft:
    """The changes of a request so far.

    They are applied to the quads when a later operation must see them, and undone at the end. A request of
    one operation does not touch the quads.
    """

    def __init__(self, quads: Quads, is_asserted: Callable[[Quad], bool]) -> None:
        self._quads = quads
        self._is_asserted = is_asserted
        self._unseen: dict[Quad, int] = {}
        self._applied: list[Change] = []
        self.changes: dict[Quad, int] = {}
        self.count = 0

    def add(self, quads: Iterable[Quad], weight: int) -> None:
        for quad in quads:
            self._unseen[quad] = self.changes[quad] = weight  # the last change of a quad wins
            self.count += 1

    def show(self) -> None:
        """Puts the changes so far into the quads."""
        is_asserted = self._is_asserted
        seen = {quad: weight for quad, weight in self._unseen.items() if weight > 0 or not is_asserted(quad)}
        changes = self._quads.effective(seen)
        self._unseen = {}
        self._commit(changes)
        self._applied += changes

    def undo(self) -> None:
        """Restores the quads as they were before the request."""
        weights: dict[Quad, int] = {}
        for *quad, weight in self._applied:
            key = (quad[0], quad[1], quad[2], quad[3])
            weights[key] = weights.get(key, 0) + weight
        self._commit([(*quad, -weight) for quad, weight in weights.items() if weight])
        self._applied = []

    def _commit(self, changes: Sequence[Change]) -> None:
        if changes:
            self._quads.stage(changes)
            self._quads.commit()


class _Request:
    """Executes operations on a draft."""

    def __init__(
        self,
        draft: _Draft,
        quads: Quads,
        terms: Terms,
        plan_of: Callable[[al.Query], Operator],
        documents: Documents,
        timeout_seconds: float | None,
    ) -> None:
        self._draft = draft
        self._quads = quads
        self._terms = terms
        self._plan_of = plan_of
        self._documents = documents
        self._timeout_seconds = timeout_seconds
        self._began = time.monotonic()

    def carry_out(self, operation: al.UpdateOperation) -> None:
        match operation:
            case al.InsertData(quads):
                self._draft.add(self._filled(quads, (), {(): 1}), 1)
            case al.DeleteData(quads):
                self._draft.add(self._filled(quads, (), {(): 1}), -1)
            case al.Modify():
                self._modify(operation)
            case al.Clear(target) | al.Drop(target):
                self._clear(target)
            case al.Load(_, _, silent) | al.Create(_, silent) | al.Transfer(_, _, _, silent):
                try:
                    self._manage_graph(operation)
                except Error:
                    if not silent:
                        raise

    def _manage_graph(self, operation: al.Load | al.Create | al.Transfer) -> None:
        match operation:
            case al.Load(source, graph):
                self._load(source, graph)
            case al.Create(graph):
                if self._content(graph):
                    raise Error(f"CREATE: the graph {graph} exists. Use CREATE SILENT to ignore this.")
            case al.Transfer():
                self._transfer(operation)

    def _load(self, source: NamedNode, graph: NamedNode | None) -> None:
        document = self._documents[source]
        if isinstance(document, Error):
            raise type(document)(f"LOAD {source}: {document}") from document
        if any(not isinstance(quad.graph_name, DefaultGraph) for quad in document):
            raise Error(f"LOAD {source}: the document has named graphs, but LOAD accepts only triples.")
        id_of = self._terms.dictionary.id_of
        for quad in document:
            subject, predicate, object_, name = check_quad(quad, graph)
            self._draft.add([(id_of(subject), id_of(predicate), id_of(object_), id_of(name))], 1)

    # Whole graphs

    def _clear(self, target: NamedNode | str) -> None:
        if isinstance(target, NamedNode):
            self._draft.add(self._content(target), -1)
            return
        self._draft.show()
        unnamed, named = target in ("DEFAULT", "ALL"), target in ("NAMED", "ALL")
        self._draft.add(
            [quad for quad in self._quads if (unnamed if quad[3] == DEFAULT_GRAPH else named)], -1
        )

    def _transfer(self, operation: al.Transfer) -> None:
        name, source, target = operation.name, operation.source, operation.target
        content = self._content(source)
        if source is not None and not content:
            raise Error(f"{name}: the graph {source} does not exist. Use {name} SILENT to ignore this.")
        if source == target:
            return
        if name != "ADD":
            self._draft.add(self._content(target), -1)
        if name == "MOVE":
            self._draft.add(content, -1)
        graph = self._graph_id(target)
        self._draft.add([(s, p, o, graph) for s, p, o, _ in content], 1)

    def _content(self, graph: NamedNode | None) -> list[Quad]:
        self._draft.show()
        return list(self._quads.of_graph(self._graph_id(graph)))

    def _graph_id(self, graph: NamedNode | None) -> int:
        return DEFAULT_GRAPH if graph is None else self._terms.dictionary.id_of(graph)

    # Templates and WHERE

    def _modify(self, operation: al.Modify) -> None:
        """§4.3.3: everything is computed before the first change; then all deletes, then all inserts."""
        self._draft.show()
        variables = tuple(sorted(_variables((*operation.delete, *operation.insert))))
        solutions = self._solutions(operation, variables)
        self._draft.add(self._filled(operation.delete, variables, solutions), -1)
        self._draft.add(self._filled(operation.insert, variables, solutions), 1)

    def _solutions(self, operation: al.Modify, variables: tuple[Var, ...]) -> Mapping[Row, int]:
        """The solutions of a WHERE clause, projected to the variables of the templates."""
        dataset = operation.dataset
        if dataset is None and operation.with_graph is not None:
            dataset = al.Dataset((operation.with_graph,), None)
        query = al.Query("SELECT", al.Project(operation.pattern, variables), variables, dataset)
        check_functions(query, volatile=True)
        plan, dictionary = self._plan_of(without_services(fixed(query))), self._terms.dictionary.extended()
        quads = self._quads.snapshot()
        with interruptible():
            rows = within(
                self._timeout_seconds,
                lambda: compute_once(plan, quads, Terms(dictionary)),
                "The WHERE clauses of the update",
                self._began,
            )
        return self._entered(dictionary, rows)

    def _entered(self, dictionary: Dictionary, rows: Mapping[Row, int]) -> Mapping[Row, int]:
        """Translates rows from the ids of another dictionary to the ids of this one."""
        enter = self._terms.dictionary.enter
        others = {number: own for number, text in dictionary.entries() if (own := enter(text)) != number}
        if not others:
            return rows
        return {tuple([others.get(number, number) for number in row]): rows[row] for row in rows}

    def _filled(
        self, template: Sequence[QuadPattern], variables: Sequence[Var], solutions: Mapping[Row, int]
    ) -> Iterator[Quad]:
        """The quads of a template; its blank nodes are new for each solution, even for equal solutions.

        Illegal quads are skipped (§4.2.3): unbound variables, literals as subjects, and so on.
        """
        labels = {term: None for quad in template for term in _terms_of(quad) if isinstance(term, BlankNode)}
        columns: list[Var | BlankNode] = [*variables, *labels]
        slots = [tuple(self._slot(term, columns) for term in _terms_of(quad)) for quad in template]
        id_of = self._terms.dictionary.id_of
        for row, weight in solutions.items():
            for _ in range(weight if labels else 1):
                filled = (*row, *(id_of(BlankNode()) for _ in labels))
                for subject, predicate, object_, graph in slots:
                    quad = subject(filled), predicate(filled), object_(filled), graph(filled)
                    if self._can_hold(quad):
                        yield quad

    def _slot(
        self, term: al.VarOrTerm | None, columns: Sequence[Var | BlankNode]
    ) -> Callable[[Sequence[int]], int]:
        if isinstance(term, Var | BlankNode):
            column = columns.index(term)
            return lambda filled: filled[column]
        number = DEFAULT_GRAPH if term is None else self._terms.dictionary.id_of(term)
        return lambda _: number

    def _can_hold(self, quad: Quad) -> bool:
        if UNDEF in quad:
            return False
        text = self._terms.dictionary.text
        subject, predicate, _, graph = quad
        return (
            text(subject)[0] != '"'
            and text(predicate)[0] == "<"
            and (graph == DEFAULT_GRAPH or text(graph)[0] != '"')
        )


def _terms_of(quad: QuadPattern) -> tuple[al.VarOrTerm, al.VarOrTerm, al.VarOrTerm, al.VarOrTerm | None]:
    return quad.subject, quad.predicate, quad.object, quad.graph


def _variables(template: Iterable[QuadPattern]) -> set[Var]:
    return {term for quad in template for term in _terms_of(quad) if isinstance(term, Var)}
