"""Follows a folder of files of changes: hands each new file on, in the order of modification times and names.

Owns the listing, its thread and its errors. The receiver of a file records that it is done. Files must appear
in the folder complete (written elsewhere, then moved), and must never change. Ignores names that start with
a dot or an underscore, which are those of unfinished files.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import BinaryIO, cast

from pyarrow import fs

from sparqlive.errors import Error
from sparqlive.pipeline.file import ChangesSource
from sparqlive.rdf.changes import is_changes_name
from sparqlive.store.place import file_system


@dataclass(frozen=True)
class NewFile:
    """A file of the folder: its absolute path or URI, and its name within the folder."""

    path: str
    name: str

    def open(self) -> BinaryIO:
        """Opens the file, decompressed according to its name."""
        files, path = file_system(self.path)
        return cast("BinaryIO", io.BufferedReader(files.open_input_stream(path)))


class FollowedFolder:
    """A folder that a thread follows; with `once`, only the files that it has now."""

    def __init__(
        self,
        source: ChangesSource,
        is_done: Callable[[NewFile], bool],
        take: Callable[[NewFile], None],
        *,
        once: bool,
    ) -> None:
        self._source = source
        self._is_done = is_done
        self._take = take
        self._once = once
        self._seen: set[str] = set()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, name=f"folder {source.name}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits; returns whether the folder is no longer followed. Raises the error that ended it."""
        self._thread.join(seconds)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._stopping.is_set():
                for file in self._new_files():
                    if self._stopping.is_set():
                        return
                    if not self._is_done(file):
                        self._take(file)
                    self._seen.add(file.name)
                if self._once:
                    return
                self._stopping.wait(self._source.poll_interval_seconds)
        except BaseException as error:
            self._failure = error

    def _new_files(self) -> list[NewFile]:
        folder = self._source.folder
        files, path = file_system(folder)
        try:
            listed = files.get_file_info(fs.FileSelector(path))
        except OSError as error:
            raise Error(f"Cannot list {folder}: {error}.") from error
        new = [info for info in listed if info.type == fs.FileType.File and self._is_new(info.base_name)]
        new.sort(key=lambda info: (info.mtime_ns or 0, info.base_name))
        return [NewFile(f"{folder}/{info.base_name}", info.base_name) for info in new]

    def _is_new(self, name: str) -> bool:
        if name in self._seen or name.startswith((".", "_")):
            return False
        pattern = self._source.pattern
        return is_changes_name(name) if pattern is None else fnmatchcase(name, pattern)
