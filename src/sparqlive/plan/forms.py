"""The forms of basic graph patterns: which parts share no variable, and how much state each part needs.

Implements the classification of Gergatsoulis et al. (continuous graph patterns, 2022): stars (Definition 6),
the connected-variable partition and decomposition (Definitions 9 and 10), loosely-connected (11) and
connected-variable patterns (12). Pure functions over the scans of one pattern; they read no data. The paper
has constant predicates and one graph. Here a variable predicate, and the hidden variable of `GRAPH ?g`,
connect like any other variable. Invariant: the parts of a decomposition contain each scan exactly once and
share no variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sparqlive.plan.operators import Scan, ordered_union
from sparqlive.sparql.algebra import Var


class Form(Enum):
    """The form of a pattern, from the one that needs the least state to the one that needs the most."""

    GROUND = "ground"
    STAR = "star"
    LOOSELY_CONNECTED = "loosely connected"
    CONNECTED = "connected"


@dataclass(frozen=True, slots=True)
class Part:
    """One member of a decomposition: its scans, their positions in the pattern, and their variables."""

    positions: tuple[int, ...]
    scans: tuple[Scan, ...]
    variables: tuple[Var, ...]

    @property
    def form(self) -> Form:
        """GROUND, STAR or CONNECTED: a part that is loosely connected is a star (Lemma 1)."""
        return form_of(self.scans)


def variable_partition(scans: Sequence[Scan]) -> tuple[tuple[Var, ...], ...]:
    """Returns the connected-variable partition (Definition 9): variables that occur in one scan are together.

    Members and their variables are in order of first occurrence.
    """
    members: list[tuple[Var, ...]] = []
    for scan in scans:
        if not scan.variables:
            continue
        touched = [member for member in members if set(member) & set(scan.variables)]
        apart = [member for member in members if member not in touched]
        members = [*apart, ordered_union(*touched, scan.variables)]
    order = {variable: place for place, variable in enumerate(_variables(scans))}
    in_order = [tuple(sorted(member, key=order.__getitem__)) for member in members]
    return tuple(sorted(in_order, key=lambda member: order[member[0]]))


def decompose(scans: Sequence[Scan]) -> tuple[Part, ...]:
    """Returns the connected-variable decomposition (Definition 10); the ground part, if any, is last."""
    members = [*variable_partition(scans), ()]
    found: list[Part] = []
    for member in members:
        positions = tuple(place for place, scan in enumerate(scans) if _belongs(scan, member))
        if positions:
            found.append(Part(positions, tuple(scans[place] for place in positions), member))
    return tuple(found)


def form_of(scans: Sequence[Scan]) -> Form:
    """Returns the most specific form of a pattern.

    - GROUND: no variable (§6.2). It works as a switch: it matches or it does not.
    - STAR: one variable, which occurs in every scan: a simple var-centric star (Definition 6). Also
      `?x :p ?x`, and a lone variable predicate or graph: one weight per value is the whole state.
    - LOOSELY_CONNECTED: no scan has two variables (Definition 11): stars, and maybe ground scans.
    - CONNECTED: some scan has two variables. If all variables are connected, this is a connected-variable
      pattern (Definition 12); otherwise `decompose` finds the connected parts.
    """
    members = variable_partition(scans)
    if not members:
        return Form.GROUND
    if any(len(member) > 1 for member in members):
        return Form.CONNECTED
    if len(members) == 1 and all(scan.variables for scan in scans):
        return Form.STAR
    return Form.LOOSELY_CONNECTED


def centre_of(scans: Sequence[Scan]) -> Var | None:
    """Returns the central variable of a var-centric generalized star (Definition 6); None for other patterns.

    It is the subject or object of every scan. Of several candidates, the first is returned.
    """
    for variable in _variables(scans):
        if all(variable in (scan.subject, scan.object) for scan in scans):
            return variable
    return None


def _variables(scans: Sequence[Scan]) -> tuple[Var, ...]:
    return ordered_union(*(scan.variables for scan in scans))


def _belongs(scan: Scan, member: tuple[Var, ...]) -> bool:
    """Whether a scan belongs to a member. All its variables are in one member, so the first one decides."""
    return scan.variables[0] in member if scan.variables else not member
