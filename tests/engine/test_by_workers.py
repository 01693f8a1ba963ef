"""Epochs whose changes workers read: loads and batches into a store with quads and views."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyoxigraph as ox
import pytest

import sparqlive
from sparqlive.bulk.ingest import lines
from sparqlive.bulk.ingest.effective import Known, Parse, Reading
from sparqlive.bulk.ingest.workers import Here, Processes
from sparqlive.engine.incoming import read_by_workers
from sparqlive.engine.writer import Writer
from sparqlive.rdf import change_columns
from sparqlive.rdf.change_columns import TextBatch, read_batches
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import quad_runs
from sparqlive.store.place import Place
from sparqlive.store.runs import RunFile
from tests.conftest import times

pytestmark = pytest.mark.usefixtures("in_files")

VIEWS = {
    "join": "SELECT ?x ?y ?v { ?x <urn:p> ?z . ?z <urn:q> ?y . ?x <urn:v> ?v }",
    "totals": "SELECT ?y (SUM(?v) AS ?t) { ?x <urn:p> ?z . ?z <urn:q> ?y . ?x <urn:v> ?v } GROUP BY ?y",
    "open": "SELECT ?x { ?x <urn:p> ?z FILTER NOT EXISTS { ?x <urn:done> ?d } }",
    "computed": "SELECT ?x (CONCAT(STR(?x), 'a') AS ?c) { ?x <urn:done> ?d }",
    "named": "SELECT ?g ?x { GRAPH ?g { ?x <urn:p> ?y } }",
    "any": "SELECT ?p (COUNT(*) AS ?n) { ?x ?p ?y } GROUP BY ?p",
}
VALUES = "".join(f"<urn:z{n}> <urn:q> <urn:y{n % 3}> .\n" for n in range(7))


def orders(numbers: range) -> str:
    """The term `"urn:x…a"` is also one that a view computes."""
    lines: list[str] = []
    for n in numbers:
        lines += [f"<urn:x{n}> <urn:p> <urn:z{n % 7}> .", f'<urn:x{n}> <urn:v> "{n % 5}" .']
        lines += [f"<urn:x{n}> <urn:done> <urn:yes> ."] * (n % 2)
        lines += [f'<urn:x{n}> <urn:p> "urn:x{n}a" <urn:g{n % 4}> .']
    return "".join(line + "\n" for line in lines).replace(
        '" .', '"^^<http://www.w3.org/2001/XMLSchema#integer> .'
    )


def quads_of(text: str) -> set[ox.Quad]:
    return set(ox.parse(text.encode(), ox.RdfFormat.N_QUADS))


BY_WORKERS = replace(DEFAULT, worker_bytes=0, column_bytes=0)


@pytest.fixture(params=[0, "1GB"][: times(1, 2)], ids=["in files", "held"][: times(1, 2)])
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[sparqlive.Session]:
    """Workers read everything; a compacted store, a log of rows after it, and views."""
    with sparqlive.Session(tmp_path / "store", memory=request.param, tuning=BY_WORKERS) as session:
        monkeypatch.setattr(session._writer.strategies, "workers", lambda: (Here(), "live"))
        session.apply(insert=quads_of(VALUES + orders(range(20))))
        session.compact()
        session.apply(delete=quads_of(orders(range(3))), insert=quads_of(orders(range(20, 25))))
        for name, query in VIEWS.items():
            session.view(name, query)
        yield session


def test_segments_of_a_file_are_found_once(
    session: sparqlive.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found out about a file serves the batches after it."""
    found, segments_of = list[str](), quad_runs._segments_of

    def counted(place: Place, run: RunFile) -> Iterator[quad_runs.Segment]:
        found.append(run.path)
        return segments_of(place, run)

    monkeypatch.setattr(quad_runs, "_segments_of", counted)
    for start in (30, 40, 50):
        (tmp_path / "more.nq").write_text(orders(range(start, start + 15)))
        session.load(tmp_path / "more.nq")
    assert found
    assert len(found) == len(set(found))
    session.check()


def test_loads_between_other_epochs(session: sparqlive.Session, tmp_path: Path) -> None:
    """What the store has is ignored: in its base, in rows of the log, and in files of the log."""
    expected = set(session.quads())
    rng = random.Random(1)
    for number in range(4):
        start = rng.randrange(40)
        text = orders(range(start, start + 15))
        file = tmp_path / f"{number}.nq"
        file.write_text(text + text)
        new = quads_of(text) - expected
        epoch = session.load(file)
        assert (epoch.inserted, epoch.deleted) == (len(new), 0)
        assert epoch.ignored == 2 * len(text.splitlines()) - len(new)
        expected |= new
        gone = quads_of(orders(range(start + 5, start + 8))) & expected
        session.apply(delete=gone)
        expected -= gone
        assert set(session.quads()) == expected
        assert len(session) == len(expected)
        if number == 2:
            session.compact()
    session.check()
    before = session.epoch
    assert session.load(tmp_path / "3.nq", batch=("s", 1)).number == before + 1
    assert session.load(tmp_path / "3.nq", batch=("s", 1)).number == before + 1
    session.close()
    with sparqlive.open(tmp_path / "store") as again:
        again.check()
        assert len(again) == len(set(again.quads()))


def test_tables(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several changes of a quad, the last one counts, as in this process."""
    expected, calls = set(session.quads()), list[Parse]()

    def count(writer: Writer, parse: Parse, *given: Any, **named: Any) -> Any:
        calls.append(parse)
        return read_by_workers(writer, parse, *given, **named)

    monkeypatch.setattr("sparqlive.engine.changes.read_by_workers", count)
    new = quads_of(orders(range(10, 40)))
    epoch = session.load(table_of(sorted(new, key=str) * 2))
    assert (epoch.inserted, epoch.ignored) == (len(new - expected), len(new & expected))
    expected |= new
    some = sorted(expected, key=str)[:20]
    signs = ["+", "-"] * 10 + ["-", "+"] * 10
    twice = [quad for quad in some for _ in range(2)]
    changed = table_of(twice).append_column("op", pa.array(signs)).append_column("at", pa.array(range(40)))
    session.apply(changes=changed, order="at")
    expected -= set(some[:10])
    assert set(session.quads()) == expected
    session.check()
    is_held = session.views["join"]._state.content.is_held
    assert len(calls) == (0 if is_held else 2), "what is held needs the changes in this process"


def table_of(quads: Sequence[ox.Quad]) -> pa.Table:
    rows = [
        (*map(str, quad.triple), None if quad.graph_name == ox.DefaultGraph() else str(quad.graph_name))
        for quad in quads
    ]
    return pa.table(dict(zip("spog", map(list, zip(*rows, strict=True)), strict=True)))


def test_a_load_that_fails_changes_nothing(
    session: sparqlive.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its terms are new again afterwards."""
    file = tmp_path / "more.nq"
    file.write_text(orders(range(30, 40)))
    expected = set(session.quads())

    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_save", fail)
        with pytest.raises(RuntimeError, match="no room"):
            session.load(file)
    assert set(session.quads()) == expected
    session.check()
    (tmp_path / "names.nq").write_text("<urn:a> <urn:b> <urn:c> <view:x> .\n" + orders(range(50, 60)))
    with pytest.raises(sparqlive.Error, match="reserved"):
        session.load(tmp_path / "names.nq")
    assert set(session.quads()) == expected
    session.apply(insert=quads_of(orders(range(30, 32))))
    session.load(file)
    assert set(session.quads()) == expected | quads_of(orders(range(30, 40)))
    session.check()


def test_epochs_in_between(
    session: sparqlive.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others commit while workers read is taken into account: quads, terms, compactions."""
    file = tmp_path / "more.nq"
    file.write_text(orders(range(30, 50)))
    between = [
        lambda: session.apply(insert=quads_of(orders(range(35, 40)))),
        lambda: session.view("late", "SELECT ?x (CONCAT('urn:x', '31a') AS ?c) { ?x <urn:q> <urn:y1> }"),
        lambda: (session.compact(), session.apply(delete=quads_of(orders(range(20, 40))))),
    ]
    find = Reading.changes

    def interrupted(self: Reading, epoch: int, known: Known) -> object:
        found = find(self, epoch, known)
        if between:
            between.pop(0)()
        return found

    monkeypatch.setattr(Reading, "changes", interrupted)
    expected = set(session.quads()) - quads_of(orders(range(20, 25))) | quads_of(orders(range(30, 50)))
    session.load(file)
    assert not between
    assert set(session.quads()) - quads_of(orders(range(30, 40))) == expected - quads_of(
        orders(range(30, 40))
    )
    session.check()
    texts = [text for _, text in session._writer.persistence.store.sources(tuple).terms]  # type: ignore[union-attr]
    assert len(texts) == len(set(texts))


def test_a_reader_follows(session: sparqlive.Session, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", read_only=True) as reader:
        assert len(reader) == len(session)
        (tmp_path / "more.nq").write_text(orders(range(30, 60)))
        number = session.load(tmp_path / "more.nq").number
        next(iter(reader.views["join"].changes(number - 1, follow=True)))
        assert set(reader.quads()) == set(session.quads())
        assert reader.views["totals"].weights() == session.views["totals"].weights()


def test_other_processes_load(tmp_path: Path) -> None:
    with sparqlive.Session(tmp_path / "store", memory=0, tuning=BY_WORKERS) as session:
        session.apply(insert=VALUES)
        view = session.view("join", VIEWS["join"])
        (tmp_path / "more.nq").write_text(orders(range(30)))
        assert isinstance(session._writer.strategies.workers()[0], Processes)
        session.load(tmp_path / "more.nq")
        assert len(view) == 30
        session.check()


def changes_text(rng: random.Random, count: int) -> str:
    """Lines of a batch, some quads several times; the last change of each counts."""
    lines = orders(range(40)).splitlines()
    return "".join(f"{rng.choice('+-')} {rng.choice(lines)}\n" for _ in range(count))


def after(quads: set[ox.Quad], text: str) -> set[ox.Quad]:
    found = set(quads)
    for line in text.splitlines():
        (quad,) = quads_of(line[2:])
        (found.add if line[0] == "+" else found.discard)(quad)
    return found


def test_batches_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of text, in several pieces, equal a set that changes line by line."""
    monkeypatch.setattr(lines, "_PIECE_CHARACTERS", 300)
    monkeypatch.setattr(change_columns, "_BLOCK_BYTES", 500)
    rng = random.Random(2)
    with sparqlive.Session(tmp_path / "store", memory=0, tuning=BY_WORKERS) as session:
        monkeypatch.setattr(session._writer.strategies, "workers", lambda: (Here(), "live"))
        session.apply(insert=VALUES + orders(range(20)))
        for name, query in VIEWS.items():
            session.view(name, query)
        for number in range(3):
            expected = set(session.quads())
            texts = [changes_text(rng, 60) for _ in range(2)]
            if number == 2:  # a comment with a space before it is for the reader by rows
                texts[1] += " # end\n"
            file = tmp_path / f"{number}.changes"
            file.write_text("@\n".join(texts))
            found = list(read_batches(file, {}, text_bytes=session.text_bytes, tuning=BY_WORKERS))
            assert [type(batch) for batch in found] == [TextBatch, TextBatch]
            for batch, text in zip(found, texts, strict=True):
                before, expected = expected, after(expected, text.replace(" # end\n", ""))
                epoch = session.apply_batch(batch)
                assert (epoch.inserted, epoch.deleted) == (len(expected - before), len(before - expected))
                mentioned = {line[2:] for line in text.splitlines() if line[0] in "+-"}
                assert epoch.ignored == len(mentioned) - epoch.inserted - epoch.deleted
                assert set(session.quads()) == expected
            delete, insert = orders(range(8)), orders(range(5, 12))
            session.apply(delete=delete, insert=insert)
            assert set(session.quads()) == expected - quads_of(delete) | quads_of(insert)
        session.check()
        with pytest.raises(sparqlive.SyntaxError, match="line 3"):
            session.apply(insert="<urn:a> <urn:b> <urn:c> .\n" * 2 + "nothing\n")
        session.check()


def test_workers_load_nothing_under_reserved_names(tmp_path: Path) -> None:
    """Into an empty store, whose files they write."""
    (tmp_path / "names.nq").write_text("<urn:a> <urn:b> <urn:c> <view:x> .\n" + orders(range(5)))
    with sparqlive.open(tmp_path / "store") as session:
        with pytest.raises(sparqlive.Error, match="reserved"):
            session.load(tmp_path / "names.nq", on_error="skip")
        assert len(session) == 0
