"""Every error that sparqlive raises on purpose. Each carries a sentence a person can act on."""

from __future__ import annotations


class Error(Exception):
    """The base of all errors that sparqlive raises on purpose."""


class SyntaxError(Error):  # noqa: A001 - the public name, always used as sparqlive.SyntaxError
    """Text that is not what it should be: SPARQL, RDF or a change stream. Says where."""


class Unsupported(Error):
    """A feature that cannot be kept fresh, or cannot be yet. Says which and why."""


class InvalidChange(Error):
    """A change that no graph can hold: a term in the wrong position, or no quad at all."""


class UnknownView(Error, KeyError):
    """A view name that the session does not know. Lists the ones it does.

    `name` is that name, where it is known.
    """

    def __init__(self, sentence: str = "", name: str | None = None) -> None:
        super().__init__(sentence)
        self.name = name

    def __str__(self) -> str:  # KeyError would quote the sentence
        return str(self.args[0]) if self.args else ""


class ViewExists(Error):
    """A view of that name is registered with another query."""


class ViewFailed(Error):
    """The view stopped being maintained; says in which epoch and why."""


class SparkFailed(Error):
    """Spark could not do what it was asked for; nothing was changed."""


class StoreFailed(Error):
    """The store could not be opened, read or written; its last epoch is as it was."""


class StoreLocked(StoreFailed):
    """Another process has the store open for writing; `holder` says which."""

    def __init__(self, directory: object, holder: str) -> None:
        self.directory, self.holder = directory, holder
        super().__init__(
            f"The store {directory} is open for writing in {holder}: close it there, or open it here with "
            f"read_only=True."
        )


class CheckFailed(Error):
    """A view differs from its recomputation. Names the view and the rows."""


class Closed(Error):
    """The session is closed."""


class HistoryGone(Error):
    """The asked-for epoch is beyond what the session retains."""


class Timeout(Error):
    """A query took longer than it was allowed to, and was stopped."""


class TooLarge(Error):
    """A query has more rows than it was allowed to."""
