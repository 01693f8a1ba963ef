"""A compiled plan: its delta rules, the state of its operators, and the evaluation of an epoch.

Owns the order within an epoch: deltas that are gathered at an operator are complete before anything above
reads them. Invariant: the state before the epoch does not change until `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

from sparqlive.live.compiler import Compiler, Node, Segment
from sparqlive.live.group import Groups
from sparqlive.live.terms import Terms
from sparqlive.live.totals import TotalGroups
from sparqlive.live.window import OrderedRows
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.quads.current import Quads
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.deadline import Flag, gathers
from sparqlive.zset.kept import Kept
from sparqlive.zset.relation import Elsewhere, Relation, Row, change_between, rows_of
from sparqlive.zset.run import Column, Run
from sparqlive.zset.zset import without_zeros

Saved = Callable[[str, op.Operator], Mapping[Row, int] | Run | Elsewhere | None]
"""Returns the content of a named relation of an operator, if it was saved or computed elsewhere."""

_WITH_RELATIONS = Groups | TotalGroups | OrderedRows | Relation

Inputs = dict[int, Any]
"""The changed rows of each changed leaf, by its number."""


def key_of(plan: op.Operator, scope: str = "") -> str:
    """A name for a plan in a scope, the same in every process."""
    return op.digest_of(plan, scope)


def rows_name(plan: op.Operator, scope: str) -> str:
    """The name of the relation that holds a plan's rows."""
    return f"{key_of(plan, scope)}/rows"


def state_name(key: str, number: int) -> str:
    """The name of the relation that an operator of a plan stores."""
    return f"{key}/state/{number}"


def names_of_totals(key: str, number: int) -> tuple[str, str]:
    """The names of the relations of groups that follow from totals: these, and the rows they leave out."""
    return f"{key}/totals/{number}", f"{key}/others/{number}"


def is_of_totals(name: str) -> bool:
    """Whether a relation has totals of groups, or rows that they leave out."""
    return "/totals/" in name or "/others/" in name


class Spent:
    """The cost of some work so far: how often it ran, for how many rows, and the seconds."""

    __slots__ = ("rows", "seconds", "times")

    def __init__(self) -> None:
        self.times = 0
        self.rows = 0
        self.seconds = 0.0

    def add(self, rows: int, seconds: float) -> None:
        self.times += 1
        self.rows += rows
        self.seconds += seconds


class Summand:
    """A term of a delta rule: the function from the change of one operator to where it is gathered."""

    __slots__ = ("source", "spent", "target", "write")

    def __init__(self, segment: Segment) -> None:
        self.source = segment.source.number
        self.target = segment.target.number
        self.write = segment.write
        self.spent = Spent()


class CompiledPlan:
    def __init__(
        self,
        plan: op.Operator,
        quads: Quads | Snapshot,
        terms: Terms,
        saved: Saved | None = None,
        scope: str = "",
    ) -> None:
        self.plan = plan
        self.key = key_of(plan, scope)
        self._compiler = Compiler(plan, quads, terms)
        self._touched: dict[int, Any] = {}
        gathering: dict[int, tuple[Node, list[Summand]]] = {}
        for segment in self._compiler.segments():
            _, summands = gathering.setdefault(segment.target.number, (segment.target, []))
            summands.append(Summand(segment))
        self._schedule = [gathering[number] for number in sorted(gathering)]
        self._upkeep = {number: Spent() for number in self._compiler.states}
        self._member: Callable[..., None] | None = None
        self.carried = "live"
        """The strategy of the last epoch that affected the plan."""
        self.evaluator: str | None = "live"
        """What last computed or carried the plan: live, duckdb or spark; None if a store does not say."""
        self.gathering: dict[Row, int] = {}
        """The rows that the current step gathers, for a thread that watches their number."""
        self._elsewhere: dict[int, tuple[Elsewhere, ...]] = {}
        self._load_states(saved)

    def _load_states(self, saved: Saved | None) -> None:
        """Loads the state of operators, lowest first: as saved, or computed from the current quads.

        Saved state is read when it is first needed.
        """
        for number, state in self._compiler.states.items():
            if isinstance(self._compiler.nodes[number].operator, op.Parameters):
                continue
            source = self._compiler.nodes[number].children[0]
            if isinstance(state, TotalGroups) and saved is not None and self._has_totals(number, saved):
                continue
            content = saved(self._state_name(number), source.operator) if saved is not None else None
            if isinstance(content, Elsewhere) and isinstance(state, TotalGroups):
                content = content.fetch().whole() or {}  # what older versions stored
            if isinstance(content, Elsewhere) and not isinstance(state, Relation):
                self._elsewhere[number] = (content,)
                continue
            if content is None:
                self._fetch()
                content = {}
                gathers(content)
                self._compiler.content(source)(content)
            if isinstance(content, Run) and not isinstance(state, _WITH_RELATIONS):
                content = rows_of(content)
            state.load(content)

    def _has_totals(self, number: int, saved: Saved) -> bool:
        """Whether the totals of groups are saved; they are read when they are first needed."""
        operator = self._compiler.nodes[number].operator
        found = [saved(name, operator) for name in names_of_totals(self.key, number)]
        totals, others = [part if isinstance(part, Elsewhere) else None for part in found]
        if totals is None or others is None:
            return False
        self._elsewhere[number] = totals, others
        return True

    def _fetch(self) -> None:
        """Reads the saved state of operators, unless that was done before."""
        for number, saved in self._elsewhere.items():
            state = self._compiler.states[number]
            if isinstance(state, Groups | TotalGroups | OrderedRows):
                state.take(*(part.fetch() for part in saved))
            else:
                state.load(saved[0].rows())
        self._elsewhere = {}

    def rebase(self, found: Callable[[str], Relation | None]) -> None:
        """Exchanges the parts of the operators' relations for others that have the same rows, by name."""
        for number, state in self._compiler.states.items():
            if number not in self._elsewhere and isinstance(state, _WITH_RELATIONS):
                for name, _, rows in self._relations(number):
                    if (base := found(name)) is not None:
                        rows.rebase(base)
                        if isinstance(state, Groups | TotalGroups):
                            state.begin()

    def _relations(self, number: int) -> list[tuple[str, int, Any]]:
        """What an operator stores, as named relations: name, width and rows with weights."""
        state = self._compiler.states[number]
        if isinstance(state, TotalGroups):
            parts = zip(names_of_totals(self.key, number), (state.totals, state.others), strict=True)
            return [(name, part.arity, part) for name, part in parts]
        rows = state.relation if isinstance(state, Groups | OrderedRows) else state
        width = len(self._compiler.nodes[number].children[0].operator.variables)
        return [(self._state_name(number), width, rows)]

    def compute(self) -> dict[Row, int]:
        """Computes the whole result from the current quads."""
        self._fetch()
        result: dict[Row, int] = {}
        gathers(result)
        self._compiler.content(self._compiler.root)(result)
        return result

    def top_state(self) -> Any:
        """The state of the top operator, if it keeps the result's rows: DISTINCT or a closure."""
        self._fetch()
        return self._compiler.states[self._compiler.root.number]

    # A plan with parameters

    def add_parameters(self, constants: Row) -> None:
        self._change_parameters(constants, 1)

    def remove_parameters(self, constants: Row) -> None:
        self._change_parameters(constants, -1)

    def _change_parameters(self, constants: Row, weight: int) -> None:
        node = next(node for node in self._compiler.nodes if isinstance(node.operator, op.Parameters))
        rows = self._compiler.states[node.number]
        rows.stage({constants: weight})
        rows.commit()

    def compute_member(self, constants: Row) -> dict[Row, int]:
        """Computes the result for one row of parameters, which need not be entered."""
        if self._member is None:
            parameters = self.plan.variables[: len(constants)]
            self._member = self._compiler.content(self._compiler.root, parameters)
        result: dict[Row, int] = {}
        self.add_parameters(constants)
        try:
            self._member(*constants, result)
        finally:
            self.remove_parameters(constants)
        return result

    # Carried by others

    def state_sources(self) -> dict[int, op.Operator]:
        """For each operator with state, lowest first, the plan whose content it stores."""
        nodes = self._compiler.nodes
        return {
            number: nodes[number].children[0].operator
            for number in self._compiler.states
            if not isinstance(nodes[number].operator, op.Parameters)
        }

    def kept(self) -> dict[op.Keeping, Kept]:
        """What operators store of their sources, without what is not stored as columns."""
        self._fetch()
        found: dict[op.Keeping, Kept] = {}
        for number in self.state_sources():
            operator, state = self._compiler.nodes[number].operator, self._compiler.states[number]
            assert isinstance(operator, op.Keeping)
            if isinstance(state, Groups | TotalGroups):
                found[operator] = state.kept()
            elif isinstance(state, Relation):
                found[operator] = Kept(state.parts, state.size()[0])
        return found

    def state_names(self) -> dict[op.Keeping, list[str]]:
        """The names of the relations that operators store: of rows; where groups have them, after totals."""
        operators = {number: self._compiler.nodes[number].operator for number in self.state_sources()}
        return {
            operator: [name for name, _, _ in self._relations(number)]
            for number, operator in operators.items()
            if isinstance(operator, op.Keeping)
        }

    def parameter_rows(self) -> list[Row]:
        """The rows of the table of parameters, if the plan has one."""
        for node in self._compiler.nodes:
            if isinstance(node.operator, op.Parameters):
                return list(self._compiler.states[node.number].rows)
        return []

    def rebuilt(self) -> dict[Row, int]:
        """Computes the result after the current epoch from scratch.

        The new state of operators is staged, lowest first, because the operators above read it.
        """
        self._fetch()
        for number in self._compiler.states:
            if not isinstance(self._compiler.nodes[number].operator, op.Parameters):
                content: dict[Row, int] = {}
                self._compiler.content(self._compiler.nodes[number].children[0], state=State.NEW)(content)
                self.replace({number: content})
        result: dict[Row, int] = {}
        self._compiler.content(self._compiler.root, state=State.NEW)(result)
        return result

    def carried_by(self, strategy: str, evaluator: str) -> None:
        """Records the strategy of the current epoch, if it is not `delta`, and what ran it."""
        self.carried, self.evaluator = strategy, evaluator

    def computed_by(self, evaluator: str | None) -> None:
        """Records what computed the plan; None: it was loaded from a store, which does not say."""
        self.evaluator = evaluator

    def take(self, deltas: Mapping[int, Mapping[Row, int]]) -> None:
        """Stages changes of what operators store of their sources, which were computed elsewhere."""
        self._fetch()
        for number, delta in deltas.items():
            if delta:
                self._touched[number] = state = self._compiler.states[number]
                state.stage(delta)

    def replace(self, contents: Mapping[int, Mapping[Row, int] | Run]) -> None:
        """Stages the changes to other contents of the sources."""
        self._fetch()
        for number, content in contents.items():
            state = self._compiler.states[number]
            if isinstance(state, TotalGroups):
                self._touched[number] = state
                state.stage_content(content)
                continue
            ((_, _, rows),) = self._relations(number)
            run = rows.whole() if isinstance(rows, Relation) else None
            self.take({number: change_between(dict(rows.items()) if run is None else run, content)})

    def leaves(self) -> Iterator[tuple[int, op.QuadLeaf]]:
        """The leaves whose changes are this plan's inputs, by number."""
        return self._compiler.leaves()

    def matching_quads(self) -> int:
        """The approximate number of quads that the patterns match, added up over the patterns."""
        return self._compiler.matching_quads()

    @property
    def looks_up_rows(self) -> bool:
        """Whether a change looks up stored rows one by one; totals and windows do not."""
        return any(isinstance(state, Groups | Relation) for state in self._compiler.states.values())

    @property
    def compiler(self) -> Compiler:
        return self._compiler

    def delta(self, inputs: Inputs) -> Mapping[Row, int]:
        """Computes the change of the result; changes of the state are only staged."""
        self.carried = self.evaluator = "live"
        if self._elsewhere:
            self._fetch()
        result: Mapping[Row, int] = {}
        for node, summands in self._schedule:
            out: dict[Row, int] = {}
            self.gathering = out
            for summand in summands:
                rows = inputs.get(summand.source)
                if rows:
                    begun = perf_counter()
                    summand.write()(rows, out)
                    spent = summand.spent  # `Spent.add`, written out: it runs several times per change
                    spent.seconds += perf_counter() - begun
                    spent.rows += len(rows)
                    spent.times += 1
            if not out:
                inputs[node.number] = ()
                continue
            out = without_zeros(out)
            if node.parent is None:
                result = out
                continue
            inputs[node.number] = out.items()
            if isinstance(node.parent.operator, op.Keeping):
                change = self._keep(node.parent, out, inputs)
                if node.parent.parent is None:
                    self._compiler.program.check()
                    result = change
        return result

    def _keep(self, node: Node, delta: dict[Row, int], inputs: Inputs) -> Mapping[Row, int]:
        """Carries the change of its source to the state of an operator; returns the operator's own change."""
        state = self._compiler.states[node.number]
        self._touched[node.number] = state
        begun = perf_counter()
        change: Mapping[Row, int] = state.carry(delta)
        for reader in (node.number, *self._compiler.readers.get(node.number, ())):
            inputs[reader] = change.items()
        self._upkeep[node.number].add(len(delta), perf_counter() - begun)
        return change

    def costs(self) -> Iterator[tuple[int, int | None, Spent]]:
        """The cost of carrying changes live in this process, by term of the delta rules.

        A term leads from the change of one operator, through all operators on the way (as one function), to
        the operator where deltas are gathered. A term to None is the update of an operator's state.
        """
        for _, summands in self._schedule:
            yield from ((summand.source, summand.target, summand.spent) for summand in summands)
        yield from ((number, None, spent) for number, spent in self._upkeep.items())

    @property
    def stop_flag(self) -> Flag:
        """Has the error that ends the plan's evaluation, once there is one."""
        return self._compiler.program.stop

    def halt(self, error: Exception) -> None:
        """Ends the running loops with an error; called from another thread."""
        self._compiler.program.stop.insert(0, error)

    def go_on(self) -> None:
        """Lets loops run again."""
        self._compiler.program.stop.clear()

    def commit(self) -> None:
        for state in self._touched.values():
            state.commit()
        self._touched.clear()

    def rollback(self) -> None:
        for state in self._touched.values():
            state.rollback()
        self._touched.clear()

    def _state_name(self, number: int) -> str:
        return state_name(self.key, number)

    def states(self) -> Iterator[tuple[str, int, Any]]:
        """The state of operators as named relations: name, width and rows with weights."""
        for number in self._compiler.states:
            if not isinstance(self._compiler.nodes[number].operator, op.Parameters):
                yield from self._relations(number)

    def ids(self) -> Iterator[Column]:
        """The ids in the state of operators, and in the rows that groups have given."""
        self._fetch()
        for number, state in self._compiler.states.items():
            kept = [state]
            if isinstance(state, _WITH_RELATIONS):
                kept = [rows for _, _, rows in self._relations(number)]
            for rows in kept:
                if isinstance(rows, Relation):
                    yield from rows.ids()
                else:
                    yield np.fromiter(chain.from_iterable(row for row, _ in rows.items()), np.int64)
            if isinstance(state, Groups | TotalGroups):
                yield np.fromiter(chain.from_iterable(state.given()), np.int64)

    def staged_states(self) -> Iterator[tuple[str, int, Mapping[Row, int]]]:
        """The deltas of the operators' state in the current epoch."""
        for number, state in self._touched.items():
            relations = self._relations(number)
            changes = state.staged() if isinstance(state, TotalGroups) else [state.pending]
            for (name, width, _), change in zip(relations, changes, strict=True):
                yield name, width, change

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Rows and bytes of the operators' state, by operator number."""
        self._fetch()
        return {number: (len(state), state.nbytes) for number, state in self._compiler.states.items()}

    def state_bytes(self) -> int:
        """The memory of the operators' state, as far as it was read."""
        return sum(state.nbytes for state in self._compiler.states.values())

    @property
    def sources(self) -> list[str]:
        """The generated code."""
        return self._compiler.program.sources
