"""What can be said of an expression without evaluating it: its variables, its functions, its faults.

Owns the walk over an expression. Refuses unknown functions (Unsupported) and wrong numbers of arguments
(SyntaxError). Invariant: no walk descends into the pattern of an EXISTS, and none recurses.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparqlive import errors
from sparqlive.sparql.algebra import Aggregate, Call, Expression, Var
from sparqlive.sparql.functions import FORMS, FUNCTIONS, VOLATILE


def variables_of(expression: Expression) -> frozenset[Var]:
    """The variables an evaluation may read, those of EXISTS patterns left out."""
    return frozenset(part for part in _parts(expression) if isinstance(part, Var))


def volatile_function(expression: Expression) -> str | None:
    """The first function in the expression that need not give the same value twice."""
    return next((name for name in function_names(expression) if name in VOLATILE), None)


def check_expression(expression: Expression) -> None:
    """Raise Unsupported for an unknown function, SyntaxError for a wrong number of arguments."""
    for part in _parts(expression):
        if not isinstance(part, Call):
            continue
        function = FUNCTIONS.get(part.name)
        bounds = FORMS.get(part.name) if function is None else (function.minimum, function.maximum)
        if bounds is None:
            raise errors.Unsupported(f"The function <{part.name}> is not known here.")
        minimum, maximum = bounds
        count = len(part.arguments)
        if count < minimum or (maximum is not None and count > maximum):
            raise errors.SyntaxError(f"{part.name} takes {_count_in_words(minimum, maximum)}, not {count}.")
        if part.name == "BOUND" and not isinstance(part.arguments[0], Var):
            raise errors.SyntaxError("BOUND takes a variable.")


def _count_in_words(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum} argument{'' if minimum == 1 else 's'}"
    if minimum == maximum:
        return f"{minimum} argument{'' if minimum == 1 else 's'}"
    return f"{minimum} to {maximum} arguments"


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all inside it, from left to right; iterative, as queries may nest deeply."""
    pending = [expression]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Call):
            pending.extend(reversed(part.arguments))
        elif isinstance(part, Aggregate) and part.argument is not None:
            pending.append(part.argument)


def function_names(expression: Expression) -> list[str]:
    """The names of all operators and functions in the expression, from left to right."""
    return [part.name for part in _parts(expression) if isinstance(part, Call)]
