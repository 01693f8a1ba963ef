"""Installs what tests talk to: from Debian an MQTT broker and two browsers; from npm a Solid server, a driver
for Firefox, and axe-core, which checks pages for accessibility.

Run by make with the interpreter of .venv. sparqlive itself needs none of them. If one cannot be installed,
this script says so, and the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PLACE = Path(__file__).parent.parent / ".peers"
DEBIAN = {"mosquitto": "mosquitto", "chromium": "chromium", "firefox-esr": "firefox-esr"}  # command: package
MODULES = PLACE / "node_modules"
NPM = {  # package: a file of it
    "@solid/community-server@7.2.0": MODULES / ".bin" / "community-solid-server",
    "puppeteer-core@24.43.1": MODULES / "puppeteer-core" / "package.json",
    "axe-core@4.14.0": MODULES / "axe-core" / "axe.min.js",
}


def main() -> None:
    lacking = [package for command, package in DEBIAN.items() if not found(command)]
    if lacking and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"For the tests: installing {' and '.join(lacking)} from Debian.", flush=True)
        run(["apt-get", "update", "-qq"])
        # Without recommended packages: the broker must not start as a service.
        run(["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *lacking])
    absent = [package for package, file in NPM.items() if not file.exists()]
    if absent and shutil.which("npm"):
        print(f"For the tests: installing {' and '.join(absent)} from npm.", flush=True)
        PLACE.mkdir(exist_ok=True)
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(PLACE), *absent])
    for command in DEBIAN:
        if not found(command):
            print(f"{command} is not installed: the tests that need it are skipped.")
    for package, file in NPM.items():
        if not file.exists():
            print(f"{package} is not installed (it needs npm): the tests that need it are skipped.")


def found(command: str) -> bool:
    """Whether a command exists. Debian puts servers in a directory that may not be on the path."""
    return shutil.which(command) is not None or Path("/usr/sbin", command).exists()


def run(command: Sequence[str]) -> None:
    """Runs a command and shows its errors. The caller checks the result, not the exit code."""
    silent = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=silent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    sys.exit(main())
