"""What the text of a term must contain for a condition to hold: a cheap test before the condition itself.

Searching texts is what people do first, and most texts do not match. A condition such as
CONTAINS(LCASE(?v), "word") can only hold for a term whose N-Triples form contains the word. Invariant: a term
that fails the test fails the condition, by false or by an error; a term that passes is still to be tested.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyoxigraph import Literal

from sparqlive.sparql.algebra import Call, Constant, Expression, Var

_PLAIN = re.compile("[A-Za-z0-9 ]+")
"""Characters that N-Triples never escapes, and that mean themselves in a regular expression."""
_CONTAINING = ("CONTAINS", "STRSTARTS", "STRENDS")


@dataclass(frozen=True)
class Needle:
    """A part of the text; `folds`: of the text in lower case. Only texts in ASCII can fail the test."""

    part: str
    folds: bool

    def may_be_in(self, text: str) -> bool:
        return not text.isascii() or self.part in (text.lower() if self.folds else text)


def needle_of(condition: Expression, variable: Var) -> Needle | None:
    """The part that the text of the variable's value must contain, if the condition is of such a form."""
    match condition:
        case Call("&&", arguments):
            found = (needle_of(argument, variable) for argument in arguments)
            return next((needle for needle in found if needle is not None), None)
        case Call(name, (searched, Constant(Literal() as wanted))) if name in _CONTAINING:
            folds = _folding(searched, variable)
            return (
                None if folds is None or not _PLAIN.fullmatch(wanted.value) else Needle(wanted.value, folds)
            )
        case Call("REGEX", (searched, Constant(Literal() as pattern), *flags)):
            folds, part = _folding(searched, variable), pattern.value.removeprefix("^").removesuffix("$")
            if folds is None or not _PLAIN.fullmatch(part):
                return None
            if not flags:
                return Needle(part, folds)
            if isinstance(flags[0], Constant) and flags[0].term == Literal("i"):
                return Needle(part.lower(), True)
    return None


def _folding(searched: Expression, variable: Var) -> bool | None:
    """Whether the variable's text is searched in lower case; None if something else is searched."""
    match searched:
        case Var():
            return False if searched == variable else None
        case Call("STR", (inner,)):
            return _folding(inner, variable)
        case Call("LCASE", (inner,)):
            return None if _folding(inner, variable) is None else True
    return None
