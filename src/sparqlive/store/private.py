"""Files that only their owner reads, whatever the umask says.

Owns the modes and the owner of what a store creates: folders 0700, files 0600. A directory that is group-
writable and has the setgid bit was set up to be shared: what is created in it is the group's too (2770 and
0660). What root creates in somebody's directory is that somebody's. Invariant: modes and owners are set where
something is created, and what is there already keeps its own.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_SHARED = stat.S_ISGID | stat.S_IWGRP


def make_directory(path: Path) -> bool:
    """Creates a directory, and the ones above it as the umask says; False if it is there already."""
    if path.is_dir():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    return make_folder(path, None)


def make_folder(path: Path, within: Path | None) -> bool:
    """Creates a folder of a store, as shared and owned as the directory `within` is; False if it is there."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if path.is_dir():
            return False
        raise
    belong(path, within)
    return True


def open_private(path: Path, flags: int, within: Path) -> int:
    """Opens a file of a store for writing, and creates it if it is missing; its descriptor."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    belong(path, within)
    return descriptor


def belong(path: Path, within: Path | None) -> None:
    """Gives what was just created its mode, and its owner if root created it."""
    found, above = path.stat(), None if within is None else within.stat()
    shared = above is not None and above.st_mode & _SHARED == _SHARED
    if stat.S_ISDIR(found.st_mode):
        path.chmod(0o2770 if shared else 0o700)
    else:
        path.chmod(0o660 if shared else 0o600)
    if (
        above is not None
        and os.geteuid() == 0
        and (found.st_uid, found.st_gid) != (above.st_uid, above.st_gid)
    ):
        os.chown(path, above.st_uid, above.st_gid)
