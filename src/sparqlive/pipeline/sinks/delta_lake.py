"""The content of a view as a Delta Lake table, with one version per epoch that changed the view.

The table has one text column per variable (N-Triples syntax, null where unbound) and `_weight`, and one row
per distinct row of the view. Each version carries its epoch as a transaction of the application `sparqlive`,
which is Delta Lake's way to make writes idempotent. Needs the package `deltalake`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sparqlive.engine.view import FORMS, TermRow
from sparqlive.errors import Error
from sparqlive.sparql.arrow import WEIGHT, schema, table

_APPLICATION = "sparqlive"


class DeltaLakeSink:
    forms: ClassVar = FORMS
    scheme: ClassVar[str | None] = None

    def __init__(self, path: str | Path, variables: Sequence[str]) -> None:
        self._package = delta_lake()
        self._variables = variables
        self._path = str(path)
        if not self._package.DeltaTable.is_deltatable(self._path):
            Path(path).mkdir(parents=True, exist_ok=True)
            self._package.DeltaTable.create(self._path, schema(variables))

    def last_epoch(self) -> int | None:
        version = self._package.DeltaTable(self._path).transaction_version(_APPLICATION)
        return None if version is None else int(version)

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        rows = table(self._variables, weights)
        transaction = self._package.Transaction(_APPLICATION, epoch)
        commit = self._package.CommitProperties(app_transactions=[transaction])
        if reset:
            self._package.write_deltalake(self._path, rows, mode="overwrite", commit_properties=commit)
        else:
            self._merge(rows, commit)

    def finish(self, epoch: int, content: Callable[[], Mapping[TermRow, int]]) -> None:
        """Does nothing: every version is already on disk."""

    def _merge(self, rows: Any, commit: Any) -> None:
        """Adds the weights; deletes rows whose weight becomes zero, and inserts new ones."""
        same = [f'(old."{name}" IS NOT DISTINCT FROM new."{name}")' for name in self._variables]
        total = f'old."{WEIGHT}" + new."{WEIGHT}"'
        merge = self._package.DeltaTable(self._path).merge(
            rows,
            " AND ".join(same) or "TRUE",
            source_alias="new",
            target_alias="old",
            commit_properties=commit,
        )
        merge = merge.when_matched_delete(f"{total} = 0")
        merge = merge.when_matched_update({f'"{WEIGHT}"': total})
        merge.when_not_matched_insert(
            {f'"{name}"': f'new."{name}"' for name in (*self._variables, WEIGHT)}
        ).execute()


def delta_lake() -> Any:
    """Returns the package; raises an Error that says what to install."""
    try:
        return importlib.import_module("deltalake")
    except ImportError as error:
        raise Error(
            "A sink of kind 'delta-lake' needs the package deltalake: pip install 'sparqlive[spark]'."
        ) from error
