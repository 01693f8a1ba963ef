"""Laws of zsets: a commutative group, linear maps, and never a zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparqlive.zset.zset import add_into, without_zeros
from tests.zsets import ZSet

rows = st.integers(0, 5)
pairs = st.lists(st.tuples(rows, st.integers(-3, 3)), max_size=12)
zsets = pairs.map(ZSet)
ZERO: ZSet[int] = ZSet()


def no_zero(zset: ZSet[int]) -> bool:
    return all(weight != 0 for _, weight in zset)


@given(pairs)
def test_weights_of_equal_rows_are_summed(given_pairs: list[tuple[int, int]]) -> None:
    zset = ZSet(given_pairs)
    for row in range(6):
        total = sum(weight for other, weight in given_pairs if other == row)
        assert zset[row] == total
        assert (row in zset) == (total != 0)
    assert no_zero(zset)
    assert len(zset) == len(dict(zset))


@given(zsets, zsets, zsets)
def test_commutative_group(a: ZSet[int], b: ZSet[int], c: ZSet[int]) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + ZERO == a
    assert a + -a == ZERO == a - a
    assert a - b == a + -b == -(b - a)
    assert ZERO - -a == a
    for zset in (a + b, a - b, -a, a + b - b):
        assert no_zero(zset)


@given(zsets, zsets)
def test_equal_zsets_have_equal_hashes(a: ZSet[int], b: ZSet[int]) -> None:
    same = (a + b) - b
    assert same == a
    assert hash(same) == hash(a)
    assert len({a, same}) == 1
    assert a != dict(a), "a zset equals zsets only"


@given(zsets, zsets, st.integers(1, 4))
def test_map_is_linear(a: ZSet[int], b: ZSet[int], modulus: int) -> None:
    def image(row: int) -> int:
        return row % modulus

    assert (a + b).map(image) == a.map(image) + b.map(image)
    assert (-a).map(image) == -a.map(image)
    assert no_zero((a + b).map(image))
    assert sum(weight for _, weight in a.map(image)) == sum(weight for _, weight in a)


@given(zsets, zsets, st.integers(0, 6))
def test_filter_is_linear(a: ZSet[int], b: ZSet[int], bound: int) -> None:
    def low(row: int) -> bool:
        return row < bound

    assert (a + b).filter(low) == a.filter(low) + b.filter(low)
    assert a.filter(low) + a.filter(lambda row: not low(row)) == a
    assert a.filter(low).filter(low) == a.filter(low)


@given(zsets)
def test_distinct(a: ZSet[int]) -> None:
    once = a.distinct()
    assert once.distinct() == once
    assert dict(once) == {row: 1 for row, weight in a if weight > 0}
    assert (a + a).distinct() == once


@given(zsets, zsets)
def test_nothing_changes_its_operands(a: ZSet[int], b: ZSet[int]) -> None:
    before = dict(a), dict(b)
    results = [a + b, a - b, -a, a.map(lambda row: 0), a.filter(bool), a.distinct()]
    assert (dict(a), dict(b)) == before
    assert all(result.weights is not a.weights for result in results)


@given(zsets, zsets)
def test_add_into_is_addition_in_place(a: ZSet[int], b: ZSet[int]) -> None:
    target = dict(a)
    add_into(target, b.weights)
    assert target == dict(a + b)
    add_into(target, (-b).weights)
    assert target == dict(a)


@given(st.dictionaries(rows, st.integers(-2, 2)))
def test_without_zeros(weights: dict[int, int]) -> None:
    result = without_zeros(weights)
    assert result == {row: weight for row, weight in weights.items() if weight}
    assert (result is weights) == (0 not in weights.values())


def test_of_shares_its_weights() -> None:
    weights = {"a": 2, "b": -1}
    zset = ZSet.of(weights)
    assert zset.weights is weights
    assert zset == ZSet([("a", 1), ("b", -1), ("a", 1)])


def test_an_absent_row_has_weight_zero() -> None:
    assert ZSet([("a", 1)])["b"] == 0
    assert repr(ZSet([("a", 1)])) == "ZSet({'a': 1})"
    with pytest.raises(TypeError):
        ZSet([([], 1)])  # type: ignore[list-item]
