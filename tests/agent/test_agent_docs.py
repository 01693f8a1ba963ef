"""docs/reference/agent.md and deploy/ are true: the commands run, and everything there is is named."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from sparqlive.agent.app import OPERATIONS
from sparqlive.agent.settings import Settings
from sparqlive.cli.main import reference
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "reference" / "agent.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
HERE = Path(sys.executable).parent


@pytest.mark.parametrize("block", BLOCKS, ids=["start", "uploads", "tokens"])
def test_the_commands_run(block: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = "set -eumo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + block.replace(
        "8080", str(port)
    )
    # Of a stream that does not end, curl sees the end of its time.
    script = script.replace("curl -s -m 1", "(curl -s -m 1").replace("changes |", "changes || true) |")
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{HERE}:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_operation_and_every_setting_is_named() -> None:
    for operation in OPERATIONS:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", operation.path)
        last = f"/{path.rpartition('/')[2]}"
        assert f"{path}`" in PAGE or (f"`{last}`" in PAGE and path.startswith("/views/{name}/")), path
    for setting in fields(Settings):
        row = re.search(rf"^\| `{setting.name}` \| (.*?) \| (`(--[a-z-]+)`)? ?\|", PAGE, re.MULTILINE)
        assert row is not None, setting.name
        assert row[3] is None or row[3] in reference(), setting.name
        if isinstance(setting.default, int | float) and not isinstance(setting.default, bool):
            number = row[1].replace(",", "")
            shown = int(number.removesuffix(" MiB")) << 20 if "MiB" in number else float(number)
            assert shown == setting.default, setting.name


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    text = (ROOT / "deploy" / "sparqlive.service").read_text(encoding="utf-8")
    unit = tmp_path / "sparqlive.service"
    unit.write_text(text.replace("/opt/sparqlive/bin", str(HERE)), encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "sparqlive.service" not in ended.stderr


def test_what_the_image_is_made_of_is_there() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--)(.*) ", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split()), line
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
