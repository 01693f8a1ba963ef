"""The main way through the page in Firefox, driven by `firefox.mjs`: sample data, a live chart, a query."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import sparqlive
from tests.peers import firefox

SCRIPT = Path(__file__).with_name("firefox.mjs")


def test_the_main_way_in_firefox(session: sparqlive.Session, address: str) -> None:
    command, packages = firefox()
    done = subprocess.run(
        ["node", str(SCRIPT), command, str(packages), address], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("wrong") == []
    assert seen == {"bars": 5, "rows": 42, "sorted": "Copper pan, black", "embedded": 5, "files": 1}
    assert list(session.views) == ["stock-by-country"]
    assert session.epoch == 3
