"""Each extra alone, from the wheel, in an empty environment, does what docs/install.md promises for it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from release.environment import FOUND, HAS_JAVA, ROOT, install

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = {"bench", "connectors", "dev", "docs"}
"""What people who work on sparqlive install; `make` uses each of them."""

SERVED = """
import contextlib, functools, http.server, pathlib, threading

pathlib.Path("shop.ttl").write_text("<http://x/tea> <http://x/price> 4 .")
quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *given: None})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/shop.ttl"
"""
WATCHED = """
import sparqlive
with sparqlive.open(default_graph="union") as session:
    view = session.view("prices", "SELECT * { ?s <http://x/price> ?o }")
    for kind, place, options in KINDS:
        source = session.source(kind, place, name=kind, **options)
        source.refresh()
        assert source.status()["error"] is None, source.status()
        assert len(view) == 1
        source.remove()
"""
DOES = {
    "agent": """
import socket, subprocess, sys, time, urllib.request
import sparqlive
def started(*command):
    free = socket.create_server(("127.0.0.1", 0)); port = free.getsockname()[1]; free.close()
    agent = subprocess.Popen(["sparqlive", *command, "--port", str(port)])
    for _ in range(600):
        try:
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").status == 200
            return agent, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.2)
agent, address = started("serve", "--store", "s")
assert b"<html" in urllib.request.urlopen(address).read()
subprocess.run(["sparqlive", "view", "all", "SELECT * { ?s ?p ?o }", "--agent", address], check=True)
subprocess.run(["sparqlive", "update", "INSERT DATA { <urn:a> <urn:b> 1 }", "--agent", address], check=True)
assert len(next(iter(sparqlive.follow(address + "/views/all"))).weights()) == 1
agent.terminate()
assert agent.wait(60) == 0
agent, _ = started("demo", "--no-browser")
agent.terminate()
assert agent.wait(60) == 0
""",
    "sources": SERVED
    + 'KINDS = [("file", "shop.ttl", {}), ("web", address, {"allow_private": True})]\n'
    + WATCHED
    + """
    session.source("mqtt", "mqtt://127.0.0.1:1/prices", allow_private=True)  # no broker: it tries again
assert callable(sparqlive.follow)
""",
    "solid": SERVED
    + 'KINDS = [("solid", address, {"allow_private": True})]\n'
    + WATCHED
    + """
with sparqlive.open(watch=False) as session:
    login = {"issuer": "https://idp.example/", "client_id": "a", "client_secret": "b"}
    session.source("solid", "https://pod.example/card", **login)
""",
    "spark": """
import pathlib
import sparqlive
pathlib.Path("a.nt").write_text("".join(f"<urn:s{i}> <urn:p> <urn:o{i % 7}> .\\n" for i in range(5000)))
with sparqlive.open("spark.store", spark="local[2]") as session:
    assert session.load("a.nt").inserted == 5000
    view = session.view("v", "SELECT ?s { ?s <urn:p> ?o FILTER(REGEX(STR(?o), 'o[1-3]')) }", strategy="spark")
    epoch = session.apply(insert="<urn:a> <urn:p> <urn:o1> .", strategy="spark")
    assert epoch.strategy == "spark"
    frame = view.to_spark()
    assert frame.count() == len(view) == len(view.to_pandas())
    spark = frame.sparkSession
    new = spark.createDataFrame([("<urn:n>", "<urn:p>", "<urn:o2>")], ["s", "p", "o"])
    assert session.load(new).inserted == 1
    assert view.changes_to_spark(session.epoch - 1).count() == 1
    assert session.quads_to_spark().count() == 5002
    assert spark.read.format("rdf").load(str(pathlib.Path("a.nt").absolute())).count() == 5000
    session.check()
pathlib.Path("all.rq").write_text("SELECT * { ?s <urn:p> ?o }")
pathlib.Path("pipeline.toml").write_text('''
store = "spark.store"
[views.all]
query = "all.rq"
[sinks.out]
view = "all"
kind = "delta-lake"
path = "out"
''')
from sparqlive.cli.main import main
main(["run", "pipeline.toml", "--once"])
""",
    "connect": """
import os, sys, warnings
os.environ["PYSPARK_PYTHON"] = sys.executable
from sparqlive.bulk.backends.spark.java import use_java
use_java()
import sparqlive
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
with sparqlive.open("connect.store", spark=spark) as session:
    new = spark.createDataFrame([("<urn:n>", "<urn:p>", "<urn:o2>")], ["s", "p", "o"])
    assert session.load(new).inserted == 1
    view = session.view("v", "SELECT * { ?s <urn:p> ?o }", strategy="spark")
    assert view.to_spark().count() == 1
spark.stop()
import pyspark.pipelines.cli
""",
    # Without a server: the client would try to reach one for minutes. `make test-connectors` has one.
    "hdfs": """
from sparqlive.store.place import _connected
files, _ = _connected("hdfs", "127.0.0.1:1")
assert "hdfs" in files.type_name, files.type_name
""",
    "kafka": """
import pathlib, subprocess
pathlib.Path("v.rq").write_text("SELECT * { ?s ?p ?o }")
pathlib.Path("pipeline.toml").write_text('''
store = "s"
[views.v]
query = "v.rq"
[sinks.out]
view = "v"
kind = "kafka"
path = "kafka://127.0.0.1:1/t?socket.connection.setup.timeout.ms=1000"
''')
ended = subprocess.run(["sparqlive", "run", "pipeline.toml", "--once"], capture_output=True, text=True)
assert ended.returncode == 1 and "pip install" not in ended.stderr, ended.stderr
assert "127.0.0.1:1" in ended.stderr, ended.stderr
""",
    "rdflib": """
import rdflib
import sparqlive
graph = rdflib.Graph(store="sparqlive")
graph.parse(data="<urn:a> <urn:b> 1 .", format="turtle")
assert len(list(graph.query("SELECT * { ?s <urn:b> ?o }"))) == 1
with sparqlive.open() as session:
    session.load(graph)
    assert len(session.query("CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }").to_rdflib()) == 1
    assert len(session.query("SELECT * { ?s ?p ?o }").to_rdflib()) == 1
""",
}


def test_every_extra_that_users_install_is_tried() -> None:
    assert PROJECT["optional-dependencies"].keys() - TOOLS == DOES.keys()
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `\[([a-z]+)\]`", page, re.MULTILINE)) - TOOLS == DOES.keys()


@pytest.mark.parametrize("extra", DOES)
def test_an_extra_works_alone(extra: str, wheel: Path, tmp_path: Path) -> None:
    if extra in ("spark", "connect") and not HAS_JAVA:
        pytest.skip("no Java")
    installed = install(FOUND[0], tmp_path, [f"{wheel}[{extra}]"])
    installed.run("python", "-m", "pip", "check", "--disable-pip-version-check")
    (installed.folder / "what.py").write_text(DOES[extra], encoding="utf-8")
    said = installed.run("python", "what.py")
    assert "Traceback" not in said
