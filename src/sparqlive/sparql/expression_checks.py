"""Static checks of an expression: its variables, its functions and its errors.

Unknown functions raise Unsupported, wrong numbers of arguments SyntaxError. Invariant: the walk over an
expression does not enter the pattern of an EXISTS, and does not recurse.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparqlive import errors
from sparqlive.sparql.algebra import Aggregate, Call, Expression, Var
from sparqlive.sparql.functions import FORMS, FUNCTIONS, VOLATILE


def variables_of(expression: Expression) -> frozenset[Var]:
    """Returns the variables that an evaluation may read, without those of EXISTS patterns."""
    return frozenset(part for part in _parts(expression) if isinstance(part, Var))


def volatile_function(expression: Expression) -> str | None:
    """Returns the first function in the expression whose value may change between calls."""
    return next((name for name in function_names(expression) if name in VOLATILE), None)


def check_expression(expression: Expression) -> None:
    """Raises Unsupported for an unknown function, SyntaxError for a wrong number of arguments."""
    for part in _parts(expression):
        if not isinstance(part, Call):
            continue
        function = FUNCTIONS.get(part.name)
        bounds = FORMS.get(part.name) if function is None else (function.minimum, function.maximum)
        if bounds is None:
            raise errors.Unsupported(
                f"The function <{part.name}> is not supported. Use the functions of SPARQL 1.1, or a cast "
                f"such as xsd:integer."
            )
        minimum, maximum = bounds
        count = len(part.arguments)
        if count < minimum or (maximum is not None and count > maximum):
            raise errors.SyntaxError(f"{part.name} takes {_count_in_words(minimum, maximum)}, not {count}.")
        if part.name == "BOUND" and not isinstance(part.arguments[0], Var):
            raise errors.SyntaxError("BOUND takes a variable, such as BOUND(?x).")


def _count_in_words(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum} argument{'' if minimum == 1 else 's'}"
    if minimum == maximum:
        return f"{minimum} argument{'' if minimum == 1 else 's'}"
    return f"{minimum} to {maximum} arguments"


def _parts(expression: Expression) -> Iterator[Expression]:
    """Yields the expression and all its parts, from left to right. Iterative, as queries may nest deeply."""
    pending = [expression]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Call):
            pending.extend(reversed(part.arguments))
        elif isinstance(part, Aggregate) and part.argument is not None:
            pending.append(part.argument)


def function_names(expression: Expression) -> list[str]:
    """Returns the names of all operators and functions in the expression, from left to right."""
    return [part.name for part in _parts(expression) if isinstance(part, Call)]
