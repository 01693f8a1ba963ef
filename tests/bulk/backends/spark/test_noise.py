"""Chatter of a starting process is dropped; its errors are shown, also later."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import subprocess, sys
from sparqlive.bulk.backends.spark.noise import quiet_java
with quiet_java():
    child = subprocess.Popen([sys.executable, "-c", '''
import sys
print("WARNING: Using incubator modules: jdk.incubator.vector", file=sys.stderr)
print("ERROR early", file=sys.stderr, flush=True)
input()
print("WARNING: A restricted method has been called", file=sys.stderr)
print("ERROR late", file=sys.stderr)
'''], stdin=subprocess.PIPE, text=True)
print("own line", file=sys.stderr)
child.communicate("\\n")
import threading
for thread in [one for one in threading.enumerate() if one.name == "errors of Java"]:
    thread.join(60)
"""


def test_only_chatter_is_dropped() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=120
    )
    assert sorted(ended.stderr.splitlines()) == ["ERROR early", "ERROR late", "own line"]
