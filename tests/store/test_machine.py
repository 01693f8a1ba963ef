"""Any order of open, apply, view, drop, close, reopen and compact leaves a store that is right."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sparqlive
from sparqlive.store import compaction
from sparqlive.store import store as store_module
from tests.store.test_store import EX, QUERIES, query

pytestmark = pytest.mark.laws
# Not the disk is tested here, and waiting for it would take most of the time.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

nodes = st.integers(0, 4).map(lambda number: ox.NamedNode(f"{EX}n{number}"))
quads = st.builds(
    ox.Quad,
    nodes,
    st.sampled_from("pqr").map(lambda name: ox.NamedNode(EX + name)),
    nodes,
    st.sampled_from([ox.DefaultGraph(), ox.NamedNode(f"{EX}g")]),
)
batches = st.sets(quads, max_size=6)


class Stores(RuleBasedStateMachine):
    @initialize(small=st.sampled_from([0, 3, 10_000]), relaxed=st.booleans())
    def start(self, small: int, relaxed: bool) -> None:
        self.before = compaction.SMALL, store_module.SMALL
        compaction.SMALL = store_module.SMALL = small
        self.path = Path(tempfile.mkdtemp(prefix="sparqlive-machine-", dir=IN_MEMORY))
        self.options: dict[str, Any] = {"durability": "relaxed" if relaxed else "epoch"}
        self.data: set[ox.Quad] = set()
        self.seen: dict[str, dict[int, dict[Any, int]]] = {}
        self.session = sparqlive.open(self.path / "store", **self.options)

    @rule(insert=batches, delete=batches)
    def apply(self, insert: set[ox.Quad], delete: set[ox.Quad]) -> None:
        self.session.apply(insert=insert, delete=delete)
        self.data = (self.data - delete) | insert

    @rule(name=st.sampled_from(sorted(QUERIES)))
    def view(self, name: str) -> None:
        self.session.view(name, query(name))

    @precondition(lambda self: self.session.views)
    @rule(choice=st.data())
    def drop(self, choice: st.DataObject) -> None:
        name = choice.draw(st.sampled_from(sorted(self.session.views)))
        self.session.drop(name)
        self.seen.pop(name, None)

    @rule()
    def compact(self) -> None:
        self.session.compact()

    @rule(retain=st.sampled_from(["relevant", "all"]))
    def reopen(self, retain: str) -> None:
        self.session.close()
        self.session = sparqlive.open(self.path / "store", retain=retain, **self.options)  # type: ignore[arg-type]

    @rule()
    def read_beside(self) -> None:
        with sparqlive.open(self.path / "store", read_only=True) as reader:
            assert reader.epoch == self.session.epoch
            assert set(reader.quads()) == self.data
            for name, view in self.session.views.items():
                assert reader.views[name].weights() == view.weights()

    @rule(name=st.sampled_from(sorted(QUERIES)))
    def query(self, name: str) -> None:
        if name in self.session.views:
            assert self.session.query(query(name)).weights() == self.session.views[name].weights()

    @invariant()
    def it_is_right(self) -> None:
        assert set(self.session.quads()) == self.data
        assert len(self.session) == len(self.data)
        self.session.check()
        for name, view in self.session.views.items():
            seen = self.seen.setdefault(name, {})
            seen[self.session.epoch] = view.weights()
            for epoch, weights in seen.items():
                assert view.weights(at=epoch) == weights

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            compaction.SMALL, store_module.SMALL = self.before
            shutil.rmtree(self.path)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=25, stateful_step_count=20)
