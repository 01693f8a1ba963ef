"""Views in a notebook: a table that is drawn again when its view changes. Needs IPython."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sparqlive.errors import Error

if TYPE_CHECKING:
    from sparqlive.engine.view import View

_LEAST_SECONDS = 0.2
"""Between two drawings, so that a fast stream of changes does not block the browser."""


class LiveTable:
    """A view's first rows in the output of a cell, kept up to date by a thread until `stop()`."""

    def __init__(self, view: View) -> None:
        try:
            from IPython import display
        except ModuleNotFoundError as error:
            raise Error("view.live() needs IPython, as in a notebook. Run: pip install ipython") from error
        self._view = view
        self._display: Any = display
        self._stopped = threading.Event()
        self._handle = self._display.display(self._drawn(), display_id=True)
        self._thread = threading.Thread(
            target=self._follow, args=(view.epoch,), name="live table", daemon=True
        )
        self._thread.start()

    def _drawn(self) -> Any:
        return self._display.HTML(self._view._repr_html_())

    def _follow(self, drawn: int) -> None:
        """Draws again after each change; the table of a dropped or failed view stays as it is."""
        while not self._stopped.wait(_LEAST_SECONDS):
            try:
                epoch = self._view.stats()["last_epoch"]
                if epoch > drawn:
                    self._handle.update(self._drawn())
                    drawn = epoch
            except Error:
                return

    def stop(self) -> None:
        """Stops drawing; the table stays as it is."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
