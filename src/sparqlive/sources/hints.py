"""Notifications of the file system, used only as hints to look at the files now.

Notifications get lost (network mounts send none, folders are replaced, the machine limits the number of
watches), so the caller must also poll.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from watchfiles import awatch

# A machine limits the number of watches for all programs together.
_MOST_FOLDERS, _MOST_PATHS = 64, 1000
_MOST_LINKS = 40


class Hints:
    """Sets `noticed` when something may have changed, at most every `step_milliseconds`."""

    def __init__(self, step_milliseconds: int = 50) -> None:
        self._step_milliseconds = step_milliseconds
        self.noticed = asyncio.Event()
        self._key = ""
        self._folders: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def follow(self, key: str, paths: Sequence[str]) -> None:
        """Watches these paths from now on. Does nothing if the key is the last one and not empty."""
        if key and key == self._key:
            return
        self._key = key
        folders = await asyncio.to_thread(folders_to_watch, paths[:_MOST_PATHS])
        if folders != self._folders:
            self.stop()
            self._folders = folders
            self._task = asyncio.create_task(self._listen(list(folders)))

    async def _listen(self, folders: Sequence[str]) -> None:
        with suppress(Exception):  # any error: without hints, the caller polls
            async for _ in awatch(
                *folders,
                watch_filter=None,
                recursive=False,
                debounce=max(50, self._step_milliseconds),
                step=self._step_milliseconds,
            ):
                self.noticed.set()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None


def folders_to_watch(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Returns the folders in which the paths can change, each with its device and inode.

    These are the folder of each path, or its nearest existing parent, and the folders of the links on the
    way.
    """
    found: dict[str, tuple[int, int]] = {}
    for path in paths:
        for folder in _folders_of(os.path.abspath(path)):
            if len(found) >= _MOST_FOLDERS:
                return found
            with suppress(OSError):
                status = os.stat(folder)
                found[folder] = (status.st_dev, status.st_ino)
    return found


def _folders_of(path: str, links: int = 0) -> set[str]:
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    found = {folder}
    prefix = path
    while prefix != os.path.dirname(prefix) and links < _MOST_LINKS:
        if os.path.islink(prefix):
            with suppress(OSError):
                target = os.path.join(os.path.dirname(prefix), os.readlink(prefix))
                found |= {os.path.dirname(prefix), *_folders_of(os.path.abspath(target), links + 1)}
        prefix = os.path.dirname(prefix)
    return found
