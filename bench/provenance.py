"""Under which conditions a result was measured: command, commit, versions, machine, load.

Needs only the standard library, so that every benchmark can say it.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def command_of(program: str, arguments: Sequence[str]) -> str:
    """The command as it was typed, without the place of its output."""
    kept = list(arguments)
    if "--output" in kept:
        at = kept.index("--output")
        del kept[at : at + 2]
    return shlex.join([*program.split(), *kept])


def provenance(command: str, packages: Iterable[str] = (), others: Iterable[str] = ()) -> list[str]:
    """Lines of a list. `packages` are Python packages; `others` name further programs with their versions."""
    versions = [f"{name} {_version(name)}" for name in packages]
    return [
        f"- command: `{command}`",
        f"- commit: {_commit()}",
        f"- versions: {', '.join([f'Python {platform.python_version()}', *versions, *others])}",
        f"- machine: {_cores()} cores, {_memory()}, {platform.system()} {platform.machine()}",
        f"- load average: {', '.join(f'{load:.1f}' for load in os.getloadavg())} "
        f"(1, 5, 15 minutes) at {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
    ]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench/*.py")
        return git("rev-parse", "--short=12", "HEAD") + (" and changes to it" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "memory unknown"
    return f"{size / 2**30:.0f} GiB"
