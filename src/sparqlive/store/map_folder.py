"""The folder of a store's maps: chooses it, and controls what is opened, created and removed in it.

Maps must be on a disk of this machine. Pages of a file on a network or in another process can fail to load,
which kills the process that reads them through a map. Invariants: a name leads to a file in the folder
itself; links are not followed; other programs' files are not removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from xxhash import xxh3_128_hexdigest

from sparqlive.errors import StoreFailed
from sparqlive.store.maps import UNFINISHED, Map, MapWriter, Sections, UnusableMap, writing
from sparqlive.store.private import make_directory, make_folder, open_private

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*\.map")
_UNFINISHED = re.compile(_NAME.pattern + "-[0-9a-f]{32}" + re.escape(UNFINISHED))
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_MOUNTS = Path("/proc/self/mountinfo")
# File systems with files on other machines or from another process. `fuse` has names of its kinds.
_REMOTE = re.compile(
    r"(nfs\d*|cifs|smb\w*|fuse\b.*|fuseblk|9p|virtiofs|vboxsf|vmhgfs|afs|ceph|lustre|gpfs|beegfs|gfs2|ocfs2)"
)


def map_folder(directory: Path) -> Path:
    """The folder for the maps of a store: in its directory, or else among the caches of this machine."""
    return directory / "maps" if is_local(directory) else cache_folder(directory)


def cache_folder(directory: Path) -> Path:
    """The folder for the maps of a store among the caches of this machine, on a local disk."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not is_local(caches):
        raise StoreFailed(
            f"Maps of the store {directory} cannot be in the cache directory {caches}, which is not on a "
            f"local disk. Set XDG_CACHE_HOME to a directory on one."
        )
    return caches / "sparqlive" / f"maps-{xxh3_128_hexdigest(bytes(directory.resolve()))}"


def is_local(directory: Path) -> bool:
    """Whether a directory, existing or to be created, is on a disk of this machine.

    True on systems other than Linux, which do not list their mounts in a file.
    """
    if not _MOUNTS.exists():
        return True
    resolved = directory.resolve()
    around = {str(path) for path in (resolved, *resolved.parents)}
    lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    found, kind = -1, ""
    for line in lines:
        # Fields vary in number up to a dash: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
        mount, _, filesystem = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount.split(" ")[4])
        # If two file systems are mounted at one place, the later covers the earlier.
        if point in around and len(point) >= found:
            found, kind = len(point), filesystem.split(" ")[0]
    return bool(kind) and _REMOTE.fullmatch(kind) is None


class MapFolders:
    """The folders of a store's maps: its own, and a cache folder for readers without write permission.

    The cache folder is searched first: its maps were missing or damaged in the store's own.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, name: str, sources: Sequence[str]) -> Map:
        """Opens a map; raises UnusableMap if it has to be created."""
        *cached, own = self.existing()
        for folder in cached:
            with suppress(UnusableMap):
                return folder.open(name, sources)
        return own.open(name, sources)

    def for_writing(self) -> MapFolder:
        """The first of the folders in which files can be created."""
        own = MapFolder(map_folder(self._directory))
        try:
            with own.scratch():
                return own
        except OSError as error:
            if error.errno not in _FORBIDDEN:
                raise StoreFailed(
                    f"Maps of the store {self._directory} cannot be created: {error}."
                ) from error
        cached = MapFolder(cache_folder(self._directory))
        try:
            with cached.scratch():
                return cached
        except OSError as error:
            raise StoreFailed(
                f"Maps of the store {self._directory} can be created neither there nor in the cache "
                f"directory: {error}. Set XDG_CACHE_HOME to a directory that can be written."
            ) from error

    def existing(self) -> list[MapFolder]:
        """The cache folder, if there is one, and the store's own."""
        own, found = map_folder(self._directory), list[Path]()
        # There may be no cache on a local disk, no home directory, or another user's.
        with suppress(StoreFailed, RuntimeError, PermissionError):
            found = [folder for folder in (cache_folder(self._directory),) if folder.is_dir()]
        return [MapFolder(folder) for folder in dict.fromkeys((*found, own))]

    def remove_others(self, prefix: str, names: Set[str], *, is_writer: bool) -> None:
        """Removes the maps with a prefix that are not named; a reader removes only those in its cache."""
        *cached, own = self.existing()
        for folder in (*cached, own) if is_writer else cached:
            folder.remove_unfinished()
            for name in folder.names():
                if name.startswith(prefix) and name not in names:
                    with suppress(OSError):  # tried again later
                        folder.remove(name)


class MapFolder:
    """The maps in a folder. Readers may create maps; only the writer of the store removes them."""

    def __init__(self, folder: Path) -> None:
        if folder.is_symlink():
            raise StoreFailed(
                f"{folder} is a link, but maps must be in a folder of their own. Remove the link."
            )
        self._folder = folder

    def open(self, name: str, sources: Sequence[str]) -> Map:
        """Opens a map; raises UnusableMap if it has to be created."""
        return Map(self._path(name), sources)

    def writing(
        self, name: str, sources: Sequence[str], sections: Sections
    ) -> AbstractContextManager[MapWriter]:
        """Creates a map, replacing one of the same name."""
        path = self._path(name)
        try:
            self._make()
        except OSError as error:
            raise StoreFailed(f"The folder {self._folder} could not be created: {error}.") from error
        return writing(path, sources, sections)

    def _make(self) -> None:
        make_directory(self._folder.parent)
        make_folder(self._folder, self._folder.parent)

    @contextmanager
    def scratch(self) -> Iterator[int]:
        """Opens a file for reading and writing, and returns its descriptor; the file ends with the block.

        It has no name, so nothing is left after a crash.
        """
        self._make()
        path = self._folder / f"scratch.map-{uuid4().hex}{UNFINISHED}"
        descriptor = open_private(path, os.O_RDWR | os.O_EXCL, self._folder)
        try:
            path.unlink(missing_ok=True)
            yield descriptor
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        """The names of all maps."""
        return [name for name in self._listed() if _NAME.fullmatch(name)]

    def remove(self, name: str) -> None:
        """Removes a map. Processes that have it open can still read it."""
        self._path(name).unlink(missing_ok=True)

    def remove_unfinished(self) -> None:
        """Removes unfinished maps of processes that were killed."""
        for name in self._listed():
            if _UNFINISHED.fullmatch(name):
                with suppress(OSError):  # a map being written is locked, or has just got its name
                    _remove_unlocked(self._folder / name)

    def _listed(self) -> list[str]:
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        return []

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise StoreFailed(f"{name!r} is not the name of a map.")
        return self._folder / name


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)
