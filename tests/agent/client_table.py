"""Runs the clients that people use against a started agent, and prints a table: what works with which.

`make test-clients` installs the clients that are not among the test dependencies into `.peers/clients`, and
runs this. Each line of the table is a client; a failure is listed below it, and makes this exit with 1.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import rdflib
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore
from SPARQLWrapper import CSV, GET, JSON, JSONLD, POST, POSTDIRECTLY, RDFXML, TSV, TURTLE, URLENCODED, XML
from SPARQLWrapper import SPARQLWrapper as Wrapper

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.agent.test_clients import ASK, CONSTRUCT, DATA, DESCRIBE, SELECT, understood

PLACE = Path(__file__).parents[2] / ".peers" / "clients"
NPM = {"@comunica/query-sparql": "4.5.0", "@zazuko/yasgui": "4.6.2"}
PYPI = ("sparqlx",)
_PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Started:
    """A started agent that has two triples, and a view of them named `all`."""

    address: str
    session: sparqlive.Session
    site: str
    """The origin of another site, whose files are in PLACE."""

    @property
    def endpoint(self) -> str:
        return f"{self.address}/sparql"

    def inserting(self, number: object) -> str:
        return f'INSERT DATA {{ <http://x/{number}> <http://x/new> "{number}" }}'

    def has(self, number: object) -> bool:
        return self.session.query(f"ASK {{ <http://x/{number}> <http://x/new> ?o }}").answer()


Check = Callable[[Started], None]


@dataclass
class Client:
    name: str
    checks: dict[str, Check] = field(default_factory=dict)


# In this process


def sparqlwrapper() -> Client:
    client = Client("SPARQLWrapper")
    ways = [(GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)]
    asked = [
        *product([SELECT], [JSON, XML, CSV, TSV]),
        *product([ASK], [JSON, XML]),
        *product([CONSTRUCT], [TURTLE, RDFXML, JSONLD]),
    ]
    for (query, format_), (method, way) in product(asked, ways):
        name = f"{query.split()[0]} as {format_} by {method} {way}"
        client.checks[name] = partial(_wrapped, query, format_, method, way)
    client.checks["DESCRIBE"] = partial(_wrapped, DESCRIBE, TURTLE, GET, URLENCODED)
    for way in (URLENCODED, POSTDIRECTLY):
        client.checks[f"update {way}"] = partial(_updated_by_wrapper, way)
    return client


def _wrapped(query: str, format_: str, method: str, way: str, agent: Started) -> None:
    client = Wrapper(agent.endpoint)
    client.setQuery(query)
    client.setMethod(method)
    client.setRequestMethod(way)
    client.setReturnFormat(format_)
    assert understood(client.query().convert())


def _updated_by_wrapper(way: str, agent: Started) -> None:
    client = Wrapper(agent.endpoint)
    client.setQuery(agent.inserting(f"wrapper-{way}"))
    client.setMethod(POST)
    client.setRequestMethod(way)
    client.query()
    assert agent.has(f"wrapper-{way}")


def rdflib_stores() -> Client:
    def read(form: str, method: Any, agent: Started) -> None:
        graph = rdflib.Graph(SPARQLStore(agent.endpoint, returnFormat=form, method=method))
        assert len(list(graph.query(SELECT))) == 2
        assert graph.query(ASK).askAnswer is True
        made = graph.query(CONSTRUCT).graph
        assert made is not None
        assert len(made) == 2

    def write(agent: Started) -> None:
        store = SPARQLUpdateStore(agent.endpoint, agent.endpoint, returnFormat="json")
        graph = rdflib.Graph(store, identifier=DATASET_DEFAULT_GRAPH_ID)
        new = (rdflib.URIRef("http://x/rdflib"), rdflib.URIRef("http://x/new"), rdflib.Literal("ü\n"))
        graph.add(new)
        assert new in graph
        graph.remove(new)
        assert not agent.has("rdflib")

    checks: dict[str, Check] = {
        f"SPARQLStore {form} by {method}": partial(read, form, method)
        for form, method in product(["json", "xml", "csv", "tsv"], ["GET", "POST", "POST_FORM"])
    }
    return Client("rdflib", {**checks, "SPARQLUpdateStore": write})


def pandas() -> Client:
    import pandas as pd

    def check(read: Callable[[str], Any], form: str, agent: Started) -> None:
        assert len(read(f"{agent.address}/views/all?format={form}")) == 2
        assert len(read(f"{agent.endpoint}?format={form}&query={SELECT.replace(' ', '+')}")) == 2

    ways: dict[str, tuple[Callable[[str], Any], str]] = {
        "read_csv": (pd.read_csv, "csv"),
        "read_csv of TSV": (partial(pd.read_csv, sep="\t"), "tsv"),
        "read_json of NDJSON": (partial(pd.read_json, lines=True), "ndjson"),
        "read_parquet": (pd.read_parquet, "parquet"),
    }
    return Client("pandas", {name: partial(check, *way) for name, way in ways.items()})


# Other programs


def curl() -> Client:
    def run(*arguments: str) -> str:
        done = subprocess.run(
            ["curl", "-sS", "--fail", *arguments], capture_output=True, text=True, timeout=_PATIENCE_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def query(agent: Started) -> None:
        for more in ([], ["-G"], ["--compressed"]):
            found = json.loads(run(*more, agent.endpoint, "--data-urlencode", f"query={SELECT}"))
            assert len(found["results"]["bindings"]) == 2

    def body(agent: Started) -> None:
        kind = "Content-Type: application/sparql-query"
        assert "http://x/a" in run(agent.endpoint, "-H", kind, "-H", "Accept: text/csv", "-d", SELECT)

    def update(agent: Started) -> None:
        run(agent.endpoint, "--data-urlencode", f"update={agent.inserting('curl')}")
        assert agent.has("curl")

    def graphs(agent: Started) -> None:
        graph = f"{agent.address}/graphs?graph=http://x/curl"
        turtle = "<http://x/put> <http://x/new> 1 ."
        run("-X", "PUT", graph, "-H", "Content-Type: text/turtle", "-d", turtle)
        assert "http://x/put" in run(graph)
        run("-X", "DELETE", graph)

    def events(agent: Started) -> None:
        address = f"{agent.address}/views/all/changes"
        with subprocess.Popen(["curl", "-sSN", address], stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert "snapshot" in "".join(running.stdout.readline() for _ in range(2))
            running.terminate()

    return Client(
        "curl", {"query": query, "body": body, "update": update, "graphs": graphs, "events": events}
    )


_COMUNICA = """
const { QueryEngine } = require("@comunica/query-sparql");
const [endpoint, update] = process.argv.slice(2);
const engine = new QueryEngine();
const context = { sources: [{ type: "sparql", value: endpoint }] };
(async () => {
  const bindings = await (await engine.queryBindings(%(select)s, context)).toArray();
  const quads = await (await engine.queryQuads(%(construct)s, context)).toArray();
  const answer = await engine.queryBoolean(%(ask)s, context);
  await engine.queryVoid(update, { ...context, destination: { type: "sparql", value: endpoint } });
  console.log(JSON.stringify([bindings.length, quads.length, answer]));
})();
"""


def comunica() -> Client:
    def all_forms(agent: Started) -> None:
        queries = {"select": SELECT, "construct": CONSTRUCT, "ask": ASK}
        script = PLACE / "comunica.cjs"
        script.write_text(_COMUNICA % {name: json.dumps(text) for name, text in queries.items()})
        done = subprocess.run(
            ["node", str(script), agent.endpoint, agent.inserting("comunica")],
            capture_output=True, text=True, timeout=_PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        assert json.loads(done.stdout) == [2, 2, True]
        assert agent.has("comunica")

    return Client("Comunica", {"SELECT, CONSTRUCT, ASK, update": all_forms})


_SPARQLX = """
import sys
sys.path.insert(0, sys.argv[1])
from sparqlx import SPARQLWrapper
endpoint, select, ask, construct, update = sys.argv[2:]
with SPARQLWrapper(sparql_endpoint=endpoint, update_endpoint=endpoint) as wrapper:
    assert len(wrapper.query(select, convert=True)) == 2
    for form in ("json", "xml", "csv", "tsv"):
        assert "http://x/a" in wrapper.query(select, response_format=form).text, form
    assert wrapper.query(ask, convert=True) is True
    assert len(wrapper.query(construct, convert=True)) == 2
    for form in ("turtle", "xml", "ntriples", "json-ld"):
        assert "http://x/a" in wrapper.query(construct, response_format=form).text, form
    wrapper.update(update)
"""


def sparqlx() -> Client:
    def all_forms(agent: Started) -> None:
        script = PLACE / "use_sparqlx.py"
        script.write_text(_SPARQLX)
        queries = [SELECT, ASK, CONSTRUCT, agent.inserting("sparqlx")]
        done = subprocess.run(
            [python(), str(script), str(PLACE / "python"), agent.endpoint, *queries],
            capture_output=True, text=True, timeout=_PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        assert agent.has("sparqlx")

    return Client("sparqlx", {"SELECT, ASK, CONSTRUCT, formats, update": all_forms})


def python() -> str:
    """An interpreter that sparqlx runs on: 3.12 or newer."""
    if sys.version_info >= (3, 12):
        return sys.executable
    names = ("python3.14", "python3.13", "python3.12")
    beside = Path(sys.base_prefix).parent  # where pyenv and uv keep other versions
    found = [path for name in names for path in (shutil.which(name), *map(str, beside.glob(f"*/bin/{name}")))]
    runs = (
        path
        for path in found
        if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode
    )
    return next(runs, "python3.12")


# In a browser, from another origin

_YASGUI = """<!doctype html><meta charset="utf-8">
<link rel="stylesheet" href="node_modules/@zazuko/yasgui/build/yasgui.min.css">
<script src="node_modules/@zazuko/yasgui/build/yasgui.min.js"></script>
<div id="yasgui"></div>"""
_EVENTS = """(address) => new Promise((done, failed) => {
  const source = new EventSource(address), seen = [];
  const take = (event) => {
    seen.push([event.type, JSON.parse(event.data).weights.length]);
    if (seen.length === 2) { source.close(); done(seen); }
  };
  source.addEventListener("snapshot", (event) => { take(event); fetch("/first"); });
  source.addEventListener("delta", take);
  setTimeout(() => failed(JSON.stringify(seen)), 120000);
})"""


def browser() -> Client:
    @contextmanager
    def page() -> Iterator[Any]:
        from tests.agent.page.browsing import OPTIONS, patient, playwright
        from tests.peers import chromium

        with playwright.sync_playwright() as running:
            started = running.chromium.launch(executable_path=chromium(), args=OPTIONS)
            with patient(started) as context:
                yield context.new_page()
            started.close()

    def yasgui(agent: Started) -> None:
        (PLACE / "index.html").write_text(_YASGUI)
        with page() as one:
            one.goto(f"{agent.site}/index.html")
            one.evaluate(
                """([endpoint, query]) => {
                  const yasgui = new Yasgui(document.getElementById("yasgui"),
                    { requestConfig: { endpoint }, copyEndpointOnNewTab: false });
                  const options = { ...Yasgui.Tab.getDefaults(), requestConfig: { endpoint } };
                  const tab = yasgui.addTab(true, options);
                  tab.setQuery(query);
                  tab.query();
                }""",
                [agent.endpoint, SELECT],
            )
            one.get_by_text("http://x/a").first.wait_for()

    def event_source(agent: Started) -> None:
        with page() as one:
            one.goto(f"{agent.site}/")
            added = '<http://x/c> <http://x/p> "3" .'
            one.on(
                "request", lambda asked: asked.url.endswith("/first") and agent.session.apply(insert=added)
            )
            seen = one.evaluate(_EVENTS, f"{agent.address}/views/all/changes")
            agent.session.apply(delete=added)  # not before: a reader gets the sum of what it has missed
            assert seen == [["snapshot", 2], ["delta", 1]], seen

    return Client("browser", {"YASGUI": yasgui, "EventSource": event_source})


CLIENTS = (sparqlwrapper, rdflib_stores, sparqlx, pandas, curl, comunica, browser)


@contextmanager
def started() -> Iterator[Started]:
    handler = partial(_Quiet, directory=str(PLACE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sparqlive.open() as session:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_address[1]}"
        session.apply(insert=DATA)
        session.view("all", SELECT)
        agent = Agent(session, Settings(origins=(site,)), Access(None, allowed=(site,)))
        with serving(agent) as address:
            yield Started(address, session, site)
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _installed(package: str) -> str | None:
    """The version of a package of npm."""
    description = PLACE / "node_modules" / package / "package.json"
    return json.loads(description.read_text())["version"] if description.exists() else None


def install() -> None:
    """Installs the clients that are not there yet."""
    PLACE.mkdir(parents=True, exist_ok=True)
    absent = [f"{package}@{version}" for package, version in NPM.items() if _installed(package) != version]
    if absent:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(PLACE)]
        subprocess.run([*command, *absent])
    if not all((PLACE / "python" / package).exists() for package in PYPI):
        command = [python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, "--target", str(PLACE / "python"), *PYPI])


def main() -> int:
    warnings.simplefilter("ignore")  # SPARQLWrapper warns of its own requests
    install()
    failures: list[tuple[str, str, str]] = []
    print("| client | works | seconds |\n|---|---|---|")
    with started() as agent:
        for client in (make() for make in CLIENTS):
            began, before = time.monotonic(), len(failures)
            for name, check in client.checks.items():
                try:
                    check(agent)
                except Exception:
                    failures.append((client.name, name, traceback.format_exc(limit=-3)))
            good = len(client.checks) - (len(failures) - before)
            spent = time.monotonic() - began
            print(f"| {client.name} | {good} of {len(client.checks)} | {spent:.1f} |", flush=True)
    for client_name, name, trace in failures:
        print(f"\n{client_name}: {name}\n{trace}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
