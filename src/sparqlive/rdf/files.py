"""Names of RDF files: which files a path stands for, and what the end of a name says.

Rejects paths with nothing to load, names that do not show the RDF syntax, and content that begins unlike its
name.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from pyoxigraph import RdfFormat

from sparqlive.errors import Error

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_FIRST_BYTES = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bz2": re.compile(rb"BZh[1-9]"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
_ENDINGS = ".nt .nq .ttl .trig .rdf .jsonld"
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
_DIRECTIVE = re.compile(rb"(?i)(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*(?:@prefix|@base|prefix|base)\s")


def is_address(path: str) -> bool:
    """Whether a path is an address such as s3a://…, and not one of this machine's file system."""
    return _SCHEME.match(path) is not None


def matching_files(path: str) -> list[Path]:
    """Returns the files of a path: a file, the RDF files in a folder (not below it), or those of a glob."""
    if Path(path).is_dir():
        return sorted(file for file in Path(path).iterdir() if file.is_file() and has_syntax(file.name))
    if Path(path).exists():
        return [Path(path)]
    return sorted(Path(name) for name in glob.glob(path, recursive=True) if Path(name).is_file())


def has_syntax(name: str) -> bool:
    """Whether a name ends like that of an RDF file, compressed or not."""
    return RdfFormat.from_extension(_parts(name)[0]) is not None


def syntax_of(name: str) -> tuple[str, str | None]:
    """Returns the extension of the RDF syntax that a name shows, and the compression or None."""
    if has_syntax(name):
        return _parts(name)
    if f".{_parts(name)[0]}" in _TABLES:
        raise Error(
            f"{name} is a table, not RDF. In Python, read it as a data frame, and map its columns to "
            f"predicates: session.load(frame, mapping=sparqlive.TableMapping(…))."
        )
    raise Error(
        f"{name}: the file name does not show the RDF syntax. Use one of the endings {_ENDINGS}, "
        f"optionally followed by .gz, .bz2 or .zst."
    )


def check_beginning(file: Path) -> None:
    """Rejects a file that is compressed or not, unlike its name, and Turtle under the name of N-Triples."""
    extension, compression = syntax_of(file.name)
    try:
        if not file.is_file():
            return  # a pipe can be read only once
        with file.open("rb") as stream:
            start = stream.read(4096)
    except OSError:
        return  # the reader of the file reports why it cannot be read
    if compression is not None:
        if start and not _FIRST_BYTES[compression].match(start):
            raise Error(f"{file} is not compressed with {compression}. Remove {file.suffix} from its name.")
        return
    for ending, name in _COMPRESSIONS.items():
        if _FIRST_BYTES[name].match(start):
            raise Error(f"{file} is compressed with {name}. Rename it to {file.name}{ending}.")
    if extension in ("nt", "nq") and _DIRECTIVE.match(start):
        raise Error(
            f"{file} has prefixes, which .{extension} cannot have. Rename it to .ttl if it is Turtle, or to "
            f".trig if it is TriG."
        )


def _parts(name: str) -> tuple[str, str | None]:
    stem, suffix = os.path.splitext(name)
    compression = _COMPRESSIONS.get(suffix)
    return (os.path.splitext(stem)[1] if compression else suffix).lstrip("."), compression


def nothing_at(path: str) -> Error:
    if os.path.isdir(path):
        return Error(f"There is nothing to load in the folder {path}: no file ends in one of {_ENDINGS}.")
    return Error(f"There is nothing to load at {path}: no such file, and no file matches it as a pattern.")
