"""A file or a glob on this machine, watched for changes, in any RDF syntax.

Several files are one source: its content is what they have together. A file that is gone is a failure, not a
deletion, unless `when_missing="clear"` says otherwise.
"""

from __future__ import annotations

import asyncio
import glob
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from watchfiles import awatch

from sparqlive.errors import Error
from sparqlive.rdf.read import read_paths
from sparqlive.sources import Content, Failed, Outcome, Report, Unchanged, Version


class File:
    def __init__(self, address: str, *, when_missing: Literal["keep", "clear"] = "keep") -> None:
        if when_missing not in ("keep", "clear"):
            raise Error(f'when_missing is "keep" or "clear", not {when_missing!r}.')
        local = urlsplit(address)
        self._address = url2pathname(local.path) if local.scheme == "file" else address
        self._clears = when_missing == "clear"

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        noticing = asyncio.create_task(self._notice(wake))
        try:
            while True:
                wake.clear()
                outcome = await asyncio.to_thread(self._look, version)
                if isinstance(outcome, Content):
                    version = outcome.version
                await report(outcome)
                await wake.wait()
        finally:
            noticing.cancel()

    async def _notice(self, wake: asyncio.Event) -> None:
        """The folder is watched, because editors replace files, and globs get new ones."""
        folder = Path(self._address)
        while not folder.is_dir() or glob.has_magic(str(folder)):
            folder = folder.parent
        async for _ in awatch(folder, recursive="**" in self._address):
            wake.set()

    def _look(self, version: Version | None) -> Outcome:
        files = sorted(file for file in map(Path, glob.glob(self._address, recursive=True)) if file.is_file())
        if not files and not self._clears:
            return Failed(f"There is no file at {self._address}; what was read from it before is kept.")
        try:
            stats = [(str(file), file.stat()) for file in files]
            found = {"files": [[name, stat.st_mtime_ns, stat.st_size] for name, stat in stats]}
            if version == found:
                return Unchanged()
            return Content(list(read_paths(files, None)), found)
        except (Error, OSError) as error:
            return Failed(str(error))
