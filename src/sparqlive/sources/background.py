"""A background thread that works when it is woken. Woken while it works, it works once more."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundThread:
    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._changed = threading.Condition()
        self._due = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> bool:
        """Starts the thread, which waits to be woken. Returns False if it was running already."""
        if self._thread is not None:
            return False
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        return True

    def wake(self, due: bool = True) -> None:
        """Wakes the thread if there is work (`due`), and lets callers of `wait` check again."""
        with self._changed:
            self._due = self._due or due
            self._changed.notify_all()

    def wait(self, until: Callable[[], bool], timeout_seconds: float) -> bool:
        """Waits until the condition holds and no work is left, or the thread is stopped; False on timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._stopping or (until() and not self._due), timeout_seconds
            )

    def stop(self) -> None:
        """Stops the thread after its current work."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._stopping)
                if self._stopping:
                    return
                self._due = False
            self._work()
