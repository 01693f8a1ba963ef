"""Commands with --agent: on a real agent they print what they print on a store, and say what went wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparqlive.cli import main as cli
from tests.cli.test_cli import CHANGES, DATA, QUERY


@dataclass
class Remote:
    """An agent in a process of its own, and the command line on it."""

    address: str
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: int = 0) -> str:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main([*arguments, "--agent", self.address])
        out, err = self.capsys.readouterr()
        assert ended.value.code == code, err
        return err if code else out


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = tmp_path_factory.mktemp("remote") / "shop.store"
    command = [sys.executable, "-m", "sparqlive", "serve", "--store", str(store), "--port", "0"]
    command.append("--allow-private")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as agent:
        assert agent.stdout is not None
        yield agent.stdout.readline().split()[-1]
        agent.terminate()


@pytest.fixture
def remote(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Remote:
    (tmp_path / "data.nt").write_text(DATA, encoding="utf-8")
    (tmp_path / "graphs.trig").write_text("<urn:g> { <urn:a> <urn:p> 1 }", encoding="utf-8")
    (tmp_path / "day.changes").write_text(CHANGES, encoding="utf-8")
    (tmp_path / "prices.rq").write_text(QUERY, encoding="utf-8")
    (tmp_path / "clear.ru").write_text("CLEAR ALL", encoding="utf-8")
    return Remote(address, tmp_path, capsys)


def test_the_life_of_a_view(remote: Remote) -> None:
    remote("update", "CLEAR ALL")
    loaded = remote("load", str(remote.folder / "data.nt"), str(remote.folder / "graphs.trig"), "--json")
    assert json.loads(loaded)["inserted"] == 4
    assert remote("query", "ASK { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }", "--format", "csv") == "true\r\n"
    assert "prices" in remote("view", "prices", str(remote.folder / "prices.rq"))
    assert [json.loads(line)["name"] for line in remote("view", "--json").splitlines()] == ["prices"]
    assert "http://x/tea,4" in remote("view", "prices", "--format", "csv")
    assert "?item" in remote("view", "prices", "--format", "table")
    applied = remote("apply", str(remote.folder / "day.changes"), "--json")
    assert [json.loads(line)["inserted"] for line in applied.splitlines()] == [1, 1]
    assert "http://x/juice,3" in remote("view", "prices", "--format", "csv")
    assert "Δ" in remote("explain", "prices")
    assert json.loads(remote("explain", "prices", "--json"))["epoch"] > 0
    assert json.loads(remote("view", "prices", "--drop", "--json")) == {"dropped": "prices"}
    assert remote("view") == ""
    remote("update", str(remote.folder / "clear.ru"))
    assert json.loads(remote("query", "SELECT * { ?s ?p ?o }", "--json"))["results"]["bindings"] == []


def test_results_are_those_of_a_store(remote: Remote, tmp_path: Path) -> None:
    remote("update", "CLEAR ALL")
    remote("load", str(remote.folder / "data.nt"))
    store = str(tmp_path / "own.store")
    with pytest.raises(SystemExit):
        cli.main(["load", str(remote.folder / "data.nt"), "--store", store])
    for output in ("csv", "tsv", "xml", "table"):
        remote.capsys.readouterr()
        query = ["query", f"{QUERY} ORDER BY ?item", "--format", output]
        with pytest.raises(SystemExit):
            cli.main([*query, "--store", store])
        of_store = remote.capsys.readouterr().out
        assert of_store
        assert remote(*query) == of_store


def test_a_store_is_compacted_through_its_agent(remote: Remote) -> None:
    epoch = json.loads(remote("update", "INSERT DATA { <urn:new> <urn:p> 1 }", "--json"))["epoch"]
    assert json.loads(remote("compact", "--json"))["epoch"] == epoch
    assert remote("compact").startswith("compacting: ")


@pytest.mark.parametrize(
    "command", [["check"], ["token", "list"], ["token", "create", "--can", "read"], ["token", "revoke", "x"]]
)
def test_commands_that_work_on_the_store_say_so(remote: Remote, command: list[str]) -> None:
    assert "works on the store itself" in " ".join(remote(*command, code=2).split())


def test_sources(remote: Remote) -> None:
    added = remote("source", "add", "file", str(remote.folder / "data.nt"), "--name", "data")
    assert added == "Added source data of kind file. The agent watches it.\n"
    assert json.loads(remote("source", "list", "--json"))["name"] == "data"
    assert json.loads(remote("source", "remove", "data", "--json")) == {"removed": "data"}
    assert remote("source", "list") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("view", "nobody"), "There is no view named 'nobody'"),
        (("query", "SELECT * {"), "line 1, column 11"),
        (("update", "INSERT NONSENSE"), "line 1, column 8"),
        (("source", "remove", "nobody"), "There is no source named 'nobody'"),
        (("apply", "nowhere.changes"), "There is no file nowhere.changes"),
        (("load", "nowhere.nt"), "There is nothing to load at nowhere.nt"),
    ],
)
def test_errors(remote: Remote, arguments: tuple[str, ...], said: str) -> None:
    assert said in remote(*arguments, code=1)


def test_a_fault_in_a_change_file_changes_nothing(remote: Remote) -> None:
    before = remote("query", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "--format", "csv")
    (remote.folder / "bad.changes").write_text("+ <urn:x> <urn:p> <urn:y> .\n@\nwhat?\n", encoding="utf-8")
    file = str(remote.folder / "bad.changes")
    assert f"{file}, line 3" in remote("apply", file, code=1)
    assert remote("query", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "--format", "csv") == before


def test_there_is_no_agent(remote: Remote) -> None:
    nobody = Remote("http://127.0.0.1:9", remote.folder, remote.capsys)
    assert "There is no agent at http://127.0.0.1:9" in nobody("view", code=1)
    assert "is not the address of an agent" in Remote("shop", remote.folder, remote.capsys)("view", code=1)


def test_files_that_change_nothing_say_so(remote: Remote) -> None:
    file = str(remote.folder / "day.changes")
    remote("apply", file)
    with pytest.raises(SystemExit):
        cli.main(["apply", file, "--agent", remote.address])
    assert remote.capsys.readouterr() == ("", "Nothing changed.\n")


def test_an_agent_decides_what_load_reaches(remote: Remote) -> None:
    said = remote("update", "LOAD <http://127.0.0.1:1/>", "--allow-private", code=1)
    assert "--allow-private works with --store" in said


def test_an_empty_result_says_why(remote: Remote) -> None:
    remote("update", "CLEAR ALL")
    remote("load", str(remote.folder / "data.nt"))
    query = "SELECT ?é { ?é <http://x/prizé> ?o }"
    for command in (
        ["query", query],
        ["query", query, "--format", "table"],
        ["view", "empty", query],
        ["view", "empty"],
    ):
        remote.capsys.readouterr()
        with pytest.raises(SystemExit):
            cli.main([*command, "--agent", remote.address])
        said = remote.capsys.readouterr().err
        assert said == "No triple has the predicate <http://x/prizé>. Check its prefix and spelling.\n"
    remote("view", "empty", "--drop")
