"""Compares random nested queries for a given time: `python -m tests.random_soak --minutes 60`.

What differs is shown with its seed, the query and the quads; `--seed` starts there again. The exit status is
1 if anything did.
"""

from __future__ import annotations

import sys

from tests.random_nested import Compared, compare
from tests.soaking import soak


def main() -> int:
    compared = Compared()

    def summary() -> str:
        return (
            f"{compared.queries} queries as views over {compared.epochs} epochs, "
            f"{compared.with_oracle} comparisons with pyoxigraph too"
        )

    return soak(__doc__, lambda seed: compare(seed, compared), summary)


if __name__ == "__main__":
    sys.exit(main())
