"""Stores and commands: reading never creates, failing leaves nothing, and agents are read beside."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

import sparqlive
from sparqlive.cli import main as cli
from sparqlive.opening import locked, writing

QUERY = "SELECT ?s ?o { ?s <x:p> ?o }"
INSERT = "INSERT DATA { <x:a> <x:p> 1 }"

Command = Sequence[str]
Run = Callable[..., tuple[int, str, str]]

READS: dict[str, Command] = {
    "query": ["query", "ASK {}"],
    "query of a construct": ["query", "CONSTRUCT WHERE { ?s ?p ?o }"],
    "list of views": ["view"],
    "view": ["view", "v"],
    "drop": ["view", "v", "--drop"],
    "explain": ["explain", "v"],
    "check": ["check"],
    "repair": ["check", "--repair"],
    "compact": ["compact"],
    "watch": ["watch", "v"],
    "watch of changes": ["watch", "v", "day.changes"],
    "list of sources": ["source", "list"],
    "removal of a source": ["source", "remove", "s"],
    "list of tokens": ["token", "list"],
    "revocation": ["token", "revoke", "t"],
}
CREATES: dict[str, Command] = {
    "load": ["load", "data.nt"],
    "apply": ["apply", "day.changes"],
    "update": ["update", INSERT],
    "view": ["view", "v", QUERY],
    "source": ["source", "add", "file", "data.nt"],
}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on a store, in a folder with some files; gives its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.nt").write_text('<x:a> <x:p> "1" .\n')
    (tmp_path / "bad.nt").write_text('<x:a> <x:p> "1" .\n<x:a> nothing\n')
    (tmp_path / "day.changes").write_text('+ <x:b> <x:p> "2" .\n')
    (tmp_path / "bad.changes").write_text('+ <x:b> <x:p> "2" .\n@\n+ nothing\n')

    def ran(command: Command, store: str | Path = "shop.store") -> tuple[int, str, str]:
        below = 2 if command[0] in ("source", "token") else 1
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main([*command[:below], "--store", str(store), *command[below:]])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(ended.value.code or 0), out, err

    return ran


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    """All that lies below a folder, and when it was changed."""
    found = [folder, *folder.rglob("*")]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}


PLACES: dict[str, Callable[[Path], Path]] = {
    "nothing": lambda folder: folder / "typo",
    "nothing far below": lambda folder: folder / "a" / "b" / "typo",
    "an empty folder": lambda folder: folder / "empty",
    "a folder of others": lambda folder: folder / "others",
    "a file": lambda folder: folder / "data.nt",
    "below a file": lambda folder: folder / "data.nt" / "store",
    "a link to nothing": lambda folder: folder / "dangling",
    "a link in a circle": lambda folder: folder / "circle",
    "the root": lambda folder: Path("/"),
    "a place without files": lambda folder: Path("/proc/self/typo"),
    "a long name": lambda folder: folder / ("x" * 300),
}


@pytest.mark.parametrize("command", READS)
@pytest.mark.parametrize("place", PLACES)
def test_reading_creates_nothing(run: Run, tmp_path: Path, command: str, place: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "letter.txt").write_text("hello")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    store = PLACES[place](tmp_path)
    before, root = everything(tmp_path), set(os.listdir("/"))
    code, out, err = run(READS[command], store)
    assert (code, out) == (1, "")
    assert str(store) in err
    assert "There is no store at" in err
    assert "--store" in err
    assert len(err.splitlines()) == 1
    assert everything(tmp_path) == before
    assert set(os.listdir("/")) == root


def test_a_store_without_its_catalog_is_not_taken_for_none(run: Run, tmp_path: Path) -> None:
    sparqlive.open(tmp_path / "shop.store").close()
    (tmp_path / "shop.store" / "catalog.sqlite").unlink()
    before = everything(tmp_path)
    for command in READS.values():
        code, _, err = run(command)
        assert code == 1
        assert "catalog.sqlite" in err
    assert everything(tmp_path) == before


def test_python_reads_nothing_where_no_store_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    before = everything(tmp_path)
    for name in ("typo", "empty"):
        with pytest.raises(sparqlive.StoreFailed, match="There is no store"):
            sparqlive.open(tmp_path / name, read_only=True)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("command", CREATES)
@pytest.mark.parametrize("place", ["shop.store", "a/b/shop.store", "empty"])
def test_what_creates_a_store_says_so_once(run: Run, tmp_path: Path, command: str, place: str) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = run(CREATES[command], place)
    assert (code, err) == (0, f"Created store {place}.\n")
    assert (tmp_path / place / "catalog.sqlite").exists()
    code, _, err = run(CREATES[command], place)
    assert (code, err) == (0, "Nothing changed.\n" if command == "apply" else "")


@pytest.mark.parametrize("command", CREATES)
@pytest.mark.parametrize(
    "place", ["data.nt", "data.nt/store", "dangling", "circle", "/proc/self/typo", "x" * 300]
)
def test_where_no_store_can_be_is_said_in_a_sentence(
    run: Run, tmp_path: Path, command: str, place: str
) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    before = everything(tmp_path)
    code, _, err = run(CREATES[command], place)
    assert code == 1
    assert place in err
    assert "SPARQLIVE_DEBUG" not in err
    assert everything(tmp_path) == before


FAILURES: dict[str, Command] = {
    "a file that is not there": ["load", "nowhere.nt"],
    "a document that is none": ["load", "bad.nt"],
    "a graph that has no name": ["load", "data.nt", "--graph", "not an IRI"],
    "changes that are not there": ["apply", "nowhere.changes"],
    "an update that is none": ["update", "INSERT"],
    "an update that is refused": ["update", "INSERT DATA { GRAPH <view:v> { <x:a> <x:p> 1 } }"],
    "a query that is none": ["view", "v", "SELECT {"],
    "a query that cannot be kept": ["view", "v", "SELECT (RAND() AS ?r) {}"],
    "a query that is not there": ["view", "v", "nowhere.rq"],
    "a name that is none": ["view", "a/b", QUERY],
    "a refresh that is none": ["view", "v", QUERY, "--refresh", "nan"],
    "a kind of source that is none": ["source", "add", "pigeon", "x"],
    "an option that is none": ["source", "add", "file", "data.nt", "--option", "x=1"],
    "runs that have no place": ["load", "data.nt", "--runs", "gopher://x/y"],
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("place", ["shop.store", "a/b/shop.store", "empty", "others"])
def test_what_fails_leaves_no_new_store(run: Run, tmp_path: Path, failure: str, place: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "audit.jsonl").write_text("{}\n")
    before = everything(tmp_path).keys()
    code, _, err = run(FAILURES[failure], place)
    assert code == 1
    assert "Created" not in err
    assert everything(tmp_path).keys() == before


def test_a_new_store_that_somebody_else_has_by_now_stays(tmp_path: Path) -> None:
    path = tmp_path / "shop.store"

    def fail() -> None:
        with writing(path, lambda: sparqlive.open(path)) as session:
            session.close()
            with sparqlive.open(path) as other:
                other.apply(insert="<x:a> <x:p> <x:b> .")
            raise sparqlive.Error("mine")

    with pytest.raises(sparqlive.Error, match="mine"):
        fail()
    with pytest.raises(sparqlive.Error, match="mine"), writing(path, lambda: sparqlive.open(path)):
        raise sparqlive.Error("mine")
    with sparqlive.open(path) as session:
        assert len(session) == 1


def test_tokens_can_be_there_before_the_store(run: Run, tmp_path: Path) -> None:
    code, secret, err = run(["token", "create", "--can", "read"])
    assert (code, secret[:10]) == (0, "sparqlive_")
    assert "no store at shop.store yet. To create it, run: sparqlive serve --store shop.store" in err
    assert run(["token", "list"])[0] == 0
    assert run(["load", "bad.nt"])[0] == 1
    assert run(["query", "ASK {}"])[0] == 1
    assert {path.name for path in (tmp_path / "shop.store").iterdir()} == {
        *("audit.jsonl", "tokens.json", "tokens.lock")
    }
    assert run(["load", "data.nt"])[2] == "Created store shop.store.\n"


def test_what_was_committed_before_a_failure_stays(run: Run, tmp_path: Path) -> None:
    code, _, err = run(["apply", "day.changes", "nowhere.changes"])
    assert code == 1
    assert err.splitlines()[0] == "Created store shop.store."
    assert run(["query", "ASK { <x:b> <x:p> '2' }"])[1] == "true\n"


@pytest.mark.parametrize("files", [[], ["catalog.new"], None], ids=["nothing", "a part", "all of it"])
def test_an_interrupt_while_a_store_is_created_leaves_none(tmp_path: Path, files: list[str] | None) -> None:
    directory = tmp_path / "deep" / "shop.store"

    def interrupted() -> sparqlive.Session:
        if files is None:
            sparqlive.open(directory).close()
        for name in files or ():
            directory.mkdir(parents=True)
            (directory / name).touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), writing(directory, interrupted):
        pass
    assert os.listdir(tmp_path) == []


def test_a_directory_that_may_not_be_read_is_not_a_missing_store(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.store").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # tests may run as root
    for command in (["view"], ["load", "data.nt"]):
        code, _, err = run(command)
        assert code == 1
        assert err.startswith("sparqlive: You have no permission to read the directory shop.store.")


def test_a_failure_on_a_store_that_was_there_removes_nothing(run: Run, tmp_path: Path) -> None:
    sparqlive.open(tmp_path / "shop.store").close()
    for failure in FAILURES.values():
        assert run(failure)[0] == 1
        assert (tmp_path / "shop.store" / "catalog.sqlite").exists()
    code, out, said = run(["view"])
    assert (code, out, said.startswith("There are no views yet.")) == (0, "", True)


def test_a_pipeline_says_that_it_creates_a_store(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipeline.toml"
    for data, said in (("bad.nt", "Removed store"), ("data.nt", "Created store"), ("data.nt", None)):
        file.write_text(f'store = "shop.store"\n[load]\ndata = "{data}"\n')
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", str(file), "--once"])
        err = capsys.readouterr().err
        assert bool(ended.value.code) == (data == "bad.nt")
        assert (tmp_path / "shop.store").exists() == (data == "data.nt")
        assert said in err if said else not err


# Beside a running agent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """An agent on a store with a view, in a process of its own: its number and its address."""
    with sparqlive.open(tmp_path / "shop.store", default_graph="union") as session:
        session.apply(insert='<x:a> <x:p> "1" .')
        session.view("v", QUERY)
        session.view("later", QUERY, refresh="manual")
        session.apply(insert='<x:c> <x:p> "3" .')
    command = [sys.executable, "-m", "sparqlive", "serve", "--store", "shop.store", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"is served at (http://\S+)", process.stdout.readline())
        assert found is not None
        deadline = time.monotonic() + 120
        while httpx.get(f"{found[1]}/readyz", timeout=60).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process.pid, found[1]
    finally:
        process.kill()
        process.communicate()


def test_commands_read_beside_an_agent(run: Run, agent: tuple[int, str]) -> None:
    process, address = agent
    said = re.compile(
        rf"Reading shop\.store while another process has it open for writing "
        rf"\(process {process} on \S+, the agent at {re.escape(address)}\)\..*\n"
    )
    update = {"content-type": "application/sparql-update"}
    sent = httpx.post(
        f"{address}/sparql", content='INSERT DATA { <x:b> <x:p> "2" }', headers=update, timeout=60
    )
    assert sent.status_code < 300
    rows = '?s\t?o\n<x:a>\t"1"\n<x:b>\t"2"\n<x:c>\t"3"\n'
    later = '?s\t?o\n<x:a>\t"1"\n'
    for command, expected in (
        (["query", f"{QUERY} ORDER BY ?s"], rows),
        (["view", "later"], later),
        (["check"], "check: 2 views equal their recomputation\n"),
        (["query", "ASK { <x:b> <x:p> '2' }"], "true\n"),
    ):
        code, out, err = run(command)
        assert (code, out) == (0, expected)
        assert said.fullmatch(err), err
    code, out, err = run(["view", "v"])
    assert sorted(out.splitlines()) == sorted(rows.splitlines())
    assert said.fullmatch(err)
    assert "v\t3 rows\t" in run(["view"])[1]
    assert "x:p" in run(["explain", "v"])[1]
    watched = run(["watch", "v"])
    assert watched[0] == 0
    assert len(watched[1].splitlines()) == 4
    assert f"{address}/views/v" in watched[2]
    assert run(["source", "list"])[:2] == (0, "")
    assert run(["view", "nobody"])[0] == 1


WRITES: list[Command] = [
    *CREATES.values(),
    *(READS[name] for name in ("drop", "repair", "compact", "watch of changes", "removal of a source")),
]


def test_commands_that_write_name_the_agent(run: Run, agent: tuple[int, str], tmp_path: Path) -> None:
    process, address = agent
    for command in WRITES:
        code, _, err = run(command)
        assert code == 1
        assert f"open for writing in process {process} on " in err
        assert f"the agent at {address}." in err
        assert f"--agent {address}" in err
        assert f"kill {process}" in err
        assert "read_only" not in err
    (tmp_path / "pipeline.toml").write_text('store = "shop.store"\n')
    for command in (["run", "pipeline.toml"], ["serve", "--store", "shop.store", "--port", "0"]):
        ended = subprocess.run(
            [sys.executable, "-m", "sparqlive", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ended.returncode == 1
        assert f"the agent at {address}." in ended.stderr


def test_an_agent_that_was_killed_locks_nothing(run: Run, agent: tuple[int, str]) -> None:
    os.kill(agent[0], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while True:
        code, out, err = run(["query", "ASK { <x:a> <x:p> '1' }"])
        assert (code, out) == (0, "true\n")
        if not err:
            break
        assert time.monotonic() < deadline
    with sparqlive.open("shop.store"):
        code, _, err = run(["update", INSERT])
        assert code == 1
        assert f"process {os.getpid()} on" in err
        assert "agent" not in err


def test_a_session_that_writes_is_read_beside(run: Run, tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "shop.store") as session:
        session.apply(insert='<x:a> <x:p> "1" .')
        code, out, err = run(["query", "ASK { <x:a> <x:p> '1' }"])
        assert (code, out) == (0, "true\n")
        assert err.startswith(
            f"Reading shop.store while another process has it open for writing (process {os.getpid()} on "
        )
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ("another process", "when that process has ended"),
        ("process 7 on elsewhere", "stop it on elsewhere"),
        ("process 7 on elsewhere, the agent at http://x:1", "--agent http://x:1"),
        ("", "when that process has ended"),
    ],
)
def test_whoever_has_the_lock_is_named(holder: str, said: str) -> None:
    sentence = str(locked(sparqlive.StoreLocked("shop.store", holder)))
    assert said in sentence
    assert holder in sentence


def without_rights() -> list[str]:
    """How a command is run that may not write what its owner may not: root could."""
    if os.geteuid() != 0:
        return []
    dropped = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
    if shutil.which("setpriv") is None or subprocess.run([*dropped, "true"], check=False).returncode:
        pytest.skip("root may write everywhere here")
    return dropped


@pytest.mark.parametrize(("folders", "files"), [(0o500, 0o400), (0o500, 0o600)], ids=lambda mode: f"{mode:o}")
def test_a_store_that_may_only_be_read_is_read(tmp_path: Path, folders: int, files: int) -> None:
    with sparqlive.open(tmp_path / "s") as session:
        session.apply(insert='<x:a> <x:p> "1" .')
        session.compact()

    def ran(*command: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            [*without_rights(), sys.executable, "-m", "sparqlive", *command, "--store", str(tmp_path / "s")],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return ended.returncode, ended.stdout, ended.stderr

    for path in (*(tmp_path / "s").rglob("*"), tmp_path / "s"):
        path.chmod(folders if path.is_dir() else files)
    before = everything(tmp_path)
    try:
        said = f"Reading {tmp_path / 's'} without write permission.\n"
        assert ran("query", "ASK { <x:a> <x:p> '1' }") == (0, "true\n", said)
        code, _, err = ran("update", INSERT)
        assert code == 1
        assert "cannot be opened for writing" in err or "could not be opened" in err
        written = {str(tmp_path / "s" / "writer.lock")} if files & 0o200 else set()
        assert {path for path, found in everything(tmp_path).items() if found != before[path]} == written
    finally:
        for path in (tmp_path / "s", *(tmp_path / "s").rglob("*")):
            path.chmod(0o700)
