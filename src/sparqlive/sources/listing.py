"""Lists the files that a path or a glob names, with a digest that shows whether one has changed.

Owns the difference between missing files and files that cannot be seen: a folder that cannot be listed and a
broken link are errors, where Python's `glob` would return nothing.
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
    """Files, the folders searched for them, and a digest of the files' status."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    digest: str = ""

    def content_digest(self) -> str:
        """A digest of the files' content, and of their paths, which relative IRIs depend on."""
        found = blake2b(digest_size=16)
        for file in self.files:
            with open(file, "rb") as stream:
                content = file_digest(stream, lambda: blake2b(digest_size=16))
            found.update(json.dumps([file, os.path.realpath(file), content.hexdigest()]).encode())
        return found.hexdigest()


def is_glob(address: str) -> bool:
    """Whether an address is a pattern: it has signs of one, and no file has it as a name."""
    return glob.has_magic(address) and not os.path.lexists(address)


def listing_of(address: str, as_glob: bool) -> Listing:
    """Lists the files of a path or a glob.

    Raises FileNotFoundError if the file, or the base folder of the glob, does not exist.
    """
    folders: list[str] = []
    paths = _matches(address, folders) if as_glob else _file(address)
    found = {file: status for file in paths if (status := _regular(file)) is not None}
    states = [
        [
            file,
            os.path.realpath(file),
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        ]
        for file, status in sorted(found.items())
    ]
    digest = blake2b(json.dumps(states).encode(), digest_size=16).hexdigest()
    return Listing(tuple(sorted(found)), tuple(folders), digest)


def _file(address: str) -> list[str]:
    mode = os.stat(address).st_mode
    if stat.S_ISDIR(mode):
        raise Error(f"{address} is a folder. Use a glob for its files: {os.path.join(address, '*.ttl')}")
    if not stat.S_ISREG(mode):
        raise Error(f"{address} is a pipe, a socket or a device. Only regular files can be watched.")
    return [address]


def _matches(address: str, folders: list[str]) -> list[str]:
    """Returns the paths that match a glob, not all of them files; records the listed folders."""
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
    """Returns the matching names in a folder; names with a leading dot only if the pattern has one."""
    try:
        names = os.listdir(folder or os.curdir)
    except (FileNotFoundError, NotADirectoryError):
        _check_links(folder)
        return []
    folders.append(folder)
    matches = re.compile(translate(pattern)).match
    return [name for name in names if matches(name) and (name[0] != "." or pattern[0] == ".")]


def _below(folder: str, folders: list[str], above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Yields a folder and all folders below it; does not follow a link to a folder above itself."""
    try:
        status = os.stat(folder or os.curdir)
    except (FileNotFoundError, NotADirectoryError):
        _check_links(folder)
        return
    here = (status.st_dev, status.st_ino)
    if not stat.S_ISDIR(status.st_mode) or here in above:
        return
    yield folder
    for name in _names(folder, "*", folders):
        yield from _below(os.path.join(folder, name), folders, above | {here})


def _regular(path: str) -> os.stat_result | None:
    """The status of a regular file; None if it does not exist."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        _check_links(path)
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _check_links(path: str) -> None:
    """Rejects a broken link: its target is out of sight, which does not mean that it was deleted."""
    while path:
        if os.path.islink(path) and not os.path.exists(path):
            raise Error(f"{path} is a broken link to {os.readlink(path)}.")
        path = os.path.dirname(path.rstrip(os.sep))
