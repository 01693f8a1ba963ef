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
from sparqlive.engine import persistence
from sparqlive.store import compaction, quad_runs

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
    """A store of 360 quads in files of 25 rows, of which two may stay in memory."""
    monkeypatch.setattr(compaction, "ROWS_A_FILE", ROWS_A_FILE)
    monkeypatch.setattr(quad_runs, "CACHED_ROWS", 2 * ROWS_A_FILE)
    monkeypatch.setattr(persistence, "_MEMORY_PER_CACHED_ROW", 1 << 60)
    with sparqlive.open(tmp_path / "store") as made:
        made.apply(insert=ALL)
        made.compact()
        yield made


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that are read, each as often as it is."""
    read: list[str] = []
    real = quad_runs.read_columns

    def noted(place: Any, name: str, *rest: Any) -> Any:
        read.append(name)
        return real(place, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(quad_runs, "read_columns", noted)
        yield read


def in_memory(session: sparqlive.Session) -> int:
    return session._epochs.quads.nbytes


def test_a_batch_reads_no_part_of_a_file_twice(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = next(iter(session._epochs.quads._pairs.cold.values())).disk
    segments = sum(len(layers.base) for layers in disk._layers.values())
    given = random.Random(1).sample(ALL, len(ALL))
    with reads(monkeypatch) as read:
        assert session.apply(insert=given).ignored == len(ALL)
    assert len(read) <= segments
    assert in_memory(session) == 0


def test_one_quad_reads_one_file(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with reads(monkeypatch) as read:
        assert session.apply(insert=[ALL[100]]).ignored == 1
        assert session.apply(delete=[quad(999, 3)]).ignored == 1
        assert session.apply(delete=[quad(999, 999)]).ignored == 1
        assert session.apply(delete=[quad(1, 1, "nowhere")]).ignored == 1
    assert len(read) <= 2


def test_a_source_that_repeats_all_takes_nothing_in(session: sparqlive.Session, tmp_path: Path) -> None:
    document = tmp_path / "document.nq"
    document.write_text("".join(f"{one} .\n" for one in [*ALL, quad(1, 1, "other")]))
    source = session.source("file", str(document), name="d")
    source.refresh()
    assert (len(session), source.status()["quads"]) == (len(ALL) + 1, len(ALL) + 1)
    ids = session.dictionary.id_of
    assert set(session._epochs.quads._pairs.in_memory) == {
        (ids(ox.NamedNode("a:other")), ids(ox.NamedNode("a:p1")))
    }
    source.remove()
    assert set(session.quads()) == set(ALL)


def test_every_quad_is_found_in_its_file(session: sparqlive.Session) -> None:
    ids = session.dictionary.id_of
    quads = session._epochs.quads
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
