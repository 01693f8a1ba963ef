"""When to retry: exponential backoff with random jitter."""

from __future__ import annotations

import random

# The pause after the first failure, which doubles with each further failure, and its maximum.
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 300.0

CHANCE = random.Random()
"""A separate generator: the state of Python's global one belongs to the host program."""


def retry_seconds(
    failures: int, first: float = FIRST_RETRY_SECONDS, last: float = LAST_RETRY_SECONDS
) -> float:
    """How long to wait after a number of failures in a row."""
    return min(last, first * 2.0 ** min(failures - 1, 20)) * CHANCE.uniform(0.5, 1.0)
