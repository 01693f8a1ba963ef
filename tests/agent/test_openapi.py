"""The description of the interface is true: schemathesis asks for everything that it says, and more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.app import OPERATIONS
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.conftest import ROOT, times

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
# Streams do not end by themselves; they have tests of their own.
ENDLESS = {operation.path for operation in OPERATIONS if "text/event-stream" in operation.gives.get(200, ())}


def test_the_description_has_every_operation(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert described["openapi"] == "3.1.0"
    assert sum(len(methods) for methods in described["paths"].values()) == len(OPERATIONS)
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"].endswith("."), (path, method)
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_schemathesis_finds_nothing(session: sparqlive.Session, tmp_path: Path) -> None:
    session.update("INSERT DATA { <http://example.org/n0> <http://example.org/p> 1 }")
    session.view("v", "SELECT ?s ?o { ?s <http://example.org/p> ?o }")
    session.view("ask", "ASK { ?s ?p ?o }")
    session.view("graph", "CONSTRUCT { ?o ?p ?s } { ?s ?p ?o FILTER(isIRI(?o)) }")
    agent = Agent(session, Settings(query_seconds=5, body_bytes=100_000))
    with serving(agent) as address:
        command = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{address}/openapi.json"]
        options = [
            "--checks",
            ",".join(CHECKS),
            "--phases",
            "coverage,fuzzing",
            "--max-examples",
            str(times(2, 6)),
        ]
        options += ["--generation-deterministic", "--suppress-health-check", "all", "--request-timeout", "20"]
        options += ["--no-shrink", "--warnings", "off"]
        for path in sorted(ENDLESS):
            options += ["--exclude-path", path]
        paths = os.pathsep.join([str(ROOT), *sys.path])
        environment = {"SCHEMATHESIS_HOOKS": "tests.agent.schemathesis_hooks", "PYTHONPATH": paths}
        ended = subprocess.run(
            [*command, *options],
            env={**os.environ, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
        assert httpx.get(f"{address}/readyz", timeout=120).status_code == 200
    session.check()
