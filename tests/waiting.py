"""Waiting in tests: for as long as a busy machine may take, and no longer than a condition needs."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""How long a test waits for what must happen. It is met soon, or something is wrong."""


def happens(condition: Callable[[], bool]) -> bool:
    """Waits until a condition holds; whether it ever did."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    assert happens(condition), f"it does not happen within {PATIENCE_SECONDS:g} seconds"
