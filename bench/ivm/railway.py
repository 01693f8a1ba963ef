"""A railway in the shape of the Train Benchmark (Szárnyas et al., 2018), and its errors.

The published generator makes, for each route, up to 19 switch positions, each with a switch; for each switch
up to 9 sensors; for each sensor 5 segments. The errors are those that its six queries look for, at the rates
of its repair scenario. Graphs of less than 7,000 triples have fewer switch positions and sensors per route.

Invariant: `inject` and `repair` return lines that change the graph, as long as there is something to change.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol, TypeVar

PREFIX = "http://ivm.example/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_TRUE = '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'
_POSITIONS = ("straight", "diverging", "failure")
_SMALL = 7_000
Item = TypeVar("Item")
Batch = tuple[list[str], list[str]]
"""Lines to delete and lines to insert."""


class Chance(Protocol):
    def below(self, limit: int) -> int: ...
    def chance(self, fraction: float) -> bool: ...


class Model:
    """The lines of a railway; for each query, where it is right and where it has the error."""

    def __init__(self, triples: int, dice: Chance) -> None:
        self._dice = dice
        self._most_positions, self._most_sensors = (20, 10) if triples >= _SMALL else (5, 4)
        self._lines: list[str] = []
        self._count = 0
        self._right: dict[str, deque[tuple[str, ...]]] = {}
        self._wrong: dict[str, deque[tuple[str, ...]]] = {}
        first_semaphore = semaphore = self._new("Semaphore", signal=_name("go"))
        track: list[str] = []
        routes = 0
        while len(self._lines) < triples or routes < 2:
            last = len(self._lines) > triples * 0.9 and routes > 0
            after = first_semaphore if last else self._new("Semaphore", signal=_name("go"))
            part = self._route(semaphore, after)
            if track:
                self._edge(track[-1], "connectsTo", part[0])
            track += part
            semaphore = after
            routes += 1
        self._edge(track[-1], "connectsTo", track[0])

    def lines(self) -> list[str]:
        return list(self._lines)

    def places(self, query: str, *, right: bool) -> int:
        """How many places there are where a query is right, or where it has an error."""
        return len((self._right if right else self._wrong).get(query, ()))

    # Building

    def _line(self, subject: str, predicate: str, object_: str) -> str:
        return f"{subject} <{PREFIX}{predicate}> {object_} ."

    def _edge(self, subject: str, predicate: str, object_: str) -> None:
        self._lines.append(self._line(subject, predicate, object_))

    def _new(self, kind: str, **attributes: str) -> str:
        self._count += 1
        name = f"<{PREFIX}{kind.lower()}/{self._count}>"
        self._lines.append(f"{name} {_TYPE} {_name(kind)} .")
        for attribute, value in attributes.items():
            self._edge(name, attribute, value)
        return name

    def _note(self, query: str, right: bool, *place: str) -> None:
        (self._right if right else self._wrong).setdefault(query, deque()).append(place)

    def _route(self, before: str, after: str) -> list[str]:
        """Adds a route between two semaphores, and returns its track."""
        route, region = self._new("Route", active=_TRUE), self._new("Region")
        entered = not self._dice.chance(0.25)
        if entered:
            self._edge(route, "entry", before)
        self._note("semaphore-neighbor", entered, route, before)
        self._edge(route, "exit", after)
        track: list[str] = []
        for number in range(1 + self._dice.below(self._most_positions - 1)):
            self._switch(route, region, track)
            if number == 0:
                self._edge(track[1], "semaphores", after)
        return track

    def _switch(self, route: str, region: str, track: list[str]) -> None:
        position = self._dice.below(len(_POSITIONS))
        current = _name(_POSITIONS[position])
        switch = self._new("Switch", currentPosition=current)
        self._edge(region, "elements", switch)
        self._append(track, switch)
        monitors = []
        for _ in range(1 + self._dice.below(self._most_sensors - 1)):
            sensor = self._new("Sensor")
            self._edge(region, "sensors", sensor)
            if not self._dice.chance(0.18):
                monitors.append(sensor)
                self._edge(switch, "monitoredBy", sensor)
                required = not self._dice.chance(0.10)
                if required:
                    self._edge(route, "requires", sensor)
                self._note("route-sensor", required, route, sensor)
            self._segments(region, sensor, track)
        self._note("switch-monitored", bool(monitors), switch, *monitors)
        right = position == len(_POSITIONS) - 1 - position or not self._dice.chance(0.15)
        wanted = current if right else _name(_POSITIONS[len(_POSITIONS) - 1 - position])
        self._note("switch-set", right, switch, current, wanted)
        self._edge(route, "follows", self._new("SwitchPosition", position=wanted, target=switch))

    def _segments(self, region: str, sensor: str, track: list[str]) -> None:
        """Five segments under one sensor. A sixth is the error."""
        before = track[-1]
        error = self._dice.chance(0.05)
        segments = []
        for _ in range(6 if error else 5):
            length = self._dice.below(1000) + 1
            right = not self._dice.chance(0.10)
            text = _integer(length if right else -length)
            segment = self._new("Segment", length=text)
            self._note("pos-length", right, segment, text)
            self._edge(region, "elements", segment)
            self._edge(segment, "monitoredBy", sensor)
            self._append(track, segment)
            segments.append(segment)
        if error:
            self._note("connected-segments", False, before, segments[0], segments[1], sensor)
        else:
            self._note("connected-segments", True, before, segments[0], sensor)

    def _append(self, track: list[str], element: str) -> None:
        if track:
            self._edge(track[-1], "connectsTo", element)
        track.append(element)

    # Errors

    def inject(self, query: str, count: int) -> Batch:
        """Adds the error that a query looks for, at so many places."""
        deletes: list[str] = []
        inserts: list[str] = []
        for place in self._taken(self._right, query, count):
            match query, place:
                case "pos-length", (segment, length):
                    deletes.append(self._line(segment, "length", length))
                    inserts.append(self._line(segment, "length", _integer(0)))
                    self._note(query, False, segment, _integer(0))
                case "switch-monitored", (switch, *monitors):
                    deletes += [self._line(switch, "monitoredBy", sensor) for sensor in monitors]
                    self._note(query, False, switch)
                case "route-sensor", (route, sensor):
                    deletes.append(self._line(route, "requires", sensor))
                    self._note(query, False, route, sensor)
                case "switch-set", (switch, current, wanted):
                    other = _name(_POSITIONS[(_POSITIONS.index(_last(current)) + 1) % len(_POSITIONS)])
                    deletes.append(self._line(switch, "currentPosition", current))
                    inserts.append(self._line(switch, "currentPosition", other))
                    self._note(query, False, switch, other, wanted)
                case "semaphore-neighbor", (route, semaphore):
                    deletes.append(self._line(route, "entry", semaphore))
                    self._note(query, False, route, semaphore)
                case "connected-segments", (before, first, sensor):
                    self._count += 1
                    new = f"<{PREFIX}segment/{self._count}>"
                    deletes.append(self._line(before, "connectsTo", first))
                    inserts.append(f"{new} {_TYPE} {_name('Segment')} .")
                    inserts.append(self._line(before, "connectsTo", new))
                    inserts.append(self._line(new, "connectsTo", first))
                    inserts.append(self._line(new, "monitoredBy", sensor))
                    self._note(query, False, before, new, first, sensor)
        return deletes, inserts

    def repair(self, query: str, count: int) -> Batch:
        """Corrects so many errors that a query looks for."""
        deletes: list[str] = []
        inserts: list[str] = []
        for place in self._taken(self._wrong, query, count):
            match query, place:
                case "pos-length", (segment, length):
                    positive = _integer(-int(length.split('"')[1]) + 1)
                    deletes.append(self._line(segment, "length", length))
                    inserts.append(self._line(segment, "length", positive))
                    self._note(query, True, segment, positive)
                case "switch-monitored", (switch, *_):
                    self._count += 1
                    sensor = f"<{PREFIX}sensor/{self._count}>"
                    inserts.append(f"{sensor} {_TYPE} {_name('Sensor')} .")
                    inserts.append(self._line(switch, "monitoredBy", sensor))
                    self._note(query, True, switch, sensor)
                case "route-sensor", (route, sensor):
                    inserts.append(self._line(route, "requires", sensor))
                    self._note(query, True, route, sensor)
                case "switch-set", (switch, current, wanted):
                    deletes.append(self._line(switch, "currentPosition", current))
                    inserts.append(self._line(switch, "currentPosition", wanted))
                    self._note(query, True, switch, wanted, wanted)
                case "semaphore-neighbor", (route, semaphore):
                    inserts.append(self._line(route, "entry", semaphore))
                    self._note(query, True, route, semaphore)
                case "connected-segments", (before, extra, first, sensor):
                    deletes.append(self._line(before, "connectsTo", extra))
                    deletes.append(self._line(extra, "connectsTo", first))
                    deletes.append(self._line(extra, "monitoredBy", sensor))
                    inserts.append(self._line(before, "connectsTo", first))
                    self._note(query, True, before, first, sensor)
        return deletes, inserts

    def _taken(
        self, places: dict[str, deque[tuple[str, ...]]], query: str, count: int
    ) -> list[tuple[str, ...]]:
        waiting = places.setdefault(query, deque())
        return [waiting.popleft() for _ in range(min(count, len(waiting)))]


def _name(name: str) -> str:
    return f"<{PREFIX}{name}>"


def _last(name: str) -> str:
    return name.removeprefix(f"<{PREFIX}").removesuffix(">")


def _integer(value: int) -> str:
    return f'"{value}"^^<{_INTEGER}>'
