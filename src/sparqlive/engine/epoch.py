"""What an epoch changed: how many quads, and the delta of each view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparqlive.engine.carry import Choice
from sparqlive.engine.results import Delta
from sparqlive.sparql import html

if TYPE_CHECKING:
    from sparqlive.engine.views import Views


@dataclass(frozen=True, init=False)
class Epoch:
    """One committed batch of changes: its number, how many quads it changed, and each view's delta.

    `ignored` counts changes without effect. `strategy` says how the epoch was carried to the views; `choices`
    says so for each view that had a choice, with the reason. `rejected` counts malformed lines
    that a load skipped. `seconds` is the duration.
    """

    number: int
    inserted: int
    deleted: int
    ignored: int
    deltas: Deltas
    strategy: str = "live"
    choices: Mapping[str, Choice] = field(default_factory=dict)
    rejected: int = 0
    seconds: float = 0.0

    def __init__(
        self,
        number: int,
        inserted: int,
        deleted: int,
        ignored: int,
        deltas: Deltas,
        strategy: str = "live",
        choices: Mapping[str, Choice] | None = None,
        rejected: int = 0,
        seconds: float = 0.0,
    ) -> None:
        # One update: nine assignments around the protection of a frozen class would cost each epoch 1.5 µs.
        self.__dict__.update(
            number=number,
            inserted=inserted,
            deleted=deleted,
            ignored=ignored,
            deltas=deltas,
            strategy=strategy,
            choices={} if choices is None else choices,
            rejected=rejected,
            seconds=seconds,
        )

    def _repr_html_(self) -> str:
        """What changed, for notebooks."""
        rows = [(name, len(self.deltas[name])) for name in self.deltas.changed()]
        about = f"Epoch {self.number}: +{self.inserted:,} −{self.deleted:,} quads, {self.strategy}"
        return html.preformatted(about) + html.table(("view", "changed rows"), rows, "changed view")


class Deltas(Mapping[str, Delta]):
    """The deltas of an epoch by view; views that did not change have an empty delta."""

    def __init__(self, epoch: int, changed: Mapping[str, Delta], views: Views) -> None:
        self._epoch = epoch
        self._changed = changed
        self._views = views

    def __getitem__(self, name: str) -> Delta:
        found = self._changed.get(name)
        return found if found is not None else self._views.state(name).history.no_change(self._epoch)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def changed(self) -> Iterator[str]:
        """The names of the views that changed."""
        return iter(self._changed)

    def __repr__(self) -> str:
        """The views that changed, with the number of changed rows."""
        return f"Deltas({', '.join(f'{name!r}: {len(delta)} rows' for name, delta in self._changed.items())})"
