"""The programs that tests talk to, which `make test-peers` brings: their commands, or a skipped test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

_HERE = Path(__file__).parent.parent / ".peers"


def mosquitto() -> str:
    return _found("mosquitto", "an MQTT broker")


def chromium() -> str:
    return _found("chromium", "a browser")


def firefox() -> tuple[str, Path]:
    """The command of Firefox, and the folder of npm packages with its driver."""
    command = _found("firefox-esr", "a browser")
    if not (_HERE / "node_modules" / "puppeteer-core").exists() or shutil.which("node") is None:
        pytest.skip(
            "there is no driver for Firefox here: make test-peers installs puppeteer-core where npm is"
        )
    return command, _HERE


def solid_server() -> list[str]:
    """The command of a Community Solid Server, to which options are added."""
    command = _HERE / "node_modules" / ".bin" / "community-solid-server"
    if not command.exists() or shutil.which("node") is None:
        pytest.skip("there is no Community Solid Server here: make test-peers installs one where npm is")
    return [str(command)]


def axe() -> str:
    """The script of axe-core, a checker of accessibility."""
    script = _HERE / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        pytest.skip("axe-core is not installed: make test-peers installs it where npm is")
    return script.read_text(encoding="utf-8")


def _found(command: str, what: str) -> str:
    path = shutil.which(command) or shutil.which(command, path="/usr/sbin")
    if path is None:
        pytest.skip(f"there is no {command} here ({what}): make test-peers, as root, installs it from Debian")
    return path
