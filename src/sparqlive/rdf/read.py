"""Reads RDF: documents in any syntax, plain or compressed, and quads as Python objects or text.

Rejects statements that no graph can hold, with their position and the reason. Invariant: blank nodes of a
document get new labels, because they are local to it; those of objects and of N-Quads text keep their labels.
"""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from sparqlive.errors import Error, InvalidChange
from sparqlive.errors import SyntaxError as RdfSyntaxError
from sparqlive.numbers import short_repr
from sparqlive.rdf.files import check_beginning, matching_files, nothing_at, syntax_of
from sparqlive.rdf.guard import has_too_many_triple_terms, malformed, parse_guarded


def _open_zstd(file: Path, _mode: str) -> Any:
    import pyarrow as pa  # slow to import

    return pa.CompressedInputStream(pa.OSFile(str(file)), "zstd")


_OPENERS: dict[str | None, Callable[..., Any]] = {
    None: open,
    "gzip": gzip.open,
    "bz2": bz2.open,
    "zstd": _open_zstd,
}


def read_paths(paths: Iterable[str | os.PathLike[str]], graph: NamedNode | None) -> Iterator[Quad]:
    """Yields the quads of files and globs, in order; quads of the unnamed graph go into `graph`."""
    for path in paths:
        yield from read_files(_files(os.fspath(path)), graph)


def read_files(files: Iterable[Path], graph: NamedNode | None) -> Iterator[Quad]:
    """Yields the quads of files, in order; their names are no patterns."""
    for file in files:
        yield from _read_file(file, graph)


def size_of(paths: Iterable[str]) -> int:
    """The total size in bytes of the files that match paths and globs."""
    return sum(file.stat().st_size for path in paths for file in _files(path))


def _files(path: str) -> list[Path]:
    found = matching_files(path)
    if not found:
        raise nothing_at(path)
    return found


def _read_file(file: Path, graph: NamedNode | None) -> Iterator[Quad]:
    extension, compression = syntax_of(str(file))
    check_beginning(file)
    syntax = cast("RdfFormat", RdfFormat.from_extension(extension))
    try:
        with cast("IO[bytes]", _OPENERS[compression](file, "rb")) as stream:
            base = file.resolve().as_uri()
            for quad in parse_guarded(stream, syntax, base, rename_blank_nodes=True):
                yield check_quad(quad, graph)
    except (OSError, zlib.error) as error:
        raise Error(f"{file}: cannot be read: {error}.") from error
    except InvalidChange as error:
        raise InvalidChange(f"{file}: {error}") from error
    except SyntaxError as error:
        raise malformed(str(file), error) from error
    except EOFError as error:
        raise RdfSyntaxError(f"{file}: {error}") from error


def read_text(text: str) -> Iterator[Quad]:
    """Yields the quads of N-Quads text."""
    encoded = utf8(text)
    if has_too_many_triple_terms(text):
        raise InvalidChange("The N-Quads text has triple terms; RDF 1.2 triple terms are not supported yet.")
    try:
        for quad in parse(encoded, RdfFormat.N_QUADS):
            yield check_quad(quad, None)
    except SyntaxError as error:
        raise malformed("The N-Quads text is malformed", error) from error


def utf8(text: str) -> bytes:
    """N-Quads text as bytes. Raises for half of a surrogate pair, which Python's texts may have."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidChange(f"The N-Quads text has {half_a_character(error)}.") from error


def half_a_character(error: UnicodeEncodeError) -> str:
    """Says what a text has that cannot be encoded."""
    return f"{error.object[error.start]!r}, half of a surrogate pair, which is no character"


def read_objects(items: Iterable[Any], graph: NamedNode | None = None) -> Iterator[Quad]:
    """Yields quads and triples given as pyoxigraph objects, or as an rdflib graph or dataset."""
    if type(items).__module__.startswith("rdflib"):
        items = _from_rdflib(items)
    for item in items:
        yield check_quad(item, graph)


def changes_of(changes: str | Iterable[Any]) -> Sequence[Any]:
    """Lists changes given as N-Quads text or as objects; objects are checked when they are encoded."""
    if type(changes) is list or type(changes) is tuple:
        return changes
    if isinstance(changes, str):
        return list(read_text(changes))
    if isinstance(changes, Quad) or not isinstance(changes, Iterable):
        raise InvalidChange(f"Expected an iterable of quads or N-Quads text, not {changes!r}.")
    return list(changes)


def paths_of(source: Any) -> list[str]:
    """The paths that `load` was given; none if it was given quads."""
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)]
    if isinstance(source, list | tuple) and all(isinstance(item, str | os.PathLike) for item in source):
        return [os.fspath(item) for item in source]
    return []


def named_graph(given: str | NamedNode | None) -> NamedNode | None:
    """The graph that an argument names."""
    if given is None or isinstance(given, NamedNode):
        return given
    try:
        return NamedNode(given)
    except (ValueError, TypeError) as error:
        raise Error(
            f"graph must be an absolute IRI without brackets, such as 'http://example.org/graph', not "
            f"{short_repr(given)}: {error}."
        ) from error


def read_source(source: Any, graph: NamedNode | None) -> Iterator[Quad]:
    """Yields the quads of whatever `load` accepts: paths, globs, quads, triples, or an rdflib graph."""
    paths = paths_of(source)
    if paths:
        return read_paths(paths, graph)
    if not isinstance(source, Iterable):
        raise InvalidChange(
            f"Expected a path, a list of paths, or an iterable of quads, not {short_repr(source)}."
        )
    return read_objects(source, graph)


def check_quad(item: Any, graph: NamedNode | None) -> Quad:
    """Returns a quad that a graph can hold; triples, and quads of the unnamed graph, go into `graph`."""
    if isinstance(item, Triple):
        subject, predicate, object_ = item
        name: Any = DefaultGraph()
    elif isinstance(item, Quad):
        subject, predicate, object_, name = item
    else:
        raise InvalidChange(
            f"{short_repr(item)} is not a quad. Use pyoxigraph quads or triples, or N-Quads text."
        )
    if isinstance(object_, Triple) or isinstance(subject, Triple):
        raise InvalidChange(f"{item} has a triple term; RDF 1.2 triple terms are not supported yet.")
    if not isinstance(subject, NamedNode | BlankNode) or not isinstance(
        object_, NamedNode | BlankNode | Literal
    ):
        raise InvalidChange(f"{item} has a term in a position where RDF does not allow it.")
    if isinstance(name, DefaultGraph) and graph is not None:
        return Quad(subject, predicate, object_, graph)
    return item if isinstance(item, Quad) else Quad(subject, predicate, object_)


def _from_rdflib(graph: Any) -> Iterator[Quad]:
    """Has rdflib write N-Quads, in which blank nodes keep their labels."""
    context_aware = getattr(graph, "context_aware", False)
    try:
        text = graph.serialize(format="nquads" if context_aware else "nt11", encoding="utf-8")
        yield from parse(text, RdfFormat.N_QUADS)
    except UnicodeEncodeError as error:
        raise InvalidChange(f"The rdflib graph has {half_a_character(error)}.") from error
    except SyntaxError as error:  # rdflib writes relative IRIs as they are
        raise InvalidChange(
            f"The rdflib graph cannot be loaded: {error.msg}. IRIs must be absolute."
        ) from error
