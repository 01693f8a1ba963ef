"""Reads `pipeline.toml`, and checks all of it before the job starts.

Owns the keys and their values. Rejects unknown keys and kinds, missing files, queries that do not parse, and
sinks of undeclared views, each with a message that names the place. Invariant: paths are URIs or absolute;
relative paths are resolved against the folder of the file.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any, TypeVar, get_args

from pyoxigraph import NamedNode

from sparqlive.engine.budget import memory_limit
from sparqlive.engine.carry import BulkChoice
from sparqlive.engine.deferred import check_refresh
from sparqlive.engine.register import check_view_name
from sparqlive.errors import Error
from sparqlive.numbers import seconds, short_repr
from sparqlive.pipeline.sinks import KINDS as SINKS
from sparqlive.pipeline.sinks import TABLES
from sparqlive.rdf.changes import is_changes_name
from sparqlive.rdf.files import is_address
from sparqlive.rdf.table_mapping import TableMapping
from sparqlive.sources.watcher import KINDS, watcher
from sparqlive.sparql.syntax import parse_query

SOURCE_KINDS = tuple(sorted(["changes", "spark", *KINDS]))
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
Checked = TypeVar("Checked")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Load:
    """Documents to load once."""

    name: str
    paths: tuple[str, ...]
    graph: str | None


@dataclass(frozen=True)
class ChangesSource:
    """A folder of change files to follow."""

    name: str
    folder: str
    pattern: str | None
    """Of the names; None: all files of changes."""
    poll_interval_seconds: float

    @property
    def graph(self) -> NamedNode:
        """The graph of the source's triples; quads that name a graph keep it."""
        return NamedNode(f"source:{self.name}")


@dataclass(frozen=True)
class SparkSource:
    """A stream of Spark whose rows are changes."""

    name: str
    format: str
    options: Mapping[str, str]
    schema: str | None
    """The columns that the format reads, as DDL, where it does not know them."""
    select: tuple[str, ...]
    """SQL expressions that make changes of the rows; without any, all columns."""
    op: str | None
    order: str | None
    mapping: TableMapping | None
    interval_seconds: float | None

    @property
    def graph(self) -> str:
        """The graph of the source's triples; quads that name a graph keep it."""
        return f"source:{self.name}"


@dataclass(frozen=True)
class WatchedSource:
    """A source that the session watches."""

    name: str
    kind: str
    address: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class ViewEntry:
    name: str
    query: str
    refresh: str | float
    form: str


@dataclass(frozen=True)
class SinkEntry:
    name: str
    view: str
    kind: str
    path: Path | str
    """Where it is written: a local path, or the address of a server."""
    weights: bool = False
    """Whether a table has distinct rows with weights, in place of typed solutions."""


@dataclass(frozen=True)
class Pipeline:
    file: Path
    store: Path
    runs: str | None
    """None: in the store directory, or where an existing store has them."""
    master: str | None
    """None: a local Spark, started only when it is needed."""
    bulk: BulkChoice
    """The backend for large batches and large new views; "auto": the cheaper of DuckDB and Spark."""
    memory: int | None
    """How many bytes quads and views may use; None: half of the machine's memory."""
    loads: tuple[Load, ...]
    sources: tuple[ChangesSource, ...]
    streams: tuple[SparkSource, ...]
    watched: tuple[WatchedSource, ...]
    views: tuple[ViewEntry, ...]
    sinks: tuple[SinkEntry, ...]


def read_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Reads the pipeline of a file; raises an Error that says what is wrong with it."""
    file = Path(path).absolute()
    try:
        text = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Error(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # also for huge numbers and deep nesting
        raise Error(f"{path}: not valid TOML: {error}.") from error
    reader = _Reader(str(path), file.parent)
    known = {
        "store": str,
        "runs": str,
        "master": str,
        "bulk": str,
        "memory": (str, int),
        "load": dict,
        "sources": dict,
        "views": dict,
        "sinks": dict,
    }
    top = reader.table("", text, known, required=("store",))
    views = tuple(reader.view(*entry) for entry in top.get("views", {}).items())
    sources = [reader.source(*entry) for entry in top.get("sources", {}).items()]
    return Pipeline(
        file,
        reader.store(top["store"]),
        reader.path(top["runs"]) if "runs" in top else None,
        top.get("master"),
        reader.bulk(top.get("bulk", "spark")),
        reader.checked("", memory_limit, top["memory"]) if "memory" in top else None,
        tuple(reader.load(*entry) for entry in top.get("load", {}).items()),
        tuple(source for source in sources if isinstance(source, ChangesSource)),
        tuple(source for source in sources if isinstance(source, SparkSource)),
        tuple(source for source in sources if isinstance(source, WatchedSource)),
        views,
        reader.sinks(top.get("sinks", {}), {view.name: view.form for view in views}),
    )


@dataclass(frozen=True)
class _Reader:
    name: str
    folder: Path

    def error(self, where: str, sentence: str) -> Error:
        return Error(f"{self.name}: {where + ': ' if where else ''}{sentence}")

    def bulk(self, value: str) -> BulkChoice:
        for choice in get_args(BulkChoice):
            if value == choice:
                return choice  # type: ignore[no-any-return]
        raise self.error("bulk", f'Use "spark", "duckdb" or "auto", not {value!r}.')

    def table(
        self, where: str, value: Any, known: Mapping[str, Any], required: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Checks that a value is a table whose keys are known and have the right types."""
        if not isinstance(value, dict):
            raise self.error(where, f"must be a table with the keys {', '.join(known)}, not {value!r}.")
        for key, entry in value.items():
            if key not in known:
                raise self.error(where, f"unknown key {key!r}. Available keys: {', '.join(known)}.")
            if isinstance(entry, bool) is not (known[key] is bool) or not isinstance(entry, known[key]):
                raise self.error(where, f"{key} must be {_wording(known[key])}, not {short_repr(entry)}.")
        for key in required:
            if key not in value:
                raise self.error(where, f"the key {key!r} is missing.")
        return value

    def checked(self, where: str, check: Callable[..., Checked], *arguments: Any) -> Checked:
        """Returns the result of a check; adds the place to its error."""
        try:
            return check(*arguments)
        except Error as error:
            raise self.error(where, str(error)) from error

    def path(self, text: str) -> str:
        return text if _URI.match(text) else str(self.folder / text)

    def place(self, text: str) -> Path:
        return Path(self.path(text))

    def store(self, text: str) -> Path:
        if is_address(text):
            raise self.error("", f"store must be a local directory, not the address {text}.")
        return self.place(text)

    def load(self, name: str, value: Any) -> Load:
        where = f"[load] {name}"
        if isinstance(value, str | list):
            value = {"path": value}
        entry = self.table(where, value, {"path": (str, list), "graph": str}, required=("path",))
        texts = entry["path"] if isinstance(entry["path"], list) else [entry["path"]]
        if not texts or not all(isinstance(path, str) for path in texts):
            raise self.error(where, f"path must be a string or a list of strings, not {entry['path']!r}.")
        paths = tuple(self.path(path) for path in texts)
        for path in paths:
            if not _URI.match(path) and not Path(path).exists() and not glob(path, recursive=True):
                raise self.error(where, f"there is no file at {path}.")
        graph = entry.get("graph")
        if graph is not None:
            self._check_graph(where, graph)
        return Load(name, paths, graph)

    def _check_graph(self, where: str, graph: str) -> None:
        try:
            NamedNode(graph)
        except ValueError as error:
            raise self.error(where, f"graph must be an IRI, not {graph!r}: {error}.") from error

    def source(self, name: str, value: Any) -> ChangesSource | SparkSource | WatchedSource:
        where = f"[sources.{name}]"
        self._check_name(where, name)
        kind = value.get("kind", "changes") if isinstance(value, dict) else "changes"
        self._check_kind(where, kind, SOURCE_KINDS)
        if kind == "spark":
            return self._spark(name, where, value)
        return self._changes(name, where, value) if kind == "changes" else self._watched(name, where, value)

    def _spark(self, name: str, where: str, value: Any) -> SparkSource:
        known = {
            "kind": str, "format": str, "options": dict, "schema": str, "select": list, "op": str,
            "order": str, "mapping": dict, "poll_interval_seconds": (int, float),
        }  # fmt: skip
        entry = self.table(where, value, known, required=("kind", "format"))
        options = {key: self._option(where, key, given) for key, given in entry.get("options", {}).items()}
        if not all(isinstance(expression, str) for expression in entry.get("select", [])):
            raise self.error(where, "select must be a list of SQL expressions.")
        mapping = None
        if "mapping" in entry:
            try:
                mapping = self.checked(f"{where} mapping", lambda: TableMapping(**entry["mapping"]))
            except TypeError as error:
                raise self.error(f"{where} mapping", f"{error}.") from error
        interval = entry.get("poll_interval_seconds")
        if interval is not None:
            interval = self.checked(where, seconds, "poll_interval_seconds", interval, 0.001, 86_400)
        return SparkSource(
            name, entry["format"], options, entry.get("schema"), tuple(entry.get("select", ())),
            entry.get("op"), entry.get("order"), mapping, interval,
        )  # fmt: skip

    def _option(self, where: str, key: str, given: Any) -> str:
        """An option as Spark reads it; a relative `path` is in the folder of the file."""
        if isinstance(given, bool):
            return str(given).lower()
        if not isinstance(given, str | int | float):
            raise self.error(where, f"the option {key} must be a string, a number or true or false.")
        return self.path(given) if key == "path" and isinstance(given, str) else str(given)

    def _watched(self, name: str, where: str, value: Mapping[str, Any]) -> WatchedSource:
        options = {key: entry for key, entry in value.items() if key not in ("kind", "path", "address")}
        places = {key: value[key] for key in ("path", "address") if key in value}
        if len(places) != 1:
            raise self.error(where, "needs either path or address (an IRI, or - for standard input).")
        [(key, address)] = places.items()
        if not isinstance(address, str):
            raise self.error(where, f"{key} must be a string, not {address!r}.")
        if key == "path":
            address = self.path(address)
        elif ":" not in address and address != "-":
            raise self.error(where, f"address must be an IRI or -, not {address!r}. For a file, use path.")
        try:
            json.dumps(options)  # as a store keeps them
            watcher(value["kind"], address, options)
        except (Error, TypeError) as error:
            raise self.error(where, str(error)) from error
        return WatchedSource(name, value["kind"], address, options)

    def _changes(self, name: str, where: str, value: Any) -> ChangesSource:
        known = {"kind": str, "path": str, "poll_interval_seconds": (int, float)}
        entry = self.table(where, value, known, required=("kind", "path"))
        interval = self.checked(
            where, seconds, "poll_interval_seconds", entry.get("poll_interval_seconds", 1.0), 0.001, 86_400
        )
        folder, _, last = self.path(entry["path"]).rpartition("/")
        pattern: str | None = last
        if not has_magic(last) and not is_changes_name(last):
            folder, pattern = f"{folder}/{last}" if last else folder, None
        if has_magic(folder):
            raise self.error(where, "only the last part of path may contain *, ? and [].")
        if not _URI.match(folder) and not Path(folder).is_dir():
            raise self.error(where, f"there is no folder {folder}.")
        return ChangesSource(name, folder, pattern, interval)

    def view(self, name: str, value: Any) -> ViewEntry:
        where = f"[views.{name}]"
        self.checked(where, check_view_name, name)
        known = {"query": str, "refresh": (str, int, float)}
        entry = self.table(where, value, known, required=("query",))
        refresh = entry.get("refresh", "immediate")
        self.checked(where, check_refresh, refresh)
        file = self.place(entry["query"])
        try:
            query = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise self.error(
                where, f"query names a file with a SPARQL query, and {file} cannot be read: {reason}."
            ) from error
        try:
            form = parse_query(query).form
        except Error as error:
            raise type(error)(f"{self.name}: {where}: {file}: {error}") from error
        return ViewEntry(name, query, refresh, form)

    def sinks(self, entries: Mapping[str, Any], views: Mapping[str, str]) -> tuple[SinkEntry, ...]:
        sinks = tuple(self._sink(name, value, views) for name, value in entries.items())
        for number, sink in enumerate(sinks):
            for other in sinks[:number]:
                if other.path == sink.path:
                    raise self.error(f"[sinks.{sink.name}]", f"has the same path as [sinks.{other.name}].")
        return sinks

    def _sink(self, name: str, value: Any, views: Mapping[str, str]) -> SinkEntry:
        where = f"[sinks.{name}]"
        known = {"view": str, "kind": str, "path": str, "weights": bool}
        entry = self.table(where, value, known, required=("view", "kind", "path"))
        if entry["view"] not in views:
            raise self.error(where, f"there is no [views.{entry['view']}].")
        self._check_kind(where, entry["kind"], tuple(SINKS))
        form, forms = views[entry["view"]], SINKS[entry["kind"]].forms
        if form not in forms:
            accepted = " or ".join(forms)
            raise self.error(
                where,
                f"a sink of kind {entry['kind']} needs a {accepted} view, and {entry['view']} is {form}.",
            )
        scheme = SINKS[entry["kind"]].scheme
        is_uri = _URI.match(entry["path"]) is not None
        if is_uri != (scheme is not None) or (scheme and not entry["path"].startswith(f"{scheme}://")):
            expected = "a local path" if scheme is None else f"an address like {scheme}://server:port/name"
            raise self.error(where, f"path must be {expected}, not {entry['path']}.")
        place = entry["path"] if is_uri else self.place(entry["path"])
        if "weights" in entry and entry["kind"] not in TABLES:
            raise self.error(where, f"weights is for the kinds {' and '.join(TABLES)}.")
        return SinkEntry(name, entry["view"], entry["kind"], place, entry.get("weights", False))

    def _check_kind(self, where: str, kind: str, known: Sequence[str]) -> None:
        if kind not in known:
            raise self.error(where, f"unknown kind {kind!r}. Available kinds: {', '.join(known)}.")

    def _check_name(self, where: str, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise self.error(where, "the name of a source may contain only letters, digits, _, . and -.")


def _wording(types: Any) -> str:
    words = {
        bool: "true or false",
        str: "a string",
        dict: "a table",
        list: "a list",
        int: "a number",
        float: "a number",
    }
    return " or ".join(
        dict.fromkeys(words[kind] for kind in (types if isinstance(types, tuple) else (types,)))
    )
