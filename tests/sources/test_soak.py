"""The soak test, for some seconds: `python -m bench.soak` is the long one."""

from __future__ import annotations

import time

from bench.soak import Soak


def test_sources_on_a_bad_server() -> None:
    soak = Soak(20, interval_seconds=0.1)
    try:
        for _ in range(2):
            time.sleep(1)
            soak.look()
        soak.heal()
    finally:
        soak.close()
    assert soak.server.answers["200"] > 20
