"""Finds the Java that Spark runs on: in JAVA_HOME, on the path, in the virtual environment, or on the system.

Does not install Java; setup/java.py does, for work in the project's folder. Invariant: the Java found was run
and reported a version that is new enough.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sparqlive.errors import SparkFailed

OLDEST = 17
OWN = Path(sys.prefix) / "java"
"""Where a virtual environment has a Java of its own, if there is one."""
MISSING = (
    f"Spark needs Java {OLDEST} or newer, but none was found in JAVA_HOME or on the PATH. Install it (on "
    f"Debian and Ubuntu: openjdk-17-jre-headless), or set JAVA_HOME to its folder."
)
_SYSTEM = Path("/usr/lib/jvm")
_SECONDS = 60


def use_java() -> None:
    """Makes Spark, and every process started from now on, run on a Java that is new enough."""
    home = java_home()
    if home is None:
        raise SparkFailed(MISSING)
    os.environ["JAVA_HOME"] = str(home)


def java_home() -> Path | None:
    """Returns the folder of the first Java that is new enough."""
    return next((home for home in _candidates() if _version(home / "bin" / "java") >= OLDEST), None)


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent
    yield OWN
    if _SYSTEM.is_dir():
        yield from sorted(_SYSTEM.iterdir())


def _version(command: Path) -> int:
    """Returns what `java -version` reports, or 0 if it cannot run; Java 8 calls itself 1.8."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    said = re.search(rb'version "(\d+)', done.stderr)
    return int(said[1]) if said and done.returncode == 0 else 0
