"""Random queries that nest everything in everything, kept under changes: see tests/random_nested.py.

`python -m tests.random_soak --minutes 60` goes on for as long as one likes, with other seeds each time.
"""

from __future__ import annotations

import pytest

from tests.conftest import times
from tests.random_nested import Compared, compare


@pytest.mark.parametrize("part", range(5))
def test_views_equal_the_reference_and_the_oracle(part: int) -> None:
    compared = Compared()
    for seed in range(part * 24, part * 24 + times(16, 24)):
        compare(seed, compared)
    assert compared.queries == 3 * times(16, 24)
    assert compared.with_oracle > 6, "the oracle was asked too seldom to say much"
