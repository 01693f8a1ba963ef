"""Data sources of Spark: RDF documents (`rdf`), and views and quads of a store (`sparqlive`).

Spark calls these classes in Python processes of its own, on the driver's machine to plan, on the workers to
read. They open a store beside its writer. Rejects unknown options. Invariant: what is read belongs to one
epoch, and a range of epochs gives the same rows however often it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sparqlive.bulk.backends.spark.columns import arrow_type
from sparqlive.bulk.ingest.documents import Piece as DocumentPiece
from sparqlive.bulk.ingest.documents import find_documents, tasks_of
from sparqlive.bulk.ingest.job import parsed_pieces
from sparqlive.errors import Error
from sparqlive.rdf.columns import Encoded
from sparqlive.spark.options import Options
from sparqlive.spark.reporting import sentence_first
from sparqlive.spark.sink import BatchSink, StreamSink
from sparqlive.spark.stored import QUAD_NAMES, Piece, Plan, Planner
from sparqlive.sparql.column_names import EPOCH, WEIGHT, check_column_names

_TEXTS = StructType([StructField(name, StringType()) for name in QUAD_NAMES])
_CORES = 8
"""Documents are cut so that this many tasks have something to do."""


def _without_empty_profiles() -> None:
    """Keeps the process that plans a source from sending empty profiles with its result.

    The client of `spark-pipelines` in Spark 4.3 ends with an error when it receives one, after its run.
    """
    for number in (SpecialAccumulatorIds.SQL_UDF_PROFIER, SpecialAccumulatorIds.SQL_UDF_PROFIER_V2):
        profile = _accumulatorRegistry.get(number)
        if profile is not None and not profile._value:
            del _accumulatorRegistry[number]


class _Source(DataSource):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        _without_empty_profiles()


class RdfSource(_Source):
    """RDF documents as rows of s, p, o, g: terms in N-Triples syntax, g null in the unnamed graph."""

    @classmethod
    def name(cls) -> str:
        return "rdf"

    @sentence_first
    def schema(self) -> StructType:
        return _TEXTS

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        _without_empty_profiles()
        options = Options("rdf", self.options, ("path", "paths"))
        paths = options.get("paths")  # of load([…])
        return _RdfReader(json.loads(paths) if paths else [options.required("path")])


class _Documents(InputPartition):
    def __init__(self, pieces: list[DocumentPiece]) -> None:
        self.pieces = pieces


class _RdfReader(DataSourceReader):
    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    @sentence_first
    def partitions(self) -> Sequence[InputPartition]:
        return [_Documents(pieces) for pieces in tasks_of(find_documents(self._paths), _CORES)]

    @sentence_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Documents)
        for encoded in parsed_pieces(partition.pieces):
            yield _texts(encoded)


def _texts(encoded: Encoded) -> pa.RecordBatch:
    columns = []
    for places in encoded.places:
        columns.append(encoded.texts.take(pa.array(places, pa.int64(), mask=places < 0)).cast(pa.string()))
    return pa.RecordBatch.from_arrays(columns, list(QUAD_NAMES))


class StoreSource(_Source):
    """A view of a store, or its quads, to read; and a store to write to.

    A view has its variables, with types as `to_arrow` gives them, `_epoch` and `_weight`. Options: `store`;
    `view` (without it, the quads as s, p, o, g); `epoch`: the snapshot of an earlier epoch; `since`: the
    changes after an epoch; `typed`: "false" for terms in N-Triples syntax; `solutions`: "true" for a row per
    solution, in the order of ORDER BY, without `_epoch` and `_weight`. A stream has the changes of a view,
    and begins with its whole content, or after the epoch `since`.
    """

    @classmethod
    def name(cls) -> str:
        return "sparqlive"

    @sentence_first
    def schema(self) -> StructType:
        options = _StoreOptions(self.options)
        if options.view is None:
            return _TEXTS
        with options.planner() as planner:
            if options.typed:
                plan = options.plan(planner)
                kinds = [from_arrow_type(found.arrow) for found in plan.types()]
                fields = [StructField(name, kind) for name, kind in zip(plan.names, kinds, strict=True)]
            else:
                fields = [StructField(name, StringType()) for name in planner.names(options.view)]
        added = () if options.solutions else (EPOCH, WEIGHT)
        check_column_names([field.name for field in fields], *added, ignore_case=True)
        if added:
            fields += [StructField(EPOCH, LongType()), StructField(WEIGHT, LongType())]
        return StructType(fields)

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        _without_empty_profiles()
        return _StoreReader(_StoreOptions(self.options), schema)

    @sentence_first
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        _without_empty_profiles()
        return _StoreStreamReader(_StoreOptions(self.options), schema)

    @sentence_first
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        _without_empty_profiles()
        return BatchSink(self.options, schema, overwrite)

    @sentence_first
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        _without_empty_profiles()
        return StreamSink(self.options, schema)


class _StoreOptions:
    def __init__(self, options: Mapping[str, str]) -> None:
        known = Options("sparqlive", options, ("store", "view", "epoch", "since", "typed", "solutions"))
        self.store = known.store()
        self.view = known.get("view")
        self.epoch, self.since = known.number("epoch"), known.number("since")
        self.typed, self.solutions = known.truth("typed", True), known.truth("solutions", False)
        if self.view is None and (self.epoch, self.since) != (None, None):
            raise Error("The options epoch and since need a view. Set the option view.")
        if self.since is not None and (self.solutions or self.epoch is not None):
            raise Error("The option since reads changes; leave out solutions and epoch.")

    def planner(self) -> Planner:
        return Planner(self.store)

    def plan(self, planner: Planner) -> Plan:
        if self.view is None:
            return planner.quads()
        if self.since is not None:
            return planner.changes(self.view, self.since)
        return planner.snapshot(self.view, self.epoch)


class _StorePiece(InputPartition):
    def __init__(self, plan: Plan, piece: Piece) -> None:
        self.plan, self.piece = replace(plan, pieces=()), piece


class _StoreRows:
    """Reads pieces of a store in a worker."""

    def __init__(self, options: _StoreOptions, schema: StructType) -> None:
        self._options = options
        self._has_marks = options.view is not None and not options.solutions
        self._names = tuple(schema.names[:-2] if self._has_marks else schema.names)
        self._kinds = [arrow_type(field.dataType) for field in schema.fields[: len(self._names)]]

    @sentence_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        if not isinstance(partition, _StorePiece):
            return
        plan, marks = partition.plan, self._has_marks
        if tuple(plan.names) != self._names:
            raise Error(f"The view has the columns {', '.join(plan.names)}. Leave out schema(…).")
        kinds = self._kinds if options.typed and options.view is not None else None
        yield from plan.batches(partition.piece, kinds, weights=marks, epochs=marks)


class _StoreReader(_StoreRows, DataSourceReader):
    @sentence_first
    def partitions(self) -> Sequence[InputPartition]:
        with self._options.planner() as planner:
            plan = self._options.plan(planner)
            return [_StorePiece(plan, piece) for piece in plan.pieces] or [_Nothing()]


class _Nothing(InputPartition):
    """Spark calls `read` once without a partition if the list of partitions is empty."""

    def __init__(self) -> None:
        pass


_START = -1
"""The offset before the whole content."""


class _StoreStreamReader(_StoreRows, DataSourceStreamReader):
    """Offsets are epochs of the view."""

    def __init__(self, options: _StoreOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.view is None or options.solutions or options.epoch is not None:
            raise Error("A stream has the changes of a view: set the option view, not epoch or solutions.")

    @sentence_first
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        since = self._options.since
        return {"epoch": _START if since is None else since}

    @sentence_first
    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802 - Spark's name
        with self._options.planner() as planner:
            return {"epoch": planner.epoch(self._options.view)}

    @sentence_first
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = start["epoch"], end["epoch"]
        assert self._options.view is not None
        with self._options.planner() as planner:
            if first == _START:
                plan = planner.snapshot(self._options.view, last)
            else:
                plan = planner.changes(self._options.view, first, last)
            return [_StorePiece(plan, piece) for piece in plan.pieces]
