"""Extracts the reason why Spark failed from its long error texts, as one sentence."""

from __future__ import annotations

import re
import sys

_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_TASK = re.compile(r"most recent failure: (?:Lost task|Exception in task)[^\n]*?\): ([^\n]+)")
_TRACEBACK = "Traceback (most recent call last):"
_PACKAGE = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z])")
_LONGEST = 300


def root_cause(text: str) -> str:
    """Returns the last cause in the text of an error of Spark or of its Python workers."""
    text = text.strip()
    if "No module named 'sparqlive'" in text:
        return (
            "sparqlive is not installed in the Python of Spark's workers. Install it there; for a local "
            f"Spark, set the environment variable PYSPARK_PYTHON to {sys.executable} before Spark starts."
        )
    causes = _CAUSE.findall(text) or _TASK.findall(text)
    found = causes[-1] if causes else text.partition("\n")[0]
    if _TRACEBACK in text and (not causes or "PythonException" in found or _TRACEBACK in found):
        found = _python_cause(text) or found
    shown = _PACKAGE.sub("", found.strip())
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _python_cause(text: str) -> str | None:
    """Returns the line with the error at the end of the last Python traceback."""
    for line in text.rpartition(_TRACEBACK)[2].splitlines():
        if line and not line[0].isspace():
            return line
    return None
