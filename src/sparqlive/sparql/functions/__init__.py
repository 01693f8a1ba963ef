"""The functions of SPARQL 1.1 §17, by their name in a `Call`.

The table has name, number of arguments and definition. A definition takes values and returns a value, or a
truth value if `is_test` is set; it raises ExpressionError for SPARQL's errors. What depends on more than the
values of its arguments (the logical connectives, IF, COALESCE, BOUND, IN, and volatile functions) is compiled
in `expressions`, and has only its number of arguments here. Invariant: every name that can be compiled is
either in FUNCTIONS or in FORMS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sparqlive.sparql.functions import casts, dates, hashes, logic, numeric, patterns, strings, terms


@dataclass(frozen=True, slots=True)
class Function:
    """A function. `maximum` None: any number of arguments from `minimum` on."""

    call: Callable[..., Any]
    minimum: int
    maximum: int | None
    is_test: bool = False


def _value(call: Callable[..., Any], minimum: int, maximum: int | None = None) -> Function:
    return Function(call, minimum, minimum if maximum is None else maximum)


def _test(call: Callable[..., bool], minimum: int, maximum: int | None = None) -> Function:
    return Function(call, minimum, minimum if maximum is None else maximum, is_test=True)


FUNCTIONS: Final[dict[str, Function]] = {
    **{name: _test(comparison, 2) for name, comparison in logic.COMPARISONS.items()},
    "+": _value(numeric.add, 2),
    "-": _value(numeric.subtract, 2),
    "*": _value(numeric.multiply, 2),
    "/": _value(numeric.divide, 2),
    "NEGATE": _value(numeric.negate, 1),
    "PLUS": _value(numeric.plus, 1),
    "ABS": _value(numeric.absolute, 1),
    "ROUND": _value(numeric.half_up, 1),
    "CEIL": _value(numeric.ceiling, 1),
    "FLOOR": _value(numeric.floor, 1),
    "SAMETERM": _test(logic.same_term, 2),
    "ISIRI": _test(logic.is_iri, 1),
    "ISBLANK": _test(logic.is_blank, 1),
    "ISLITERAL": _test(logic.is_literal, 1),
    "ISNUMERIC": _test(logic.is_numeric, 1),
    "STR": _value(terms.text, 1),
    "LANG": _value(terms.language, 1),
    "DATATYPE": _value(terms.datatype, 1),
    "IRI": _value(terms.make_iri, 1, 2),
    "STRDT": _value(terms.with_datatype, 2),
    "STRLANG": _value(terms.with_language, 2),
    "STRLEN": _value(strings.length, 1),
    "SUBSTR": _value(strings.substring, 2, 3),
    "UCASE": _value(strings.upper_case, 1),
    "LCASE": _value(strings.lower_case, 1),
    "STRSTARTS": _test(strings.starts_with, 2),
    "STRENDS": _test(strings.ends_with, 2),
    "CONTAINS": _test(strings.contains, 2),
    "STRBEFORE": _value(strings.before, 2),
    "STRAFTER": _value(strings.after, 2),
    "ENCODE_FOR_URI": _value(strings.encode_for_uri, 1),
    "CONCAT": Function(strings.concatenate, 0, None),
    "LANGMATCHES": _test(strings.language_matches, 2),
    "REGEX": _test(patterns.matches, 2, 3),
    "REPLACE": _value(patterns.replace, 3, 4),
    "YEAR": _value(dates.year, 1),
    "MONTH": _value(dates.month, 1),
    "DAY": _value(dates.day, 1),
    "HOURS": _value(dates.hours, 1),
    "MINUTES": _value(dates.minutes, 1),
    "SECONDS": _value(dates.seconds, 1),
    "TIMEZONE": _value(dates.timezone, 1),
    "TZ": _value(dates.timezone_text, 1),
    **{
        name: _value(hashes.digest(name.lower()), 1) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")
    },
    **{name: _value(cast, 1) for name, cast in casts.CASTS.items()},
}

# The least and greatest number of arguments of what `expressions` compiles itself.
FORMS: Final[dict[str, tuple[int, int | None]]] = {
    "&&": (2, 2),
    "||": (2, 2),
    "!": (1, 1),
    "IF": (3, 3),
    "COALESCE": (0, None),
    "BOUND": (1, 1),
    "IN": (1, None),
    "NOT IN": (1, None),
    "NOW": (0, 0),
    "RAND": (0, 0),
    "UUID": (0, 0),
    "STRUUID": (0, 0),
    "BNODE": (0, 1),
    ".NODE": (1, None),
}

# The function names in query text, and the number of arguments there. The parser adds the base against which
# IRI resolves.
WORDS: Final[dict[str, tuple[int, int | None]]] = {
    **{name: (f.minimum, f.maximum) for name, f in FUNCTIONS.items() if name.isidentifier()},
    **{name: bounds for name, bounds in FORMS.items() if name.isidentifier()},
    **dict.fromkeys(("IRI", "URI", "ISURI"), (1, 1)),
}
for _sign in ("IN", "NEGATE", "PLUS"):  # written between or before their arguments
    del WORDS[_sign]

VOLATILE: Final = frozenset({"NOW", "RAND", "UUID", "STRUUID", "BNODE"})

assert not FUNCTIONS.keys() & FORMS.keys(), "a name has two definitions"
