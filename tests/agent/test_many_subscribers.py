"""The benchmark of subscribers, in small: in other processes, each adds up to its view while data changes."""

from __future__ import annotations

import pytest

from bench.subscribers import a_view_each, one_view

SIZES = {"subscribers": 50, "seconds": 3, "changes_a_second": 100, "items": 200}


@pytest.mark.parametrize("scene", [one_view, a_view_each])
def test_many_subscribers_have_their_views_at_the_end(scene: object) -> None:
    assert callable(scene)
    found = scene(SIZES)  # which stops where one of them has not
    assert found.epochs == 300
    assert found.events >= (50 if scene is one_view else 1)
    assert max(found.latencies) < 10
