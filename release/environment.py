"""Environments with nothing but what was installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = os.environ.get("PYTHONS", "python3.11 python3.12 python3.13 python3.14").split()


PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def _runs(command: str) -> bool:
    """Whether an interpreter works: pyenv puts names on the path also for those that are not selected."""
    return subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0


def _interpreter(name: str) -> str | None:
    """An interpreter on the path, or one that pyenv has installed."""
    path = shutil.which(name)
    if path is not None and _runs(path):
        return path
    return next((str(path) for path in PYENV.glob(f"versions/*/bin/{name}")), None)


FOUND = [path for path in map(_interpreter, PYTHONS) if path is not None]
HAS_JAVA = bool(shutil.which("java") or "JAVA_HOME" in os.environ)


@dataclass(frozen=True)
class Installed:
    """An environment with nothing but what was installed, and an empty folder to work in."""

    bin: Path
    folder: Path

    def run(self, *command: str, succeeds: bool = True, text: str | None = None) -> str:
        clean = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        java = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
        ended = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=clean | java,
            input=text,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (ended.returncode == 0) is succeeds, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def python(self, code: str) -> str:
        return self.run("python", "-c", code)


def install(python: str, folder: Path, requirements: Sequence[str]) -> Installed:
    subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
    work = folder / "empty"
    work.mkdir()
    installed = Installed(folder / "env" / "bin", work)
    command = [str(installed.bin / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*command, "--disable-pip-version-check", *requirements], check=True)
    return installed
