"""Options of data sources: Spark hands them over as strings, by names without case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparqlive.errors import Error

_SPARK = ("checkpointlocation", "path", "queryname")
"""Options that Spark adds by itself."""


class Options:
    def __init__(self, source: str, given: Mapping[str, str], known: Sequence[str]) -> None:
        """Rejects names that are not known."""
        self._source = source
        self._given = {name.lower(): str(value) for name, value in dict(given).items()}
        for name in self._given:
            if name not in known and name not in _SPARK:
                raise Error(
                    f"The format {source!r} has no option {name!r}. Available options: {', '.join(known)}."
                )

    def get(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def required(self, name: str) -> str:
        found = self.get(name)
        if not found:
            raise Error(f"The format {self._source!r} needs the option {name!r}.")
        return found

    def store(self) -> str:
        """The store: the option `store`, or the path of load and save."""
        return self.get("path") or self.required("store")

    def number(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not text.isdecimal():
            raise Error(f"The option {name!r} must be a whole number, not {text!r}.")
        return int(text)

    def truth(self, name: str, default: bool) -> bool:
        text = (self.get(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise Error(f"The option {name!r} must be true or false, not {text!r}.")
        return text == "true"
