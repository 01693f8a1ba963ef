"""Keeps the startup messages of Java off the terminal.

The virtual machine of a local Spark writes to this process's standard error: warnings about its own modules,
hints about log levels. `quiet_java` gives it a pipe instead while it starts. A thread passes on every other
line for as long as the virtual machine runs, so errors stay visible.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHATTER = (
    b"WARNING: ",  # of the virtual machine: incubator modules, restricted methods
    b"NOTE: Picked up ",
    b"Picked up ",
    b"Setting default log level to ",
    b"To adjust logging level use ",
    b"Using Spark's default log4j profile: ",
)


@contextmanager
def quiet_java() -> Iterator[None]:
    """Filters the standard error of processes that start inside the block."""
    sys.stderr.flush()
    terminal = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    thread = threading.Thread(target=_pass_on, args=(reading, terminal), name="errors of Java", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)


def _pass_on(reading: int, terminal: int) -> None:
    """Copies lines until the last writer of the pipe has ended."""
    with open(reading, "rb") as lines, open(terminal, "wb", buffering=0) as shown:
        for line in lines:
            if not line.startswith(_CHATTER):
                shown.write(line)
