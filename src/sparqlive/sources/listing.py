"""The files that a path or a glob names, and what tells whether one of them has changed.

Owns the difference between files that are not there and files that cannot be seen: a folder that cannot be
listed, and a link that leads nowhere, are errors, where Python's `glob` would answer that there is nothing.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from hashlib import blake2b, file_digest

from sparqlive.errors import Error

_ANY_FOLDERS = "**"


@dataclass(frozen=True)
class Listing:
    """Files, the folders that were searched for them, and a digest of what the system says of each file."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    digest: str = ""

    def content_digest(self) -> str:
        """A digest of what is in the files, and of where they are, which relative IRIs depend on."""
        found = blake2b(digest_size=16)
        for file in self.files:
            with open(file, "rb") as stream:
                content = file_digest(stream, lambda: blake2b(digest_size=16))
            found.update(json.dumps([file, os.path.realpath(file), content.hexdigest()]).encode())
        return found.hexdigest()


def listing_of(address: str) -> Listing:
    """What a path or a glob names.

    FileNotFoundError where there is no such file, or not the folder that the glob begins in.
    """
    folders: list[str] = []
    found = {file: there for file in _named(address, folders) if (there := _regular(file)) is not None}
    states = [
        [
            file,
            os.path.realpath(file),
            there.st_dev,
            there.st_ino,
            there.st_size,
            there.st_mtime_ns,
            there.st_ctime_ns,
        ]
        for file, there in sorted(found.items())
    ]
    digest = blake2b(json.dumps(states).encode(), digest_size=16).hexdigest()
    return Listing(tuple(sorted(found)), tuple(folders), digest)


def _named(address: str, folders: list[str]) -> list[str]:
    """The paths that an address names, which need not all be files; notes the folders that were listed."""
    if not glob.has_magic(address) or os.path.lexists(address):
        mode = os.stat(address).st_mode
        if stat.S_ISDIR(mode):
            raise Error(f"{address} is a folder. Name its files by a glob: {os.path.join(address, '*.ttl')}")
        if not stat.S_ISREG(mode):
            raise Error(f"{address} is no file but a pipe, a socket or a device, which cannot be compared.")
        return [address]
    parts = address.split(os.sep)
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    root = os.sep.join(parts[:fixed]) or (os.sep if fixed else "")
    os.listdir(root or os.curdir)
    paths, rest = [root], [*parts[fixed:], "*"] if parts[-1] == _ANY_FOLDERS else parts[fixed:]
    for part in rest:
        if part == _ANY_FOLDERS:
            paths = [inner for path in paths for inner in _below(path, folders, frozenset())]
        elif glob.has_magic(part):
            paths = [os.path.join(path, name) for path in paths for name in _names(path, part, folders)]
        else:
            paths = [os.path.join(path, part) for path in paths]
    return paths


def _names(folder: str, pattern: str, folders: list[str]) -> list[str]:
    """The names in a folder that match; those that begin with a dot only if the pattern does."""
    try:
        names = os.listdir(folder or os.curdir)
    except (FileNotFoundError, NotADirectoryError):
        _check_links(folder)
        return []
    folders.append(folder)
    matches = re.compile(translate(pattern)).match
    return [name for name in names if matches(name) and (name[0] != "." or pattern[0] == ".")]


def _below(folder: str, folders: list[str], above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """A folder and those in it, in whatever depth; a link to a folder above itself is not followed."""
    try:
        there = os.stat(folder or os.curdir)
    except (FileNotFoundError, NotADirectoryError):
        _check_links(folder)
        return
    here = (there.st_dev, there.st_ino)
    if not stat.S_ISDIR(there.st_mode) or here in above:
        return
    yield folder
    for name in _names(folder, "*", folders):
        yield from _below(os.path.join(folder, name), folders, above | {here})


def _regular(path: str) -> os.stat_result | None:
    """What the system says of a file; None where there is none."""
    try:
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        _check_links(path)
        return None
    return there if stat.S_ISREG(there.st_mode) else None


def _check_links(path: str) -> None:
    """What lies behind a link that leads nowhere is not gone: it is out of sight."""
    while path:
        if os.path.islink(path) and not os.path.exists(path):
            raise Error(f"{path} is a link to {os.readlink(path)}, where nothing is.")
        path = os.path.dirname(path.rstrip(os.sep))
