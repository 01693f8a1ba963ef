"""A maintained plan: its compiled delta rules, the state of its operators, and the evaluation of an epoch.

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
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.quads.current import Quads
from sparqlive.quads.snapshot import Snapshot
from sparqlive.sparql.deadline import Flag, gathers
from sparqlive.zset.kept import Kept
from sparqlive.zset.relation import Elsewhere, Relation, Row, rows_of
from sparqlive.zset.run import Column, Run
from sparqlive.zset.zset import difference, without_zeros

Saved = Callable[[str, op.Operator], Mapping[Row, int] | Run | Elsewhere | None]
"""Returns the content of a named relation of an operator, if it was saved or computed elsewhere."""

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


def totals_name(key: str, number: int | None) -> str:
    """The name of the relation with the totals of a group, where its content is not held; None: of any."""
    return f"{key}/totals/{'' if number is None else number}"


def is_totals(name: str) -> bool:
    """Whether a relation has the totals of a group."""
    return "/totals/" in name


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


class Maintained:
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
        self._elsewhere: dict[int, Elsewhere] = {}
        self._load_states(saved)

    def _load_states(self, saved: Saved | None) -> None:
        """Loads the state of operators, lowest first: as saved, or computed from the current quads.

        Saved state is read when it is first needed.
        """
        for number, state in self._compiler.states.items():
            if isinstance(self._compiler.nodes[number].operator, op.Parameters):
                continue
            source = self._compiler.nodes[number].children[0]
            content = saved(self._state_name(number), source.operator) if saved is not None else None
            if isinstance(content, Elsewhere) and not isinstance(state, Relation):
                self._elsewhere[number] = content
                continue
            if content is None:
                self._fetch()
                content = {}
                gathers(content)
                self._compiler.content(source)(content)
            if isinstance(content, Run) and self._relation(number) is None:
                content = rows_of(content)
            state.load(content)

    def _fetch(self) -> None:
        """Reads the saved state of operators, unless that was done before."""
        for number, saved in self._elsewhere.items():
            state = self._compiler.states[number]
            if isinstance(state, Groups):
                state.take(saved.fetch())
            else:
                state.load(saved.rows())
        self._elsewhere = {}

    def rebase(self, found: Callable[[str], Relation | None]) -> None:
        """Exchanges the parts of the operators' relations for others that have the same rows, by name."""
        for number, state in self._compiler.states.items():
            if number not in self._elsewhere and isinstance(state, Groups | Relation):
                rows = found(self._state_name(number))
                if rows is not None:
                    state.rebase(rows)

    def _relation(self, number: int) -> Relation | None:
        """The stored rows of an operator, if it keeps them as columns."""
        state = self._compiler.states[number]
        if isinstance(state, Groups):
            return state.relation
        return state if isinstance(state, Relation) else None

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

    def keeping(self) -> list[op.Operator]:
        """The operators that store their source's content."""
        return [self._compiler.nodes[number].operator for number in self.state_sources()]

    def kept(self) -> dict[op.Keeping, Kept]:
        """What operators store of their sources, without what is not stored as columns."""
        self._fetch()
        found: dict[op.Keeping, Kept] = {}
        for number in self.state_sources():
            operator, state = self._compiler.nodes[number].operator, self._compiler.states[number]
            assert isinstance(operator, op.Keeping)
            if isinstance(state, Groups):
                found[operator] = state.kept()
            elif isinstance(state, Relation):
                found[operator] = Kept(state.parts, state.size()[0])
        return found

    def state_names(self) -> dict[op.Keeping, str]:
        """The names of the relations that operators store."""
        operators = {number: self._compiler.nodes[number].operator for number in self.state_sources()}
        return {of: self._state_name(n) for n, of in operators.items() if isinstance(of, op.Keeping)}

    def state_rows(self) -> dict[int, Mapping[Row, int] | Run]:
        """The stored rows of each operator before the epoch."""
        self._fetch()
        found: dict[int, Mapping[Row, int] | Run] = {}
        for number in self.state_sources():
            held = self._relation(number)
            run = None if held is None else held.whole()
            found[number] = dict(self._compiler.states[number].items()) if run is None else run
        return found

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
        for number, state in self._compiler.states.items():
            if not isinstance(self._compiler.nodes[number].operator, op.Parameters):
                content: dict[Row, int] = {}
                self._compiler.content(self._compiler.nodes[number].children[0], state=State.NEW)(content)
                self.take({number: difference(content, dict(state.items()))})
        result: dict[Row, int] = {}
        self._compiler.content(self._compiler.root, state=State.NEW)(result)
        return result

    def carried_by(self, strategy: str, evaluator: str) -> None:
        """Records the strategy of the current epoch, if it is not `delta`, and what ran it."""
        self.carried, self.evaluator = strategy, evaluator

    def computed_by(self, evaluator: str | None) -> None:
        """Records what computed the plan; None: it was loaded from a store, which does not say."""
        self.evaluator = evaluator

    def take(
        self, deltas: Mapping[int, Mapping[Row, int]], kept: Mapping[op.Keeping, Kept] | None = None
    ) -> None:
        """Stages deltas of the operators' state that were computed elsewhere, and totals after them."""
        self._fetch()
        for number, delta in deltas.items():
            if delta:
                state, operator = self._compiler.states[number], self._compiler.nodes[number].operator
                state.stage(delta)
                if kept is not None and isinstance(state, Groups):
                    assert isinstance(operator, op.Group)
                    state.stage_totals(kept[operator].after)
                self._touched[number] = state

    def leaves(self) -> Iterator[tuple[int, op.Scan | op.Names | op.Nodes]]:
        """The leaves whose changes are this plan's inputs, by number."""
        return self._compiler.leaves()

    def matching_quads(self) -> int:
        """The approximate number of quads that the patterns match, added up over the patterns."""
        return self._compiler.matching_quads()

    def unread_rows(self) -> int:
        """The number of stored rows that are read when their groups change."""
        return sum(state.unread for state in self._compiler.states.values() if isinstance(state, Groups))

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

    def _width(self, number: int) -> int:
        return len(self._compiler.nodes[number].children[0].operator.variables)

    def states(self) -> Iterator[tuple[str, int, Any]]:
        """The state of operators as named relations: name, width and rows with weights."""
        for number, state in self._compiler.states.items():
            if not isinstance(self._compiler.nodes[number].operator, op.Parameters):
                held = self._relation(number)
                yield self._state_name(number), self._width(number), state if held is None else held

    def ids(self) -> Iterator[Column]:
        """The ids in the state of operators, and in the rows that groups have given."""
        self._fetch()
        for number, state in self._compiler.states.items():
            held = self._relation(number)
            if held is not None:
                yield from held.ids()
            else:
                yield np.fromiter(chain.from_iterable(row for row, _ in state.items()), np.int64)
            if isinstance(state, Groups):
                yield np.fromiter(chain.from_iterable(state.given()), np.int64)

    def staged_states(self) -> Iterator[tuple[str, int, Mapping[Row, int]]]:
        """The deltas of the operators' state in the current epoch."""
        for number, state in self._touched.items():
            yield self._state_name(number), self._width(number), state.pending

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
