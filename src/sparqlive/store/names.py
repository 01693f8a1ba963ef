"""Names that a store contains, and the paths that they stand for.

A store may come from someone else: whatever its catalog and its folder contain, nothing outside is opened,
changed or removed. Owns the check of every stored name before it becomes a path, and of every file and folder
of a store before it is opened. Invariant: a name stays in the store's folder of runs, and no link inside a
store is followed, except `runs` itself if it leads to nothing but this store's runs.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from sparqlive.errors import StoreFailed

# The folder of an attempt at a commit: the mark of the store (not in format 2), a time, a process, a number.
ATTEMPT = re.compile(r"(?:[0-9a-f]{16}-)?[0-9a-f]+-[0-9]+-[0-9]+")
FOLDER = re.compile(r"runs|sparqlive-[0-9a-f]{32}")
"""The folder of a store's runs, in its directory or at another address."""
IDENTITY = re.compile(r"[0-9a-f]{32}")
"""The identity of a store, whose first half marks its folders."""
# No path separators of other systems, and nothing with a meaning in glob patterns or SQL strings.
_PART = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.=%+@~-]{1,255}")
_MOST_PARTS = 32


def stored_name(folder: str, name: str) -> str:
    """Returns a name in a store's folder of runs unchanged; raises if it leads elsewhere.

    The folder `.` means a whole place, such as a temporary one.
    """
    whole = f"./{name.removeprefix('./')}" if folder == "." and name != "." else name
    top, *parts = whole.split("/", _MOST_PARTS)
    if top != folder or not all(map(_PART.fullmatch, parts)):
        raise _not_a_run(name)
    return name


def stored_run(folder: str, name: str) -> str:
    """Returns the name of a run in the catalog unchanged; raises if no commit wrote such a name."""
    parts = name.split("/", 2)
    if len(parts) < 3 or ATTEMPT.fullmatch(parts[1]) is None:
        raise _not_a_run(name)
    return stored_name(folder, name)


def _not_a_run(name: str) -> StoreFailed:
    return StoreFailed(
        f"The catalog names the file {name[:200]!r}, which is not a run of its store. Nothing was read, "
        f"changed or removed there. The catalog is damaged or malicious: restore the store from a backup "
        f"that you trust."
    )


def ensure_plain(path: Path) -> os.stat_result | None:
    """Returns the status of a file or folder of a store; None if it is missing. Raises for a link."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise _refused(path, "a link" if stat.S_ISLNK(status.st_mode) else "not a file")
    return status


def ensure_file(path: Path, *, writes: bool) -> None:
    """Raises unless a path of a store is a file or missing. A file to write must have no other names."""
    info = ensure_plain(path)
    if info is None:
        return
    if not stat.S_ISREG(info.st_mode):
        raise _refused(path, "a folder")
    if writes and info.st_nlink > 1:
        raise StoreFailed(
            f"{path} has {info.st_nlink} names (hard links), and writing to it would change the file under "
            f"its other names. Replace it with a separate copy: cp FILE COPY && mv COPY FILE."
        )


def ensure_folder(path: Path) -> None:
    """Raises unless a path of a store is a folder or missing."""
    status = ensure_plain(path)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise _refused(path, "a file")


def _refused(path: Path, what: str) -> StoreFailed:
    return StoreFailed(
        f"{path} is {what}, which sparqlive never creates there. It was not opened, so that a store from "
        f"someone else cannot reach other files. Remove it if nothing in it is needed, or restore the store."
    )


def read_small(path: Path, most_bytes: int) -> bytes | None:
    """Reads the beginning of a small file of a store; None if it is missing."""
    ensure_file(path, writes=False)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as stream:
        return stream.read(most_bytes)
