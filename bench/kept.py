"""Raw results, kept in a file while they are measured, so that a run can be ended and continued.

A file has one JSON object per line: the conditions of a run (command, commit, versions, machine, load), or a
result with its key and the number of its run. The last result of a key counts.
Needs only the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


class Kept:
    """The results in a file. `conditions` gives lines that describe this run, when it has a first result."""

    def __init__(self, file: Path, conditions: Callable[[], Sequence[str]]) -> None:
        self._file, self._conditions = file, conditions
        self._runs: list[Sequence[str]] = []
        self._found: dict[str, tuple[int, Any]] = {}
        self._is_begun = False
        if file.exists():
            whole, _, cut = file.read_text(encoding="utf-8").rpartition("\n")
            for line in whole.splitlines():
                self._take(line)
            if cut:  # the run before was ended while it wrote a line
                file.write_text(f"{whole}\n" if whole else "", encoding="utf-8")

    def _take(self, line: str) -> None:
        entry = json.loads(line)
        if "conditions" in entry:
            self._runs.append(entry["conditions"])
        else:
            self._found[entry["key"]] = (entry["run"], entry["result"])

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def get(self, key: str) -> Any:
        """The result of a key; None if there is none."""
        return self._found.get(key, (0, None))[1]

    def add(self, key: str, result: Any) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._append({"conditions": list(self._conditions())})
        self._append({"key": key, "run": len(self._runs) - 1, "result": result})

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(entry, ensure_ascii=False)
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
        self._take(line)

    def described(self, keys: Iterable[str]) -> list[str]:
        """Lines of a list: the conditions of the runs that the results of these keys come from."""
        runs: dict[int, int] = {}
        for key in keys:
            if key in self._found:
                run = self._found[key][0]
                runs[run] = runs.get(run, 0) + 1
        if len(runs) < 2:
            return [line for run in runs for line in self._runs[run]]
        lines = [f"Measured in {len(runs)} runs."]
        for number, run in enumerate(sorted(runs), 1):
            lines += ["", f"Run {number}, {runs[run]:,} results:", "", *self._runs[run]]
        return lines
