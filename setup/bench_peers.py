"""Installs the engines that `make peers` compares with, in .bench-peers: Incremunica, Fuseki, RDF4J.

Run by make with the interpreter of .venv; pathway has an environment of its own. None of them is part of this
project. If one cannot be installed, this script says why, and the comparison runs without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PLACE = Path(__file__).parent.parent / ".bench-peers"
INCREMUNICA = PLACE / "incremunica"
VARIABLE = "SPARQLIVE_INCREMUNICA"
FUSEKI = PLACE / "jena-fuseki-server-5.6.0.jar"  # the last one for Java 17
RDF4J = PLACE / "rdf4j"
_RDF4J_VERSION = "5.2.2"
_JOINS = ("full-hash", "delete-hash", "computational-bind", "match-hash", "memory-bind", "nestedloop")


def main() -> None:
    PLACE.mkdir(exist_ok=True)
    for name, done, install in (
        ("Incremunica", INCREMUNICA / "installed", _incremunica),
        ("Apache Jena Fuseki", FUSEKI, _fuseki),
        ("RDF4J", RDF4J / "jars" / "installed", _rdf4j),
    ):
        if done.exists() or (install is _incremunica and VARIABLE in os.environ):
            continue
        print(f"For the comparison: installing {name}.", flush=True)
        try:
            install()
            done.touch()
        except (OSError, subprocess.CalledProcessError, RuntimeError) as error:
            print(f"{name} is not installed, and the comparison leaves it out: {error}")


def _incremunica() -> None:
    if shutil.which("npm") is None:
        raise RuntimeError("it needs npm, from Node.js 20")
    INCREMUNICA.mkdir(exist_ok=True)
    names = ["query-sparql-incremental", "streaming-store", "user-tools"]
    names += [f"actor-rdf-join-inner-{join}" for join in _JOINS]
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
    try:
        _run([*npm, "--prefix", str(INCREMUNICA), "n3", *(f"@incremunica/{name}" for name in names)])
    except subprocess.CalledProcessError:
        raise RuntimeError(
            f"npm does not have all of its packages. {VARIABLE} may name a folder in which you built it "
            f"from its repository"
        ) from None


def _fuseki() -> None:
    _needs_maven()
    artifact = f"org.apache.jena:jena-fuseki-server:{FUSEKI.stem.rpartition('-')[2]}"
    _run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={PLACE}"])


def _rdf4j() -> None:
    _needs_maven()
    RDF4J.mkdir(exist_ok=True)
    wanted = [
        ("org.eclipse.rdf4j", "rdf4j-repository-sail", _RDF4J_VERSION),
        ("org.eclipse.rdf4j", "rdf4j-sail-memory", _RDF4J_VERSION),
        ("org.eclipse.rdf4j", "rdf4j-rio-nquads", _RDF4J_VERSION),
        ("com.fasterxml.jackson.core", "jackson-databind", "2.18.2"),
    ]
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, name, version in wanted
    )
    (RDF4J / "pom.xml").write_text(
        f'<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>bench</groupId><artifactId>peers</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], RDF4J)


def _needs_maven() -> None:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise RuntimeError("it needs Java 17 or newer, and Maven (mvn)")


def _run(command: list[str], folder: Path | None = None) -> None:
    subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    sys.exit(main())
