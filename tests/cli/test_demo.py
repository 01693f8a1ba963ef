"""The demo: a shop whose views change while somebody watches."""

from __future__ import annotations

import subprocess
import sys

import sparqlive


def test_the_shop_changes() -> None:
    command = [sys.executable, "-m", "sparqlive", "demo", "--port", "0", "--no-browser", "--rate", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as shop:
        try:
            assert shop.stdout is not None
            said = shop.stdout.readline()
            address = next(word for word in said.split() if word.startswith("http")).rstrip("/.")
            seen = 0
            for delta in sparqlive.follow(f"{address}/views/revenue%20by%20city"):
                seen += not delta.reset
                if seen == 5:
                    break
        finally:
            shop.terminate()
    assert shop.returncode == 0
