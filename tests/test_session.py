"""The public API of sessions in memory, point by point."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from pathlib import Path

import pyoxigraph as ox
import pytest

import sparqlive

EX = "http://example.org/"
A, B, C, G, P, Q = (ox.NamedNode(EX + name) for name in ("a", "b", "c", "g", "p", "q"))
ONE, TWO, THREE = (ox.Literal(number) for number in (1, 2, 3))
QUERY = f"SELECT ?s ?o WHERE {{ ?s <{EX}p> ?o }}"
TURTLE = f"<{EX}a> <{EX}p> 1 .\n<{EX}b> <{EX}p> 2 .\n"
TWO_ROWS = {(A, ONE): 1, (B, TWO): 1}


def quad(subject: ox.NamedNode, value: ox.Literal, graph: ox.NamedNode | None = None) -> ox.Quad:
    return ox.Quad(subject, P, value, graph or ox.DefaultGraph())


# Views


def test_a_view_reads_as_variables_weights_and_solutions() -> None:
    with sparqlive.open() as session:
        session.load([quad(A, ONE), quad(B, ONE)])
        view = session.view("values", f"SELECT ?o ?none WHERE {{ ?s <{EX}p> ?o }}")
        assert view.variables == ("o", "none")
        assert view.form == "SELECT"
        assert view.weights() == {(ONE, None): 2}
        assert view.solutions() == [{"o": ONE}, {"o": ONE}]


def test_registering_the_same_query_again_gives_the_same_view() -> None:
    with sparqlive.open() as session:
        first = session.view("view", QUERY)
        session.apply(insert=[quad(A, ONE)])
        assert session.view("view", QUERY).weights() == first.weights() == {(A, ONE): 1}
        assert list(session.views) == ["view"]


def test_another_query_needs_replace() -> None:
    other = f"SELECT ?o WHERE {{ ?s <{EX}p> ?o }}"
    with sparqlive.open() as session:
        session.load([quad(A, ONE)])
        session.view("view", QUERY)
        with pytest.raises(sparqlive.ViewExists, match="replace"):
            session.view("view", other)
        assert session.view("view", other, replace=True).weights() == {(ONE,): 1}
        assert session.views["view"].variables == ("o",)
        assert session.apply(insert=[quad(B, TWO)]).deltas["view"].weights() == {(TWO,): 1}


def test_the_base_resolves_relative_iris() -> None:
    with sparqlive.open() as session:
        session.load([quad(A, ONE)])
        view = session.view("view", "SELECT ?o WHERE { <a> <p> ?o }", base=EX)
        assert view.weights() == {(ONE,): 1}


def test_views_are_a_mapping() -> None:
    with sparqlive.open() as session:
        assert len(session.views) == 0
        session.view("one", QUERY)
        session.view("two", QUERY)
        assert set(session.views) == {"one", "two"}
        assert "one" in session.views
        assert "three" not in session.views
        assert session.views["one"].weights() == {}


def test_drop() -> None:
    with sparqlive.open() as session:
        session.view("view", QUERY)
        session.view("other", QUERY)
        session.drop("view")
        assert set(session.views) == {"other"}
        epoch = session.apply(insert=[quad(A, ONE)])
        assert epoch.deltas["other"].weights() == {(A, ONE): 1}
        with pytest.raises(KeyError):
            epoch.deltas["view"]
        assert session.view("view", QUERY).weights() == {(A, ONE): 1}


def test_explain_and_stats() -> None:
    with sparqlive.open() as session:
        session.load([quad(A, ONE)])
        view = session.view("view", f"SELECT ?s WHERE {{ ?s <{EX}p> ?o . ?s <{EX}q> ?x }}")
        assert "Δ" in view.explain()
        assert "star" in view.explain().lower()
        assert view.stats()


def test_what_a_prompt_shows(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store") as session:
        session.view("view", QUERY)
        epoch = session.apply(insert=[quad(A, ONE)])
        assert repr(session) == f"Session('{tmp_path / 'store'}', epoch={epoch.number}, views=1)"
        assert "deltas=Deltas('view': 1 rows)" in repr(epoch)
        assert repr(session.query(QUERY)) == f"Answer(SELECT, variables=('s', 'o'), epoch={epoch.number})"
    assert repr(session) == f"Session('{tmp_path / 'store'}', closed)"
    assert repr(sparqlive.open()) == "Session(in memory, epoch=0, views=0)"


# Epochs


def test_epoch_numbers_grow_by_one() -> None:
    with sparqlive.open() as session:
        view = session.view("view", QUERY)
        first = session.apply(insert=[quad(A, ONE)])
        second = session.apply(insert=[quad(B, TWO)])
        assert second.number == first.number + 1
        assert first.deltas["view"].epoch == first.number
        assert second.deltas["view"].weights() == {(B, TWO): 1}
        assert first.deltas["view"].weights() == {(A, ONE): 1}
        assert view.weights() == TWO_ROWS


def test_a_batch_that_changes_nothing_makes_no_epoch() -> None:
    with sparqlive.open() as session:
        session.view("view", QUERY)
        first = session.apply(insert=[quad(A, ONE)])
        for same in (
            session.apply(insert=[quad(A, ONE)]),
            session.apply(delete=[quad(B, TWO)]),
            session.apply(insert=[quad(A, ONE)], delete=[quad(A, ONE)]),
            session.apply(),
        ):
            assert same.number == first.number
            assert same.deltas["view"].weights() == {}


def test_a_load_is_one_epoch() -> None:
    with sparqlive.open() as session:
        view = session.view("view", QUERY)
        before = session.apply(insert=[quad(C, THREE)])
        after = session.load([quad(A, ONE), quad(B, TWO)])
        assert after.number == before.number + 1
        assert after.deltas["view"].weights() == TWO_ROWS
        assert len(view.weights()) == 3


def test_deltas_answer_for_every_view() -> None:
    with sparqlive.open() as session:
        session.view("hit", QUERY)
        session.view("missed", f"SELECT ?s WHERE {{ ?s <{EX}q> ?o }}")
        deltas = session.apply(insert=[quad(A, ONE)]).deltas
        assert deltas["hit"].weights() == {(A, ONE): 1}
        assert deltas["missed"].weights() == {}
        with pytest.raises(KeyError):
            deltas["unknown"]


def test_deletes_come_before_inserts() -> None:
    with sparqlive.open() as session:
        view = session.view("view", QUERY)
        session.apply(insert=[quad(A, ONE)], delete=[quad(A, ONE)])
        assert view.weights() == {(A, ONE): 1}


def test_changes_since() -> None:
    with sparqlive.open() as session:
        session.load([quad(A, ONE)])
        view = session.view("view", QUERY)
        start = session.apply(insert=[quad(B, TWO)])
        session.apply(insert=[ox.Quad(A, Q, ONE)])  # does not concern the view
        last = session.apply(insert=[quad(C, THREE)], delete=[quad(A, ONE)])
        changes = [delta for delta in view.changes(since=start.number) if delta.weights()]
        assert [delta.epoch for delta in changes] == [last.number]
        assert changes[0].weights() == {(C, THREE): 1, (A, ONE): -1}
        assert not changes[0].reset
        assert list(view.changes(since=last.number)) == []


def test_changes_add_up_to_the_view() -> None:
    with sparqlive.open() as session:
        view = session.view("view", QUERY)
        start = session.apply(insert=[quad(A, ONE)])
        for number in range(5):
            session.apply(insert=[quad(B, ox.Literal(number))], delete=[quad(B, ox.Literal(number - 2))])
        total = {(A, ONE): 1}
        for delta in view.changes(since=start.number):
            for row, weight in delta.weights().items():
                total[row] = total.get(row, 0) + weight
        assert {row: weight for row, weight in total.items() if weight} == view.weights()


@pytest.mark.parametrize("strategy", ["auto", "live"])
def test_strategies_give_the_same(strategy: str) -> None:
    with sparqlive.open() as session:
        session.view("view", QUERY)
        epoch = session.apply(insert=[quad(A, ONE)], strategy=strategy)
        assert epoch.deltas["view"].weights() == {(A, ONE): 1}


# Data in


def test_triples_and_quads() -> None:
    with sparqlive.open() as session:
        session.apply(insert=[ox.Triple(A, P, ONE), quad(B, TWO, G)])
        assert set(session.quads()) == {quad(A, ONE), quad(B, TWO, G)}


def test_changes_as_nquads_text() -> None:
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    first, second = f'<{EX}a> <{EX}p> "1"{integer} .', f'<{EX}b> <{EX}p> "2"{integer} <{EX}g> .'
    with sparqlive.open() as session:
        session.apply(insert=f"{first}\n{second}\n")
        assert set(session.quads()) == {quad(A, ONE), quad(B, TWO, G)}
        session.apply(delete=second)
        assert set(session.quads()) == {quad(A, ONE)}


def test_blank_nodes_in_text_name_the_nodes_of_the_store() -> None:
    with sparqlive.open() as session:
        session.apply(insert=f"_:b <{EX}p> <{EX}a> .")
        session.apply(delete=f"_:b <{EX}p> <{EX}a> .")
        assert list(session.quads()) == []


def test_blank_nodes_of_given_quads_keep_their_label() -> None:
    given = ox.Quad(ox.BlankNode("mine"), P, ox.BlankNode("other"))
    with sparqlive.open() as session:
        session.load([given])
        assert list(session.quads()) == [given]
        view = session.view("view", QUERY)
        assert view.weights() == {(ox.BlankNode("mine"), ox.BlankNode("other")): 1}


def test_blank_nodes_are_scoped_by_document(tmp_path: Path) -> None:
    for name in ("one.nt", "two.nt"):
        (tmp_path / name).write_text(f"_:b <{EX}p> <{EX}a> .\n")
    with sparqlive.open() as session:
        session.load(str(tmp_path / "*.nt"))
        assert len(list(session.quads())) == 2


@pytest.mark.parametrize("kind", ["path", "text", "list", "glob", "gz"])
def test_load_from_files(tmp_path: Path, kind: str) -> None:
    first, second = TURTLE.splitlines(keepends=True)
    (tmp_path / "whole.ttl").write_text(TURTLE)
    (tmp_path / "part1.ttl").write_text(first)
    (tmp_path / "part2.ttl").write_text(second)
    (tmp_path / "whole.ttl.gz").write_bytes(gzip.compress(TURTLE.encode()))
    source = {
        "path": tmp_path / "whole.ttl",
        "text": str(tmp_path / "whole.ttl"),
        "list": [tmp_path / "part1.ttl", str(tmp_path / "part2.ttl")],
        "glob": str(tmp_path / "part*.ttl"),
        "gz": tmp_path / "whole.ttl.gz",
    }[kind]
    with sparqlive.open() as session:
        view = session.view("view", QUERY)
        session.load(source)
        assert view.weights() == TWO_ROWS


@pytest.mark.parametrize(
    ("name", "syntax"),
    [
        ("data.nt", ox.RdfFormat.N_TRIPLES),
        ("data.nq", ox.RdfFormat.N_QUADS),
        ("data.ttl", ox.RdfFormat.TURTLE),
        ("data.trig", ox.RdfFormat.TRIG),
        ("data.rdf", ox.RdfFormat.RDF_XML),
    ],
)
def test_load_any_syntax(tmp_path: Path, name: str, syntax: ox.RdfFormat) -> None:
    data = [ox.Triple(A, P, ONE), ox.Triple(B, P, TWO)]
    (tmp_path / name).write_bytes(ox.serialize(data, format=syntax) or b"")
    with sparqlive.open() as session:
        session.load(tmp_path / name)
        assert session.query(QUERY).weights() == TWO_ROWS


@pytest.mark.parametrize("in_store", [True, False])
def test_load_from_an_address(tmp_path: Path, in_store: bool) -> None:
    """Addresses of other file systems take the same way."""
    (tmp_path / "a.nt").write_text("<urn:a> <urn:p> <urn:b> .\n", encoding="utf-8")
    with sparqlive.open(tmp_path / "store" if in_store else None) as session:
        assert session.load(f"{tmp_path.as_uri()}/a.nt").inserted == 1
        with pytest.raises(sparqlive.Error, match="nothing to load at"):
            session.load(f"{tmp_path.as_uri()}/b*.nt")
        with pytest.raises(sparqlive.Error, match="no file system supports this address"):
            session.load("nowhere://server/a.nt")


def test_load_iterables() -> None:
    with sparqlive.open() as session:
        session.load(quad for quad in [quad(A, ONE)])
        session.load([ox.Triple(B, P, TWO)])
        assert session.query(QUERY).weights() == TWO_ROWS


def test_load_an_rdflib_graph() -> None:
    rdflib = pytest.importorskip("rdflib", reason="rdflib is not installed")
    graph = rdflib.Graph()
    graph.parse(data=TURTLE, format="turtle")
    with sparqlive.open() as session:
        session.load(graph)
        assert session.query(QUERY).weights() == TWO_ROWS


def test_load_into_a_graph(tmp_path: Path) -> None:
    (tmp_path / "data.ttl").write_text(TURTLE)
    expected = {quad(A, ONE, G), quad(B, TWO, G)}
    for name in (G, G.value):
        with sparqlive.open() as session:
            session.load(tmp_path / "data.ttl", graph=name)
            assert set(session.quads()) == expected
    with sparqlive.open() as session:
        session.load([ox.Triple(A, P, ONE), ox.Triple(B, P, TWO)], graph=G)
        assert set(session.quads()) == expected


# Queries, checks, default graphs


def test_query_is_a_one_off() -> None:
    with sparqlive.open() as session:
        session.load([quad(A, ONE), quad(B, TWO)])
        answer = session.query(QUERY)
        assert answer.variables == ("s", "o")
        assert answer.weights() == TWO_ROWS
        assert sorted(solution["o"].value for solution in answer.solutions()) == ["1", "2"]
        assert len(session.views) == 0
        session.apply(delete=[quad(A, ONE)])
        assert answer.weights() == TWO_ROWS, "an answer stays what it was"


def test_weights_are_a_copy() -> None:
    with sparqlive.open() as session:
        session.load([quad(A, ONE)])
        view = session.view("view", QUERY)
        view.weights().clear()
        assert view.weights() == {(A, ONE): 1}
        kept = view.weights()
        session.apply(insert=[quad(B, TWO)])
        assert kept == {(A, ONE): 1}, "a snapshot stays what it was"


def test_the_default_graph_is_strict_or_a_union() -> None:
    data = [quad(A, ONE), quad(A, ONE, G), quad(B, TWO, G)]
    for default_graph, expected in (("strict", {(A, ONE): 1}), ("union", TWO_ROWS)):
        with sparqlive.open(default_graph=default_graph) as session:
            session.load(data)
            assert session.view("view", QUERY).weights() == expected
    with sparqlive.open() as session:
        session.load(data)
        assert session.query(QUERY).weights() == {(A, ONE): 1}


def test_check_passes_and_counts() -> None:
    with sparqlive.open() as session:
        session.check()
        session.load([quad(A, ONE)])
        view = session.view("view", QUERY)
        session.check()
        assert view.weights() == {(A, ONE): 1}


def test_language_tags_are_lowercased() -> None:
    with sparqlive.open() as session:
        session.apply(insert=f'<{EX}a> <{EX}p> "x"@EN-gb .')
        assert session.query(QUERY).weights() == {(A, ox.Literal("x", language="en-gb")): 1}
        session.apply(delete=f'<{EX}a> <{EX}p> "x"@en-GB .')
        assert session.query(QUERY).weights() == {}


def test_lexical_forms_are_kept() -> None:
    padded = ox.Literal("01", datatype=ONE.datatype)
    with sparqlive.open() as session:
        session.apply(insert=[quad(A, padded), quad(A, ONE)])
        assert session.query(QUERY).weights() == {(A, padded): 1, (A, ONE): 1}


# Lifetime, threads, import


def test_a_closed_session_says_so() -> None:
    session = sparqlive.open()
    view = session.view("view", QUERY)
    session.close()
    session.close()  # closing again is fine
    for call in (
        lambda: session.apply(insert=[quad(A, ONE)]),
        lambda: session.load([quad(A, ONE)]),
        lambda: session.view("other", QUERY),
        lambda: session.query(QUERY),
        lambda: session.check(),
        lambda: view.weights(),
    ):
        with pytest.raises(sparqlive.Closed, match="closed"):
            call()


def test_the_context_manager_closes_also_after_an_error() -> None:
    def fail() -> None:
        raise RuntimeError("on purpose")

    session = sparqlive.open()
    with pytest.raises(RuntimeError, match="on purpose"), session:
        fail()
    with pytest.raises(sparqlive.Closed):
        session.apply(insert=[quad(A, ONE)])


def test_sessions_share_nothing() -> None:
    with sparqlive.open() as first, sparqlive.open() as second:
        first.load([quad(A, ONE)])
        first.view("view", QUERY)
        assert list(second.quads()) == []
        assert len(second.views) == 0


def test_reads_are_thread_safe_and_see_whole_epochs() -> None:
    """One writer moves two quads in each batch; readers must always see both of them or neither."""
    pairs = [(quad(A, ox.Literal(n)), quad(B, ox.Literal(n))) for n in range(120)]
    problems: list[object] = []
    done = threading.Event()

    def read(view: sparqlive.View) -> None:
        while not done.is_set():
            try:
                weights = view.weights()
                values = {name: {row[1] for row in weights if row[0] == name} for name in (A, B)}
                if values[A] != values[B]:
                    problems.append(weights)
            except Exception as error:
                problems.append(error)

    with sparqlive.open() as session:
        view = session.view("view", QUERY)
        readers = [threading.Thread(target=read, args=(view,)) for _ in range(3)]
        for reader in readers:
            reader.start()
        previous: tuple[ox.Quad, ...] = ()
        for pair in pairs:
            session.apply(insert=pair, delete=previous)
            previous = pair
        done.set()
        for reader in readers:
            reader.join(timeout=120)
        assert problems == []
        assert view.weights() == {(A, ox.Literal(119)): 1, (B, ox.Literal(119)): 1}


def test_nobody_registers_a_view_while_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[threading.Thread] = []
    with sparqlive.open() as session:
        session.view("v", "SELECT ?s { ?s ?p ?o }")

        def end(_: str) -> None:
            """Between the view and what follows its links."""
            monkeypatch.undo()
            waiting.append(threading.Thread(target=session.view, args=("v", "SELECT ?o { ?s ?p ?o }")))
            waiting[0].start()
            waiting[0].join(0.3)
            assert waiting[0].is_alive(), "it waits for the view to be gone"

        monkeypatch.setattr(session._traversal, "end", end)
        session.drop("v")
        waiting[0].join()
        assert session.views["v"].variables == ("o",)


def test_importing_is_quick_and_light() -> None:
    code = (
        "import time; start = time.process_time(); import sparqlive; took = time.process_time() - start\n"
        "import sys; print(took, *sorted(name for name in sys.modules if '.' not in name))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    took, *modules = result.stdout.split()
    assert not {"pyspark", "starlette", "uvicorn", "httpx", "rdflib", "pandas"} & set(modules)
    assert "pyoxigraph" in modules
    assert float(took) < 5, "of processor time: numpy and pyoxigraph alone take 0.1 s"


def test_quads_that_come_and_go_again() -> None:
    """Quads of known terms are encoded by one lookup when they come again; few of them are kept for that."""
    graphs = (ox.DefaultGraph(), ox.NamedNode("http://example.org/g"))
    nodes = [ox.NamedNode(f"http://example.org/n{number}") for number in range(40)]
    quads = [ox.Quad(s, nodes[0], o, graph) for s in nodes for o in nodes for graph in graphs]
    with sparqlive.open() as session:
        view = session.view("v", "SELECT ?s ?o { ?s ?p ?o }")
        for start in range(0, len(quads), 400):
            part = quads[start : start + 400]
            for _ in range(3):
                assert session.apply(insert=part).inserted == len(part)
                assert session.apply(insert=part).ignored == len(part)
                assert session.apply(delete=part[::2]).deleted == len(part) // 2
                session.apply(delete=part[1::2])
            session.apply(insert=part)
        assert set(session.quads()) == set(quads)
        assert len(view) == len(nodes) ** 2
        session.check()


def test_replacing_an_empty_graph_makes_new_blank_nodes() -> None:
    here, there = ox.NamedNode(EX + "here"), ox.NamedNode(EX + "there")
    node, p = ox.BlankNode("node"), ox.NamedNode(EX + "p")
    with sparqlive.open() as session:
        for graph in (here, there):
            epoch = session.replace(graph, [ox.Quad(node, p, end) for end in (node, here, here)])
            assert (epoch.inserted, epoch.ignored) == (2, 0)
        found = [{quad.subject for quad in session.quads(graph)} for graph in (here, there)]
        assert [len(nodes) for nodes in found] == [1, 1]
        assert len({node}.union(*found)) == 3
        with pytest.raises(sparqlive.InvalidChange, match="triple terms"):
            session.replace(ox.NamedNode(EX + "other"), [ox.Quad(node, p, ox.Triple(p, p, p))])
