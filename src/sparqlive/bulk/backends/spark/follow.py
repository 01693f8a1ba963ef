"""Follows a streaming DataFrame: each of its micro-batches becomes one epoch.

Spark's checkpoint stores the offsets of each batch. The epoch commits the id of the query, which the
checkpoint keeps, and the number of the batch, so a batch that Spark repeats after a failure changes nothing.
Owns streams of changes, from start to stop. Invariant: Spark records a batch as done only after its epoch is
committed.

On classic Spark, this process receives each batch. Spark Connect calls handlers in a process of the server:
there, the workers write the statements of a batch, and this process applies the files and reports back.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

from pyarrow import fs

from sparqlive.bulk.backends.spark.columns import selected
from sparqlive.bulk.backends.spark.failure import root_cause
from sparqlive.bulk.backends.spark.frames import write_statements
from sparqlive.bulk.backends.spark.start import is_connect
from sparqlive.errors import Error, InvalidChange, SparkFailed
from sparqlive.numbers import seconds as checked_seconds
from sparqlive.rdf.frames import FrameColumns, StatementFiles
from sparqlive.store.place import file_system

_POLL_SECONDS = 0.1
_ALIVE_SECONDS = 300
"""Interval at which this process must show that it is alive, or the server stops waiting."""
_START_SECONDS = 300
_OTHER_SOURCE = re.compile(r"Wrong basePath|sources in the checkpoint")
"""Spark's message if a checkpoint has files of another folder, or another number of sources."""
_SLOW_START = "Python worker failed to connect back"


@dataclass
class RunningStream:
    """A running stream."""

    query: Any
    """Spark's own query object: status, progress, exception."""
    _failures: list[BaseException]
    _end: Callable[[], None] = lambda: None
    """Called when the stream has ended."""
    _checkpoint: str = ""

    def wait(self, seconds: float | None = None) -> bool:
        """Waits, and returns whether the stream has ended. Raises the error that ended it.

        Without `seconds`, waits until the stream ends.
        """
        while True:
            try:
                ended = bool(self.query.awaitTermination(1.0 if seconds is None else seconds))
            except Exception as error:
                self._end()
                if self._failures:
                    raise self._failures[0] from None
                raise SparkFailed(self._sentence(str(error))) from error
            if self._failures:
                raise self._failures[0]
            if ended:
                self._end()
            if ended or seconds is not None:
                return ended

    def _sentence(self, text: str) -> str:
        cause = root_cause(text)
        if not _OTHER_SOURCE.search(text):
            return f"Spark failed: {cause}"
        return (
            f"Checkpoint {self._checkpoint} belongs to a different source. Follow each source under its "
            f"own name (name='…'), or delete the checkpoint to read this source from its beginning. "
            f"(Spark: {cause})"
        )

    def stop(self) -> None:
        """Stops the stream. A batch that is not applied yet is applied when the stream starts again."""
        try:
            self.query.stop()
        finally:
            self._end()


Apply = Callable[[Any, FrameColumns, tuple[str, int]], Any]
"""Applies rows (a DataFrame, or files of statements) as a batch."""


def follow_frame(
    frame: Any,
    meaning: FrameColumns,
    apply: Apply,
    folder: str,
    *,
    checkpoint: str | None,
    once: bool,
    interval_seconds: float | None,
) -> RunningStream:
    """Starts a stream. `folder`: where it keeps its checkpoint, unless `checkpoint` is given."""
    if not getattr(frame, "isStreaming", False):
        raise Error(
            "follow needs a streaming DataFrame, from spark.readStream. Use apply for other DataFrames."
        )
    if interval_seconds is not None:
        checked_seconds("interval_seconds", interval_seconds, least=0)
    place = checkpoint or f"{folder}/checkpoint"
    writer = selected(frame, meaning).writeStream.option("checkpointLocation", place)
    if once:
        writer = writer.trigger(availableNow=True)
    elif interval_seconds is not None:
        writer = writer.trigger(processingTime=f"{round(interval_seconds * 1000)} milliseconds")
    running = (
        _on_connect(writer, apply, meaning, f"{folder}/staged")
        if is_connect(frame)
        else _on_classic(writer, apply, meaning)
    )
    return replace(running, _checkpoint=place)


def _on_classic(writer: Any, apply: Apply, meaning: FrameColumns) -> RunningStream:
    failures: list[BaseException] = []
    started, query_id = threading.Event(), [""]
    applying = threading.RLock()

    def take(frame: Any, number: int) -> None:
        started.wait()  # the first batch may arrive before this process knows the query
        try:
            with applying:
                apply(frame, meaning, (f"follow:{query_id[0]}", number))
        except BaseException as error:
            failures.append(error)
            raise

    def end() -> None:
        """Waits for a batch that is being applied: without Java, its thread continues while Python exits."""
        with applying:
            pass

    query = writer.foreachBatch(take).start()
    query_id[0] = query.id
    started.set()
    return RunningStream(query, failures, end)


# Spark Connect


def _on_connect(writer: Any, apply: Apply, meaning: FrameColumns, folder: str) -> RunningStream:
    _cleared(folder)
    mailbox = _Mailbox(
        f"{folder}/{uuid4()}"
    )  # a server that lost this process may still write to an older one
    mailbox.make("")
    mailbox.sign()
    query = _started(writer.foreachBatch(_Hand(mailbox, meaning)))
    failures: list[BaseException] = []
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set() and not failures:
            mailbox.sign()
            for number, sent in mailbox.waiting():
                try:
                    apply(sent.files(), meaning, (f"follow:{query.id}", number))
                    mailbox.answer(number, "")
                except BaseException as error:
                    failures.append(error)
                    mailbox.answer(number, f"{type(error).__name__}: {error}")
                    break
            stop.wait(_POLL_SECONDS)

    thread = threading.Thread(target=serve, name="sparqlive-follow", daemon=True)

    def end() -> None:
        stop.set()
        if thread is not threading.current_thread():
            thread.join()

    thread.start()
    return RunningStream(query, failures, end)


def _started(writer: Any) -> Any:
    """Starts the stream. The server gives its worker 10 s to start, which a busy machine may exceed."""
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            return writer.start()
        except Exception as error:
            if _SLOW_START not in str(error):
                raise
            if time.monotonic() > until:
                raise SparkFailed(
                    f"The Spark Connect server is too busy: in {_START_SECONDS} s, none of the Python "
                    f"processes that it started for the stream was ready within 10 s. Follow it again later."
                ) from error


@dataclass(frozen=True)
class _Hand:
    """Runs on the server for each batch: the workers write its statements, and this process applies them."""

    mailbox: _Mailbox
    meaning: FrameColumns

    def __call__(self, frame: Any, number: int) -> None:
        folder = self.mailbox.make(f"{number}-{time.time_ns():x}")
        try:
            written = write_statements(frame, self.meaning, folder)
            sent = _Sent(written.inserts, written.deletes)
        except InvalidChange as error:
            sent = _Sent(invalid=str(error))
        except Exception as error:
            sent = _Sent(failed=root_cause(str(error)))
        self.mailbox.send(number, sent)
        while (answer := self.mailbox.taken(number)) is None:
            if self.mailbox.is_abandoned():
                raise SparkFailed(
                    "The process that follows the stream has ended. It resumes with this batch."
                )
            time.sleep(_POLL_SECONDS)
        if answer:
            raise SparkFailed(answer)


@dataclass(frozen=True)
class _Sent:
    """The server's report on a batch: files of statements, or the reason why there are none."""

    inserts: Sequence[str] = ()
    deletes: Sequence[str] = ()
    invalid: str | None = None
    failed: str | None = None

    def files(self) -> StatementFiles:
        if self.invalid is not None:
            raise InvalidChange(self.invalid)
        if self.failed is not None:
            raise SparkFailed(f"Spark failed to read a batch of the stream: {self.failed}")
        return StatementFiles(tuple(self.inserts), tuple(self.deletes))


def _cleared(folder: str) -> None:
    files, path = file_system(folder)
    files.create_dir(path, recursive=True)
    files.delete_dir_contents(path)


@dataclass(frozen=True)
class _Mailbox:
    """A folder that both the server and this process can access, with one note per batch and per answer."""

    folder: str

    def make(self, name: str) -> str:
        files, path = file_system(f"{self.folder}/{name}")
        files.create_dir(path, recursive=True)
        return f"{self.folder}/{name}"

    def sign(self) -> None:
        self._write("alive", str(time.time()))

    def is_abandoned(self) -> bool:
        text = self._read("alive")
        return bool(text) and time.time() - float(text or 0) > _ALIVE_SECONDS

    def send(self, number: int, sent: _Sent) -> None:
        self._remove(f"{number}.answer")
        self._write(f"{number}.batch", json.dumps(asdict(sent)))

    def waiting(self) -> Iterator[tuple[int, _Sent]]:
        files, path = file_system(self.folder)
        found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        names = [info.base_name for info in found if info.base_name.endswith(".batch")]
        for number in sorted(int(name.partition(".")[0]) for name in names):
            text = self._read(f"{number}.batch")
            if text:
                yield number, _Sent(**json.loads(text))

    def answer(self, number: int, said: str) -> None:
        self._write(f"{number}.answer", json.dumps(said))
        self._remove(f"{number}.batch")

    def taken(self, number: int) -> str | None:
        text = self._read(f"{number}.answer")
        return None if not text else str(json.loads(text))

    def _write(self, name: str, text: str) -> None:
        files, path = file_system(f"{self.folder}/{name}")
        with files.open_output_stream(f"{path}.tmp") as stream:
            stream.write(text.encode())
        files.move(f"{path}.tmp", path)

    def _read(self, name: str) -> str | None:
        files, path = file_system(f"{self.folder}/{name}")
        try:
            with files.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def _remove(self, name: str) -> None:
        files, path = file_system(f"{self.folder}/{name}")
        with suppress(FileNotFoundError):
            files.delete_file(path)
