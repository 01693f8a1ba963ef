"""Where a store's runs are: below its directory, in another one, or on a file system that pyarrow reaches.

Owns how a run's name, as the catalog has it, becomes a file, and how files are made durable, listed and
removed. Refuses addresses for which there is no file system here. Invariants: all runs of a store lie in one
folder that no other store uses; a file that was written and synced survives, by fsync where it is local, and
by the promise of the file system elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, cast
from urllib.request import url2pathname
from uuid import uuid4

from pyarrow import fs

from sparqlive.errors import Error
from sparqlive.store.private import belong, make_folder, open_private

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def file_system(name: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path on it."""
    if _SCHEME.match(name) is None:
        return fs.LocalFileSystem(), name
    try:
        # Hadoop's name of the S3 protocol
        return cast("tuple[fs.FileSystem, str]", fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", name)))
    except (OSError, ValueError, NotImplementedError) as error:
        raise Error(f"{name}: there is no file system for this address here: {error}.") from error


def address_of(runs: str | os.PathLike[str]) -> str:
    """A path or URI as a URI: what the catalog records of where the runs are."""
    text = os.fspath(runs)
    return text.rstrip("/") if _SCHEME.match(text) else Path(text).absolute().as_uri()


def new_folder() -> str:
    """A name for a store's folder, at an address that it may share with others."""
    return f"sparqlive-{uuid4().hex}"


def place_at(address: str, folder: str) -> LocalPlace | RemotePlace:
    """The runs in a folder at an address."""
    if address.startswith("file://") and not address.startswith("file:///"):
        raise Error(f"{address} does not say a local directory: file:// is followed by an absolute path.")
    if address.startswith("file://"):
        return LocalPlace(Path(url2pathname(address.removeprefix("file://"))), folder)
    return RemotePlace(address, folder)


class Readable(Protocol):
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...


class LocalPlace:
    """Files on this machine's file systems. Names are relative to the root."""

    # What pyarrow is told beside a path: nothing.
    files: fs.FileSystem | None = None

    def __init__(self, root: Path, folder: str) -> None:
        self._root = root
        self.folder = folder

    def path(self, name: str) -> str:
        """Where pyarrow finds a file."""
        return str(self._root / name)

    def text(self, name: str) -> str:
        """Where a file is, for people and for ingest."""
        return self.path(name)

    def uri(self, name: str) -> str:
        """Where Spark finds a file."""
        return (self._root / name).absolute().as_uri()

    def size(self, name: str) -> int:
        """The bytes of a file; an OSError if it is not there."""
        return (self._root / name).stat().st_size

    def make(self, folder: str) -> None:
        """A new folder."""
        path = self._root / folder
        missing = [parent for parent in (path, *path.parents) if not parent.exists()]
        for new in reversed(missing):
            make_folder(new, new.parent)
            sync(new)

    def create(self, name: str) -> None:
        """A new and empty file, which only its owner may read."""
        path = self._root / name
        os.close(open_private(path, os.O_WRONLY | os.O_EXCL, path.parent))

    def take_over(self, folder: str) -> None:
        """What others wrote below a folder is as private as what is written here."""
        for path in (self._root / folder, *(self._root / folder).rglob("*")):
            if not path.is_symlink():
                belong(path, path.parent)

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        """A file to read parts of."""
        with open(self._root / name, "rb") as stream:
            yield stream

    def sync(self, name: str) -> None:
        """Makes a file durable that is written."""
        sync(self._root / name)

    def folders(self) -> list[str]:
        """The folders beside each other in which runs are; links and files are somebody else's."""
        with suppress(FileNotFoundError), os.scandir(self._root / self.folder) as entries:
            return [f"{self.folder}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
        return []

    def files_below(self, folder: str) -> list[str]:
        """All files below a folder."""
        found = (path for path in (self._root / folder).rglob("*") if stat.S_ISREG(path.lstat().st_mode))
        return [path.relative_to(self._root).as_posix() for path in found]

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(self._root / folder)

    def remove_if_empty(self, folder: str) -> None:
        with suppress(OSError):  # something is in it
            (self._root / folder).rmdir()


class RemotePlace:
    """Files on a file system of pyarrow's, by the same names below an address."""

    files: fs.FileSystem | None

    def __init__(self, address: str, folder: str) -> None:
        self._address = address
        self._files, root = file_system(address)
        self._root = root.rstrip("/")
        self.files = self._files
        self.folder = folder

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def text(self, name: str) -> str:
        return self.uri(name)

    def uri(self, name: str) -> str:
        return f"{self._address}/{name}"

    def size(self, name: str) -> int:
        info = self._files.get_file_info(self.path(name))
        if not info.is_file:
            raise FileNotFoundError(f"there is no file {self.uri(name)}")
        return cast("int", info.size)

    def make(self, folder: str) -> None:
        self._files.create_dir(self.path(folder), recursive=True)

    def create(self, name: str) -> None:
        """Who may read a file is said by its file system."""

    def take_over(self, folder: str) -> None:
        """As above."""

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        with self._files.open_input_file(self.path(name)) as stream:
            yield stream

    def sync(self, name: str) -> None:
        """A file that is closed is durable."""

    def folders(self) -> list[str]:
        found = self._files.get_file_info(fs.FileSelector(self.path(self.folder), allow_not_found=True))
        return [f"{self.folder}/{info.base_name}" for info in found if info.type == fs.FileType.Directory]

    def files_below(self, folder: str) -> list[str]:
        path = self.path(folder)
        found = self._files.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        # A file system may give paths in another writing than it was asked in, up to the folder's own name.
        return [f"{folder}/{info.path.rpartition(f'/{folder}/')[2]}" for info in found if info.is_file]

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.delete_file(self.path(name))

    def remove_folder(self, folder: str) -> None:
        self._files.delete_dir(self.path(folder))

    def remove_if_empty(self, folder: str) -> None:
        path = self.path(folder)
        if not self._files.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            with suppress(FileNotFoundError):
                self._files.delete_dir(path)


Place = LocalPlace | RemotePlace


def sync(path: Path) -> None:
    """Brings a file, and then the directory that names it, to the disk."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
