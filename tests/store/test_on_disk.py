"""Quads that no view reads stay on disk: who asks whether they are there reads little, and takes none in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.store import quad_runs
from tests.tuned import tune

PREDICATES, SUBJECTS, ROWS_A_FILE = 6, 60, 25


def quad(subject: int, predicate: int, graph: str = "g") -> ox.Quad:
    return ox.Quad(
        ox.NamedNode(f"a:s{subject}"),
        ox.NamedNode(f"a:p{predicate}"),
        ox.Literal(1),
        ox.NamedNode(f"a:{graph}"),
    )


ALL = [quad(subject, predicate) for subject in range(SUBJECTS) for predicate in range(PREDICATES)]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sparqlive.Session]:
    """A store of 360 quads in files of 25 rows."""
    tune(monkeypatch, file_rows=ROWS_A_FILE)
    with sparqlive.open(tmp_path / "store") as made:
        made.apply(insert=ALL)
        made.compact()
        yield made


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that are read, each as often as a segment of it is."""
    read: list[str] = []
    real = quad_runs.read_pairs

    def noted(readers: Any, segment: quad_runs.Segment) -> Any:
        read.append(segment.path)
        return real(readers, segment)

    with monkeypatch.context() as patch:
        patch.setattr(quad_runs, "read_pairs", noted)
        yield read


def in_memory(session: sparqlive.Session) -> int:
    return session._writer.quads.nbytes


def test_a_batch_that_changes_nothing_reads_no_file_and_takes_no_memory(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = random.Random(1).sample(ALL, len(ALL))
    assert session.apply(insert=[ALL[100]]).ignored == 1  # maps the quads
    with reads(monkeypatch) as read:
        assert session.apply(insert=given).ignored == len(ALL)
        assert session.apply(delete=[quad(999, 3)]).ignored == 1
        assert session.apply(delete=[quad(999, 999)]).ignored == 1
        assert session.apply(delete=[quad(1, 1, "nowhere")]).ignored == 1
    assert not read
    assert in_memory(session) == 0


def test_a_source_that_repeats_all_takes_nothing_in(session: sparqlive.Session, tmp_path: Path) -> None:
    document = tmp_path / "document.nq"
    document.write_text("".join(f"{one} .\n" for one in [*ALL, quad(1, 1, "other")]))
    source = session.source("file", str(document), name="d")
    source.refresh()
    assert (len(session), source.status()["quads"]) == (len(ALL) + 1, len(ALL) + 1)
    assert 0 < in_memory(session) < 1_000
    source.remove()
    assert set(session.quads()) == set(ALL)


def test_every_quad_is_found_in_its_file(session: sparqlive.Session) -> None:
    ids = session.dictionary.id_of
    quads = session._writer.quads
    encoded = {tuple(ids(term) for term in one) for one in ALL}
    absent = {tuple(ids(term) for term in quad(n, p)) for n in range(60, 90) for p in range(PREDICATES + 1)}
    assert quads.present(encoded | absent) == encoded  # type: ignore[arg-type]
    gone, come = ALL[::7], [quad(n, 0) for n in range(60, 70)]
    session.apply(delete=gone, insert=come)
    left = encoded - {tuple(ids(term) for term in one) for one in gone}
    left |= {tuple(ids(term) for term in one) for one in come}
    assert quads.present(encoded | absent) == left  # type: ignore[arg-type]
    session.compact()
    assert quads.present(encoded | absent) == left  # type: ignore[arg-type]
    assert len(session) == len(left)


def test_lookups_find_pairs_that_several_files_have(session: sparqlive.Session) -> None:
    node = ox.NamedNode
    given = [ox.Quad(node(f"a:s{n % 7}"), node("a:many"), ox.Literal(n)) for n in range(20 * ROWS_A_FILE)]
    session.apply(insert=given)
    session.compact()
    for number in range(-1, 8):
        found = session.query(f"SELECT ?o {{ <a:s{number}> <a:many> ?o }}").weights()
        assert found == {(one.object,): 1 for one in given if one.subject == node(f"a:s{number}")}
    joined = session.query("SELECT ?s ?o { GRAPH ?g { ?s <a:p1> 1 } ?s <a:many> ?o }").weights()
    assert joined == {(one.subject, one.object): 1 for one in given}
