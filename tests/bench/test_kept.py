"""Raw results in a file: a run that was ended is continued."""

from __future__ import annotations

from pathlib import Path

from bench.kept import Kept


def test_a_later_run_continues(tmp_path: Path) -> None:
    file = tmp_path / "raw.jsonl"
    first = Kept(file, lambda: ["- commit: one"])
    first.add("a", {"seconds": 1})
    first.add("b", {"seconds": 2})
    assert first.described(["a", "b"]) == ["- commit: one"]
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"key": "c", "run')  # the run was ended here
    second = Kept(file, lambda: ["- commit: two"])
    assert "a" in second
    assert "c" not in second
    second.add("b", {"seconds": 3})
    third = Kept(file, lambda: ["- not asked"])
    assert [third.get(key) for key in "abc"] == [{"seconds": 1}, {"seconds": 3}, None]
    lines = third.described(["a", "b"])
    assert lines[0] == "Measured in 2 runs."
    assert lines.index("- commit: one") < lines.index("- commit: two")
    assert third.described(["b"]) == ["- commit: two"]
