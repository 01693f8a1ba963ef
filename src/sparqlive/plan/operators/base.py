"""What every operator defines, and base classes for operators that share definitions.

A base has a default only where a missing definition costs nothing but time. `plan/operators/__init__.py`
checks that each operator defines the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from sparqlive.plan.delta import Plus, Rule
from sparqlive.plan.operators.graphs import GraphChoice
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var

if TYPE_CHECKING:
    from sparqlive.plan.operators.scan import Scan

Order: TypeAlias = tuple[tuple[Var, bool], ...]
"""The keys of ORDER BY, each with whether it is descending."""

FanOut: TypeAlias = "Callable[[Scan, frozenset[Var]], float | None]"
"""The measured number of quads per lookup in a pattern with some variables bound; None if it is not known."""

UNKNOWN_SIZE = 1e8


class Operator:
    """The base of all operators. The concrete ones are frozen dataclasses."""

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return ()

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        raise NotImplementedError

    @cached_property
    def always(self) -> frozenset[Var]:
        """All variables, unless an operator overrides it."""
        return frozenset(self.variables)

    @cached_property
    def maybe(self) -> frozenset[Var]:
        return frozenset(self.variables) - self.always

    def with_children(self, children: Sequence[Operator]) -> Operator:
        """Returns the operator with other children; itself if they are the same."""
        if all(new is old for new, old in zip(children, self.children, strict=True)):
            return self
        return self._over(children)

    def _over(self, children: Sequence[Operator]) -> Self:
        raise NotImplementedError

    # The delta rule

    def delta_rule(self) -> Plus:
        """Returns ΔP. The i-th term has the change of the i-th input."""
        raise NotImplementedError

    def delta_term(self, changed: int) -> Rule:
        """Returns one term of the rule: the one for the change of one input."""
        return self.delta_rule().terms[changed]

    # What restricts it, and what it reads

    @cached_property
    def pushable(self) -> frozenset[Var]:
        """The variables whose keys can be pushed into the operator, so that a probe costs only what it finds.

        A key can be pushed if the variable's value may restrict the operator's inputs without changing its
        result on the compatible solutions. This is not the case for a variable that the operator reads and
        may leave unbound.
        """
        raise NotImplementedError

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        """For each input, the variables that decide the operator's solutions on the needed variables."""
        raise NotImplementedError

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        """The numbers of the inputs to which a filter that reads some variables may move."""
        return ()

    @cached_property
    def required(self) -> tuple[Operator, ...]:
        """The inputs that must have solutions for the operator to have any."""
        return ()

    @cached_property
    def computed(self) -> frozenset[Var]:
        """The variables that the operator may bind to terms that do not come from the data."""
        return frozenset(self.variables).difference(*(child.variables for child in self.children))

    # How many solutions it has

    if_some_bound: ClassVar[float] = 20.0
    """The estimated number of solutions of a lookup with some variables bound."""

    def estimate(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        """Estimates how many solutions a lookup returns, to order the lookups of a join."""
        if bound.issuperset(self.variables):
            return 0.5
        if bound.intersection(self.variables):
            return self.if_some_bound
        return self.size(bound, fan_out)

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        """Estimates how many solutions there are, with none of the operator's variables bound."""
        raise NotImplementedError

    # How it is explained

    @property
    def letter(self) -> str:
        """Its name in an explanation, without a number."""
        raise NotImplementedError

    def words(self, words: Words) -> str:
        raise NotImplementedError

    def applied(self, argument: str, words: Words) -> str:
        """The operator applied to a change, in the notation of the counting paper."""
        return f"{type(self).__name__.lower()}({argument})"

    def stored_words(self, words: Words) -> str | None:
        """Describes what the operator stores below the result, if anything."""
        return None


class Leaf(Operator):
    """An operator without inputs. Its change is the Δ of its quads, and any variables can look it up."""

    def delta_rule(self) -> Plus:
        return Plus(())

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return frozenset(self.variables)

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return ()


@dataclass(frozen=True)
class QuadLeaf(Leaf):
    """A leaf whose rows come from the quads, and change with them."""

    graph: GraphChoice

    @cached_property
    def computed(self) -> frozenset[Var]:
        return frozenset()


class OverOne(Operator):
    """An operator over one source. It has the columns of the source, unless it overrides them."""

    source: Operator

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return (self.source,)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return self.source.variables

    @cached_property
    def always(self) -> frozenset[Var]:
        return self.source.always

    @cached_property
    def required(self) -> tuple[Operator, ...]:
        return self.children

    def _over(self, children: Sequence[Operator]) -> Self:
        return replace(self, source=children[0])  # type: ignore[type-var]

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        return self.source.estimate(bound, fan_out)


class OverParts(Operator):
    """An operator over several parts, with the columns of all of them."""

    parts: tuple[Operator, ...]

    @cached_property
    def children(self) -> tuple[Operator, ...]:
        return self.parts

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return ordered_union(*(part.variables for part in self.parts))

    @cached_property
    def pushable(self) -> frozenset[Var]:
        """The variables that can be pushed into every part that has them."""
        return frozenset(self.variables) - frozenset(
            v for part in self.parts for v in part.variables if v not in part.pushable
        )

    def _over(self, children: Sequence[Operator]) -> Self:
        return replace(self, parts=tuple(children))  # type: ignore[type-var]


class WithColumns(Operator):
    """An operator whose columns are one of its fields."""

    columns: tuple[Var, ...]

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return self.columns


def ordered_union(*groups: tuple[Var, ...]) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(variable for group in groups for variable in group))


def shared(left: Operator, right: Operator) -> tuple[Var, ...]:
    """Returns the variables of both sides, in the order of the left side."""
    others = set(right.variables)
    return tuple(variable for variable in left.variables if variable in others)
