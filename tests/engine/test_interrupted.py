"""Ctrl-C anywhere in a change: the session and its store have all of it or nothing, and go on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyoxigraph as ox
import pytest

import sparqlive
from tests.conftest import times

SOURCES = str(Path(sparqlive.__file__).parent)
PREFIX = "PREFIX : <http://example.org/>\n"
VIEWS = {
    "totals": "SELECT ?a (COUNT(*) AS ?n) (SUM(?b) AS ?s) { ?a :p ?b OPTIONAL { ?a :q ?c } } GROUP BY ?a",
    "paths": "SELECT ?a ?b { ?a :p+ ?b }",
    "first": "SELECT ?a ?b { ?a :p ?b } ORDER BY DESC(?b) ?a LIMIT 3",
    "graph": "CONSTRUCT { ?b :inverse ?a } { ?a :p ?b FILTER(ISIRI(?b)) }",
    "reader": "SELECT DISTINCT ?a { GRAPH <view:graph> { ?b :inverse ?a } MINUS { ?a :q 1 } }",
}


def name(text: str) -> ox.NamedNode:
    return ox.NamedNode(f"http://example.org/{text}")


def quads(start: int) -> set[ox.Quad]:
    links = {ox.Quad(name(f"n{n}"), name("p"), name(f"n{n + 1}")) for n in range(start, start + 5)}
    return links | {ox.Quad(name(f"n{n}"), name("q"), ox.Literal(n % 3)) for n in range(start, start + 5)}


class Interrupting:
    """Sends SIGINT to this process before a line of this package is executed; counts the lines."""

    def __init__(self, at: int | None = None) -> None:
        self.lines = 0
        self._at = at

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                signal.raise_signal(signal.SIGINT)
        return self._trace

    def run(self, action: Callable[[], object]) -> bool:
        """Whether the action was interrupted."""
        before, handler = sys.gettrace(), signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.settrace(self._trace)
        try:
            action()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
            assert signal.signal(signal.SIGINT, handler) is signal.default_int_handler
        return False


def update(session: sparqlive.Session, old: set[ox.Quad], new: set[ox.Quad]) -> object:
    """Two operations, of which the second one sees what the first one does."""
    come = " ".join(f"{quad.subject} {quad.predicate} {quad.object} ." for quad in new)
    gone = " ".join(f"({quad.subject} {quad.predicate} {quad.object})" for quad in old - new)
    return session.update(
        f"INSERT DATA {{ {come} }} ; "
        f"DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o VALUES (?s ?p ?o) {{ {gone} }} }}"
    )


CHANGES: dict[str, Callable[[sparqlive.Session, set[ox.Quad], set[ox.Quad]], object]] = {
    "live": lambda session, old, new: session.apply(insert=new, delete=old),
    "duckdb": lambda session, old, new: session.apply(insert=new, delete=old, strategy="duckdb"),
    "rebuild": lambda session, old, new: session.apply(insert=new, delete=old, strategy="rebuild"),
    "update": update,
    "replace": lambda session, old, new: session.replace(ox.DefaultGraph(), new),
}


def opened(path: Path, memory: int | None) -> sparqlive.Session:
    return sparqlive.open(path, memory=memory, bulk="duckdb", durability="relaxed")


@pytest.mark.parametrize(
    ("change", "memory", "points"),
    [*((change, None, times(12, 30)) for change in CHANGES), ("live", 0, 4), ("update", 0, 4)],
    ids=[*CHANGES, "live-in-store", "update-in-store"],
)
def test_a_change_is_made_or_not(change: str, memory: int | None, points: int, tmp_path: Path) -> None:
    """Interrupts at some points of the change, with as many lines between them."""
    session = opened(tmp_path, memory)
    for view, text in VIEWS.items():
        session.view(view, PREFIX + text)
    data = quads(0)
    session.apply(insert=data)
    whole = Interrupting()
    interruptions = 0
    for point in range(points + 2):
        new = quads(2 * point + 2)
        if point < 2:  # the first time, code is compiled, too
            whole = tracing = Interrupting()
        else:
            tracing = Interrupting(at=1 + (point - 2) * whole.lines // points)
        is_interrupted = tracing.run(partial(CHANGES[change], session, data, new))
        found = set(session.quads())
        assert found == new or (is_interrupted and found == data)
        interruptions, data = interruptions + is_interrupted, found
        session.check()
        if point in (points // 2, points):
            session.close()
            session = opened(tmp_path, memory)
            assert set(session.quads()) == data
            session.check()
    session.close()
    assert interruptions > points / 2
