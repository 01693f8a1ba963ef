"""Any order of open, apply, update, view, drop, close, reopen and compact leaves a store that is right.

So does it with sources that come, change and go, and that assert what local data or other sources assert. The
model is one set of quads for `local` and one for each source: the graph is their union.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sparqlive
from sparqlive.runtime.tuning import DEFAULT
from tests.conftest import examples
from tests.oracle import Oracle
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

# Few quads, so that local data and sources often assert the same ones.
FEW = [
    ox.Quad(*(ox.NamedNode(EX + name) for name in (subject, predicate, object_, graph)))
    for subject, predicate, object_, graph in product(("n0", "n1"), "pq", ("n1",), "gh")
]
common = st.sampled_from(FEW)
documents = st.sets(common, max_size=5)
names = st.sampled_from(["a", "b"])
GRAPH_QUERIES = {
    "g": "SELECT ?x ?y { GRAPH :g { ?x :p ?y OPTIONAL { ?y :q ?z } } }",
    "named": "SELECT ?g ?x { GRAPH ?g { ?x :q ?y } }",
    "default": "SELECT ?x ?p { ?x ?p ?y }",
    "distinct": "SELECT DISTINCT ?x { ?x :p ?y }",
}


class Stores(RuleBasedStateMachine):
    @initialize(small=st.sampled_from([0, 3, 10_000]), relaxed=st.booleans())
    def start(self, small: int, relaxed: bool) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sparqlive-machine-", dir=IN_MEMORY))
        self.options: dict[str, Any] = {"durability": "relaxed" if relaxed else "epoch"}
        self.options["tuning"] = replace(DEFAULT, catalog_rows=small)
        self.data: set[ox.Quad] = set()
        self.seen: dict[str, dict[int, dict[Any, int]]] = {}
        self.session = sparqlive.Session(self.path / "store", **self.options)

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

    @rule()
    def reopen(self) -> None:
        self.session.close()
        self.session = sparqlive.Session(self.path / "store", **self.options)

    @rule()
    def read_beside(self) -> None:
        with sparqlive.open(self.path / "store", read_only=True) as reader:
            assert reader.epoch == self.session.epoch
            assert set(reader.quads()) == self.data
            for name, view in self.session.views.items():
                assert reader.views[name].weights() == view.weights()

    @rule()
    def check_by_backends(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.session._writer, "tuning", replace(DEFAULT, reference_quads=-1))
            self.session.check()

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
            shutil.rmtree(self.path)


class Sources(RuleBasedStateMachine):
    """A store whose sources assert what local data and other sources assert."""

    @initialize(
        small=st.sampled_from([0, 10_000]), graph=st.sampled_from(["strict", "union"]), data=documents
    )
    def start(self, small: int, graph: str, data: set[ox.Quad]) -> None:
        self.tuning = replace(DEFAULT, catalog_rows=small)
        self.path = Path(tempfile.mkdtemp(prefix="sparqlive-machine-", dir=IN_MEMORY))
        self.union = graph == "union"
        self.local: set[ox.Quad] = set()
        self.asserted: dict[str, set[ox.Quad]] = {}
        self.session = sparqlive.Session(self.path / "store", default_graph=graph, tuning=self.tuning)  # type: ignore[arg-type]
        self.apply(data, set(), "auto")
        self.compact()

    @property
    def data(self) -> set[ox.Quad]:
        return self.local.union(*self.asserted.values())

    # What is local

    @rule(insert=documents, delete=documents, strategy=st.sampled_from(["auto", "live", "rebuild"]))
    def apply(self, insert: set[ox.Quad], delete: set[ox.Quad], strategy: Any) -> None:
        before = self.data
        self.local = (self.local - delete) | insert
        epoch = self.session.apply(insert=insert, delete=delete, strategy=strategy)
        assert epoch.inserted - epoch.deleted == len(self.data) - len(before)
        assert epoch.inserted == len(self.data - before)
        assert epoch.ignored == len(insert) + len(delete) - epoch.inserted - epoch.deleted

    @rule(content=documents, graph=st.sampled_from("gh"))
    def replace(self, content: set[ox.Quad], graph: str) -> None:
        name = ox.NamedNode(EX + graph)
        placed = {ox.Quad(s, p, o, name) for s, p, o, _ in content}
        self.session.replace(name, content)
        self.local = {quad for quad in self.local if quad.graph_name != name} | placed

    @rule(
        request=st.sampled_from([f"CLEAR GRAPH <{EX}g>", f"DROP GRAPH <{EX}g>", "CLEAR ALL", "DELETE WHERE"])
    )
    def clear(self, request: str) -> None:
        if request == "DELETE WHERE":
            self.session.update(f"DELETE WHERE {{ GRAPH ?g {{ ?s <{EX}q> ?o }} }}")
            self.local = {quad for quad in self.local if quad.predicate != ox.NamedNode(f"{EX}q")}
        else:
            self.session.update(request)
            graphs = {ox.NamedNode(f"{EX}h"), ox.NamedNode(f"{EX}copy")} if "GRAPH" in request else set()
            self.local = {quad for quad in self.local if quad.graph_name in graphs}

    @rule(first=common, second=common)
    def delete_and_insert(self, first: ox.Quad, second: ox.Quad) -> None:
        """The second operation sees what the first has left, the third what is there because of it."""
        self.session.update(
            f"DELETE DATA {{ {_in_graph(first)} }} ; INSERT DATA {{ {_in_graph(second)} }} ; "
            f"INSERT {{ GRAPH <{EX}copy> {{ ?s ?p ?o }} }} WHERE {{ GRAPH <{EX}g> {{ ?s ?p ?o }} }} ; "
            f"DELETE DATA {{ {_in_graph(second)} }}"
        )
        seen = (self.local - {first}).union(*self.asserted.values()) | {second}
        copied = {
            ox.Quad(s, p, o, ox.NamedNode(f"{EX}copy"))
            for s, p, o, name in seen
            if name == ox.NamedNode(f"{EX}g")
        }
        self.local = (self.local - {first, second}) | copied

    @rule(word=st.sampled_from(["ADD", "COPY", "MOVE"]))
    def transfer(self, word: str) -> None:
        source, target = ox.NamedNode(f"{EX}g"), ox.NamedNode(f"{EX}h")
        content = {quad for quad in self.data if quad.graph_name == source}
        self.session.update(f"{word} SILENT {source} TO {target}")
        if not content:
            return
        left = {
            quad
            for quad in self.local
            if not (quad.graph_name == target and word != "ADD")
            and not (quad.graph_name == source and word == "MOVE")
        }
        self.local = left | {ox.Quad(s, p, o, target) for s, p, o, _ in content}

    # Sources

    def _write(self, name: str, content: set[ox.Quad]) -> Path:
        path = self.path / f"{name}.nq"
        path.write_text("".join(f"{quad} .\n" for quad in content))
        return path

    @rule(name=names, content=documents, everything=st.booleans())
    def source(self, name: str, content: set[ox.Quad], everything: bool) -> None:
        """A source comes, or its document changes; it may repeat all that is local."""
        content = content | self.local if everything else content
        self.session.source("file", str(self._write(name, content)), name=name).refresh()
        self.asserted[name] = content

    @precondition(lambda self: self.asserted)
    @rule(choice=st.data(), way=st.sampled_from(["remove", "empty"]))
    def end(self, choice: st.DataObject, way: str) -> None:
        name = choice.draw(st.sampled_from(sorted(self.asserted)))
        if way == "empty":
            self.source(name, set(), False)
        else:
            self.session.sources[name].remove()
            del self.asserted[name]

    @precondition(lambda self: self.asserted)
    @rule(choice=st.data())
    def break_document(self, choice: st.DataObject) -> None:
        """What fails deletes nothing."""
        name = choice.draw(st.sampled_from(sorted(self.asserted)))
        (self.path / f"{name}.nq").write_text("<a:s> <a:p")
        with pytest.raises(sparqlive.Error, match=rf"{name}\.nq"):
            self.session.sources[name].refresh()

    # Views, files

    @rule(name=st.sampled_from(sorted(GRAPH_QUERIES)), refresh=st.sampled_from(["immediate", "manual"]))
    def view(self, name: str, refresh: Any) -> None:
        text = f"PREFIX : <{EX}> {GRAPH_QUERIES[name]}"
        self.session.view(f"{name} {refresh}", text, refresh=refresh)

    @precondition(lambda self: self.session.views)
    @rule(choice=st.data())
    def drop(self, choice: st.DataObject) -> None:
        self.session.drop(choice.draw(st.sampled_from(sorted(self.session.views))))

    @rule()
    def compact(self) -> None:
        self.session.compact()

    @rule()
    def reopen(self) -> None:
        self.session.close()
        self.session = sparqlive.Session(self.path / "store", tuning=self.tuning)

    @rule()
    def read_beside(self) -> None:
        with sparqlive.open(self.path / "store", read_only=True) as reader:
            assert set(reader.quads()) == self.data
            for name, view in self.session.views.items():
                assert reader.views[name].weights() == view.weights()

    @invariant()
    def it_is_right(self) -> None:
        data = self.data
        assert set(self.session.quads()) == data
        assert len(self.session) == len(data)
        sizes = {graph: size for graph, size in self.session.graphs().items() if size}
        assert sizes == Counter(quad.graph_name for quad in data)
        for name, content in self.asserted.items():
            assert self.session.sources[name].status()["quads"] == len(content)
        self.session.check()
        oracle = Oracle(data, union=self.union)
        for name, view in self.session.views.items():
            if name.endswith("immediate"):
                text = f"PREFIX : <{EX}> {GRAPH_QUERIES[name.split()[0]]}"
                assert view.weights() == oracle.weights(text, view.variables)

    @rule()
    def refresh_views(self) -> None:
        oracle = Oracle(self.data, union=self.union)
        for name, view in self.session.views.items():
            view.refresh()
            text = f"PREFIX : <{EX}> {GRAPH_QUERIES[name.split()[0]]}"
            assert view.weights() == oracle.weights(text, view.variables)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            shutil.rmtree(self.path)


def _in_graph(quad: ox.Quad) -> str:
    return f"GRAPH {quad.graph_name} {{ {quad.subject} {quad.predicate} {quad.object} }}"


TestStores = Stores.TestCase
TestStores.settings = examples(25, stateful_step_count=20)
TestSources = Sources.TestCase
TestSources.settings = examples(30, stateful_step_count=30)
