"""A session's way to Spark: the Spark session, and where Spark finds quads and terms.

Owns the start of Spark, which happens when it is first needed, and the copy of a session in memory that Spark
reads. Invariant: a carrier sees the quads and terms as they were before the epoch under way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from sparqlive.engine.carry import Strategies
from sparqlive.errors import Unsupported
from sparqlive.live.quads import Change, Quads
from sparqlive.rdf.dictionary import Dictionary

if TYPE_CHECKING:
    from sparqlive.bulk.backends.spark.carry import Carrier
    from sparqlive.store.store import Sources


class SparkAccess:
    def __init__(self, given: Any, quads: Quads, dictionary: Dictionary, strategies: Strategies) -> None:
        self.given = given
        """A Spark session, the URL of a master, or None."""
        self.stored: Callable[[], Sources] | None = None
        """Where a store has the quads and terms."""
        self._quads = quads
        self._dictionary = dictionary
        self._strategies = strategies
        self._exported: Exported | None = None
        if find_spec("pyspark") is not None:
            strategies.carrier = self.carrier

    @property
    def installed(self) -> bool:
        return self._strategies.carrier is not None

    def ensure_installed(self) -> None:
        if not self.installed:
            raise Unsupported("Spark is not installed: install sparqlive with the extra [spark].")

    def session(self) -> Any:
        """The Spark session that was given, or one that is started now and shared by all in this process."""
        if self.given is None or isinstance(self.given, str):
            from sparqlive.bulk.backends.spark.start import start_session

            self.given = start_session(self.given or "local[*]")
        self._strategies.spark_started = True
        return self.given

    def carrier(self, undone: Sequence[Change] = ()) -> Carrier:
        """Spark, on the quads and terms as they were before the epoch under way.

        `undone` are changes that lead from the last epoch to the one a view stands for.
        """
        from sparqlive.bulk.backends.spark.carry import Carrier

        spark = self.session()
        if self.stored is not None:
            sources = self.stored()
        else:
            if self._exported is None:
                self._exported = Exported(self._quads, self._dictionary)
            sources = self._exported.sources()
        if undone:
            sources = replace(sources, log=np.concatenate([sources.log, np.array(undone, dtype=np.int64)]))
        dictionary = self._dictionary
        return Carrier(spark, sources, dictionary.id_of, dictionary.exceptions, dictionary.enter)

    def committed(self, changes: Sequence[Change]) -> None:
        """An epoch was committed."""
        if self._exported is not None:
            self._exported.add(changes)

    def close(self) -> None:
        """Gives back what was written for Spark; Spark itself may have other users."""
        if self._exported is not None:
            self._exported.close()
            self._exported = None


class Exported:
    """The quads and terms of a session in memory, written where Spark can read them, and what came after."""

    def __init__(self, quads: Quads, dictionary: Dictionary) -> None:
        from sparqlive.store.store import Store  # not before it is needed: it takes a while to import

        self._directory = tempfile.TemporaryDirectory(prefix="sparqlive-")
        self._store = Store(self._directory.name)
        self._dictionary = dictionary
        self._store.write_quads(quads.columns(), 0)
        self._store.write_terms(list(dictionary.entries()))
        dictionary.journal = []
        self._log: list[Change] = []

    def add(self, changes: Sequence[Change]) -> None:
        self._log.extend(changes)

    def sources(self) -> Sources:
        found = self._store.sources(self._dictionary.journal or ())
        return replace(found, log=np.array(self._log, dtype=np.int64).reshape(-1, 5))

    def close(self) -> None:
        self._store.close()
        self._directory.cleanup()
