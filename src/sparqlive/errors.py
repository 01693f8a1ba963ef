"""Every error that sparqlive raises on purpose, and its warning. Each message says what happened and what to
do about it.
"""

from __future__ import annotations


class Error(Exception):
    """Base class of all errors that sparqlive raises on purpose."""


class SyntaxError(Error):  # noqa: A001 - the public name, always used as sparqlive.SyntaxError
    """Malformed SPARQL, RDF or change stream. The message says where.

    `line` and `column`: the place in a query or update, counted from 1 in characters, if it is known.
    """

    def __init__(self, sentence: str = "", line: int | None = None, column: int | None = None) -> None:
        super().__init__(sentence)
        self.line, self.column = line, column


class Unsupported(Error):
    """A feature that cannot be kept up to date, or is not supported yet. The message says which and why."""


class InvalidChange(Error):
    """A change that no graph can hold: a term in the wrong position, or something that is not a quad."""


class UnknownView(Error, KeyError):
    """No view has this name. The message lists the registered views.

    `name` is the unknown name, if available.
    """

    def __init__(self, sentence: str = "", name: str | None = None) -> None:
        super().__init__(sentence)
        self.name = name

    def __str__(self) -> str:  # KeyError would quote the message
        return str(self.args[0]) if self.args else ""


class ViewExists(Error):
    """A view of this name already exists with a different query or different settings."""


class ViewFailed(Error):
    """The view is no longer kept up to date. The message says since which epoch and why."""


class BulkFailed(Error):
    """A bulk backend, DuckDB or Spark, failed; nothing was changed."""


class SparkFailed(BulkFailed):
    """Spark failed; nothing was changed."""


class StoreFailed(Error):
    """The store could not be opened, read or written; its last epoch is unchanged."""


class StoreLocked(StoreFailed):
    """Another process has the store open for writing; `holder` says which."""

    def __init__(self, directory: object, holder: str) -> None:
        self.directory, self.holder = directory, holder
        super().__init__(
            f"The store {directory} is open for writing in {holder}. Close it there, or open it here with "
            f"read_only=True."
        )


class ServiceFailed(Error):
    """A SERVICE endpoint could not be reached, or did not return solutions."""


class CheckFailed(Error):
    """A view differs from its recomputation. The message names the view and the rows."""


class Closed(Error):
    """The session is closed."""


class HistoryGone(Error):
    """The requested epoch is in the future, or older than the history that is kept."""


class Timeout(Error):
    """A query exceeded its time limit and was stopped."""


class TooLarge(Error):
    """A query exceeded a limit on its size or on its number of rows."""


class EmptyResultWarning(UserWarning):
    """A view or query has no rows because of a name, or because of the graphs that it reads.

    It is never raised as an error, even where warnings are, because an empty result may be correct.
    `view.hint` and `answer.hint` give the reason.
    """
