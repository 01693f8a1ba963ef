"""Fetches the W3C test suites of SPARQL 1.0 and 1.1 for `make conformance`: those in rdflib's source package.

Run by make with the interpreter of .venv. It does nothing where tests find the suites already: in
$SPARQLIVE_W3C, or in shared/w3c beside the project. If the package cannot be downloaded, this script says so,
and the tests that need the suites are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".venv" / "w3c"
PACKAGE = "rdflib==7.6.0"
FOLDERS = {"dawg-data-r2": "sparql10", "sparql11": "sparql11"}  # in the package: where tests look for it


def main() -> None:
    if os.environ.get("SPARQLIVE_W3C") or (ROOT.parent / "shared" / "w3c").is_dir() or PLACE.is_dir():
        return
    print(f"For the W3C tests: downloading the source package of {PACKAGE}.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        subprocess.run([*command, "--no-binary", "rdflib", "--dest", folder, PACKAGE], check=False)
        packages = list(Path(folder).glob("rdflib-*.tar.gz"))
        if packages:
            extract(packages[0])
        else:
            print(f"{PACKAGE} could not be downloaded: the W3C tests are skipped.")


def extract(package: Path) -> None:
    """Writes both suites to a folder beside PLACE first, so that PLACE is complete or absent."""
    beginning = PLACE.with_name("w3c-unfinished")
    with tarfile.open(package) as archive:
        for member in archive.getmembers():
            suite, slash, file = member.name.partition("/test/data/suites/w3c/")[2].partition("/")
            if slash and suite in FOLDERS:
                member.name = f"sparql/{FOLDERS[suite]}/{file}"
                archive.extract(member, beginning, filter="data")
    beginning.rename(PLACE)


if __name__ == "__main__":
    main()
