"""The interface of a backend, which runs the SQL of the bulk executor.

A backend names tables and Python functions, and runs a frame once it is complete. The names are valid inside
its `with` block.
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
from sparqlive.store.runs import RunFile
from sparqlive.store.saving import Saved, Target

if TYPE_CHECKING:
    from sparqlive.bulk.stored_rows import StoredRelation

Function = Callable[..., pa.Array]


@dataclass(frozen=True)
class Later:
    """A table with these columns that is made when a query first reads it."""

    columns: Sequence[str]
    make: Callable[[], Any]


@dataclass(frozen=True)
class LaterFrame:
    """A frame with these columns that is named when something first reads it."""

    columns: Sequence[str]
    make: Callable[[], Frame]


class Backend(Protocol):
    dialect: Dialect
    shares: bool
    """Whether what several parts of a query read is computed once."""
    joins_after_sum: int
    """How many joins must be left, this one included, to sum away variables that are not read later."""

    def frame(self, data: Any, columns: Sequence[str]) -> Frame:
        """A table of the backend's own kind, under a name that frames can read."""

    def columns(self, data: Any) -> Sequence[str]:
        """The names of a table's columns."""

    def share(self, frame: Frame) -> tuple[Frame, bool]:
        """The same rows, expected to be few, for several uses in one query; and whether they are few."""

    def measured(self, frame: Frame) -> tuple[Frame, bool]:
        """The same rows, and whether they are few enough to be broadcast, where that makes a difference."""

    def are_few(self, frame: Frame) -> bool:
        """Whether rows are few enough to be broadcast, where that makes a difference; counts them."""

    def repeats(self, frame: Frame) -> bool:
        """Whether a query may read a frame several times: it is computed once, or is small enough."""

    def materialize(self, frame: Frame) -> Frame:
        """The same rows, computed now if the backend can hold them: for several queries."""

    def held(self, frame: Frame) -> tuple[Frame, pa.Table | None]:
        """The same rows, computed now and in this process; as they were, and None, if they are not few."""

    def function(self, function: Function, kind: pa.DataType) -> str:
        """The name under which SQL calls a Python function of Arrow arrays; `kind` is its result's type."""

    def files(self, paths: Sequence[str], columns: Sequence[str]) -> Frame:
        """Columns of Parquet files, at least one, given by their addresses."""

    def local(self, table: pa.Table) -> Frame:
        """Rows that this process has; at most a few thousand for a backend elsewhere."""

    def view(self, frame: Frame) -> Frame:
        """The same rows under a name. Its readers share no work: each restricts what it reads."""

    def rows(self, frame: Frame) -> pa.Table:
        """The rows of a frame, in this process."""

    def save(self, frame: Frame, relation: str, target: Target) -> Saved:
        """Computes rows with the columns c0 … and w, and keeps them, sorted: many of them in files."""

    def save_difference(self, frame: Frame, stored: StoredRelation, relation: str, target: Target) -> Saved:
        """Computes rows, and keeps what is to be added to stored ones to get them, as `save` does."""

    def save_terms(self, frame: Frame, known: Sequence[RunFile], target: Target) -> NewTerms:
        """Computes terms with the columns id and term, each once, and writes those that no known file has."""

    def query(self, frame: Frame) -> Any:
        """The rows of a frame, as the backend's own kind of table; not computed yet."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
