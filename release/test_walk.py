"""The pages of the documentation, followed literally, from the wheel, in an empty folder.

Each block runs in an environment with what the page has told to install before it, and nothing else. Commands
print what the page shows. Where a page names no extra, the small package is enough.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from release.environment import FOUND, HAS_JAVA, ROOT, Installed, install

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXTRAS = re.compile(r"pip install '(?:sparqlive|\.)\[([a-z,]+)\]'|the extra `\[([a-z]+)\]`")
PACKAGES = re.compile(r"pip install ([a-z]+)")
NEEDS_SPARK = {"guides/pipeline.md"}
STORIES = [
    "tutorial.md",
    "guides/aggregator.md",
    "guides/backup.md",
    "guides/dashboards.md",
    "guides/pipeline.md",
    "reference/sources.md",
]
"""Pages whose commands are a story: all blocks of a page are one script. The ports are those of the page."""

Environment = Callable[[str], Installed]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Gives the environment that a text tells people to make."""
    made: dict[tuple[frozenset[str], frozenset[str]], Installed] = {}

    def environment(text: str) -> Installed:
        named = [one for pair in EXTRAS.findall(text) for one in pair if one]
        extras = frozenset(extra for one in named for extra in one.split(","))
        packages = frozenset(PACKAGES.findall(text)) - {"sparqlive"}
        if (extras, packages) not in made:
            package = f"{wheel}[{','.join(sorted(extras))}]" if extras else str(wheel)
            folder = tmp_path_factory.mktemp("walk")
            made[extras, packages] = install(FOUND[0], folder, [package, *sorted(packages)])
        return made[extras, packages]

    return environment


@pytest.mark.parametrize("page", STORIES)
def test_the_commands_of_a_page_run(page: str, environment: Environment, tmp_path: Path) -> None:
    if page in NEEDS_SPARK and not HAS_JAVA:
        pytest.skip("no Java")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    walker = environment(text[: text.rindex("\n```sh\n")])
    script = "set -eu -o pipefail\n" + "\n".join(BLOCK.findall(text))
    ended = subprocess.run(
        ["bash", "-m", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{walker.bin}:{os.environ['PATH']}", "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert "WARN" not in ended.stderr
    assert [shown for shown in SHOWN.findall(text) if shown not in ended.stdout] == []


def python_blocks() -> list[object]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        pytest.param(text[: match.start()], match[1], id=f"{page.relative_to(ROOT)}:{number}")
        for page in pages
        for text in [page.read_text(encoding="utf-8")]
        for number, match in enumerate(PYTHON.finditer(text), 1)
    ]


@pytest.mark.parametrize(("before", "code"), python_blocks())
def test_the_python_of_a_page_runs(before: str, code: str, environment: Environment, tmp_path: Path) -> None:
    if "pyspark" in code and not HAS_JAVA:
        pytest.skip("no Java")
    walker = environment(before)
    Installed(walker.bin, tmp_path).python(code)
