"""What commands do with `--agent`: the same as on a store, through the agent's HTTP interface."""

from __future__ import annotations

import json as json_text
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyoxigraph import NamedNode

import sparqlive
from sparqlive.cli.arguments import Format
from sparqlive.cli.output import chosen_format, print_json, say_hint, write_table
from sparqlive.cli.sessions import change_files
from sparqlive.opening import say
from sparqlive.pipeline.progress import Progress, duration
from sparqlive.rdf.changes import opened, plain_name
from sparqlive.rdf.read import named_graph, read_paths
from sparqlive.sparql.syntax import parse_query

if TYPE_CHECKING:
    from sparqlive.web.agent_client import AgentClient

_QUERY, _UPDATE = "application/sparql-query", "application/sparql-update"
_BODY = re.compile(r"\bbody\.(?:changes|rdfp)\b")


def connect(agent: str, token: str | None) -> AgentClient:
    """Returns a connection to an agent, which needs an HTTP client."""
    try:
        from sparqlive.web.agent_client import AgentClient
    except ModuleNotFoundError as error:
        raise sparqlive.Error(
            f"--agent needs {error.name}, which is not installed. Run: pip install 'sparqlive[sources]'"
        ) from error
    return AgentClient(agent, token)


def view_address(agent: str, name: str) -> str:
    """The address of a view at an agent."""
    return agent.rstrip("/") + _path("views", name)


def _path(kind: str, name: str, *more: str) -> str:
    return "/".join(("", kind, quote(name, safe=""), *more))


def _print_epoch(report: Mapping[str, Any], source: str, seconds: float, as_json: bool) -> None:
    if as_json:
        print_json({**report, "source": source, "seconds": round(seconds, 6)})
        return
    counts = f"+{report['inserted']:,} −{report['deleted']:,}"
    print(f"epoch {report['epoch']}  {source}  {counts}  {duration(seconds)}", flush=True)


def load(agent: str, token: str | None, paths: Sequence[str], graph: str | None, as_json: bool) -> None:
    """Parses the documents here, and sends their quads, as they are read, as one epoch."""
    start = time.perf_counter()
    quads = _lines(paths, named_graph(graph))
    with connect(agent, token) as client, Progress.on_standard_error().waiting("loading"):
        report = client.upload(quads)
    _print_epoch(report, "load", time.perf_counter() - start, as_json)


def _lines(paths: Sequence[str], graph: NamedNode | None) -> Iterator[bytes]:
    """N-Quads in pieces of a thousand lines."""
    quads = read_paths(paths, graph)
    while piece := list(islice(quads, 1000)):
        yield "".join(f"{quad} .\n" for quad in piece).encode()


def update(agent: str, token: str | None, request: str, source: str, as_json: bool) -> None:
    with connect(agent, token) as client, Progress.on_standard_error().waiting("updating"):
        start = time.perf_counter()
        report = client.json("POST", "/sparql", request.encode(), content_type=_UPDATE)
    _print_epoch(report, source, time.perf_counter() - start, as_json)


def apply(agent: str, token: str | None, files: Iterable[str], as_json: bool) -> None:
    count = 0
    with connect(agent, token) as client:
        for file in change_files(files):
            start = time.perf_counter()
            body, kind = _change_body(file)
            try:
                report = client.json("POST", "/changes", body, content_type=kind)
            except sparqlive.Error as error:  # the agent knows the changes as the body of a request
                raise type(error)(file.join(_BODY.split(str(error), maxsplit=1))) from error
            changed = [epoch for epoch in report["epochs"] if epoch["inserted"] or epoch["deleted"]]
            for epoch in changed:
                _print_epoch(epoch, file, (time.perf_counter() - start) / len(changed), as_json)
            count += len(changed)
    if not count:
        say("Nothing changed.")


def _change_body(file: str) -> tuple[bytes, str]:
    """The changes of a file, and their media type."""
    if file == "-":
        return sys.stdin.buffer.read(), "text/plain"
    with opened(Path(file)) as stream:
        return stream.read(), "application/rdf-patch" if plain_name(file).endswith(".rdfp") else "text/plain"


def query(agent: str, token: str | None, text: str, output: Format | None) -> None:
    with connect(agent, token) as client:
        _write(client, "POST", "/sparql", output, parse_query(text).form, text.encode())


def show_view(agent: str, token: str | None, name: str, output: Format | None) -> None:
    with connect(agent, token) as client:
        form = client.json("GET", _path("views", name, "statistics"))["form"]
        _write(client, "GET", _path("views", name), output, form)


def _write(
    client: AgentClient, method: str, path: str, output: Format | None, form: str, body: bytes | None = None
) -> None:
    """Prints a result in pieces, as it arrives; a table needs it whole."""
    chosen = chosen_format(form, output)
    content_type = None if body is None else _QUERY
    if chosen is Format.table:
        with Progress.on_standard_error().waiting("waiting for the agent"):
            found = client.json(method, path, body, content_type=content_type, format="json")
        _write_table(found)
        say_hint(client.hint)
        return
    for piece in client.pieces(method, path, body, content_type=content_type, format=chosen.value):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    say_hint(client.hint)


def _write_table(found: Mapping[str, Any]) -> None:
    if "boolean" in found:
        print("true" if found["boolean"] else "false")
        return
    from sparqlive.web.event_stream import term_of_json

    names: Sequence[str] = found["head"]["vars"]
    bindings = found["results"]["bindings"]
    write_table(names, [[term_of_json(one[n]) if n in one else None for n in names] for one in bindings])


def views(agent: str, token: str | None) -> list[dict[str, Any]]:
    with connect(agent, token) as client:
        found: list[dict[str, Any]] = client.json("GET", "/views")["views"]
        return found


def register(
    agent: str, token: str | None, name: str, text: str, replace: bool, refresh: str
) -> dict[str, Any]:
    with connect(agent, token) as client:
        found: dict[str, Any] = client.json(
            "PUT",
            _path("views", name),
            text.encode(),
            content_type=_QUERY,
            replace="true" if replace else "false",
            refresh=refresh,
        )
        say_hint(client.hint)
        return found


def drop(agent: str, token: str | None, name: str) -> None:
    with connect(agent, token) as client:
        client.json("DELETE", _path("views", name))


def explain(agent: str, token: str | None, name: str, as_json: bool) -> str:
    with connect(agent, token) as client:
        if as_json:
            return json_text.dumps(client.json("GET", _path("views", name, "plan")), ensure_ascii=False)
        return b"".join(client.pieces("GET", _path("views", name, "explain"))).decode()


def compact(agent: str, token: str | None) -> int:
    with connect(agent, token) as client:
        epoch: int = client.json("POST", "/compaction")["epoch"]
        return epoch


def sources(agent: str, token: str | None) -> list[dict[str, Any]]:
    with connect(agent, token) as client:
        found: list[dict[str, Any]] = client.json("GET", "/sources")["sources"]
        return found


def add_source(agent: str, token: str | None, source: Mapping[str, Any]) -> dict[str, Any]:
    body = json_text.dumps(source).encode()
    with connect(agent, token) as client:
        found: dict[str, Any] = client.json("POST", "/sources", body, content_type="application/json")
        return found


def remove_source(agent: str, token: str | None, name: str) -> None:
    with connect(agent, token) as client:
        client.json("DELETE", _path("sources", name))
