"""Operators whose rows are those of their source, kept in memory: for lookups, or for several readers."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode

from sparqlive.plan.delta import Plus, linear
from sparqlive.plan.operators.base import UNKNOWN_SIZE, FanOut, Operator
from sparqlive.plan.operators.extend import Extend
from sparqlive.plan.operators.keyed import Keeping
from sparqlive.plan.wording import Words
from sparqlive.sparql.algebra import Var


class _Same(Keeping):
    """An operator with the solutions of its source. Any variables can look them up."""

    def delta_rule(self) -> Plus:
        """Δ(A) = ΔA."""
        return linear(self)

    @cached_property
    def pushable(self) -> frozenset[Var]:
        return frozenset(self.variables)

    def applied(self, argument: str, words: Words) -> str:
        return argument


@dataclass(frozen=True)
class Stored(_Same):
    """The same solutions, stored in memory and indexed, because keys cannot be pushed into the source."""

    keys: tuple[tuple[Var, ...], ...]

    letter = "S"

    def words(self, words: Words) -> str:
        listed = ", ".join(words.text_of_list(key, self.maybe) or "no variable" for key in self.keys)
        return f"stored, looked up by {listed}"

    def stored_words(self, words: Words) -> str:
        reasons = []
        for variable in dict.fromkeys(v for keys in self.keys for v in keys):
            why = "is computed" if _is_computed(variable, self.source) else "may be unbound"
            reasons.append(f"{words.variable(variable)} {why}")
        if not reasons:
            return "there is no shared variable to look it up by"
        return f"its keys cannot be pushed down to the quads: {', '.join(reasons)}"


def _is_computed(variable: Var, operator: Operator) -> bool:
    if isinstance(operator, Extend) and operator.variable == variable:
        return True
    if isinstance(operator, Shared):
        return False
    return any(_is_computed(variable, child) for child in operator.children)


@dataclass(frozen=True, eq=False, repr=False)
class Shared(_Same):
    """The same solutions, computed and stored once for all operators of the plan that read them.

    This keeps a plan as large as its query, even if it uses a part several times. Two are equal if their
    texts are equal; comparing, printing and walking a plan visit a shared part only once.
    """

    letter = "A"

    @cached_property
    def digest(self) -> str:
        return digest_of(self.source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Shared({self.digest})"

    def size(self, bound: frozenset[Var], fan_out: FanOut) -> float:
        """Not known: below a shared part, others may be shared again."""
        return UNKNOWN_SIZE

    def words(self, words: Words) -> str:
        return "shared, computed and stored once for all its readers"

    def stored_words(self, words: Words) -> str:
        return "the solutions that several operators read"


def digest_of(plan: Operator, scope: str = "") -> str:
    """Returns a collision-resistant name for a plan, the same in every process."""
    return blake2b(f"{scope}\0{_text(plan)}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(item: Any) -> str:
    """Writes a plan as unique text. Terms are written as N-Triples, where different terms differ."""
    if isinstance(item, tuple):
        return f"({','.join(map(_text, item))})"
    if isinstance(item, Shared) or not is_dataclass(item):
        return str(item) if isinstance(item, NamedNode | BlankNode | Literal) else repr(item)
    return f"{type(item).__name__}{_text(tuple(getattr(item, field.name) for field in fields(item)))}"
