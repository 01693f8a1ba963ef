"""Mapped bases of relations: they have the rows of their files, whatever happens to the maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.errors import StoreFailed
from sparqlive.store import relation_maps
from sparqlive.store.compaction import Target, Writer
from sparqlive.store.map_folder import MapFolder, map_folder
from sparqlive.store.place import LocalPlace
from sparqlive.store.relation_maps import RelationMaps
from sparqlive.store.runs import RunFile
from sparqlive.zset.run import RunRows
from tests.conftest import examples
from tests.zset.test_run import EXTREMES, Row, columns, spread_rows

NAME = "0123/rows"


def files_of(directory: Path, rows: Sequence[Row], width: int, rows_a_file: int = 3) -> list[RunFile]:
    """Sorted rows with weights as the files of a base."""
    place = LocalPlace(directory, "runs")
    place.make("runs/attempt")
    writer = Writer(Target(place, "runs/attempt"), NAME, width)
    for start in range(0, len(rows), rows_a_file):
        part = rows[start : start + rows_a_file]
        weights = np.arange(start + 1, start + 1 + len(part))
        writer.add([*columns(part, width), weights])
        writer.flush()
    return writer.runs


def content(directory: Path, files: Sequence[RunFile], width: int) -> dict[Row, int]:
    run = RelationMaps(directory, LocalPlace(directory, "runs")).run(NAME, width, files)
    assert run is not None
    assert run.is_mapped
    wanted = dict(RunRows(run).items()) if run.columns else {}
    for row, weight in wanted.items():
        place, found = run.position(row)
        assert found
        assert run.weights is not None
        assert run.weights[place] == weight
    return wanted


@given(data=st.data(), width=st.integers(1, 3), rows_a_file=st.integers(1, 50))
@examples(30)
def test_a_map_has_the_rows_of_its_files(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, width: int, rows_a_file: int
) -> None:
    directory = tmp_path_factory.mktemp("store")
    values = st.sampled_from(EXTREMES) | st.integers(-(2**63), 2**63 - 1)
    rows = sorted(data.draw(st.sets(st.tuples(*[values] * width), min_size=1, max_size=60)))
    files = files_of(directory, rows, width, rows_a_file)
    wanted = {row: number for number, row in enumerate(rows, 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relation_maps, "_PIECE_ROWS", 7)
        assert content(directory, files, width) == wanted
    assert content(directory, files, width) == wanted, "of the file that exists"


def test_a_map_that_is_missing_short_or_foreign_is_created_again(tmp_path: Path) -> None:
    rows = sorted(spread_rows(500, 40, 1))
    files = files_of(tmp_path, rows, 2, 100)
    wanted = content(tmp_path, files, 2)
    (path,) = map_folder(tmp_path).iterdir()
    whole = path.read_bytes()
    for damage in (None, whole[:-1], whole[:100], b"", bytes(len(whole)), whole.replace(b"rows", b"Rows", 1)):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        assert content(tmp_path, files, 2) == wanted
        assert path.read_bytes() == whole


@given(data=st.data(), width=st.integers(1, 4), rows_a_file=st.integers(1, 50))
@examples(30)
def test_the_rows_in_another_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, width: int, rows_a_file: int
) -> None:
    directory = tmp_path_factory.mktemp("store")
    values = st.sampled_from(EXTREMES) | st.integers(0, 3)
    rows = sorted(data.draw(st.sets(st.tuples(*[values] * width), min_size=1, max_size=60)))
    order = tuple(data.draw(st.permutations(range(width))))
    maps = RelationMaps(directory, LocalPlace(directory, "runs"))
    run = maps.run(NAME, width, files_of(directory, rows, width, rows_a_file), order)
    assert run is not None
    assert run.is_mapped
    assert run.weights is None
    assert [*run.rows()] == sorted(tuple(row[number] for number in order) for row in rows)
    for row in rows:
        assert run.position(tuple(row[number] for number in order))[1]


def test_rows_that_are_not_in_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="not in order"):
        content(tmp_path, files_of(tmp_path, [(3, 1), (2, 1)], 2), 2)
    with pytest.raises(StoreFailed, match="not in order"):
        content(tmp_path / "across", files_of(tmp_path / "across", [(3, 2), (3, 1)], 2, 1), 2)
    assert MapFolder(map_folder(tmp_path)).names() == []


def test_maps_of_other_bases_are_removed(tmp_path: Path) -> None:
    files = files_of(tmp_path, sorted(spread_rows(40, 5, 1)), 2, 20)
    maps = RelationMaps(tmp_path, LocalPlace(tmp_path, "runs"))
    assert maps.renewed(NAME, 2, files) == [], "nobody has read it"
    run = maps.run(NAME, 2, files)
    assert run is not None
    assert maps.run(NAME, 2, files) is run, "one file is mapped once"
    assert maps.renewed(NAME, 2, files) == [run]
    assert maps.renewed(NAME, 2, []) == []
    first = maps.run(NAME, 2, files[:1])
    assert first is not None
    assert first.length == 20
    assert len(MapFolder(map_folder(tmp_path)).names()) == 2
    maps.remove_others({NAME: files, "small": []})
    assert len(MapFolder(map_folder(tmp_path)).names()) == 1
    assert maps.run(NAME, 2, files, (1, 0)) is not None
    assert len(maps.renewed(NAME, 2, files)) == 2
    maps.remove_others({NAME: files})
    assert len(MapFolder(map_folder(tmp_path)).names()) == 2
    maps.remove_others({})
    assert MapFolder(map_folder(tmp_path)).names() == []
    assert run.position(next(run.rows())) == (0, True), "who has it open can read it"
