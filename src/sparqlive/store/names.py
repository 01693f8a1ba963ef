"""Names that a store contains, and the paths that they stand for.

A store may come from someone else: whatever its catalog and its folder contain, nothing outside is opened,
changed or removed. Owns the check of every stored name before it becomes a path, and of every file and folder
of a store before it is opened. Invariant: a name stays in the store's folder of runs, and no link inside a
store is followed, except for `runs` itself, if nothing but this store's runs are behind it.
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
# No separators of other systems, and nothing that a pattern of files or a text of SQL could mean.
_PART = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.=%+@~-]{1,255}")
_MOST_PARTS = 32


def stored_name(folder: str, name: str) -> str:
    """Returns the name of something in a store's folder of runs as it is; raises if it leads elsewhere.

    The folder `.` is all of a place, such as a temporary one.
    """
    whole = f"./{name.removeprefix('./')}" if folder == "." and name != "." else name
    top, *parts = whole.split("/", _MOST_PARTS)
    if top != folder or not all(map(_PART.fullmatch, parts)):
        raise _not_a_run(name)
    return name


def stored_run(folder: str, name: str) -> str:
    """Returns the name of a file that the catalog has named as a run; raises if no commit wrote it."""
    parts = name.split("/", 2)
    if len(parts) < 3 or ATTEMPT.fullmatch(parts[1]) is None:
        raise _not_a_run(name)
    return stored_name(folder, name)


def _not_a_run(name: str) -> StoreFailed:
    return StoreFailed(
        f"The catalog names the file {name[:200]!r}, which is not a run of its store. Nothing was read, "
        f"changed or removed there. The catalog is damaged, or was made to do harm: restore the store from a "
        f"backup that you trust."
    )


def ensure_plain(path: Path) -> os.stat_result | None:
    """Returns what a path of a store is: a file or a folder; None if it is missing. Raises for a link."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "a link" if stat.S_ISLNK(found.st_mode) else "not a file")
    return found


def ensure_file(path: Path, *, writes: bool) -> None:
    """Raises unless a path of a store is missing or a file; if it is to be written, without other names."""
    found = ensure_plain(path)
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "a folder")
    if writes and found.st_nlink > 1:
        raise StoreFailed(
            f"{path} has {found.st_nlink} names (hard links), and writing it would change the file under the "
            f"others too. Replace it by a copy of its own: cp FILE COPY && mv COPY FILE."
        )


def ensure_folder(path: Path) -> None:
    """Raises unless a path of a store is missing or a folder."""
    found = ensure_plain(path)
    if found is not None and not stat.S_ISDIR(found.st_mode):
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
