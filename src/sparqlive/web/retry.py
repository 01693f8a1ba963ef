"""When to try again: ever later after each failure, and not everyone at the same moment."""

from __future__ import annotations

import random

# What fails is tried again after so many seconds, and after twice as long each time it fails again.
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 300.0

CHANCE = random.Random()
"""A generator of our own: the state of Python's belongs to the program that we are a part of."""


def retry_seconds(
    failures: int, first: float = FIRST_RETRY_SECONDS, last: float = LAST_RETRY_SECONDS
) -> float:
    """How long to wait after so many failures in a row: twice as long each time, and not all at once."""
    return min(last, first * 2.0 ** min(failures - 1, 20)) * CHANCE.uniform(0.5, 1.0)
