"""The programs that tests talk to, which `make peers` brings: their commands, or a skipped test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

_HERE = Path(__file__).parent.parent / ".peers"


def mosquitto() -> str:
    return _found("mosquitto", "an MQTT broker")


def chromium() -> str:
    return _found("chromium", "a browser")


def solid_server() -> list[str]:
    """The command of a Community Solid Server, to which options are added."""
    command = _HERE / "node_modules" / ".bin" / "community-solid-server"
    if not command.exists() or shutil.which("node") is None:
        pytest.skip("there is no Community Solid Server here: make peers installs one where npm is")
    return [str(command)]


def _found(command: str, what: str) -> str:
    path = shutil.which(command) or shutil.which(command, path="/usr/sbin")
    if path is None:
        pytest.skip(f"there is no {command} here ({what}): make peers, as root, installs it from Debian")
    return path
