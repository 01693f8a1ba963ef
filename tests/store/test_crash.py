"""Kills: at random moments, and before steps of the commits. `python -m bench.crash` does it for longer."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.conftest import times

KILLS = times(6, 12)


def test_nothing_acknowledged_is_lost() -> None:
    command = [sys.executable, "-m", "bench.crash", "--minutes", "0", "--kills", str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"survived (\d+) kills before .* of the commits, and (\d+) at random", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= KILLS
    assert int(found[2]) >= KILLS
