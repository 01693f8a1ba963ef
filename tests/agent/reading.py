"""Reads server-sent events as they come over the wire, for tests: not by the code of the client."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass
class Event:
    kind: str
    id: str | None
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Reader:
    """The events of one stream, and what they add up to."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.content: Counter[str] = Counter()
        self.epoch = -1
        self.kinds: list[str] = []
        self._lines = response.iter_lines()

    def next(self) -> Event:
        """The next event; StopIteration where the stream has ended."""
        kind, identity, data = "", None, []
        while True:
            line = next(self._lines)
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name in ("id", "id:"):
                identity = value
            elif name == "data":
                data.append(value)
            elif not line and kind:
                event = Event(kind, identity, "\n".join(data))
                self._add(event)
                return event

    def _add(self, event: Event) -> None:
        self.kinds.append(event.kind)
        if event.kind == "snapshot":
            self.content.clear()
        if event.kind in ("snapshot", "delta") and event.data.startswith("{"):
            body = event.json
            rows = body["results"]["bindings"] if "results" in body else [{}] * len(body["weights"])
            for row, weight in zip(rows, body["weights"], strict=True):
                key = json.dumps(row, sort_keys=True)
                self.content[key] += weight
                if not self.content[key]:
                    del self.content[key]
        if event.id:
            assert int(event.id) >= self.epoch, "epochs go on"
            self.epoch = int(event.id)

    def until(self, epoch: int) -> Counter[str]:
        """Reads on until an epoch is reached."""
        while self.epoch < epoch:
            self.next()
        return self.content


@contextmanager
def reading(client: httpx.Client, path: str, headers: Any = None, **options: Any) -> Iterator[Reader]:
    with client.stream("GET", path, params=options, headers=headers) as response:
        assert response.status_code == 200, response.read()
        yield Reader(response)


def content_of(client: httpx.Client, name: str) -> Counter[str]:
    """What a view has now, by its other interface."""
    bindings = client.get(f"/views/{name}").json()["results"]["bindings"]
    return Counter(json.dumps(row, sort_keys=True) for row in bindings)
