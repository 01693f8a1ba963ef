"""Creates files and folders that only their owner can read, whatever the umask.

Sets the mode and the owner of everything that a store creates: folders 0700, files 0600. A directory that is
group-writable and has the setgid bit is meant to be shared, so the group gets access too (2770 and 0660). If
root creates something in another user's directory, it belongs to that user. Invariant: modes and owners are
set at creation; existing files keep theirs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sparqlive.store.names import ensure_file, ensure_folder

_SHARED = stat.S_ISGID | stat.S_IWGRP


def make_directory(path: Path) -> bool:
    """Creates a directory; missing parents follow the umask. Returns False if it already exists."""
    if path.is_dir():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    return make_folder(path, None)


def make_folder(path: Path, within: Path | None) -> bool:
    """Creates a folder, shared and owned like the directory `within`; returns False if it exists."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        ensure_folder(path)
        return False
    belong(path, within)
    return True


def open_private(path: Path, flags: int, within: Path) -> int:
    """Opens a file of a store for writing, creating it if missing; returns the descriptor.

    Does not follow links or wait for a pipe: anything but a regular file is an error.
    """
    flags |= os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        ensure_file(path, writes=True)
        return os.open(path, flags, 0o600)
    belong(path, within)
    return descriptor


def belong(path: Path, within: Path | None) -> None:
    """Sets the mode of something just created, and its owner if root created it; not through a link."""
    found, above = path.lstat(), None if within is None else within.stat()
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
        return
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
