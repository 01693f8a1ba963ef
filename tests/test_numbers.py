"""Numbers from outside: what is no number, or none that can be meant, is refused before anything happens."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import sparqlive
from sparqlive.agent.serve import Listening
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Limits, Tokens
from sparqlive.cli import main as cli
from sparqlive.numbers import MOST, MOST_SECONDS, number, seconds, short_repr, whole
from sparqlive.pipeline.file import read_pipeline
from sparqlive.sources.watcher import KINDS, watcher

QUERY = "SELECT ?s { ?s <x:p> ?o }"
HUGE = 10**30
BAD: list[Any] = [
    math.inf,
    -math.inf,
    math.nan,
    -1,
    -0.5,
    HUGE,
    -HUGE,
    1e300,
    10**5000,
    True,
    False,
    "7",
    [],
    {},
]
BAD_TEXTS = [
    "inf",
    "-inf",
    "Infinity",
    "nan",
    "NaN",
    "-1",
    "-0.5",
    "1e300",
    "1e999",
    "1" + "0" * 30,
    "1" * 5000,
]


# The rule


@pytest.mark.parametrize("bad", [*BAD, None, 1 + 0j, b"1"], ids=lambda bad: short_repr(bad))
def test_what_is_no_number_is_refused(bad: Any) -> None:
    for check in (seconds, whole, lambda name, value: number(name, value, 0.5)):
        with pytest.raises(sparqlive.Error) as caught:
            check("timeout", bad)
        assert str(caught.value).startswith("timeout must be a ")
        assert len(str(caught.value)) < 200


def test_bounds_are_inside() -> None:
    assert seconds("x", MOST_SECONDS) == MOST_SECONDS
    assert seconds("x", 0, least=0) == 0
    assert seconds("x", 1e-300) == 1e-300
    assert whole("x", 0) == 0
    assert whole("x", MOST) == MOST
    assert number("x", 0.5, 0.5) == 0.5
    for check, value in ((seconds, 0), (seconds, MOST_SECONDS + 1), (whole, MOST + 1), (whole, 1.0)):
        with pytest.raises(sparqlive.Error):
            check("x", value)


# The command line


def numeric_flags(app: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each command with each of its flags that takes a number."""
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from numeric_flags(group.typer_instance, (*path, str(group.name)))
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        for parameter in numeric_keywords(command.callback):
            yield (*path, name), "--" + parameter.replace("_", "-")


def is_numeric(annotation: Any) -> bool:
    return bool({int, float} & {annotation, *typing.get_args(annotation)})


def numeric_keywords(function: Callable[..., Any]) -> list[str]:
    hints = typing.get_type_hints(function)
    return [name for name in inspect.signature(function).parameters if is_numeric(hints.get(name))]


FLAGS = list(numeric_flags(cli.app))
ARGUMENTS = {"token": ["--can", "read"], "watch": ["v"]}


def test_all_flags_are_found() -> None:
    flags = {flag for _, flag in FLAGS}
    assert {"--port", "--query-seconds", "--query-rows", "--requests-per-second", "--since"} <= flags
    assert len(FLAGS) >= 13


@pytest.mark.parametrize("text", BAD_TEXTS, ids=lambda text: text[:12])
@pytest.mark.parametrize(("command", "flag"), FLAGS, ids=lambda part: str(part))
def test_flags_refuse_what_is_no_number(
    command: tuple[str, ...], flag: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "s")]
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, *store, *ARGUMENTS.get(command[0], []), f"{flag}={text}"])
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert flag in err
    assert "Traceback" not in err
    assert len(err) < 7_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("port", ["65536", "99999", "-1", "4294967376"])
def test_there_are_no_other_ports(port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", "--store", str(tmp_path / "s"), f"--port={port}"])
    assert ended.value.code == 2
    assert "from 0 to 65,535" in capsys.readouterr().err
    with pytest.raises(sparqlive.Error, match="from 0 to 65,535"):
        Listening(port=int(port))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", ["--query-rows", "--body-bytes", "--history-bytes", "--query-seconds"])
def test_a_limit_of_nothing_is_refused(flag: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", "--store", str(tmp_path / "s"), f"{flag}=0"])
    assert ended.value.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [*BAD_TEXTS, "0", "soon", ""], ids=lambda text: text[:12])
def test_the_flag_refresh(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["view", "--store", str(tmp_path / "s"), "v", QUERY, f"--refresh={text}"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("sparqlive: --refresh must be ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "-1", "1e999", "1" * 5000, "true", "[" * 100_000],
    ids=lambda t: t[:12],
)
def test_options_of_sources_on_the_command_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("timeout_seconds", "max_bytes", "max_redirects", "poll_interval_seconds"):
        with pytest.raises(SystemExit) as ended:
            cli.main(
                [
                    "source",
                    "add",
                    "--store",
                    str(tmp_path / "s"),
                    "web",
                    "http://x/",
                    f"--option={name}={text}",
                ]
            )
        assert ended.value.code == 1
        assert capsys.readouterr().err.startswith(f"sparqlive: {name} must be a ")
    assert list(tmp_path.iterdir()) == []


# Python


@pytest.mark.parametrize("bad", [*BAD, 1.5], ids=short_repr)
def test_opening_a_session(bad: Any, tmp_path: Path) -> None:
    names = ["memory", "sync_milliseconds", "history_epochs", "history_seconds"]
    found = numeric_keywords(sparqlive.Session.__init__)
    assert found == names
    for name in names:
        if (name, bad) in (("history_seconds", 1.5), ("memory", "7")):
            continue
        with pytest.raises(sparqlive.Error, match=f"^{name} must be a "):
            sparqlive.open(tmp_path / "s", **{name: bad})
        with pytest.raises(sparqlive.Error, match=f"^{name} must be a "):
            sparqlive.open(**{name: bad})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "bad", ["", "4 XB", "-1GB", "GB", f"{10**400}GB", "1e9GB", "4iB", "\u0664GB"], ids=short_repr
)
def test_sizes_of_memory(bad: str) -> None:
    with pytest.raises(sparqlive.Error, match=r"^memory must be a number of bytes or a size"):
        sparqlive.open(memory=bad)


@pytest.mark.parametrize("bad", BAD, ids=short_repr)
def test_arguments_of_a_session(bad: Any) -> None:
    with sparqlive.open() as session:
        view = session.view("v", QUERY)
        session.apply(insert="<x:a> <x:p> <x:b> .")
        calls: dict[str, Callable[[], object]] = {
            "timeout_seconds of a query": lambda: session.query(QUERY, timeout_seconds=bad),
            "row_limit": lambda: session.query(QUERY, row_limit=bad),
            "timeout_seconds of an update": lambda: session.update("CLEAR ALL", timeout_seconds=bad),
            "refresh": lambda: session.view("w", QUERY, refresh=bad),
            "a batch that is applied": lambda: session.apply(delete="<x:a> <x:p> <x:b> .", batch=("s", bad)),
            "a batch that is loaded": lambda: session.load([], batch=("s", bad)),
            "at": lambda: view.weights(at=bad),
            "epoch": lambda: view.at(bad),
            "count": lambda: view.first(bad),
        }
        for name, call in calls.items():
            with pytest.raises(sparqlive.Error) as caught:
                call()
            assert " must be " in str(caught.value), name
        if bad != -1:  # before all epochs
            with pytest.raises(sparqlive.Error, match=r"^since must be a "):
                next(view.changes(since=bad))
        assert list(session.views) == ["v"]
        assert (session.epoch, len(session)) == (1, 1)


@pytest.mark.parametrize("bad", BAD, ids=short_repr)
def test_arguments_of_sources_and_followers(bad: Any, tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text("<x:a> <x:p> <x:b> .")
    with sparqlive.open(default_graph="union") as session:
        view = session.view("v", QUERY, follow=True)
        source = session.source("file", str(tmp_path / "x.ttl"))
        assert view.follow is not None
        for call in (source.refresh, view.follow.wait, view.follow.refresh):
            with pytest.raises(sparqlive.Error, match=r"^timeout_seconds must be a "):
                call(timeout_seconds=bad)
        with pytest.raises(sparqlive.Error, match=r"^max_bytes must be a "):
            session.sources_from("v", "s", max_bytes=bad)
        with pytest.raises(sparqlive.Error, match=r"^since must be a "):
            sparqlive.follow("http://127.0.0.1:1/views/v", since=bad)


def test_nothing_lasts_no_time() -> None:
    with sparqlive.open() as session:
        for call in (
            lambda: session.query(QUERY, timeout_seconds=0),
            lambda: session.update("CLEAR ALL", timeout_seconds=0),
            lambda: session.view("v", QUERY, refresh=0),
        ):
            with pytest.raises(sparqlive.Error, match="above 0"):
                call()


def test_a_size_of_nothing_is_refused(tmp_path: Path) -> None:
    with sparqlive.open() as session:
        session.view("v", QUERY)
        calls: list[Callable[[], object]] = [
            lambda: session.source("web", "http://127.0.0.1:1/", max_bytes=0),
            lambda: session.source("stream", str(tmp_path / "s"), max_bytes=0),
            lambda: session.source("mqtt", "mqtt://127.0.0.1:1/topic", max_bytes=0),
            lambda: session.sources_from("v", "s", max_bytes=0),
            lambda: sparqlive.Follow(bytes=0),
            lambda: sparqlive.Follow(document_bytes=0),
        ]
        for call in calls:
            with pytest.raises(sparqlive.Error, match="bytes must be a whole number from 1 to "):
                call()
        assert dict(session.sources) == {}


@pytest.mark.parametrize("batch", ["s", ("s",), (1, 2), ("s", 1, 2), 7], ids=short_repr)
def test_batches_are_pairs(batch: Any) -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="batch must be the name"):
        session.apply(insert="<x:a> <x:p> <x:b> .", batch=batch)


@pytest.mark.parametrize("made", [sparqlive.Follow, Settings, Limits], ids=lambda made: made.__name__)
@pytest.mark.parametrize("bad", BAD, ids=short_repr)
def test_settings(made: Any, bad: Any) -> None:
    hints = typing.get_type_hints(made)
    names = [field.name for field in fields(made) if is_numeric(hints[field.name])]
    assert len(names) >= 4
    for name in names:
        with pytest.raises(sparqlive.Error, match=f"^{name} must be a "):
            made(**{name: bad})


REACH = ("max_bytes", "timeout_seconds", "max_redirects")
OPTIONS = {
    "agent": REACH,
    "endpoint": ("poll_interval_seconds", *REACH),
    "file": (),
    "ldes": ("poll_interval_seconds", *REACH),
    "mqtt": ("session_seconds", "max_bytes", "timeout_seconds"),
    "solid": ("poll_interval_seconds", *REACH),
    "stream": ("quiet_seconds", "poll_interval_seconds", *REACH),
    "web": ("poll_interval_seconds", *REACH),
}


@pytest.mark.parametrize("bad", BAD, ids=short_repr)
@pytest.mark.parametrize("kind", KINDS)
def test_options_of_sources(kind: str, bad: Any, tmp_path: Path) -> None:
    more = {"query": "CONSTRUCT WHERE { ?s ?p ?o }"} if kind == "endpoint" else {}
    address = KINDS[kind].example
    watcher(kind, address, more)
    with sparqlive.open(tmp_path / "s") as session:
        for name in OPTIONS[kind]:
            with pytest.raises(sparqlive.Error, match=f"^{name} must be a "):
                session.source(kind, address, **{**more, name: bad})
        assert not session.sources


def test_options_of_streams_from_files_and_standard_input(tmp_path: Path) -> None:
    for address in (str(tmp_path / "x.changes"), "-"):
        for name in ("quiet_seconds", "max_bytes"):
            for bad in BAD:
                with pytest.raises(sparqlive.Error, match=f"^{name} must be a "):
                    watcher("stream", address, {name: bad})


# pipeline.toml

PIPELINE = """
store = "s"
[views.v]
query = "v.rq"
refresh = {refresh}
[sources.changes]
kind = "changes"
path = "."
poll_interval_seconds = {interval}
[sources.page]
kind = "web"
address = "http://x/"
timeout_seconds = {timeout}
"""
GOOD = {"refresh": "5", "interval": "1", "timeout": "1.5"}
NAMES = {"refresh": "refresh", "interval": "poll_interval_seconds", "timeout": "timeout_seconds"}


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize(
    "bad", ["inf", "-inf", "nan", "-1", "0", "1e300", "true", "1" + "0" * 400, "'7'", "[]"]
)
def test_numbers_of_a_pipeline(
    key: str, bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v.rq").write_text(QUERY)
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE.format(**GOOD))
    read_pipeline(file)
    file.write_text(PIPELINE.format(**{**GOOD, key: bad}))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", str(file), "--once"])
    assert ended.value.code == 1
    err = capsys.readouterr().err
    assert re.search(rf": {NAMES[key]} must be ", err)
    assert str(file) in err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("text", ["x = " + "1" * 5000, "x = " + "[" * 100_000], ids=["digits", "nesting"])
def test_a_pipeline_that_python_cannot_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(text)
    with pytest.raises(sparqlive.Error, match="not valid TOML"):
        read_pipeline(tmp_path / "pipeline.toml")


# What older stores have


def test_numbers_that_older_stores_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were taken once, so the store still opens."""
    with monkeypatch.context() as older, sparqlive.open(tmp_path / "s", watch=False) as session:
        older.setattr("sparqlive.engine.register.check_refresh", lambda refresh: None)
        session.view("later", QUERY, refresh=math.inf)
        older.setattr("sparqlive.session.watcher", lambda *given: None)
        session.source("web", "http://127.0.0.1:1/", name="page", timeout_seconds=math.inf)
    with sparqlive.open(tmp_path / "s") as session:
        assert session.views["later"].refresh_setting == MOST_SECONDS
        session.apply(insert="<x:a> <x:p> <x:b> .")
        with pytest.raises(sparqlive.Error, match="timeout_seconds must be a number"):
            session.sources["page"].refresh()
        session.sources["page"].remove()
    Tokens(tmp_path / "s").create(["read"], "ann", Limits(requests_per_second=5))
    file = tmp_path / "s" / "tokens.json"
    noted = file.read_text()
    file.write_text(noted.replace('"requests_per_second": 5', '"requests_per_second": Infinity'))
    assert file.read_text() != noted
    assert Tokens(tmp_path / "s").all()["ann"].limits.requests_per_second == MOST
