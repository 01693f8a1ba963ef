"""Runs against a plain sorted list, with keys at the ends of the 64-bit range and in crowded buckets."""

from __future__ import annotations

import pickle
import tracemalloc
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.zset.run import FEWEST_FOR_DIRECTORY, Column, Run, directory_of
from tests.conftest import examples

LEAST, GREATEST = -(2**63), 2**63 - 1
EXTREMES = (LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST)

Row = tuple[int, ...]

# The ends of the range, neighbours that share a bucket, and ids spread like hashes.
keys = st.one_of(
    st.sampled_from(EXTREMES), st.integers(0, 6), st.integers(LEAST, GREATEST), st.sampled_from((7, 2**40))
)


def rows_of(arity: int, most: int = 60) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(*(keys for _ in range(arity))), max_size=most)


arities = st.integers(1, 4)
bags = arities.flatmap(rows_of)


def columns(rows: list[Row], arity: int) -> list[Column]:
    return [np.array([row[number] for row in rows], dtype=np.int64) for number in range(arity)]


def listed(run: Run) -> list[Row]:
    return list(zip(*(view.tolist() for view in run.views), strict=True))


def weighted(run: Run) -> dict[Row, int]:
    assert run.weights is not None
    return dict(zip(listed(run), run.weights.tolist(), strict=True))


@given(bags)
def test_sorting_a_set(rows: list[Row]) -> None:
    run = Run.sort(columns(rows, len(rows[0]) if rows else 2))
    expected = sorted(set(rows))
    assert listed(run) == expected
    assert run.length == len(expected)
    assert run.weights is None


@given(
    arities.flatmap(lambda n: st.lists(st.tuples(st.tuples(*(keys,) * n), st.integers(-2, 2)), max_size=40))
)
def test_sorting_a_bag_sums_weights_and_drops_zeros(pairs: list[tuple[Row, int]]) -> None:
    rows = [row for row, _ in pairs]
    weights = np.array([weight for _, weight in pairs], dtype=np.int64)
    run = Run.sort(columns(rows, len(rows[0]) if rows else 2), weights)
    total: Counter[Row] = Counter()
    for row, weight in pairs:
        total[row] += weight
    expected = {row: weight for row, weight in total.items() if weight}
    assert weighted(run) == expected
    assert listed(run) == sorted(expected)


@given(bags, st.data())
def test_ranges(rows: list[Row], data: st.DataObject) -> None:
    arity = len(rows[0]) if rows else 2
    run = Run.sort(columns(rows, arity))
    model = sorted(set(rows))
    length = data.draw(st.integers(0, arity))
    probe = data.draw(st.one_of(st.sampled_from(model or [(0,) * arity]), st.tuples(*(keys,) * arity)))
    prefix = probe[:length]
    expected = [row for row in model if row[:length] == prefix]
    low, high = run.range(prefix)
    assert model[low:high] == expected
    assert low <= high
    if length == 1:
        assert run.range_one(prefix[0]) == (low, high)


@given(rows_of(2), keys, keys)
def test_pairs_written_out_equal_ranges(rows: list[Row], key: int, value: int) -> None:
    run = Run.sort(columns(rows, 2))
    for first, second in [(key, value), *rows]:
        low, high = run.range_one(first)
        assert run.seconds(first) == (run.views[1][low:high].tolist() or None)
        for other in (value, second):
            is_there = run.position((first, other))[1]
            assert run.has_pair(first, other) == is_there
            assert run.has_pair(first, other) == is_there, "also when it was just looked up"


@given(bags, st.data())
def test_positions(rows: list[Row], data: st.DataObject) -> None:
    arity = len(rows[0]) if rows else 2
    run = Run.sort(columns(rows, arity))
    model = sorted(set(rows))
    row = data.draw(st.one_of(st.sampled_from(model or [(0,) * arity]), st.tuples(*(keys,) * arity)))
    assert run.position(row) == (bisect_left(model, row), row in model)


@pytest.mark.parametrize("present", [(), EXTREMES, (LEAST,), (GREATEST,), (0,), tuple(range(-50, 50))])
def test_extreme_keys(present: tuple[int, ...]) -> None:
    run = Run.sort(columns([(key, 5) for key in present], 2))
    model = sorted((key, 5) for key in present)
    for key in EXTREMES:
        low, high = bisect_left(model, (key, 5)), bisect_right(model, (key, 5))
        assert run.position((key, 5)) == (low, key in present)
        for found in (run.range_one(key), run.range((key,)), run.range((key, 5))):
            assert model[slice(*found)] == model[low:high]
        assert model[slice(*run.range((key, 6)))] == []


def test_all_rows_in_one_bucket() -> None:
    """Ids that share their top bits: the directory does not help, and must not harm."""
    model = [(2**40 + number // 3, number) for number in range(3000)]
    run = Run.sort(columns(model, 2))
    assert listed(run) == model
    for key in (2**40, 2**40 + 500, 2**40 + 999):
        assert model[slice(*run.range_one(key))] == [row for row in model if row[0] == key]
    for key in (0, 2**40 - 1, 2**40 + 1000):
        low, high = run.range_one(key)
        assert low == high


@st.composite
def changes_of_sets(draw: st.DrawFn) -> tuple[int, set[Row], dict[Row, int]]:
    arity = draw(st.integers(1, 4))
    present = set(draw(rows_of(arity)))
    removed = draw(st.sets(st.sampled_from(sorted(present)))) if present else set()
    added = set(draw(rows_of(arity, 20))) - present
    order = draw(st.permutations(sorted(removed | added)))
    return arity, present, {row: -1 if row in removed else 1 for row in order}


@examples(100)
@given(changes_of_sets())
def test_with_changes_of_a_set(case: tuple[int, set[Row], dict[Row, int]]) -> None:
    arity, present, changes = case
    run = Run.sort(columns(list(present), arity))
    changed = run.with_changes(list(changes), list(changes.values()))
    expected = {row for row in present | set(changes) if changes.get(row, 1) > 0}
    assert listed(changed) == sorted(expected)
    assert changed.weights is None
    assert listed(run) == sorted(present), "a run does not change"
    for row in (*expected, *changes):
        assert changed.position(row)[1] == (row in expected)


@st.composite
def changes_of_bags(draw: st.DrawFn) -> tuple[int, dict[Row, int], dict[Row, int]]:
    arity = draw(st.integers(1, 4))
    nonzero = st.integers(-3, 3).filter(bool)
    present = {row: draw(nonzero) for row in draw(rows_of(arity, 30))}
    touched = draw(st.lists(st.sampled_from(sorted(present)), unique=True)) if present else []
    changes = {row: draw(st.sampled_from((-present[row], 1, -2))) for row in touched}
    changes |= {row: draw(nonzero) for row in draw(rows_of(arity, 10)) if row not in present}
    return arity, present, changes


@examples(100)
@given(changes_of_bags())
def test_with_changes_of_a_bag(case: tuple[int, dict[Row, int], dict[Row, int]]) -> None:
    arity, present, changes = case
    run = Run.sort(columns(list(present), arity), np.array(list(present.values()), dtype=np.int64))
    changed = run.with_changes(list(changes), list(changes.values()))
    total = {row: present.get(row, 0) + changes.get(row, 0) for row in {*present, *changes}}
    expected = {row: weight for row, weight in total.items() if weight}
    assert weighted(changed) == expected
    assert listed(changed) == sorted(expected)
    assert weighted(run) == present, "a run does not change"


def test_a_set_refuses_a_row_that_it_holds() -> None:
    run = Run.sort(columns([(1, 2)], 2))
    with pytest.raises(AssertionError, match="holds each row once"):
        run.with_changes([(1, 2)], [1])
    with pytest.raises(AssertionError, match="holds each row once"):
        run.with_changes([(1, 3)], [-1])


def test_memory_is_columns_weights_and_a_small_directory() -> None:
    rows = [(number * 2**50, number) for number in range(4096)]
    run = Run.sort(columns(rows, 2))
    bag = Run.sort(columns(rows, 2), np.ones(4096, dtype=np.int64))
    assert 2 * 8 * 4096 <= run.nbytes <= 2 * 8 * 4096 + 4 * 4096 + 64
    assert bag.nbytes == run.nbytes + 8 * 4096


# No row, one, and around the bound from which a run has a directory.
SIZES = (0, 1, 2, 20, FEWEST_FOR_DIRECTORY - 1, FEWEST_FOR_DIRECTORY, FEWEST_FOR_DIRECTORY + 1, 3000)
HUB = 2**62 + 12345


def spread_rows(size: int, hub: int, seed: int, arity: int = 2) -> list[Row]:
    """Distinct sorted rows: keys at the ends of the range, a hub, others spread like hashes."""
    random = Random(seed)

    def key() -> int:
        return random.choice((random.choice(EXTREMES), random.randint(LEAST, GREATEST), random.randint(0, 9)))

    rows: set[Row] = set()
    while len(rows) < size:
        first = HUB if len(rows) < hub else key()
        rows.add((first, *(key() for _ in range(arity - 1))) if arity > 1 else (key(),))
    return sorted(rows)


def lookups(run: Run, probes: Sequence[Row]) -> Iterator[object]:
    """What all lookups of a run find."""
    yield from (run.length, run.total(), list(run.rows()), list(run.rows()))
    yield None if run.weights is None else run.weights.tolist()
    for row in probes:
        low, high = run.range_one(row[0])
        yield (low, high) if low < high else None
        yield [view[low:high].tolist() for view in run.views]
        yield run.position(row)
        for length in range(len(row) + 1):
            low, high = run.range(row[:length])
            yield (low, high) if low < high else None
        if len(row) == 2:
            yield from (run.seconds(row[0]), run.has_pair(*row), run.has_pair(*row))
    if probes:
        yield from (found.tolist() for found in run.places(columns(list(probes), len(run.views))))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Row], bool, list[Row]]:
    """Rows, whether they have weights, and rows to look for."""
    size, arity = draw(st.sampled_from(SIZES)), draw(st.sampled_from((1, 2, 2, 3)))
    rows = spread_rows(size, draw(st.sampled_from((0, size * 9 // 10))), draw(st.integers(0, 99)), arity)
    probes = [*rows[:5], *rows[len(rows) // 2 : len(rows) // 2 + 5], *rows[-5:]]
    probes += [(key, *(0,) * (arity - 1)) for key in (*EXTREMES, HUB)]
    return rows, draw(st.booleans()), sorted(set(probes))


@examples(60)
@given(runs())
def test_slices_of_larger_arrays_are_looked_up_alike(case: tuple[list[Row], bool, list[Row]]) -> None:
    rows, has_weights, probes = case
    own = columns(rows, len(probes[0]))
    weights = np.arange(1, len(rows) + 1) if has_weights else None
    expected = list(lookups(Run(own, weights), probes))
    # What is around the slices would change every result.
    larger = [np.concatenate((np.full(7, LEAST), column, np.full(9, GREATEST))) for column in own]
    part = slice(7, 7 + len(rows))
    for made in (
        Run([column[part] for column in larger], weights),
        Run.over([column.data[part] for column in larger], weights),
        Run.over([column.data[part] for column in larger], weights, directory=directory_of(own[0]).data),
        pickle.loads(pickle.dumps(Run.over([column.data[part] for column in larger], weights))),
    ):
        assert list(lookups(made, probes)) == expected
        assert [column.tolist() for column in made.columns] == [column.tolist() for column in own]


def test_a_small_run_over_a_slice_takes_less_than_a_kilobyte() -> None:
    views = [column.data for column in columns([(number, number) for number in range(20_000)], 2)]
    tracemalloc.start()
    try:
        made = [Run.over([view[start : start + 20] for view in views]) for start in range(0, 20_000, 20)]
        assert all(run.seconds(20 * number) == [20 * number] for number, run in enumerate(made))
        assert tracemalloc.get_traced_memory()[0] < 1000 * len(made)
    finally:
        tracemalloc.stop()


def test_a_directory_is_made_by_the_first_lookup() -> None:
    run = Run([np.arange(FEWEST_FOR_DIRECTORY), np.arange(FEWEST_FOR_DIRECTORY)])
    size = run.nbytes
    assert not isinstance(run._directory, memoryview)
    assert run.seconds(3) == [3]
    assert isinstance(run._directory, memoryview)
    assert run.nbytes == size, "it was counted before"


def test_other_processes_get_runs() -> None:
    """As workers do that compare a batch with changes that are in no file yet."""
    run = Run.sort([np.array([3, 1, 2]), np.array([5, 6, 7])], np.array([1, -1, 2]))
    other = pickle.loads(pickle.dumps(run))
    assert [column.tolist() for column in other.columns] == [[1, 2, 3], [6, 7, 5]]
    assert other.weights.tolist() == [-1, 2, 1]
    assert other.range_one(2) == run.range_one(2) == (1, 2)


def test_pairs() -> None:
    run = Run.sort([np.repeat(np.arange(10), 3), np.tile([1, 3, 5], 10)])
    for number in range(10):
        assert [run.has_pair(number, value) for value in range(7)] == [
            value % 2 == 1 for value in range(6)
        ] + [False]
    assert not run.has_pair(10, 1)
