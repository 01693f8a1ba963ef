"""The names of columns that tables of rows have beside the variables, and the check that no two are the same.

Most libraries can write a table with two columns of the same name, but few can read it. So such a table is
rejected, and the query has to rename its variable.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparqlive.errors import Unsupported

EPOCH, WEIGHT = "_epoch", "_weight"


def check_column_names(variables: Sequence[str], *added: str, ignore_case: bool = False) -> None:
    """Rejects variables whose names clash with added columns, or with each other if case is ignored."""
    taken = {_key(name, ignore_case): f"the column {name}" for name in added}
    for variable in variables:
        other = taken.setdefault(_key(variable, ignore_case), f"the variable ?{variable}")
        if other != f"the variable ?{variable}":
            case = " if case is ignored, as in this kind of table" if ignore_case else ""
            raise Unsupported(
                f"The variable ?{variable} has the name of {other}{case}. A table needs different names: "
                f"rename it in the query, such as (?{variable} AS ?other)."
            )


def _key(name: str, ignore_case: bool) -> str:
    return name.lower() if ignore_case else name
