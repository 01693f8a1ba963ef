"""Which Java is taken for Spark, and the command in front of PyPI's. None of this starts Spark."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

import sparqlive
from setup.java import _COMMAND
from sparqlive.bulk.backends.spark import java


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(java, "OWN", tmp_path / "own")
    monkeypatch.setattr(java, "_SYSTEM", tmp_path / "system")
    return tmp_path


def put_java(home: Path, says: str) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho {shlex.quote(says)} >&2\n", encoding="utf-8")
    command.chmod(0o755)
    return home


def test_the_first_that_is_new_enough_is_taken(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sparqlive.SparkFailed, match="Install it"):
        java.use_java()
    put_java(nowhere / "system" / "a-8", 'openjdk version "1.8.0_402"')
    assert java.java_home() is None
    system = put_java(nowhere / "system" / "b-17", 'openjdk version "17.0.15" 2025-04-15')
    assert java.java_home() == system
    own = put_java(nowhere / "own", 'openjdk version "25" 2025-09-16')
    assert java.java_home() == own
    put_java(nowhere / "path", 'openjdk version "11.0.2" 2019-01-15')
    assert java.java_home() == own
    named = put_java(nowhere / "named", 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert java.java_home() == named
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "path"))
    java.use_java()
    assert os.environ["JAVA_HOME"] == str(own)


def test_the_command_drops_the_module_that_is_not_there(tmp_path: Path) -> None:
    command = tmp_path / "java"
    command.write_text(_COMMAND.format(java="/usr/bin/printf"), encoding="utf-8")
    command.chmod(0o755)
    given = ["%s|", "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*", "Main"]
    done = subprocess.run([command, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp|a b||*|Main|"
