"""Runs a compiled plan: its delta rules, the state of its operators, and the evaluation of an epoch.

Owns the order within an epoch: a delta that is collected at an operator is complete before anything above
reads it. Invariant: the state before the epoch does not change until `commit`.
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
"""The changed rows of each changed leaf, by leaf number."""


def key_of(plan: op.Operator, scope: str = "") -> str:
    """Returns a name for a plan in a scope that is the same in every process."""
    return op.digest_of(plan, scope)


def rows_name(plan: op.Operator, scope: str) -> str:
    """Returns the name of the relation that holds a plan's rows."""
    return f"{key_of(plan, scope)}/rows"


def state_name(key: str, number: int) -> str:
    """Returns the name of the relation that an operator of a plan stores."""
    return f"{key}/state/{number}"


def names_of_totals(key: str, number: int) -> tuple[str, str]:
    """Returns the names of a group's relations: its totals, and the rows that totals cannot represent."""
    return f"{key}/totals/{number}", f"{key}/others/{number}"


def is_of_totals(name: str) -> bool:
    """Returns whether a relation holds totals of groups or the rows that totals cannot represent."""
    return "/totals/" in name or "/others/" in name


class Spent:
    """Accumulated cost of some work: number of runs, rows, and seconds."""

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
    """One term of a delta rule: the function from the change of one operator to where it is collected."""

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
        """The evaluator that last computed the plan: live, duckdb or spark; None if loaded from a store."""
        self.gathering: dict[Row, int] = {}
        """The rows that the current step collects, for a watching thread that counts them."""
        self._elsewhere: dict[int, tuple[Elsewhere, ...]] = {}
        self._load_states(saved)

    def _load_states(self, saved: Saved | None) -> None:
        """Loads the state of operators, bottom up: as saved, or computed from the current quads.

        Saved state is read on first use.
        """
        for number, state in self._compiler.states.items():
            if isinstance(self._compiler.nodes[number].operator, op.Parameters):
                continue
            source = self._compiler.nodes[number].children[0]
            if isinstance(state, TotalGroups) and saved is not None and self._has_totals(number, saved):
                continue
            content = saved(self._state_name(number), source.operator) if saved is not None else None
            if isinstance(content, Elsewhere) and isinstance(state, TotalGroups):
                content = content.fetch().whole() or {}  # stored by older versions
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
        """Returns whether the totals of groups are saved; they are read on first use."""
        operator = self._compiler.nodes[number].operator
        found = [saved(name, operator) for name in names_of_totals(self.key, number)]
        totals, others = [part if isinstance(part, Elsewhere) else None for part in found]
        if totals is None or others is None:
            return False
        self._elsewhere[number] = totals, others
        return True

    def _fetch(self) -> None:
        """Reads the saved state of operators, once."""
        for number, saved in self._elsewhere.items():
            state = self._compiler.states[number]
            if isinstance(state, Groups | TotalGroups | OrderedRows):
                state.take(*(part.fetch() for part in saved))
            else:
                state.load(saved[0].rows())
        self._elsewhere = {}

    def rebase(self, found: Callable[[str], Relation | None]) -> None:
        """Replaces the parts of the operators' relations by equivalent parts with the same rows, by name."""
        for number, state in self._compiler.states.items():
            if number not in self._elsewhere and isinstance(state, _WITH_RELATIONS):
                for name, _, rows in self._relations(number):
                    if (base := found(name)) is not None:
                        rows.rebase(base)
                        if isinstance(state, Groups | TotalGroups):
                            state.begin()

    def _relations(self, number: int) -> list[tuple[str, int, Any]]:
        """Returns what an operator stores, as named relations: name, width, and rows with weights."""
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
        """Returns the state of the top operator if it stores the result's rows: DISTINCT or a closure."""
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
        """Computes the result for one row of parameters, which need not be registered."""
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

    # Epochs that another evaluator computes

    def state_sources(self) -> dict[int, op.Operator]:
        """Returns, per operator with state and bottom up, the plan whose content it stores."""
        nodes = self._compiler.nodes
        return {
            number: nodes[number].children[0].operator
            for number in self._compiler.states
            if not isinstance(nodes[number].operator, op.Parameters)
        }

    def kept(self) -> dict[op.Keeping, Kept]:
        """Returns what operators store of their sources, except state that is not stored as columns."""
        self._fetch()
        contents: dict[op.Keeping, Kept] = {}
        for number in self.state_sources():
            operator, state = self._compiler.nodes[number].operator, self._compiler.states[number]
            assert isinstance(operator, op.Keeping)
            if isinstance(state, Groups | TotalGroups):
                contents[operator] = state.kept()
            elif isinstance(state, Relation):
                contents[operator] = Kept(state.parts, state.size()[0])
        return contents

    def state_names(self) -> dict[op.Keeping, list[str]]:
        """Returns the names of the relations that operators store; for groups, those of totals come first."""
        operators = {number: self._compiler.nodes[number].operator for number in self.state_sources()}
        return {
            operator: [name for name, _, _ in self._relations(number)]
            for number, operator in operators.items()
            if isinstance(operator, op.Keeping)
        }

    def parameter_rows(self) -> list[Row]:
        """Returns the rows of the table of parameters, if the plan has one."""
        for node in self._compiler.nodes:
            if isinstance(node.operator, op.Parameters):
                return list(self._compiler.states[node.number].rows)
        return []

    def rebuilt(self) -> dict[Row, int]:
        """Computes the result after the current epoch from scratch.

        Stages the new state of operators bottom up, because the operators above read it.
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
        """Records the strategy of the current epoch and its evaluator, if the strategy is not `delta`."""
        self.carried, self.evaluator = strategy, evaluator

    def computed_by(self, evaluator: str | None) -> None:
        """Records the evaluator of the plan; None for a plan from a store, which does not record it."""
        self.evaluator = evaluator

    def take(self, deltas: Mapping[int, Mapping[Row, int]]) -> None:
        """Stages changes to the stored source rows of operators, computed elsewhere."""
        self._fetch()
        for number, delta in deltas.items():
            if delta:
                self._touched[number] = state = self._compiler.states[number]
                state.stage(delta)

    def replace(self, contents: Mapping[int, Mapping[Row, int] | Run]) -> None:
        """Stages the difference between the stored source rows and new contents."""
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
        """Yields the leaves whose changes are the inputs of this plan, by number."""
        return self._compiler.leaves()

    def matching_quads(self) -> int:
        """Returns the approximate number of quads that match the patterns, summed over the patterns."""
        return self._compiler.matching_quads()

    @property
    def looks_up_rows(self) -> bool:
        """Returns whether a change looks up stored rows one by one. Totals and windows do not."""
        return any(isinstance(state, Groups | Relation) for state in self._compiler.states.values())

    @property
    def compiler(self) -> Compiler:
        return self._compiler

    def delta(self, inputs: Inputs) -> Mapping[Row, int]:
        """Computes the change of the result. Changes of the state are only staged."""
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
                    start = perf_counter()
                    summand.write()(rows, out)
                    spent = summand.spent  # `Spent.add`, written out: it runs several times per change
                    spent.seconds += perf_counter() - start
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
        """Applies the change of its source to an operator's state; returns the operator's own change."""
        state = self._compiler.states[node.number]
        self._touched[node.number] = state
        start = perf_counter()
        change: Mapping[Row, int] = state.carry(delta)
        for reader in (node.number, *self._compiler.readers.get(node.number, ())):
            inputs[reader] = change.items()
        self._upkeep[node.number].add(len(delta), perf_counter() - start)
        return change

    def costs(self) -> Iterator[tuple[int, int | None, Spent]]:
        """Returns the cost of live delta evaluation, per term of the delta rules.

        A term leads from the change of one operator, through all operators in between (compiled to one
        function), to the operator where deltas are collected. A term to None is the update of an operator's
        state.
        """
        for _, summands in self._schedule:
            yield from ((summand.source, summand.target, summand.spent) for summand in summands)
        yield from ((number, None, spent) for number, spent in self._upkeep.items())

    @property
    def stop_flag(self) -> Flag:
        """Returns the flag that receives the error which ends the evaluation."""
        return self._compiler.program.stop

    def halt(self, error: Exception) -> None:
        """Stops the running loops with an error; called from another thread."""
        self._compiler.program.stop.insert(0, error)

    def go_on(self) -> None:
        """Allows loops to run again after `halt`."""
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
        """Yields the state of operators as named relations: name, width, and rows with weights."""
        for number in self._compiler.states:
            if not isinstance(self._compiler.nodes[number].operator, op.Parameters):
                yield from self._relations(number)

    def ids(self) -> Iterator[Column]:
        """Yields the ids in the state of operators, and in the current rows of groups."""
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
        """Yields the state deltas of the current epoch."""
        for number, state in self._touched.items():
            relations = self._relations(number)
            changes = state.staged() if isinstance(state, TotalGroups) else [state.pending]
            for (name, width, _), change in zip(relations, changes, strict=True):
                yield name, width, change

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Returns rows and bytes of the operators' state, by operator number."""
        self._fetch()
        return {number: (len(state), state.nbytes) for number, state in self._compiler.states.items()}

    def state_bytes(self) -> int:
        """Returns the memory of the operators' state that was read so far."""
        return sum(state.nbytes for state in self._compiler.states.values())

    @property
    def sources(self) -> list[str]:
        """Returns the generated code."""
        return self._compiler.program.sources
