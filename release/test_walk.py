"""The tutorial and the guides, followed literally, from the wheel, in an empty folder.

Their commands run, and print what the page shows.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from release.environment import FOUND, HAS_JAVA, ROOT, Installed, install

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS_SPARK = {"guides/pipeline.md"}
PAGES = [
    "tutorial.md",
    "guides/aggregator.md",
    "guides/backup.md",
    "guides/dashboards.md",
    "guides/pipeline.md",
]
"""Pages whose commands are a story: all blocks of a page are one script. The ports are those of the page."""


@pytest.fixture(scope="module")
def walker(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(FOUND[0], tmp_path_factory.mktemp("walk"), [f"{wheel}[agent,spark]"])


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, walker: Installed, tmp_path: Path) -> None:
    if page in NEEDS_SPARK and not HAS_JAVA:
        pytest.skip("no Java")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
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
