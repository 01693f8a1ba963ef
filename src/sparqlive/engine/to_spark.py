"""Views, changes and quads as Spark DataFrames.

Spark's workers read the files of a store, by the data source `sparqlive`. A session in memory passes its rows
to Spark, or writes many rows to a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyoxigraph import DefaultGraph, Quad

from sparqlive.errors import HistoryGone, Unsupported
from sparqlive.sparql.arrow import Tables
from sparqlive.sparql.column_names import EPOCH, WEIGHT, check_column_names

if TYPE_CHECKING:
    from sparqlive.engine.results import Delta, Readable
    from sparqlive.engine.view_state import ViewState
    from sparqlive.engine.writer import Writer
    from sparqlive.store.catalog import Catalog

_POSITION = "_position"
_NUMBERS = count()


def view_to_spark(view: ViewState, epoch: int | None, typed: bool, weights: bool) -> Any:
    """A snapshot of a view."""
    writer, at = view.writer, view.epoch if epoch is None else epoch
    if writer.persistence is None or view.temporary or view.form == "ASK":
        answer = view.public.now() if at == view.epoch else view.public.at(at)
        return _handed_over(writer, answer, typed, weights, view.columns.is_ordered and not weights)
    ensure_epoch(view, at, writer.persistence.store.catalog)
    if not view.variables and not weights:
        raise Unsupported("The view has no columns. Pass weights=True for their number.")
    options = {"view": view.name, "epoch": at, "typed": typed, "solutions": not weights}
    frame = _of_store(writer, options)
    return frame.drop("_epoch") if weights else frame


def changes_to_spark(view: ViewState, since: int, typed: bool) -> Any:
    """The changes of a view after an epoch."""
    writer = view.writer
    if writer.persistence is not None and not view.temporary:
        if since < view.epoch:
            ensure_epoch(view, since, writer.persistence.store.catalog)
        ensure_changes(view)
        return _of_store(writer, {"view": view.name, "since": since, "typed": typed})
    _, deltas = view.history.now_after(since)
    if deltas is None:
        raise HistoryGone(f"The changes of view {view.name!r} after epoch {since} are no longer kept.")
    return _frame(writer, changes_table(view, deltas, typed), ordered=False)


def changes_table(view: ViewState, deltas: Sequence[Delta], typed: bool) -> pa.Table:
    """Deltas as an Arrow table with the columns `_epoch` and `_weight`."""
    check_column_names(view.variables, EPOCH, WEIGHT)
    width = len(view.variables)
    blocks = [(delta.epoch, block) for delta in deltas for block in delta.blocks(width)]
    texts = view.terms.dictionary.texts
    tables = Tables(view.variables, [block for _, block in blocks], texts, typed, weights=True)
    epochs = [number for number, block in blocks for _ in range(len(block.weights))]
    return tables.table().add_column(width, EPOCH, pa.array(epochs, pa.int64()))


def quads_to_spark(writer: Writer, quads: Iterable[Quad]) -> Any:
    """The quads, as rows of s, p, o, g; g is null in the unnamed graph."""
    if writer.persistence is not None:
        return _of_store(writer, {})
    rows = [(str(s), str(p), str(o), None if isinstance(g, DefaultGraph) else str(g)) for s, p, o, g in quads]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    names = ("s", "p", "o", "g")
    table = pa.table(
        {name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=True)}
    )
    return _frame(writer, table, ordered=False)


def ensure_epoch(view: ViewState, epoch: int, catalog: Catalog) -> None:
    """Rejects an epoch from which a view of a store cannot be read."""
    if epoch > view.epoch:
        raise HistoryGone(f"Epoch {epoch} does not exist yet: view {view.name!r} is at epoch {view.epoch}.")
    start = max(view.history.since, catalog.history_start())
    if epoch < start and epoch != view.epoch:
        raise HistoryGone(
            f"View {view.name!r} cannot be read from epoch {epoch}: its history starts at epoch {start}."
        )


def ensure_changes(view: ViewState) -> None:
    """Rejects a view whose stored deltas have other columns than its solutions."""
    if len(view.content.plan.variables) != len(view.variables):
        raise Unsupported(
            f"The changes of view {view.name!r} cannot be read: ORDER BY uses values that are not selected."
        )


def _of_store(writer: Writer, options: dict[str, Any]) -> Any:
    assert writer.persistence is not None
    reader = writer.strategies.registered_spark().read.format("sparqlive")
    reader = reader.option("store", str(writer.persistence.store.directory.absolute()))
    for name, value in options.items():
        reader = reader.option(name, str(value).lower() if isinstance(value, bool) else value)
    return reader.load()


def _handed_over(writer: Writer, answer: Readable, typed: bool, weights: bool, ordered: bool) -> Any:
    return _frame(writer, answer.to_arrow(typed=typed, weights=weights), ordered)


def _frame(writer: Writer, table: pa.Table, ordered: bool) -> Any:
    spark = writer.strategies.registered_spark()
    if not table.column_names:
        raise Unsupported("The view has no columns: it cannot be a DataFrame.")
    check_column_names(table.column_names, ignore_case=True)
    from sparqlive.bulk.backends.spark.files import parquet
    from sparqlive.bulk.backends.spark.start import frame_of, master_of

    if table.num_rows <= writer.tuning.frame_rows:
        return frame_of(spark, table)
    if not master_of(spark).startswith("local"):
        raise Unsupported(
            f"The workers cannot read {table.num_rows:,} rows of a session in memory. Open a store with "
            f"sparqlive.open(path, runs=…), where they reach its files."
        )
    if ordered:
        table = table.append_column(_POSITION, pa.array(range(table.num_rows)))
    folder = writer.scratch.enter_context(TemporaryDirectory(prefix="sparqlive-"))
    path = Path(folder) / f"{next(_NUMBERS)}.parquet"
    pq.write_table(table, path)
    frame = parquet(spark, [path.as_uri()])
    return frame.orderBy(_POSITION).drop(_POSITION) if ordered else frame
