"""Represents solutions as a frame: the columns, and the operations that all operators share.

Defines the names of columns, and the properties known of each variable. NULL is not a value: 0 means unbound,
so that equality of columns is equality of solutions. Only a text column may be NULL. Invariants: a frame has
a column per variable, a text column for each of `texts`, and the weight `w`. A solution may be split into
several rows; weights are summed where needed (`summed`) and at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparqlive.bulk.dialect import ZERO, total
from sparqlive.bulk.frame import Frame
from sparqlive.sparql.algebra import Var

WEIGHT = "w"


def column(variable: Var) -> str:
    """The column of a variable. In Spark, column names ignore case, and a dot means a field."""
    name = variable.name
    if name.isascii() and name.isalnum() and name == name.lower():
        return f"v_{name}"
    return f"x_{name.encode().hex()}"


def text(variable: Var) -> str:
    """The column with the text of a computed term, which the dictionary may still lack."""
    return f"t_{column(variable)}"


@dataclass(frozen=True)
class Solutions:
    """Rows with weights.

    always: variables that every row binds. plain: those whose terms come from the data, so that the
    dictionary has them. own_text: variables whose terms are constants of the plan or in a text column. texts:
    variables with a text column; it is NULL if another place has the term. small: reached from a change or
    from keys, so that it can be broadcast.
    """

    frame: Frame
    variables: tuple[Var, ...]
    always: frozenset[Var]
    plain: frozenset[Var] = frozenset()
    own_text: frozenset[Var] = frozenset()
    texts: frozenset[Var] = frozenset()
    small: bool = False

    @property
    def ids(self) -> list[str]:
        return [column(v) for v in self.variables]

    @property
    def text_columns(self) -> list[str]:
        return [text(v) for v in self.variables if v in self.texts]

    @property
    def columns(self) -> list[str]:
        return [*self.ids, *self.text_columns, WEIGHT]

    def of(self, frame: Frame) -> Solutions:
        """Returns other rows with the same columns."""
        return replace(self, frame=frame)


@dataclass(frozen=True)
class Keys:
    """Values of variables that are always bound: readers need only content that agrees with a row.

    small: they can be broadcast.
    """

    frame: Frame
    variables: tuple[Var, ...]
    small: bool

    def only(self, wanted: Iterable[Var]) -> Keys | None:
        """Returns the keys on fewer variables; None if no variable is left."""
        allowed = frozenset(wanted)
        kept = tuple(v for v in self.variables if v in allowed)
        return Keys(self.frame, kept, self.small) if kept else None

    def renamed(self, old: Var, new: Var) -> Keys:
        """Turns keys on a copied variable into keys on the original variable."""
        kept = tuple(v for v in self.variables if v != old)
        if new in kept:
            return Keys(self.frame, kept, self.small)
        frame = self.frame.select(*map(column, kept), f"{column(old)} AS {column(new)}")
        return Keys(frame, (*kept, new), self.small)


def keys_of(solutions: Solutions) -> Keys:
    variables = tuple(v for v in solutions.variables if v in solutions.always)
    return Keys(solutions.frame, variables, solutions.small)


def restricted(frame: Frame, keys: Keys | None, own: Sequence[Var]) -> Frame:
    """Returns the rows that agree with a key, by a semijoin."""
    shared = [column(v) for v in own if keys is not None and v in keys.variables]
    if keys is None or not shared:
        return frame
    return semi(frame, keys.frame.select(*shared).broadcast(keys.small), shared)


def reached(solutions: Solutions, keys: Keys) -> Solutions:
    """Returns the solutions that agree with a key. A solution that leaves a variable unbound is compatible
    with all of its values, so keys on variables that may be unbound do not restrict.
    """
    certain = keys.only(solutions.always)
    if certain is None:
        return solutions
    return replace(solutions, frame=restricted(solutions.frame, certain, solutions.variables), small=True)


def semi(frame: Frame, other: Frame, columns: Sequence[str]) -> Frame:
    return frame.join(other, columns, "SEMI")


def anti(frame: Frame, other: Frame, columns: Sequence[str]) -> Frame:
    return frame.join(other, columns, "ANTI")


def summed(solutions: Solutions) -> Solutions:
    """Makes one row per solution. If an id has several texts, NULL is the least informative."""
    texts = [f"max({name}) AS {name}" for name in solutions.text_columns]
    frame = solutions.frame.grouped(solutions.ids, *texts, total(WEIGHT))
    return solutions.of(frame.where(f"{WEIGHT} <> 0"))


def narrowed(solutions: Solutions, wanted: frozenset[Var], *, sums: bool) -> Solutions:
    """Drops variables that are not wanted; `sums`: merges the rows that become equal."""
    kept = tuple(v for v in solutions.variables if v in wanted)
    if kept == solutions.variables:
        return solutions
    remaining = frozenset(kept)
    result = replace(
        solutions,
        variables=kept,
        always=solutions.always & remaining,
        plain=solutions.plain & remaining,
        own_text=solutions.own_text & remaining,
        texts=solutions.texts & remaining,
    )
    result = result.of(solutions.frame.select(*result.columns))
    return summed(result) if sums else result


def arranged(solutions: Solutions, variables: tuple[Var, ...], texts: frozenset[Var]) -> Frame:
    """Puts the columns into a given order, for a union; a missing variable is unbound."""
    own = frozenset(solutions.variables)
    ids = [column(v) if v in own else f"{ZERO} AS {column(v)}" for v in variables]
    own_texts = [
        text(v) if v in solutions.texts else f"CAST(NULL AS STRING) AS {text(v)}"
        for v in variables
        if v in texts
    ]
    return solutions.frame.select(*ids, *own_texts, WEIGHT)


def united(parts: Sequence[Solutions], variables: tuple[Var, ...]) -> Solutions:
    """Adds up solutions with these variables."""

    def in_all(holds: Sequence[frozenset[Var]]) -> frozenset[Var]:
        return frozenset.intersection(*holds) & frozenset(variables)

    texts = frozenset().union(*(part.texts for part in parts)) & frozenset(variables)
    first, *others = (arranged(part, variables, texts) for part in parts)
    frame = first.union(*others) if others else first
    return Solutions(
        frame,
        variables,
        always=in_all([part.always for part in parts]),
        plain=in_all([part.plain for part in parts]),
        own_text=in_all(
            [part.own_text | (frozenset(variables) - frozenset(part.variables)) for part in parts]
        ),
        texts=texts,
        small=all(part.small for part in parts),
    )


def before_and_after(
    variables: tuple[Var, ...], old: Solutions | None, added: Solutions, *, summing: bool = True
) -> Solutions:
    """Returns rows with their weights `before` and `after` a change in place of one weight.

    summing: each row occurs once, and only if it has a weight. Otherwise, and where all rows are new, the
    rows of one solution may be split.
    """
    parts = [added] if old is None else [old, added]
    both = united(parts, variables)
    frames = []
    for part in parts:
        before = f"{WEIGHT} AS before" if part is old else f"{ZERO} AS before"
        frame = arranged(part, variables, both.texts)
        frames.append(frame.select(*both.ids, *both.text_columns, before, f"{WEIGHT} AS after"))
    frame = frames[0].union(*frames[1:])
    if summing:
        texts = [f"max({name}) AS {name}" for name in both.text_columns]
        frame = frame.grouped(both.ids, *texts, total("before"), total("after"))
        frame = frame.where("before <> 0 OR after <> 0")
    return replace(both, frame=frame, small=added.small and (old is None or old.small))
