"""Two threads use the connection of a catalog: one writes, the other reads without the session's lock.

Python reads the error of a statement from the connection. If another thread has run a statement since, the
error is lost: a row that existed already was taken for a new one, and the total of its table was wrong.
"""

from __future__ import annotations

import threading
from pathlib import Path

import sparqlive

TIMES = 2_000


def test_rows_are_replaced_while_another_thread_reads(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path / "store", durability="relaxed") as session:
        session.update("INSERT DATA { <urn:a> <urn:p> 1 }")
        assert session._writer.persistence is not None
        catalog = session._writer.persistence.store.catalog
        ended = threading.Event()
        seen: set[int] = set()

        def read() -> None:
            while not ended.is_set():
                base = catalog.base("numbers")
                seen.add(-1 if base is None else base.epoch)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(TIMES):
                with catalog.transaction():
                    catalog.set_base("numbers", number, 1, {(number,): 1})
        finally:
            ended.set()
            reader.join()
        catalog.verify()
        found = catalog.base("numbers")
    assert found is not None
    assert found.epoch == TIMES - 1
    assert seen <= {*range(-1, TIMES)}
