"""The totals of groups as rows: the whole state of a group whose aggregates are COUNT, SUM and AVG.

A row has the keys of a group and its totals (`sparql/aggregates.py`): the number of its rows, and for each
aggregate its counts and its exact sums. A sum that may need more than 64 bits is two columns. Totals are
linear: those of a group are the sum of those of its parts. Invariant: a group with rows has one row of
totals, the same on every executor; a change removes the old one and adds the new.
"""

from __future__ import annotations

from sparqlive.plan import operators as op

WEIGHTS = "weights"
"""How many rows a group has."""
COUNTS = ("errors", "count", "decimals")
_WIDE = ("whole_", "fraction_")
_OTHERS = "others_"


def total_names(operator: op.Group) -> list[str]:
    names = [WEIGHTS]
    for place, (_, aggregate) in enumerate(operator.aggregates):
        parts = ("count",) if aggregate.name == "COUNT" else (*COUNTS, "whole", "fraction", "others")
        names += [f"{part}_{place}" for part in parts]
    return names


def is_wide(name: str) -> bool:
    """Whether a total may need more than 64 bits: sums of values do, counts do not."""
    return name.startswith(_WIDE)


def width(operator: op.Group) -> int:
    """The number of columns of the rows."""
    names = total_names(operator)
    return len(operator.keys) + len(names) + sum(map(is_wide, names))


def places_of_others(operator: op.Group) -> list[int]:
    """The columns that say how many numbers the totals leave out."""
    place, places = len(operator.keys), []
    for name in total_names(operator):
        if name.startswith(_OTHERS):
            places.append(place)
        place += 1 + is_wide(name)
    return places


def places_of_wide(operator: op.Group) -> list[int]:
    """The first one of the two columns of each wide sum."""
    place, places = len(operator.keys), []
    for name in total_names(operator):
        if is_wide(name):
            places.append(place)
        place += 1 + is_wide(name)
    return places
