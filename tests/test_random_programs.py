"""A few random programs; `python -m tests.random_programs --minutes 60` runs others for an hour."""

from __future__ import annotations

import pytest

from tests.random_programs import Done, run


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_views_are_right_throughout_a_random_program(seed: int) -> None:
    done = Done()
    run(seed, done, steps=20)
    assert done.compared > 0
