"""Pipelines that follow a folder: files are taken once and in order; a killed job goes on where it was."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from sparqlive.pipeline.file import ChangesSource, read_pipeline
from sparqlive.pipeline.folder import FollowedFolder, NewFile
from sparqlive.pipeline.job import Job, run_pipeline
from sparqlive.pipeline.progress import Progress
from tests.oracle import Oracle

QUERY = (
    "SELECT ?a ?v ?c { ?a <http://x/value> ?v OPTIONAL { ?a <http://x/next> ?b . ?b <http://x/value> ?c } }"
)
PIPELINE = """
store = "stream.store"
[load]
start = { path = "start.nt", graph = "source:numbers" }
[sources.numbers]
kind = "changes"
path = "incoming/*.changes"
[views.pairs]
query = "pairs.rq"
"""
SINKS = """
[sinks.lines]
view = "pairs"
kind = "json-lines"
path = "out/pairs.jsonl"
[sinks.files]
view = "pairs"
kind = "parquet"
path = "out/pairs"
weights = true
[sinks.table]
view = "pairs"
kind = "delta-lake"
path = "out/table"
weights = true
"""


def test_files_come_once_and_in_order(tmp_path: Path) -> None:
    for place, name in enumerate(("c d", "b", "a")):
        (tmp_path / f"{name}.changes").write_text("@\n", encoding="utf-8")
        os.utime(tmp_path / f"{name}.changes", (place // 2, place // 2))
    for name in ("other.txt", ".unfinished.changes", "_unfinished.changes"):
        (tmp_path / name).write_text("@\n", encoding="utf-8")
    seen: list[str] = []
    done: set[str] = set()

    def follow(pattern: str | None, take: Callable[[NewFile], None]) -> None:
        source = ChangesSource("numbers", str(tmp_path), pattern, 0.01)
        assert FollowedFolder(source, lambda file: file.name in done, take, once=True).wait(60)

    def fail(file: NewFile) -> None:
        seen.append(file.name)
        raise sparqlive.Error("the handler says why")

    def take(file: NewFile) -> None:
        with file.open() as stream:
            assert stream.read() == b"@\n"
        seen.append(file.name)
        done.add(file.name)

    with pytest.raises(sparqlive.Error, match=r"^the handler says why$"):
        follow(None, fail)
    follow(None, take)
    with gzip.open(tmp_path / "0.changes.gz", "wb") as stream:
        stream.write(b"@\n")
    follow("*.changes", take)
    follow(None, take)
    assert seen == ["b.changes", "b.changes", "c d.changes", "a.changes", "0.changes.gz"]
    with pytest.raises(sparqlive.Error, match=r"Cannot list .*missing"):
        FollowedFolder(ChangesSource("x", str(tmp_path / "missing"), None, 1), bool, take, once=True).wait(60)


# A stream whose batches must not be applied twice, nor out of their order.


def quad(node: int, name: str, value: Literal | NamedNode) -> Quad:
    return Quad(
        NamedNode(f"http://x/{node}"), NamedNode(f"http://x/{name}"), value, NamedNode("source:numbers")
    )


def batches(count: int) -> Iterator[tuple[list[Quad], list[Quad]]]:
    """Inserts and deletes. Values count up; a mark is withdrawn before it is set, which changes nothing."""
    for number in range(count):
        node = number % 7
        old, new = number // 7, number // 7 + 1
        insert = [quad(node, "value", Literal(new)), quad(node, "next", NamedNode(f"http://x/{new % 7}"))]
        delete = [quad(node, "value", Literal(old))]
        yield insert, delete
        mark = quad(number, "value", Literal("mark"))
        yield [], [mark]
        yield [mark], []


def line(sign: str, given: Quad) -> str:
    return f"{sign} {given.subject} {given.predicate} {given.object} .\n"


def write_pipeline(folder: Path, files: int, count: int, sinks: str = "") -> set[Quad]:
    """A pipeline and its stream; the quads that are there in the end."""
    start = [quad(node, "value", Literal(0)) for node in range(7)]
    (folder / "start.nt").write_text("".join(line("", given).lstrip() for given in start), encoding="utf-8")
    (folder / "pairs.rq").write_text(QUERY, encoding="utf-8")
    (folder / "pipeline.toml").write_text(PIPELINE + sinks, encoding="utf-8")
    (folder / "incoming").mkdir()
    quads, texts = set(start), []
    for insert, delete in batches(count):
        quads = (quads - set(delete)) | set(insert)
        texts.append("@\n" + "".join([line("-", q) for q in delete] + [line("+", q) for q in insert]))
    size = -(-len(texts) // files)
    for number in range(files):
        text = "".join(texts[number * size : (number + 1) * size])
        (folder / "incoming" / f"{number:03d}.changes").write_text(text, encoding="utf-8")
    return quads


def finished(folder: Path, quads: set[Quad]) -> list[str]:
    """Runs the pipeline to its end and compares with the oracle; the lines it printed."""
    out = StringIO()
    with Job(read_pipeline(folder / "pipeline.toml"), Progress(out)) as job:
        job.prepare()
        job.follow(once=True)
        view = job.session.views["pairs"]
        assert set(job.session.quads()) == quads
        assert view.weights() == Oracle(quads, union=True).weights(QUERY, view.variables)
        job.session.check()
    return out.getvalue().splitlines()


def test_a_pipeline_writes_its_sinks(tmp_path: Path) -> None:
    quads = write_pipeline(tmp_path, 2, 10, SINKS)
    lines = finished(tmp_path, quads)
    assert sum(line.startswith("epoch ") for line in lines) == 20
    assert not any(line.startswith("epoch ") for line in finished(tmp_path, quads)), "nothing is new"
    assert_sinks_hold(tmp_path, quads)


@pytest.mark.parametrize("refresh", ["0.5", "3600"])
def test_sinks_of_a_view_that_is_refreshed_later(tmp_path: Path, refresh: str) -> None:
    quads = write_pipeline(tmp_path, 2, 10, SINKS)
    file = tmp_path / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    assert "[views.pairs]" in text
    file.write_text(text.replace("[views.pairs]", f"[views.pairs]\nrefresh = {refresh}"), encoding="utf-8")
    finished(tmp_path, quads)
    assert_sinks_hold(tmp_path, quads)


def assert_sinks_hold(folder: Path, quads: set[Quad]) -> None:
    variables = ("a", "v", "c")
    expected = {
        tuple(None if term is None else str(term) for term in row): weight
        for row, weight in Oracle(quads, union=True).weights(QUERY, variables).items()
    }
    assert content_of_lines(folder / "out/pairs.jsonl", variables) == expected
    assert content_of_files(folder / "out/pairs") == expected
    deltalake = pytest.importorskip("deltalake")
    assert rows_of(deltalake.DeltaTable(str(folder / "out/table")).to_pyarrow_table()) == expected


def content_of_lines(path: Path, variables: Sequence[str]) -> dict[tuple[str | None, ...], int]:
    """Adds up the deltas; epochs never repeat except for a reset."""
    content: Counter[tuple[str | None, ...]] = Counter()
    last = -1
    for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        assert entry["epoch"] > last or entry["reset"]
        last = entry["epoch"]
        if entry["reset"]:
            content.clear()
        for change in entry["changes"]:
            content[tuple(_text(change["row"].get(name)) for name in variables)] += change["weight"]
    return {row: weight for row, weight in content.items() if weight}


def _text(term: dict[str, str] | None) -> str | None:
    if term is None:
        return None
    if term["type"] == "uri":
        return f"<{term['value']}>"
    return str(
        Literal(term["value"], datatype=NamedNode(term["datatype"]))
        if "datatype" in term
        else Literal(term["value"])
    )


def content_of_files(folder: Path) -> dict[tuple[str | None, ...], int]:
    newest = max((folder / "snapshots").glob("*.parquet"))
    later = [file for file in (folder / "deltas").glob("*.parquet") if file.name > newest.name]
    content: Counter[tuple[str | None, ...]] = Counter()
    for file in (newest, *later):
        content.update(rows_of(pq.read_table(file)))
    return {row: weight for row, weight in content.items() if weight}


def rows_of(table: object) -> dict[tuple[str | None, ...], int]:
    rows = [tuple(row.values()) for row in table.to_pylist()]  # type: ignore[attr-defined]
    return {row[:-1]: row[-1] for row in rows}


# A job that prints its epochs and does not come to its end: whenever it is killed, that is in the middle.
ENDLESS = """
import sys
from sparqlive.pipeline.job import run_pipeline
from sparqlive.pipeline.file import ChangesSource, read_pipeline
from sparqlive.pipeline.folder import FollowedFolder, NewFile
from sparqlive.pipeline.progress import Progress

def observe(epoch):
    if epoch.number == int(sys.argv[2]):
        sys.stdin.read()

run_pipeline(read_pipeline(sys.argv[1]), Progress(), once=False, observer=observe)
"""


def test_a_killed_job_goes_on_and_applies_nothing_twice(tmp_path: Path) -> None:
    count = 60
    quads = write_pipeline(tmp_path, 3, count, SINKS)
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "pipeline.toml"), "100"]
    errors = tmp_path / "errors.txt"
    with (
        open(errors, "w", encoding="utf-8") as stream,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env={**os.environ, "JAVA_HOME": "/none", "PATH": "/none"},  # Java is not needed
        ) as job,
    ):
        assert job.stdout is not None
        for printed in job.stdout:
            if printed.startswith("epoch 50 "):
                job.send_signal(signal.SIGKILL)
                break
        assert job.wait(timeout=60) == -signal.SIGKILL, errors.read_text(encoding="utf-8")
    assert 50 <= epochs(tmp_path) <= 100, "killed in the middle"
    finished(tmp_path, quads)
    assert epochs(tmp_path) == 1 + 2 * count, "an epoch a batch that changes something, and one for the load"
    assert_sinks_hold(tmp_path, quads)


def epochs(folder: Path) -> int:
    database = sqlite3.connect(folder / "stream.store" / "catalog.sqlite")
    try:
        return int(database.execute("SELECT count(*) FROM epochs").fetchone()[0])
    finally:
        database.close()


def test_a_malformed_file_stops_the_job_with_its_place(tmp_path: Path) -> None:
    write_pipeline(tmp_path, 1, 2)
    bad = tmp_path / "incoming" / "bad.changes"
    bad.write_text("@\n+ nonsense .\n", encoding="utf-8")
    os.utime(bad, (time.time() + 5, time.time() + 5))
    with pytest.raises(sparqlive.SyntaxError, match=r"bad\.changes, line 2: "):
        run_pipeline(read_pipeline(tmp_path / "pipeline.toml"), Progress(StringIO()), once=True)
    assert epochs(tmp_path) == 5


def test_an_interrupt_ends_the_job_after_a_batch(tmp_path: Path) -> None:
    quads = write_pipeline(tmp_path, 1, 40)
    out = StringIO()

    def interrupt(epoch: sparqlive.Epoch) -> None:
        if epoch.number == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

    with Job(read_pipeline(tmp_path / "pipeline.toml"), Progress(out), interrupt) as job:
        job.prepare()
        job.follow(once=False)
        stopped = job.session.epoch
    assert out.getvalue().splitlines()[-1] == f"stopped at epoch {stopped}; the next run continues from there"
    assert 5 <= stopped < 81
    finished(tmp_path, quads)
    assert epochs(tmp_path) == 81
