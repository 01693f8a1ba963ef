"""The place of a store's runs: its own directory, another one, or a file system that pyarrow supports.

Maps the names of runs in the catalog to files; makes files durable, lists and removes them. Rejects addresses
without a supported file system. Invariants: all runs of a store are in one folder that no other store uses. A
file that was written and synced survives a crash: by fsync on local disks, by the guarantee of the file
system elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from importlib import import_module
from io import IOBase
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname
from uuid import uuid4

from pyarrow import fs

from sparqlive.errors import Error, StoreFailed
from sparqlive.store.names import FOLDER, ensure_plain, stored_name
from sparqlive.store.private import belong, make_folder, open_private

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def file_system(name: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path on it."""
    if _SCHEME.match(name) is None:
        return fs.LocalFileSystem(), name
    try:
        if name.startswith("file://"):
            return cast("tuple[fs.FileSystem, str]", fs.FileSystem.from_uri(name))
        parts = urlsplit(name)
        files, root = _connected(parts.scheme, parts.netloc)
        return files, f"{root}{unquote(parts.path)}"
    except (OSError, ValueError, NotImplementedError) as error:
        raise Error(f"{name}: no file system supports this address: {error}.") from error


@lru_cache(maxsize=16)
def _connected(scheme: str, server: str) -> tuple[fs.FileSystem, str]:
    """The file system of a server or bucket, and the path of its root. For S3, looks up the region."""
    if scheme == "hdfs":
        return _hdfs(server), ""
    # Hadoop calls the S3 protocol s3a or s3n.
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    return cast("tuple[fs.FileSystem, str]", fs.FileSystem.from_uri(f"{scheme}://{server}"))


def _hdfs(server: str) -> fs.FileSystem:
    """A client of HDFS: the package hdfs-native where it is installed, otherwise pyarrow with libhdfs."""
    try:
        package: Any = import_module("hdfs_native.fsspec")
    except ImportError:
        try:
            return fs.FileSystem.from_uri(f"hdfs://{server}")[0]
        except OSError as error:
            raise Error(
                f"hdfs://{server} needs a client of HDFS: pip install 'sparqlive[hdfs]'. (Or set HADOOP_HOME "
                f"and CLASSPATH for pyarrow, which could not use libhdfs: {str(error).splitlines()[0]}.)"
            ) from error

    class Hdfs(package.HdfsFileSystem):  # type: ignore[misc]
        """Reports modification times under the name that pyarrow reads."""

        def info(self, path: str, **options: Any) -> dict[str, Any]:
            return _with_time(super().info(path, **options))

        def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
            entries = super().ls(path, detail, **options)
            return [_with_time(info) for info in entries] if detail else entries

    parts = urlsplit(f"hdfs://{server}")
    client = Hdfs(parts.hostname, parts.port)
    client.client = _Reporting(client.client)
    return fs.PyFileSystem(fs.FSSpecHandler(client))


class _Reporting:
    """Wraps the HDFS client and its files, and turns their RuntimeErrors into OSErrors."""

    def __init__(self, reported: Any) -> None:
        self._reported = reported

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._reported, name)
        return partial(self._call, attribute) if callable(attribute) else attribute

    def _call(self, action: Callable[..., Any], *given: Any, **options: Any) -> Any:
        try:
            result = action(*given, **options)
            if isinstance(result, IOBase):
                return _Reporting(result)
            return list(result) if isinstance(result, Iterator) else result
        except RuntimeError as error:
            raise OSError(str(error)) from error


def _with_time(info: dict[str, Any]) -> dict[str, Any]:
    return info | {"mtime": info["modification_time"] / 1000}


def address_of(runs: str | os.PathLike[str]) -> str:
    """A path or URI as a URI, which the catalog records as the address of the runs."""
    text = os.fspath(runs)
    return text.rstrip("/") if _SCHEME.match(text) else Path(text).absolute().as_uri()


def new_folder() -> str:
    """A unique folder name for a store, because stores can share an address."""
    return f"sparqlive-{uuid4().hex}"


def check_recorded(address: str, folder: str) -> None:
    """Rejects a location of runs that no version could have recorded in a catalog."""
    if FOLDER.fullmatch(folder) is None or ".." in address.split("/") or "\0" in unquote(address):
        raise StoreFailed(
            f"The catalog says that the runs of its store are at {address[:200]!r} in {folder[:200]!r}, "
            f"which is not a location of runs. The catalog is damaged or malicious: restore the store from a "
            f"backup that you trust."
        )


def place_at(address: str, folder: str) -> LocalPlace | RemotePlace:
    """The runs in a folder at an address, as the catalog records both."""
    if address.startswith("file://") and not address.startswith("file:///"):
        raise Error(f"{address} is not a local directory: file:// must be followed by an absolute path.")
    if address.startswith("file://"):
        return LocalPlace(Path(url2pathname(address.removeprefix("file://"))), folder)
    if unusable := re.search(r"[?#%\s]|:[^/@]*@", address.partition("://")[2]):
        # Clients interpret these differently, and a password must not be stored in the catalog.
        raise Error(
            f"The address of runs must be scheme://place/path, without {unusable[0][0]!r}. Set keys and "
            f"endpoints in the environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, …)."
        )
    return RemotePlace(address, folder)


class Readable(Protocol):
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...


class LocalPlace:
    """Files on local file systems. Names are relative to the root."""

    # pyarrow needs no file system for local paths.
    files: fs.FileSystem | None = None

    def __init__(self, root: Path, folder: str) -> None:
        self._root = root.absolute()  # workers may run elsewhere
        self.folder = folder

    def _at(self, name: str) -> Path:
        """The path of a file or folder; raises if the name leaves the folder, or leads over a link."""
        path = self._root
        for number, part in enumerate(stored_name(self.folder, name).split("/")):
            path /= part
            if number or not self.is_linked:
                ensure_plain(path)
        return path

    @property
    def is_linked(self) -> bool:
        """Whether the folder is a link, to storage that machines share."""
        return (self._root / self.folder).is_symlink()

    def path(self, name: str) -> str:
        """The path of a file for pyarrow."""
        return str(self._at(name))

    def text(self, name: str) -> str:
        """The location of a file for messages and for ingest."""
        return self.path(name)

    def uri(self, name: str) -> str:
        """The location of a file for Spark."""
        return self._at(name).absolute().as_uri()

    def size(self, name: str) -> int:
        """The size of a file in bytes; raises OSError if it is missing."""
        return self._at(name).stat().st_size

    def make(self, folder: str) -> None:
        """Creates a folder, with missing parents."""
        path = self._at(folder)
        missing = [parent for parent in (path, *path.parents) if not parent.exists()]
        for new in reversed(missing):
            make_folder(new, new.parent)
            sync(new)

    def create(self, name: str) -> None:
        """Creates an empty file that only its owner can read."""
        path = self._at(name)
        os.close(open_private(path, os.O_WRONLY | os.O_EXCL, path.parent))

    def take_over(self, folder: str) -> None:
        """Restricts files that workers wrote below a folder to the access of the store's own files."""
        for path in (self._at(folder), *self._at(folder).rglob("*")):
            if not path.is_symlink():
                belong(path, path.parent)

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        """Opens a file for reading parts of it."""
        with open(self._at(name), "rb") as stream:
            yield stream

    def sync(self, name: str) -> None:
        """Makes a written file durable."""
        sync(self._at(name))

    def folders(self) -> list[str]:
        """The folders of attempts at commits; links and other files do not belong to the store."""
        with suppress(FileNotFoundError), os.scandir(self._at(self.folder)) as entries:
            return [f"{self.folder}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
        return []

    def files_below(self, folder: str) -> list[str]:
        """All files below a folder."""
        paths = (path for path in self._at(folder).rglob("*") if stat.S_ISREG(path.lstat().st_mode))
        return [path.relative_to(self._root).as_posix() for path in paths]

    def remove(self, name: str) -> None:
        self._at(name).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(self._at(folder))

    def remove_if_empty(self, folder: str) -> None:
        with suppress(OSError):  # not empty
            self._at(folder).rmdir()


class RemotePlace:
    """Files on a pyarrow file system; the same names are relative to an address."""

    files: fs.FileSystem | None

    def __init__(self, address: str, folder: str) -> None:
        self._address = address
        self._files, root = file_system(address)
        self._root = root.rstrip("/")
        self.files = self._files
        self.folder = folder

    def __reduce__(self) -> tuple[type[RemotePlace], tuple[str, str]]:
        """Pickles no connection and no keys: a worker connects by itself."""
        return RemotePlace, (self._address, self.folder)

    is_linked = False

    def path(self, name: str) -> str:
        return f"{self._root}/{stored_name(self.folder, name)}"

    def text(self, name: str) -> str:
        return self.uri(name)

    def uri(self, name: str) -> str:
        return f"{self._address}/{stored_name(self.folder, name)}"

    def size(self, name: str) -> int:
        info = self._files.get_file_info(self.path(name))
        if not info.is_file:
            raise FileNotFoundError(f"no such file: {self.uri(name)}")
        return cast("int", info.size)

    def make(self, folder: str) -> None:
        self._files.create_dir(self.path(folder), recursive=True)

    def create(self, name: str) -> None:
        """Does nothing: the file system decides who can read a file."""

    def take_over(self, folder: str) -> None:
        """Does nothing, like `create`."""

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        with self._files.open_input_file(self.path(name)) as stream:
            yield stream

    def sync(self, name: str) -> None:
        """Does nothing: a closed file is durable."""

    def folders(self) -> list[str]:
        entries = self._files.get_file_info(fs.FileSelector(self.path(self.folder), allow_not_found=True))
        return [f"{self.folder}/{info.base_name}" for info in entries if info.type == fs.FileType.Directory]

    def files_below(self, folder: str) -> list[str]:
        path = self.path(folder)
        entries = self._files.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        # Returned paths may spell the part before the folder's name differently than the request.
        return [f"{folder}/{info.path.rpartition(f'/{folder}/')[2]}" for info in entries if info.is_file]

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
    """Writes a file, and then its directory, through to the disk."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
