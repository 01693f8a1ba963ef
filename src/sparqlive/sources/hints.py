"""What the file system tells of: a hint that it is time to look, and nothing more.

Notifications get lost (network mounts tell of nothing, folders are replaced, the machine has a limit of
watches), so whoever listens looks now and then as well.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from watchfiles import awatch

# A machine has a limit of watches, for all programs together.
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
        """From now on, tells of these paths; under the same key they are the same, unless it is empty."""
        if key and key == self._key:
            return
        self._key = key
        folders = await asyncio.to_thread(folders_to_watch, paths[:_MOST_PATHS])
        if folders != self._folders:
            self.stop()
            self._folders = folders
            self._task = asyncio.create_task(self._listen(list(folders)))

    async def _listen(self, folders: Sequence[str]) -> None:
        with suppress(Exception):  # of whatever kind: without hints, it is looked now and then
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
    """The folders in which paths change, with what tells a folder from another one in its place.

    They are the folder of each path, or the nearest that is there, and those of the links on the way.
    """
    found: dict[str, tuple[int, int]] = {}
    for path in paths:
        for folder in _folders_of(os.path.abspath(path)):
            if len(found) >= _MOST_FOLDERS:
                return found
            with suppress(OSError):
                there = os.stat(folder)
                found[folder] = (there.st_dev, there.st_ino)
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
