"""A file or a glob on this machine, in any RDF syntax, watched for changes.

An address that was once the name of a file is that file, even if it could be a glob. The files of a glob are
one source: its content is their union. A missing file, or a missing base folder of a glob, is a failure and
not a deletion, unless `when_missing="clear"`. So is a file or folder that cannot be read. The quads of files
that a glob no longer matches are removed.

Changes are found by listing the files (`listing.py`) at an interval; notifications of the file system only
make the next listing earlier. A listing is trusted once it has been the same for a while, because a file can
be written twice within one tick of the file system's clock. Until then, and on a requested refresh, the bytes
are compared.
"""

from __future__ import annotations

import asyncio
import glob
import os
import time
from pathlib import Path
from typing import Any, Literal

from sparqlive.errors import Error
from sparqlive.rdf.read import read_files
from sparqlive.sources.hints import Hints
from sparqlive.sources.listing import Listing, is_glob, listing_of
from sparqlive.sources.paths import local_path
from sparqlive.sources.polling import checked_interval, first_of, wait
from sparqlive.sources.watcher import Content, Failed, Outcome, Report, Unchanged, Version
from sparqlive.web.retry import retry_seconds

POLL_SECONDS = 2.0
# A changed file is read when it has not changed for the first time span, or at the latest after the second.
_QUIET_SECONDS, _PATIENCE_SECONDS = 0.1, 2.0
# The coarsest clock of a file system.
_TICK_SECONDS = 2.0
# The share of time that listing may take, however many files there are.
_PART_OF_TIME = 1 / 20
# An unchanged outcome is reported again after this time.
_REPORT_SECONDS = 30.0

_now = time.monotonic


class File:
    def __init__(
        self,
        address: str,
        *,
        when_missing: Literal["keep", "clear"] = "keep",
        poll_interval_seconds: float | None = POLL_SECONDS,
    ) -> None:
        if when_missing not in ("keep", "clear"):
            raise Error(f'when_missing must be "keep" or "clear", not {when_missing!r}.')
        self._address = local_path(address)
        self._is_glob = is_glob(self._address)
        self._clears = when_missing == "clear"
        self._interval_seconds = checked_interval(poll_interval_seconds)
        self._listing = Listing()
        self._since = 0.0  # when the listing was first seen
        self._listing_seconds = 0.0
        self._failed: tuple[str, Failed] | None = None
        self._failures, self._retry_at = 0, 0.0

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        if version is not None and version.get("is_file"):
            self._is_glob = False
        hints = Hints()
        last: Outcome | None = None
        last_at = 0.0
        try:
            while True:
                asked = wake.is_set()
                wake.clear()
                hints.noticed.clear()
                outcome = await self._look(version, asked, wake)
                if asked or outcome != last or _now() - last_at > _REPORT_SECONDS:
                    await report(outcome)
                    # Content is large, and never the same twice.
                    last, last_at = None if isinstance(outcome, Content) else outcome, _now()
                if isinstance(outcome, Content | Unchanged):
                    version = outcome.version or version
                await hints.follow(self._listing.digest, self._paths())
                await self._rest(wake, hints.noticed)
        finally:
            hints.stop()

    def _paths(self) -> list[str]:
        """The paths whose changes matter."""
        inside = [os.path.join(folder, "*") for folder in self._listing.folders]
        return [self._address, *inside, *self._listing.files]

    async def _rest(self, wake: asyncio.Event, noticed: asyncio.Event) -> None:
        """Waits until the next look: one interval, less after a hint, not at all on a requested refresh."""
        interval, pause = self._interval_seconds, self._listing_seconds / _PART_OF_TIME
        await first_of(wake, noticed, seconds=None if interval is None else max(interval, pause))
        if noticed.is_set():  # other programs may write to the folder all the time
            await wait(wake, pause)

    async def _look(self, version: Version | None, asked: bool, wake: asyncio.Event) -> Outcome:
        """Lists and reads the files."""
        listing = await asyncio.to_thread(self._list)
        if not asked and isinstance(listing, Listing):
            if version is not None and version.get("files") == listing.digest:
                return Unchanged()
            if self._failed is not None and self._failed[0] == listing.digest and _now() < self._retry_at:
                return self._failed[1]
        end = _now() + _PATIENCE_SECONDS
        while isinstance(listing, Listing):
            if not asked:  # another program may still be writing
                await wait(wake, _QUIET_SECONDS)
            outcome = await asyncio.to_thread(self._read, listing, version)
            before, listing = listing, await asyncio.to_thread(self._list)
            if isinstance(listing, Listing) and (listing.digest == before.digest or _now() > end):
                return outcome
        return listing

    def _list(self) -> Listing | Failed:
        began = _now()
        try:
            self._is_glob = self._is_glob and is_glob(self._address)
            found = listing_of(self._address, self._is_glob)
        except (Error, OSError) as error:
            is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            if not (is_missing and self._clears):
                self._listing = Listing()
                return Failed(self._missing() if is_missing else self._reason(error))
            found = Listing()
        if found.digest != self._listing.digest:
            self._since = began
        self._listing = found
        self._listing_seconds = _now() - began
        return found

    def _read(self, listing: Listing, version: Version | None) -> Outcome:
        """Returns the content of the files, or Unchanged.

        Malformed files are read again when they change, on a requested refresh, and after a while.
        """
        is_trusted = _now() - self._since >= _TICK_SECONDS
        try:
            content = listing.content_digest()
            found: dict[str, Any] = {"files": listing.digest if is_trusted else None, "content": content}
            if not self._is_glob and glob.has_magic(self._address):
                found["is_file"] = True
            if version is not None and version.get("content") == content:
                outcome: Outcome = Unchanged(found)
            else:
                outcome = Content(list(read_files(map(Path, listing.files), None)), found)
        except OSError as error:
            return Failed(self._reason(error))
        except Error as error:
            self._failures += 1
            self._failed = (listing.digest, Failed(str(error)))
            self._retry_at = _now() + retry_seconds(self._failures)
            return self._failed[1]
        self._failures, self._failed = 0, None
        return outcome

    def _missing(self) -> str:
        what = "folder for" if self._is_glob else "file at"
        return f"There is no {what} {self._address}. The quads read from it before are kept."

    def _reason(self, error: Exception) -> str:
        return f"Cannot read {self._address}: {error}." if isinstance(error, OSError) else str(error)
