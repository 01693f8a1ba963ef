"""Local data outlives every source that says the same, whatever happens in which order."""

from __future__ import annotations

import shutil
import tempfile
from itertools import permutations
from pathlib import Path

import pytest

import sparqlive
from tests.conftest import times
from tests.store.test_machine import IN_MEMORY

QUAD = "<a:s> <a:p> <a:o> <a:g> .\n"
OTHER = "<a:t> <a:p> <a:o> <a:g> .\n"
VIEW = "SELECT ?s { GRAPH <a:g> { ?s <a:p> ?o } }"
STEPS = ("apply", "compact", "add", "end", "reopen")


class Store:
    """A store, its one source, and what both assert by a model of sets."""

    def __init__(self, folder: Path, ending: str, viewed: bool) -> None:
        self.folder, self.ending, self.viewed = folder, ending, viewed
        self.document = folder / "document.nq"
        self.document.write_text(QUAD + OTHER)
        self.session = sparqlive.open(folder / "store")
        self.local: set[str] = set()
        self.asserted: set[str] = set()

    def do(self, step: str) -> None:
        match step:
            case "apply":
                self.session.apply(insert=QUAD)
                self.local.add(QUAD)
            case "compact":
                self.session.compact()
            case "add":
                self.session.source("file", str(self.document), name="d").refresh()
                self.asserted = set(self.document.read_text().splitlines(keepends=True))
            case "end" if self.ending == "empty":
                self.document.write_text("")
                if "d" in self.session.sources:
                    self.session.sources["d"].refresh()
                self.asserted = set()
            case "end" if "d" in self.session.sources:
                self.session.sources["d"].remove()
                self.asserted = set()
            case "reopen":
                self.session.close()
                self.session = sparqlive.open(self.folder / "store")
                if self.viewed:
                    self.session.view("v", VIEW)

    def check(self) -> None:
        expected = self.local | self.asserted
        assert {f"{quad} .\n" for quad in self.session.quads()} == expected
        assert len(self.session) == len(expected)
        if "v" in self.session.views:
            assert len(self.session.views["v"]) == len(expected)


@pytest.mark.parametrize("viewed", [False, True], ids=["no view", "view"])
@pytest.mark.parametrize("ending", ["remove", "empty"])
@pytest.mark.parametrize("first", STEPS[:: times(2, 1)])
def test_no_ordering_loses_local_data(ending: str, viewed: bool, first: str) -> None:
    """Five steps in every order, two ways to end a source, with a view and without: 480 in a full run."""
    for rest in permutations(step for step in STEPS if step != first):
        folder = Path(tempfile.mkdtemp(prefix="sparqlive-orderings-", dir=IN_MEMORY))
        store = Store(folder, ending, viewed)
        try:
            for step in (first, *rest):
                store.do(step)
                store.check()
        except AssertionError as error:
            raise AssertionError(f"{first}, {', '.join(rest)}: lost at {step}") from error
        finally:
            store.session.close()
            shutil.rmtree(folder)
