"""Whatever is done to the files of a store: it is refused with a sentence, or the answers are right.

SPARQLIVE_DAMAGE is how many times damage is done; 16 if it is not set, 320 in `make conformance`.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sparqlive
from sparqlive.store.seals import TABLES
from tests.conftest import times
from tests.store.test_store import EX, QUERIES, quad, query
from tests.tuned import tune

TIMES = int(os.environ.get("SPARQLIVE_DAMAGE", str(times(16, 320))))
GROUP = f"PREFIX : <{EX}> SELECT ?x (COUNT(?y) AS ?n) {{ ?x :p ?y }} GROUP BY ?x"
TOP = f"PREFIX : <{EX}> SELECT ?x ?y {{ ?x :p ?y }} ORDER BY ?y ?x LIMIT 3"
LATER = f"PREFIX : <{EX}> SELECT ?x ?y {{ ?x :p ?z . ?z :q ?y }}"


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, catalog_rows=3)
        yield


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory, small: None) -> list[Path]:
    """Copies of a store as it grows; some of a store that is open, as a killed process leaves it."""
    base = tmp_path_factory.mktemp("damage")
    path, document = base / "store", base / "data.nt"
    rng = random.Random(5)
    copies: list[Path] = []

    def copied() -> None:
        copies.append(base / f"stage-{len(copies)}")
        shutil.copytree(path, copies[-1], ignore=shutil.ignore_patterns("*-shm", "leases"))

    for round_ in range(3):
        document.write_text("".join(f"<{EX}n{n}> <{EX}p> <{EX}n{n + round_}> .\n" for n in range(5)))
        with sparqlive.open(path) as session:
            for name in QUERIES:
                session.view(name, query(name))
            session.view("group", GROUP)
            session.view("top", TOP)
            session.view("later", LATER, refresh="manual")
            session.source("file", str(document), name="document").refresh()
            for number in range(4):
                session.apply(
                    insert=[quad(rng) for _ in range(5)], delete=[quad(rng) for _ in range(3)],
                    batch=("stream", round_ * 4 + number),
                )  # fmt: skip
                if number == 1:
                    session.views["later"].refresh()
                    session.compact()
            copied()
        copied()
    return copies


def answers(path: Path, read_only: bool = False) -> Any:
    """Everything that a store answers."""
    with sparqlive.open(path, watch=False, read_only=read_only) as session:
        views = {
            name: (
                view.weights(),
                [(delta.epoch, delta.reset, delta.weights()) for delta in view.changes(since=0)],
                [view.weights(at=epoch) for epoch in range(view.since, view.epoch + 1)],
            )
            for name, view in session.views.items()
        }
        return session.epoch, Counter(session.quads()), views, sorted(session.sources)


def everything(path: Path) -> Any:
    """What a store answers: as it is, after a change that was checked, and after compaction."""
    seen = [answers(path, read_only=True), answers(path)]
    with sparqlive.open(path, watch=False) as session:
        session.apply(insert=[quad(random.Random(1000)), quad(random.Random(1001))], batch=("stream", 1000))
        session.apply(insert=[quad(random.Random(1002))], batch=("stream", 3))  # this one it has
        for view in session.views.values():
            if view.failure is not None:  # what it stores is damaged: it is marked, and others go on
                assert "StoreFailed: The " in view.failure or "Damaged" in view.failure
                raise sparqlive.StoreFailed(view.failure)
        session.check()
        session.compact()
        session.check()
        seen.append([str(sorted(map(str, session.quads())))])
    seen.append(answers(path))
    with sparqlive.open(path, watch=False) as session:
        session.check()
    return seen


@pytest.fixture(scope="module")
def expected(stages: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Any]:
    base = tmp_path_factory.mktemp("expected")
    return {stage: everything(shutil.copytree(stage, base / stage.name)) for stage in stages[-2:]}


def refused_or_right(path: Path, expected: Any) -> str | None:
    """The sentence, if it was refused; nothing but StoreFailed may be raised."""
    try:
        found = everything(path)
    except sparqlive.StoreFailed as error:
        said = str(error)
    else:
        assert found == expected
        return None
    assert str(path) in said
    return said


# Any file


def files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name != "writer.lock")


def flipped(file: Path, rng: random.Random, others: list[Path], old: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def cut(file: Path, rng: random.Random, others: list[Path], old: list[Path]) -> None:
    os.truncate(file, rng.choice((0, rng.randrange(file.stat().st_size))))


def removed(file: Path, rng: random.Random, others: list[Path], old: list[Path]) -> None:
    file.unlink()


def zeroed(file: Path, rng: random.Random, others: list[Path], old: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    start = rng.randrange(len(content)) // 512 * 512
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    file.write_bytes(content)


def swapped(file: Path, rng: random.Random, others: list[Path], old: list[Path]) -> None:
    shutil.copyfile(rng.choice(others), file)


def older(file: Path, rng: random.Random, others: list[Path], old: list[Path]) -> None:
    """The file of that name in an older copy of the store, or one of the same kind."""
    named = [other for other in old if other.name == file.name]
    shutil.copyfile(rng.choice(named or old), file)


HARMS = [flipped, flipped, flipped, flipped, cut, removed, zeroed, swapped, older, older]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("part", range(8))
def test_any_damage_of_any_file(
    stages: list[Path], expected: dict[Path, Any], tmp_path: Path, part: int
) -> None:
    rng = random.Random(part)
    refused = 0
    for _ in range(TIMES // 8):
        path = tmp_path / "store"
        stage = rng.choice(list(expected))
        shutil.copytree(stage, path)
        there = files(path)
        file = rng.choice([*there, *(file for file in there if file.name.startswith("catalog"))] * 2)
        harm = rng.choice(HARMS)
        before = file.stat().st_size
        if before or harm is not flipped:
            old = [found for copy in stages[:-2] for found in files(copy)]
            harm(file, rng, [other for other in there if other != file], old)
        refused += refused_or_right(path, expected[stage]) is not None
        shutil.rmtree(path)
    if TIMES >= 320:  # which files there are, and where a damage falls, differs: a few times prove nothing
        assert refused > TIMES // 8 // 4


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["quads", "terms", "rows", "state"])
def test_every_byte_of_a_small_run(
    stages: list[Path], expected: dict[Path, Any], tmp_path: Path, kind: str
) -> None:
    """Whatever byte it is: `check` refuses."""
    path = tmp_path / "store"
    shutil.copytree(stages[-1], path)
    file = next(file for file in files(path / "runs") if kind in file.name)
    content = file.read_bytes()
    rng = random.Random(kind)
    with sparqlive.open(path, watch=False) as session:
        for place in [
            *range(12),
            *rng.sample(range(len(content)), 60),
            *range(len(content) - 12, len(content)),
        ]:
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
            )
            with pytest.raises(
                sparqlive.StoreFailed, match=r"is missing or damaged.*has changed since it was written"
            ):
                session.check()
        file.write_bytes(content)
        session.check()


@pytest.mark.usefixtures("small")
def test_a_run_in_the_place_of_another(stages: list[Path], tmp_path: Path) -> None:
    """Older runs of the same relation, and runs of others."""
    stage, path = stages[-1], tmp_path / "store"
    with sqlite3.connect(stage / "catalog.sqlite") as database:
        named = [name for (name,) in database.execute("SELECT path FROM runs ORDER BY path")]
    database.close()
    assert len(named) > 5
    rng = random.Random(3)
    for name in named[:: times(4, 1)]:
        content = (stage / name).read_bytes()
        runs = [run for copy in stages for run in (copy / "runs").rglob("*.parquet")]
        same = [run for run in runs if run.name == os.path.basename(name) and run.read_bytes() != content]
        others = [*same[:3], *rng.sample([run for run in runs if run.read_bytes() != content], 2)]
        for other in others[: times(1, 5)]:
            shutil.copytree(stage, path)
            shutil.copyfile(other, path / name)
            with pytest.raises(sparqlive.StoreFailed, match="missing or damaged"):
                everything(path)
            shutil.rmtree(path)


@pytest.mark.usefixtures("small")
def test_older_files_beside_newer_ones(stages: list[Path], expected: dict[Path, Any], tmp_path: Path) -> None:
    """Any part of the store from any older copy, while the rest stays: refused, or right."""
    path = tmp_path / "store"
    parts = ["catalog.sqlite", "catalog.sqlite-wal", "head", "runs"]
    for stage in expected:
        for copy in stages[: -2 : times(4, 1)]:
            for chosen in ([0], [1], [0, 1], [3], [0, 3], [0, 1, 3], [2]):
                shutil.copytree(stage, path)
                for part in (parts[number] for number in chosen):
                    if (path / part).is_dir():
                        shutil.rmtree(path / part)
                    (path / part).unlink(missing_ok=True)
                    if (copy / part).is_dir():
                        shutil.copytree(copy / part, path / part)
                    elif (copy / part).exists():
                        shutil.copyfile(copy / part, path / part)
                said = refused_or_right(path, expected[stage])
                if 0 in chosen and stage == stages[-1]:  # else the log may have everything that is missing
                    assert said is not None
                    assert "is outdated" in said or "damaged" in said
                shutil.rmtree(path)


@pytest.mark.usefixtures("small")
def test_a_copy_of_a_whole_store_is_a_store(stages: list[Path], tmp_path: Path) -> None:
    """As is one without the head, which a backup by SQLite's own means does not have."""
    for stage in stages:
        path = shutil.copytree(stage, tmp_path / stage.name)
        seen = answers(path)
        (path / "head").unlink()
        assert answers(path) == seen


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("harm", ["removed", "cut", "flipped", "older"])
def test_the_log_of_a_store_that_was_killed(stages: list[Path], tmp_path: Path, harm: str) -> None:
    """SQLite takes what is whole of its log; the head says that there was more. Nothing is overwritten."""
    stage = stages[-2]
    path = shutil.copytree(stage, tmp_path / "store")
    log = path / "catalog.sqlite-wal"
    content = log.read_bytes()
    assert len(content) > 40_000
    if harm == "removed":
        log.unlink()
    elif harm == "cut":
        os.truncate(log, len(content) // 2)
    elif harm == "flipped":
        log.write_bytes(content[:20_000] + bytes([content[20_000] ^ 16]) + content[20_001:])
    else:
        shutil.copyfile(stages[-4] / "catalog.sqlite-wal", log)
    for read_only in (False, True, False):
        with pytest.raises(sparqlive.StoreFailed, match=r"catalog\.sqlite-wal|damaged"):
            sparqlive.open(path, read_only=read_only, watch=False)
    log.write_bytes(content)  # it was kept somewhere
    with sparqlive.open(path, watch=False) as session:
        session.check()
    (path / "head").unlink(missing_ok=True)


def test_going_on_with_an_older_catalog_is_a_decision(stages: list[Path], tmp_path: Path) -> None:
    path = shutil.copytree(stages[-2], tmp_path / "store")
    (path / "catalog.sqlite-wal").unlink()
    with pytest.raises(sparqlive.StoreFailed, match=r"To continue with the older catalog .*, remove .*head"):
        sparqlive.open(path, watch=False)
    shutil.copyfile(stages[-3] / "catalog.sqlite", path / "catalog.sqlite")
    shutil.copytree(stages[-3] / "runs", path / "runs", dirs_exist_ok=True)
    (path / "head").unlink()
    with sparqlive.open(path, watch=False) as session:
        session.check()


# Rows of the catalog

OTHER = {
    int: lambda value: value + 1000,
    float: lambda value: value / 2,
    str: lambda value: value[:-1] + chr(ord(value[-1]) ^ 1) if value else "x",
    bytes: lambda value: bytes([value[0] ^ 1]) + value[1:] if value else b"12345678",
    type(None): lambda value: "x",
}


def places() -> list[tuple[str, str | None]]:
    """Each column of each table, and (None) each table's rows."""
    found: list[tuple[str, str | None]] = [
        ("terms", "id"),
        ("terms", "text"),
        ("terms", None),
    ]
    for name, table in TABLES.items():
        if name != "terms":
            blob = () if table.blob is None else (table.blob,)
            found += [(name, column) for column in (*table.header, *blob, None)]
    return [*found, ("totals", "rows"), ("totals", "total"), ("totals", None)]


def edited(path: Path, action: Callable[[sqlite3.Connection], None]) -> None:
    with sqlite3.connect(path / "catalog.sqlite") as database:
        action(database)
    database.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("table", "column"), places()[:: times(3, 1)])
def test_a_row_that_is_other_or_missing(
    stages: list[Path], tmp_path: Path, table: str, column: str | None
) -> None:
    """Each is refused by `check` at the latest, and nothing before it is wrong."""
    rng = random.Random(f"{table}/{column}")
    kind = "rowid" if table in ("epochs", "changes", "terms") else None
    with sqlite3.connect(stages[-1] / "catalog.sqlite") as database:
        keys = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[5]]
        rows = database.execute(f"SELECT {', '.join(keys)} FROM {table}").fetchall()
    database.close()
    if not rows:
        pytest.skip(f"there is nothing in {table}")
    assert kind is None or len(keys) == 1
    where = " AND ".join(f"{key} = ?" for key in keys)
    for row in rng.sample(rows, min(2, len(rows))):
        path = shutil.copytree(stages[-1], tmp_path / "store")

        def change(database: sqlite3.Connection, row: Any = row) -> None:
            if column is None:
                database.execute(f"DELETE FROM {table} WHERE {where}", row)
                return
            (value,) = database.execute(f"SELECT {column} FROM {table} WHERE {where}", row).fetchone()
            other = OTHER[type(value)](value)
            database.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (other, *row))

        edited(path, change)
        with pytest.raises(sparqlive.StoreFailed) as told:
            everything(path)
        assert str(path) in str(told.value)
        shutil.rmtree(path)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("table", [*TABLES])
def test_a_table_as_it_was_before(stages: list[Path], tmp_path: Path, table: str) -> None:
    path = shutil.copytree(stages[-1], tmp_path / "store")

    def restore(database: sqlite3.Connection) -> None:
        database.execute("ATTACH ? AS old", (str(stages[1] / "catalog.sqlite"),))
        now = database.execute(f"SELECT * FROM {table}").fetchall()
        if now == database.execute(f"SELECT * FROM old.{table}").fetchall():
            pytest.skip(f"{table} did not change")
        database.execute(f"DELETE FROM {table}")
        database.execute(f"INSERT INTO {table} SELECT * FROM old.{table}")
        database.commit()

    edited(path, restore)
    with pytest.raises(sparqlive.StoreFailed):
        everything(path)


@pytest.mark.usefixtures("small")
def test_damaged_rows_of_a_view_are_repaired(stages: list[Path], tmp_path: Path) -> None:
    for statement in (
        "UPDATE deltas SET rows = zeroblob(length(rows)) WHERE relation LIKE '%/rows'",
        "DELETE FROM deltas WHERE relation LIKE '%/rows'",
        "UPDATE relations SET rows = zeroblob(length(rows)) WHERE name LIKE '%/rows' AND rows IS NOT NULL",
    ):
        path = shutil.copytree(stages[-1], tmp_path / "store")
        with sparqlive.open(path, watch=False) as session:
            before = {name: view.weights() for name, view in session.views.items()}
        edited(path, lambda database, statement=statement: database.execute(statement) and None)  # type: ignore[misc]
        with sparqlive.open(path, watch=False) as session:
            with pytest.raises(sparqlive.StoreFailed, match="check --repair"):
                session.check()
            assert session.repair()
            session.check()
            assert {name: view.weights() for name, view in session.views.items()} == before
        with sparqlive.open(path, watch=False) as session:
            assert not session.repair()
            assert {name: view.weights() for name, view in session.views.items()} == before
            session.check()
        shutil.rmtree(path)


@pytest.mark.usefixtures("small")
def test_damaged_data_of_a_source_is_not_repaired_silently(stages: list[Path], tmp_path: Path) -> None:
    path = shutil.copytree(stages[-1], tmp_path / "store")
    with sparqlive.open(path, watch=False) as session:
        file = next(file for file in files(path) if "sources-quads" in file.name)
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        with pytest.raises(sparqlive.StoreFailed, match="sources-quads"):
            session.repair()
        file.write_bytes(content)
        assert session.repair() == []
