"""Names of RDF files: which files a path stands for, and what the end of a name says.

Rejects paths with nothing to load, and names that do not show the RDF syntax.
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
    if not has_syntax(name):
        raise Error(
            f"{name}: the file name does not show the RDF syntax. Use one of the endings "
            f".nt .nq .ttl .trig .rdf .jsonld, optionally followed by .gz, .bz2 or .zst."
        )
    return _parts(name)


def _parts(name: str) -> tuple[str, str | None]:
    stem, suffix = os.path.splitext(name)
    compression = _COMPRESSIONS.get(suffix)
    return (os.path.splitext(stem)[1] if compression else suffix).lstrip("."), compression


def nothing_at(path: str) -> Error:
    return Error(f"There is nothing to load at {path}: no such file, and no file matches it as a pattern.")
