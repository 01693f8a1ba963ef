"""Filters and bindings: both look at one solution at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparqlive.plan.delta import Plus, linear
from sparqlive.plan.expressions import mentioned
from sparqlive.plan.operators.base import Operator, OverOne
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Call, Constant, Expression, Var


@dataclass(frozen=True)
class Filter(OverOne):
    condition: Expression
    source: Operator

    letter = "F"

    @cached_property
    def reads(self) -> frozenset[Var]:
        return mentioned(self.condition)

    def delta_rule(self) -> Plus:
        """Δσ(A) = σ(ΔA) (Theorem 3.1)."""
        return linear(self)

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return self.source.pushable - (self.source.maybe & self.reads)

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [needed | self.reads]

    def words(self, words: Words) -> str:
        return f"filter {words.with_marks(self.condition, self.source.always)}"

    def applied(self, argument: str, words: Words) -> str:
        return f"σ_{{{words.expression(self.condition)}}}({argument})"


@dataclass(frozen=True)
class Extend(OverOne):
    """Binds a new variable. An error leaves it unbound."""

    source: Operator
    variable: Var
    expression: Expression

    letter = "E"

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        return (*self.source.variables, self.variable)

    @cached_property
    def always(self) -> frozenset[Var]:
        always = self.source.always
        return always | {self.variable} if _never_fails(self.expression, always) else always

    @cached_property
    def reads(self) -> frozenset[Var]:
        return mentioned(self.expression)

    @cached_property
    def is_copy(self) -> bool:
        """Whether it copies a variable that is always bound: then both have the same key."""
        return isinstance(self.expression, Var) and self.expression in self.source.always

    def delta_rule(self) -> Plus:
        """Δextend(A) = extend(ΔA) (Theorem 3.1)."""
        return linear(self)

    @cached_property
    def pushable(self) -> frozenset[Var]:
        below = self.source.pushable - (self.source.maybe & self.reads)
        return below | {self.variable} if self.is_copy and self.expression in below else below

    def needed_below(self, needed: frozenset[Var]) -> Sequence[frozenset[Var]]:
        return [needed | self.reads]

    def inputs_to_filter(self, read: frozenset[Var]) -> Sequence[int]:
        return (0,) if self.variable not in read else ()

    def words(self, words: Words) -> str:
        value = words.with_marks(self.expression, self.source.always)
        return f"bind {value} as {words.text_of_list([self.variable], self.maybe)}"

    def applied(self, argument: str, words: Words) -> str:
        binding = f"{words.variable(self.variable)} := {words.expression(self.expression)}"
        return f"extend_{{{binding}}}({argument})"


def _never_fails(expression: Expression, always: frozenset[Var]) -> bool:
    match expression:
        case Constant() | Call("BOUND" | ".NODE", _):
            return True
        case Var():
            return expression in always
        case Call("COALESCE", arguments):
            return any(_never_fails(argument, always) for argument in arguments)
    return False
