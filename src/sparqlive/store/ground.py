"""Where a store may be created.

Owns what is looked at before anything is. A store is created only where nothing lies that is not its own: in
a directory that is missing or empty, but for what systems and editors leave in any directory. Refuses a
directory in which a store was whose catalog is missing: it is repaired, or removed, by a person.
"""

from __future__ import annotations

import re
from pathlib import Path

from sparqlive.errors import StoreFailed
from sparqlive.store.head import NAME as HEAD

CATALOG = "catalog.sqlite"
# The folder of an attempt at a commit: the mark of the store, which stores of format 2 do not have, a time, a
# process and a number.
_ATTEMPT = re.compile(r"(?:[0-9a-f]{16}-)?[0-9a-f]+-[0-9]+-[0-9]+")
# What may be there before the catalog, or is left where creating it was interrupted.
_OWN = re.compile(
    r"writer\.lock|leases|runs|tokens\.(json|lock|new)|audit\.jsonl|head|catalog\.(sqlite|new)(-wal|-shm|-journal)?"
)
# What some of these begin with: a file of that name that was written by somebody else stays as it is.
_BEGINNINGS = {"writer.lock": b"process ", "catalog.new": b"SQLite format 3\0"}
# Hidden files, backups of editors, and what operating systems put down: nothing that a store would touch.
_HARMLESS = re.compile(
    r"\..*|.*~|#.*#|lost\+found|Thumbs\.db|desktop\.ini|Icon\r|@eaDir|\$RECYCLE\.BIN", re.DOTALL
)


def is_store(directory: Path) -> bool:
    """Whether there is a store, which has a catalog; raises where its catalog is missing or empty."""
    catalog = directory / CATALOG
    if directory.exists() and not directory.is_dir():
        raise StoreFailed(f"{directory} is a file, and a store is a directory: name another path.")
    if catalog.is_symlink():
        raise StoreFailed(
            f"{catalog} is a link to {catalog.readlink()}. The lock and the runs of a store lie beside its "
            f"catalog: name the directory in which the catalog is, or link to that."
        )
    if catalog.is_file() and catalog.stat().st_size:
        return True
    left = _left_of_a_store(directory)
    if left is None:
        return False
    state = "empty" if catalog.exists() else "missing"
    raise StoreFailed(
        f"The catalog of the store {directory} is {state}, and {left}. Without {CATALOG}, which says what a "
        f"store holds, nothing can be read. Put {CATALOG} back, or a copy of the whole store. To begin with "
        f"an empty store, name another directory."
    )


def _left_of_a_store(directory: Path) -> str | None:
    """What says that there was a catalog."""
    if (directory / CATALOG).exists():
        return f"{CATALOG} is never left empty by sparqlive"
    if (directory / HEAD).exists():
        return f"the file {HEAD} says that there was one"
    log = directory / f"{CATALOG}-wal"
    if log.is_file() and log.stat().st_size:
        return f"its log {log.name} is there"
    runs = directory / "runs"
    if runs.is_dir():
        attempts = [path for path in runs.iterdir() if _ATTEMPT.fullmatch(path.name)]
        if any(path.is_dir() and next(path.rglob("*.parquet"), None) for path in attempts):
            return "its runs are there"
    return None


def check_ground(directory: Path) -> None:
    """Raises where no store may be created."""
    if not directory.exists():
        return
    foreign = sorted(path.name for path in directory.iterdir() if not _belongs(path))
    runs = directory / "runs"
    if runs.is_dir() or runs.is_symlink():
        found = runs.iterdir() if runs.is_dir() else ()
        foreign += sorted(f"runs/{path.name}" for path in found if not _HARMLESS.fullmatch(path.name))
    if foreign:
        named = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise StoreFailed(
            f"{directory} is not a store, and it is not empty: it holds {named}. A store is created only in "
            f"a new or empty directory: name another one, such as {directory / 'store'}."
        )


def _belongs(path: Path) -> bool:
    if _HARMLESS.fullmatch(path.name) is not None:
        return True
    return _OWN.fullmatch(path.name) is not None and _begins_so(path, _BEGINNINGS.get(path.name))


def _begins_so(path: Path, beginning: bytes | None) -> bool:
    """Whether a file begins as a store's own does, or would have: of one that was cut off there are zeros."""
    if beginning is None:
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        found = stream.read(len(beginning))
    return beginning.startswith(found) or not found.strip(b"\0")
