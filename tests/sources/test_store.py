"""The sources of a store: on the command line, beside another process, and while a pipeline runs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import sparqlive
from sparqlive.cli import main as cli
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import Job
from sparqlive.pipeline.progress import Progress
from tests.sources.server import Page, Site
from tests.waiting import wait_until


def command(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert ended.value.code == code, err
    return out if code == 0 else err


def test_the_command_line(tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "s"
    site.pages["/"] = Page("<a:s> <a:p> 1, 2 .")
    add = ["source", "add", "--store", store, "web", site.address + "/", "--name", "page"]
    options = ["--option", "allow_private=true", "--option", "poll_interval_seconds=null"]
    command(capsys, *add, *options, "--option", 'headers={"Authorization": "Bearer secret"}')
    assert (
        command(capsys, "source", "list", "--store", store)
        == "page\tweb\t0 quads\tnot seen yet\tno version\n"
    )
    command(capsys, "query", "--store", store, "SELECT * { ?s ?p ?o }")
    assert not site.asked, "commands do not watch"
    with sparqlive.open(store) as session:
        session.sources["page"].refresh()
        assert site.asked[-1].headers["Authorization"] == "Bearer secret"
    line = command(capsys, "source", "list", "--store", store)
    assert re.match(r"page\tweb\t2 quads\tseen [0-9.]+ (ms|s) ago\t\{.*\"etag\"", line), line
    assert "secret" not in line
    assert "no source named 'pages'" in command(capsys, "source", "remove", "--store", store, "pages", code=1)
    assert command(capsys, "source", "remove", "--store", store, "page") == "Removed source page.\n"
    assert command(capsys, "source", "list", "--store", store) == ""
    with sparqlive.open(store) as session:
        assert len(session) == 0


def test_wrong_options_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add = ["source", "add", "--store", tmp_path / "s"]
    assert "NAME=VALUE" in command(capsys, *add, "web", "http://x/", "--option", "x", code=1)
    assert "there is no option 'x'" in command(capsys, *add, "web", "http://x/", "--option", "x=1", code=1)
    said = command(capsys, *add, "file", "x.ttl", "--option", "x=1", code=1)
    assert "Available options: when_missing, poll_interval_seconds." in said
    said = command(capsys, *add, "agent", "http://x/views/v", "--option", "x=1", code=1)
    assert "Available options: allow_private, headers, " in said
    said = command(capsys, *add, "endpoint", "http://x/", code=1)
    assert "Invalid options for a source of kind 'endpoint': missing 'query'." in said
    assert "Unknown kind of source" in command(capsys, *add, "pigeon", "http://x/", code=1)
    assert "not a Web address" in command(capsys, *add, "web", "x", code=1)
    assert not (tmp_path / "s").exists()


def test_another_process_sees_how_a_source_is(tmp_path: Path, site: Site) -> None:
    def noted() -> dict[str, Any]:
        with sparqlive.open(tmp_path / "s", read_only=True) as reader:
            return reader.sources["page"].status()

    site.pages["/"] = Page("<a:s> <a:p> 1, 2 .")
    options = {"poll_interval_seconds": None, "allow_private": True, "name": "page"}
    with sparqlive.open(tmp_path / "s") as session:
        source = session.source("web", site.address + "/", **options)
        source.refresh()
        seen = noted()
        assert (seen["quads"], seen["error"]) == (2, None)
        assert source.last_seen is not None
        assert source.last_seen - 30 < seen["last_seen"] <= source.last_seen
        site.pages["/"] = lambda handler: handler.send(500)
        with pytest.raises(sparqlive.Error, match="the server failed"):
            source.refresh()
        failed = noted()
        assert "the server failed" in failed["error"]
        assert (failed["quads"], failed["stale_since"]) == (2, source.last_seen)
        site.pages["/"] = Page("<a:s> <a:p> 3 .")
        source.refresh()
        assert (noted()["error"], noted()["quads"]) == (None, 1)
        with sparqlive.open(tmp_path / "s", read_only=True) as reader:
            with pytest.raises(sparqlive.Error, match="read"):
                reader.source("web", site.address + "/", name="other")
            assert list(reader.sources) == ["page"]


def test_state_survives(tmp_path: Path, site: Site) -> None:
    options = {"poll_interval_seconds": None, "allow_private": True, "name": "page"}
    with (
        sparqlive.open(tmp_path / "s") as session,
        pytest.raises(sparqlive.Error, match=r"does not exist"),
    ):
        session.source("web", site.address + "/", **options).refresh()
    with sparqlive.open(tmp_path / "s", watch=False) as session:
        source = session.sources["page"]
        assert "does not exist" in (source.error or "")
        with pytest.raises(sparqlive.Error, match="not watched"):
            source.refresh()
        source.remove()
    with sparqlive.open(tmp_path / "s") as session:
        assert not session.sources


def pipeline(tmp_path: Path) -> Any:
    (tmp_path / "all.rq").write_text("SELECT ?s ?o { ?s <a:p> ?o }")
    text = 'store = "s"\n[views.all]\nquery = "all.rq"\n'
    text += '[sinks.all]\nview = "all"\nkind = "json-lines"\npath = "out.jsonl"\n'
    (tmp_path / "pipeline.toml").write_text(text)
    return read_pipeline(tmp_path / "pipeline.toml")


def rows(tmp_path: Path) -> int:
    """How many rows the deltas in the sink come to."""
    total = 0
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        delta = json.loads(line)
        total = sum(change["weight"] for change in delta["changes"]) + (0 if delta["reset"] else total)
    return total


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("given", ["x.nt", "../here/x.nt", "./x.nt"])
def test_a_relative_path_means_the_same_wherever_the_store_is_opened(
    kind: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    begin, end = ("TX .\nA ", "TC .\n") if kind == "stream" else ("", "")
    (tmp_path / "here" / "x.nt").write_text(f"{begin}<a:s> <a:p> <a:1> .\n{end}")
    (tmp_path / "elsewhere" / "x.nt").write_text(f"{begin}<a:s> <a:p> <a:2> .\n{end}")
    monkeypatch.chdir(tmp_path / "here")
    with sparqlive.open(tmp_path / "s") as session:
        source = session.source(kind, given)
        source.refresh()
        assert source.name == given
        assert session.source(kind, given) is source
        monkeypatch.chdir(tmp_path / "elsewhere")
        source.refresh()
        with pytest.raises(sparqlive.Error, match="already exists with different settings"):
            session.source(kind, "x.nt", name=given)
    with sparqlive.open(tmp_path / "s") as session:
        session.sources[given].refresh()
        assert [quad.object.value for quad in session.quads()] == ["a:1"]  # type: ignore[union-attr]


def test_names_of_sources_have_a_bound() -> None:
    """One that is longer than an address may be could not be removed over HTTP."""
    address = "http://x/" + "a" * 60_000
    with sparqlive.open(watch=False) as session:
        for name in ("n" * 60_001, "é" * 10_001, None):
            with pytest.raises(sparqlive.Error, match="name has at most 60,000 bytes"):
                session.source("web", address, name=name)
        assert session.source("web", address, name="é" * 10_000).address == address


def test_a_relative_path_that_an_older_store_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is meant from the current folder, as it was, and the same source again is that one."""
    monkeypatch.chdir(tmp_path)
    Path("x.nt").write_text("<a:s> <a:p> <a:1> .\n")
    with monkeypatch.context() as patch:
        patch.setattr("sparqlive.session.whole_path", lambda kind, address: address)
        with sparqlive.open("s") as session:
            assert session.source("file", "x.nt").address == "x.nt"
    with sparqlive.open("s") as session:
        known = session.sources["x.nt"]
        assert session.source("file", "x.nt") is known
        known.refresh()
        assert len(session) == 1


def test_a_pipeline_watches_the_sources_of_its_store(
    tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    read = pipeline(tmp_path)
    page = site.pages["/"] = Page("<a:s> <a:p> 1 .")
    options = ["--option", "allow_private=true", "--option", "poll_interval_seconds=0.05"]
    add = ["source", "add", "--store", tmp_path / "s", "--default-graph", "union", "web", site.address + "/"]
    command(capsys, *add, *options)
    command(capsys, "run", tmp_path / "pipeline.toml", "--once")
    assert rows(tmp_path) == 1
    epochs: list[int] = []
    with Job(read, Progress(), lambda epoch: epochs.append(epoch.number)) as job:
        job.prepare()
        running = threading.Thread(target=job.follow, args=(False,))
        running.start()
        page.body = "<a:s> <a:p> 1, 2 ."
        wait_until(lambda: len(epochs) == 1 and rows(tmp_path) == 2)
        assert running.is_alive()
        job._stopping.set()
        running.join()


SOURCES = """
[sources.page]
kind = "web"
address = "{site}/"
allow_private = true
poll_interval_seconds = 0.05

[sources.file]
kind = "file"
path = "data/*.ttl"

[sources.feed]
kind = "stream"
path = "feed.rdfp"
quiet_seconds = 0.1

[sources.input]
kind = "stream"
address = "-"
"""


def test_a_pipeline_names_its_sources(tmp_path: Path, site: Site) -> None:
    """Once: each is looked at, standard input to its end. Following: each is watched."""
    pipeline(tmp_path)
    file = tmp_path / "pipeline.toml"
    file.write_text(file.read_text() + SOURCES.format(site=site.address))
    page = site.pages["/"] = Page("<a:s> <a:p> 1 .")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.ttl").write_text("<a:s> <a:p> 2 .")
    feed = tmp_path / "feed.rdfp"
    feed.write_text("TX .\nA <a:s> <a:p> <a:3> .\nTC .\n")
    command = [sys.executable, "-m", "sparqlive", "run", str(file)]
    text = "@\n+ <a:s> <a:p> <a:4> .\n@\n+ <a:s> <a:p> <a:5> .\n"
    result = subprocess.run(
        [*command, "--once"], input=text, capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, rows(tmp_path)) == (0, 5), result.stderr
    for name, epochs in (("page", 1), ("file", 1), ("feed", 1), ("input", 2)):
        assert len(re.findall(rf"^epoch \d+  {name}  ", result.stdout, re.MULTILINE)) == epochs
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        try:
            running.stdin.write("- <a:s> <a:p> <a:5> .\n")
            running.stdin.flush()
            wait_until(lambda: rows(tmp_path) == 4)
            page.body = "<a:s> <a:p> 1, 6 ."
            wait_until(lambda: rows(tmp_path) == 5)
            with feed.open("a") as opened:
                opened.write("TX .\nD <a:s> <a:p> <a:3> .\nTC .\n")
            wait_until(lambda: rows(tmp_path) == 4)
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.communicate(timeout=60)
            finally:
                running.kill()
        assert running.returncode == 0
    file.write_text(file.read_text().replace("quiet_seconds = 0.1", "quiet_seconds = 0.2"))
    result = subprocess.run([*command, "--once"], input="", capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "[sources.feed]: Source 'feed' already exists with different settings" in result.stderr


def test_a_pipeline_ends_with_its_streams(tmp_path: Path) -> None:
    pipeline(tmp_path)
    file = tmp_path / "pipeline.toml"
    file.write_text(file.read_text() + '[sources.input]\nkind = "stream"\naddress = "-"\n')
    command = [sys.executable, "-m", "sparqlive", "run", str(file)]
    text = "+ <a:s> <a:p> <a:4> .\n"
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, rows(tmp_path)) == (0, 1), result.stderr


def test_streams_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add = ["source", "add", "--store", tmp_path / "s"]
    command(
        capsys, *add, "stream", tmp_path / "feed.changes", "--name", "feed", "--option", "quiet_seconds=0.1"
    )
    command(capsys, *add, "mqtt", "mqtt://broker.example/a/+", "--name", "messages")
    listed = command(capsys, "source", "list", "--store", tmp_path / "s")
    assert re.findall(r"^(\w+)\t(\w+)\t", listed, re.MULTILINE) == [("feed", "stream"), ("messages", "mqtt")]
