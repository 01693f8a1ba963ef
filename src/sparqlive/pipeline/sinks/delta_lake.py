"""The content of a view as a Delta Lake table, with one version per epoch that changed the view.

The table has typed columns and a row per solution, in the order of ORDER BY, and is written whole in each
version. With `weights`, it has one text column per variable (N-Triples syntax, null where unbound) and
`_weight`, and one row per distinct row of the view; a version then costs what changed. Each version carries
its epoch as a transaction of the application `sparqlive`, which is Delta Lake's way to make writes
idempotent. Needs the package `deltalake`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sparqlive.engine.results import FORMS, Answer, TermRow
from sparqlive.errors import Error
from sparqlive.sparql.arrow import schema, table
from sparqlive.sparql.column_names import WEIGHT, check_column_names

_APPLICATION = "sparqlive"


class DeltaLakeSink:
    forms: ClassVar = FORMS
    scheme: ClassVar[str | None] = None

    def __init__(self, path: str | Path, variables: Sequence[str], weights: bool = False) -> None:
        check_column_names(variables, *([WEIGHT] if weights else []), ignore_case=True)
        self._package = delta_lake()
        self._variables = variables
        self._path = str(path)
        self.takes_changes = weights
        if weights and not self._package.DeltaTable.is_deltatable(self._path):
            Path(path).mkdir(parents=True, exist_ok=True)
            self._package.DeltaTable.create(self._path, schema(variables))

    def last_epoch(self) -> int | None:
        if not self._package.DeltaTable.is_deltatable(self._path):
            return None
        version = self._package.DeltaTable(self._path).transaction_version(_APPLICATION)
        return None if version is None else int(version)

    def write(self, epoch: int, weights: Mapping[TermRow, int], reset: bool) -> None:
        rows = table(self._variables, weights)
        commit = self._commit(epoch)
        if reset:
            self._package.write_deltalake(self._path, rows, mode="overwrite", commit_properties=commit)
        else:
            self._merge(rows, commit)

    def _commit(self, epoch: int) -> Any:
        """A commit that carries its epoch."""
        transaction = self._package.Transaction(_APPLICATION, epoch)
        return self._package.CommitProperties(app_transactions=[transaction])

    def write_content(self, content: Answer) -> None:
        if self.takes_changes:
            self.write(content.epoch, content.weights(), reset=True)
            return
        Path(self._path).mkdir(parents=True, exist_ok=True)
        self._package.write_deltalake(
            self._path,
            content.to_arrow(),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=self._commit(content.epoch),
        )

    def finish(self, epoch: int, content: Callable[[], Answer]) -> None:
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
