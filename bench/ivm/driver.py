"""The other end of a driver: a process that speaks lines of JSON, as README.md describes."""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_START_SECONDS = 300.0


class DriverError(Exception):
    """A driver failed, or took too long; its process has ended."""


class LateError(DriverError):
    """A driver took too long."""


class RefusedError(Exception):
    """An engine does not take a query, and says why."""


class Driver:
    """A running driver. A request waits for its answer, at most `timeout` seconds."""

    def __init__(self, command: str, folder: Path, timeout: float) -> None:
        self._command, self._folder, self._timeout = command, folder, timeout
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()

    def hello(self) -> str:
        """The engine's name. It may take its time to start."""
        timeout, self._timeout = self._timeout, max(self._timeout, _START_SECONDS)
        try:
            return str(self.ask(op="hello")["engine"])
        finally:
            self._timeout = timeout

    def ask(self, **request: Any) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            self.close()
            raise LateError(f"not finished in {self._timeout:.0f} s") from None
        except OSError:
            line = None
        if line is None:
            self.close()
            raise DriverError("the driver ended")
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise RefusedError(str(answer["refused"]))
        if "error" in answer:
            raise DriverError(str(answer["error"]))
        return answer

    def rows(self) -> list[Sequence[str | None]]:
        rows: list[Sequence[str | None]] = self.ask(op="result")["rows"]
        return rows

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the servers that it started
            process.wait()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not sent is lost
                    if stream is not None:
                        stream.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._answers = queue.Queue()
            self._process = subprocess.Popen(
                shlex.split(self._command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._folder,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
            threading.Thread(target=_read, args=(self._process, self._answers), daemon=True).start()
        return self._process


def _read(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            answers.put(line)
    except ValueError:  # closed meanwhile
        pass
    answers.put(None)
