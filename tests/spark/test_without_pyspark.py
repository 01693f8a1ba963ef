"""What needs PySpark says so where it is not installed."""

from __future__ import annotations

import sys

import pytest

import sparqlive


def test_register_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("pyspark", "sparqlive.spark.sources"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(sparqlive.Error, match=r"needs pyspark.*pip install 'sparqlive\[spark\]'"):
        sparqlive.register(object())
