"""One rule for the names of views, in Python, on the command line, in a pipeline's file and over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparqlive
from sparqlive.cli import main as cli
from sparqlive.pipeline.file import read_pipeline

QUERY = "SELECT ?s { ?s ?p ?o }"

GOOD = [
    *(
        "v",
        "0",
        "Cheap.items_2-b~c",
        "a" * 128,
        "x..y",
        "a-",
        "_a",
        "named only",
        "a:b",
        "a,b",
        "a%20b",
        "a?b",
    ),
    *("a'b", "<a>", "a&b=c", "é", "١", "价格", "😀"),
]
BAD = [
    *(
        "",
        " ",
        " a",
        "a ",
        ".",
        "..",
        ".a",
        "-a",
        "--drop",
        "~",
        "~mine",
        "~" + "a" * 15,
        "a" * 129,
        "a/b",
        "/",
    ),
    *("a\u200b", "\u202ea", "a\x00", "a\n", "\na", "a\tb", "a\x7f", "a\x85", "a\u2028b", "a\u00a0b"),
    *("\ufffd", "a\ufffd", "a\ufffdb"),
]


@pytest.mark.parametrize("name", GOOD)
def test_good_names_are_taken_by_all(name: str, tmp_path: Path) -> None:
    with sparqlive.open() as session:
        assert session.view(name, QUERY).name == name
        assert list(session.views) == [name]
    read_pipeline(written_pipeline(tmp_path, name))
    with pytest.raises(SystemExit) as ended:
        cli.main(["view", "--store", str(tmp_path / "store"), name, QUERY])
    assert not ended.value.code


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_bad_names_are_refused_by_all(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.Error, match="Invalid view name"):
            session.view(name, QUERY)
        assert not session.views
    if "\x00" not in name and "\x7f" not in name and name.isprintable():
        with pytest.raises(sparqlive.Error, match="Invalid view name"):
            read_pipeline(written_pipeline(tmp_path, name))
    with pytest.raises(SystemExit) as ended:
        cli.main(["view", "--store", str(tmp_path / "store"), "--", name, QUERY])
    assert ended.value.code
    assert "Invalid view name" in capsys.readouterr().err
    assert not (tmp_path / "store").exists(), "nothing is made for a view that is refused"


@pytest.mark.parametrize("name", [None, 7, b"v", ["v"], True])
def test_names_are_texts(name: object) -> None:
    with sparqlive.open() as session, pytest.raises(sparqlive.Error, match="Invalid view name"):
        session.view(name, QUERY)  # type: ignore[arg-type]


def written_pipeline(folder: Path, name: str) -> Path:
    (folder / "q.rq").write_text(QUERY)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    file = folder / "pipeline.toml"
    file.write_text(f'store = "s"\n[views."{quoted}"]\nquery = "q.rq"\n', encoding="utf-8")
    return file


def test_names_of_older_stores_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older, sparqlive.open(tmp_path / "store") as session:
        older.setattr("sparqlive.engine.register.check_view_name", lambda name: None)
        session.apply(insert="<x:a> <x:p> <x:b> .")
        session.view("my view/é", QUERY)
    for _ in range(2):
        with sparqlive.open(tmp_path / "store") as session:
            assert len(session.views["my view/é"]) >= 1
            assert session.view("my view/é", QUERY) is session.views["my view/é"]
            session.apply(insert="<x:c> <x:p> <x:d> .")
            session.check()
    with sparqlive.open(tmp_path / "store") as session:
        session.drop("my view/é")
        with pytest.raises(sparqlive.Error, match="Invalid view name"):
            session.view("my view/é", QUERY)
