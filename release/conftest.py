"""The packages, built once for all tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release.environment import ROOT


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source package and the wheel that is made from it, without git and its tags."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "dist", "site", "*.store")
    shutil.copytree(ROOT, source, ignore=ignored)
    shutil.copytree(ROOT / ".github", source / ".github")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(source)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder / "dist"


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def source_package(built: Path) -> Path:
    [path] = built.glob("*.tar.gz")
    return path
