"""Tries seed after seed for a given time, and shows those that fail: the commands of random tests."""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable

import sparqlive


def soak(about: str | None, attempt: Callable[[int], None], summary: Callable[[], object]) -> int:
    """Runs `attempt` with seed after seed, as the command line says; returns 1 if any of them raised."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="the first seed; those after it follow (default: at random)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", sparqlive.EmptyResultWarning)  # random queries are often empty
    seed = random.randrange(10**9) if options.seed is None else options.seed
    wrong, start = 0, time.monotonic()
    shown = start
    while time.monotonic() - start < options.minutes * 60:
        try:
            attempt(seed)
        except Exception as problem:  # the next seed is tried all the same
            wrong += 1
            print(f"WRONG with seed {seed}: {type(problem).__name__}: {problem}", flush=True)
        seed += 1
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(f"{(shown - start) / 60:.0f} minutes: {summary()}, {wrong} wrong", flush=True)
    print(f"{summary()}, {wrong} wrong; the next seed is {seed}", flush=True)
    return 1 if wrong else 0
