"""Defines the interface of a backend, which runs the SQL of the bulk executor.

A backend registers tables and Python functions under names, and runs a frame once it is complete. The names
are valid inside its `with` block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from sparqlive.bulk.dialect import Dialect
from sparqlive.bulk.frame import Frame
from sparqlive.bulk.new_terms import NewTerms
from sparqlive.store.compaction import Target
from sparqlive.store.runs import RunFile
from sparqlive.store.saving import Saved

if TYPE_CHECKING:
    from sparqlive.bulk.stored_rows import StoredRelation

Function = Callable[..., pa.Array]


@dataclass(frozen=True)
class Later:
    """A table with these columns that is created when a query first reads it."""

    columns: Sequence[str]
    make: Callable[[], Any]


@dataclass(frozen=True)
class LaterFrame:
    """A frame with these columns that is registered when something first reads it."""

    columns: Sequence[str]
    make: Callable[[], Frame]


class Backend(Protocol):
    dialect: Dialect
    shares: bool
    """Whether a subquery that several parts of a query read is computed once."""
    joins_after_sum: int
    """Unread variables are summed away while at least this many joins remain, this one included."""

    def frame(self, data: Any, columns: Sequence[str]) -> Frame:
        """Registers a table of the backend's own kind, and returns a frame that reads it."""

    def columns(self, data: Any) -> Sequence[str]:
        """Returns the names of a table's columns."""

    def share(self, frame: Frame) -> tuple[Frame, bool]:
        """Prepares a frame, expected to be small, for several uses in one query; tells if it is small."""

    def measured(self, frame: Frame) -> tuple[Frame, bool]:
        """Returns the same rows, and whether they are few enough to be broadcast, if that matters."""

    def are_few(self, frame: Frame) -> bool:
        """Counts rows; returns whether they are few enough to be broadcast, if that matters."""

    def repeats(self, frame: Frame) -> bool:
        """Returns whether a query may read a frame several times: it is computed once, or is small enough."""

    def materialize(self, frame: Frame) -> Frame:
        """Computes the rows now for several queries, if the backend can hold them."""

    def held(self, frame: Frame) -> tuple[Frame, pa.Table | None]:
        """Computes the rows now, in this process if they are few; otherwise returns the frame and None."""

    def function(self, function: Function, kind: pa.DataType) -> str:
        """Registers a Python function of Arrow arrays with results of type `kind`; returns its SQL name."""

    def files(self, paths: Sequence[str], columns: Sequence[str]) -> Frame:
        """Reads at least one column of Parquet files, given by their addresses."""

    def local(self, table: pa.Table) -> Frame:
        """Returns rows that this process has as a frame; at most a few thousand for a remote backend."""

    def view(self, frame: Frame) -> Frame:
        """Registers the rows under a name. Its readers share no work: each restricts what it reads."""

    def rows(self, frame: Frame) -> pa.Table:
        """Returns the rows of a frame in this process."""

    def save(self, frame: Frame, relation: str, target: Target) -> Saved:
        """Computes rows with the columns c0 … and w, and saves them, sorted; large results go to files."""

    def save_difference(self, frame: Frame, stored: StoredRelation, relation: str, target: Target) -> Saved:
        """Computes rows, and saves their difference to stored rows, as `save` does."""

    def save_terms(self, frame: Frame, known: Sequence[RunFile], target: Target) -> NewTerms:
        """Computes terms with the columns id and term, each once, and writes those that no known file has."""

    def query(self, frame: Frame) -> Any:
        """Returns the rows of a frame as the backend's own kind of table, not computed yet."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
