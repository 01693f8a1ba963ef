"""Compares random nested queries for a given time: `python -m tests.random_soak --minutes 60`.

What differs is shown with its seed, the query and the quads; `--seed` starts there again. The exit status is
1 if anything did.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.random_nested import Compared, compare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="the first seed; those after it follow (default: at random)")
    options = parser.parse_args()
    seed = random.randrange(10**9) if options.seed is None else options.seed
    compared, wrong, start = Compared(), 0, time.monotonic()
    shown = start
    while time.monotonic() - start < options.minutes * 60:
        try:
            compare(seed, compared)
        except Exception as problem:  # no query may raise anything, and the next seed is tried all the same
            wrong += 1
            print(f"WRONG with seed {seed}: {type(problem).__name__}: {problem}", flush=True)
        seed += 1
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(f"{(shown - start) / 60:.0f} minutes: {_summary(compared, wrong)}", flush=True)
    print(f"{_summary(compared, wrong)}; the next seed is {seed}", flush=True)
    return 1 if wrong else 0


def _summary(compared: Compared, wrong: int) -> str:
    return (
        f"{compared.queries} queries as views over {compared.epochs} epochs, "
        f"{compared.with_oracle} comparisons with pyoxigraph too, {wrong} wrong"
    )


if __name__ == "__main__":
    sys.exit(main())
