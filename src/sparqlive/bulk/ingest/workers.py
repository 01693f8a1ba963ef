"""Runs the tasks of an ingest: in this process, in other local processes, or on Spark.

A separate command starts the processes, because those of `multiprocessing` would run the caller's main
program again. Invariant: a task that fails in a worker raises the same error here. Ctrl-C does not reach the
processes: the process that started them decides, and ends them when it stops.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol, TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")

_COMMAND = [sys.executable, "-c", "from sparqlive.bulk.ingest.workers import serve; serve()"]


class Workers(Protocol):
    @property
    def cores(self) -> int:
        """The number of tasks that run at the same time."""

    def each(self, tasks: Sequence[Given], work: Callable[[Given], Result], name: str) -> list[Result]:
        """Returns the result of each task, in order. `name` says what they do, for progress messages."""


class Here:
    """Runs tasks one after another in this process."""

    cores = 1

    def each(self, tasks: Sequence[Given], work: Callable[[Given], Result], name: str) -> list[Result]:
        return [work(task) for task in tasks]


class Processes:
    """Runs tasks in as many processes as the machine has cores; `work` and tasks must support pickling."""

    def __init__(self, cores: int | None = None) -> None:
        self.cores = cores or len(os.sched_getaffinity(0))

    def each(self, tasks: Sequence[Given], work: Callable[[Given], Result], name: str) -> list[Result]:
        count = min(self.cores, len(tasks))
        if count <= 1:
            return Here().each(tasks, work, name)
        idle: SimpleQueue[_Process] = SimpleQueue()
        processes = [_Process() for _ in range(count)]
        for process in processes:
            idle.put(process)

        def run(task: Given) -> Result:
            process = idle.get()
            try:
                return process.run(work, task)
            finally:
                idle.put(process)

        try:
            with ThreadPoolExecutor(count) as threads:
                futures = [threads.submit(run, task) for task in tasks]
                try:
                    return [future.result() for future in futures]
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    for process in processes:
                        process.kill()  # otherwise this would wait for their tasks
                    raise
        finally:
            for process in processes:
                process.end()


class _Process:
    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
        )

    def run(self, work: Callable[[Given], Result], task: Given) -> Result:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        pickle.dump((work, task), requests)
        requests.flush()
        try:
            result, error = pickle.load(answers)
        except EOFError:
            code = self._process.wait()
            raise OSError(f"a process that reads documents ended with exit status {code}") from None
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # a request that a killed process did not read
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve() -> None:
    """Runs tasks from standard input until it ends; sends their output to standard error."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while _answer_next(requests, answers):
        pass


def _answer_next(requests: BinaryIO, answers: BinaryIO) -> bool:
    try:
        work, task = pickle.load(requests)
    except EOFError:
        return False
    answer: tuple[Any, Exception | None]
    try:
        answer = work(task), None
    except Exception as error:
        answer = None, error
    pickle.dump(answer, answers)
    answers.flush()
    return True
