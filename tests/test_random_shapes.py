"""A few random programs over uneven data; `python -m tests.random_shapes --minutes 60` runs others."""

from __future__ import annotations

import pytest

from tests.random_shapes import Done, run


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_views_are_right_over_data_of_any_shape(seed: int) -> None:
    done = Done()
    run(seed, done, steps=12)
    assert done.compared > 0
