"""Three homes share their meter readings, but not what they were for; an aggregator counts over all homes.

Each home's readings are in its pod. The web agent in front of a pod keeps a CONSTRUCT view of the shared
part. The aggregator sees no pod. It follows the three views, and shows COUNT, SUM, AVG, MIN and MAX over all
homes as soon as a pod changes. (Figure 1 of the paper on view maintenance in Solid.)
"""

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

import sparqlive
from examples.aggregator.agents import Agent, agent
from examples.aggregator.pods import ENERGY, Home, Pod, document_pods, solid_pods
from examples.watch_party.server import SolidServer, solid_command, solid_server
from sparqlive.pipeline.progress import Progress, duration

SHARED = f"""
PREFIX : <{ENERGY}>
CONSTRUCT {{ ?reading :day ?day ; :kwh ?kwh }} WHERE {{ ?reading a :Reading ; :day ?day ; :kwh ?kwh }}
"""
TOTALS = f"""
PREFIX : <{ENERGY}>
SELECT (COUNT(?kwh) AS ?count) (SUM(?kwh) AS ?sum) (AVG(?kwh) AS ?avg) (MIN(?kwh) AS ?min) (MAX(?kwh) AS ?max)
WHERE {{ ?reading :kwh ?kwh }}
"""
NAMES = ("ada", "ben", "cleo")
FIRST: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "ada": {"mon": ("2.4", "kettle"), "tue": ("3.1", "oven")},
    "ben": {"mon": ("1.2", "lamp"), "tue": ("0.9", "lamp"), "wed": ("5.0", "heater")},
    "cleo": {"mon": ("4.4", "washing"), "wed": ("7.5", "sauna")},
}
_PATIENCE_SECONDS = 60.0
_PLACES = Decimal("0.000001")
Totals = tuple[Decimal, ...]


class Aggregate:
    """Follows the aggregator's view and records each row that it has had."""

    def __init__(self, view: str) -> None:
        self._rows: queue.SimpleQueue[tuple[float, Totals]] = queue.SimpleQueue()
        threading.Thread(target=self._follow, args=(view,), daemon=True).start()

    def _follow(self, view: str) -> None:
        for delta in sparqlive.follow(view):
            for row, weight in delta.weights().items():
                if weight > 0:
                    values = (Decimal(0 if term is None else str(term.value)) for term in row)
                    self._rows.put((time.perf_counter(), tuple(value.quantize(_PLACES) for value in values)))

    def wait_for(self, expected: Totals) -> float:
        """Waits until the view has a row; returns the time at which it had it."""
        deadline, row = time.monotonic() + _PATIENCE_SECONDS, None
        while True:
            try:
                at, row = self._rows.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise sparqlive.CheckFailed(
                    f"The aggregator has {row}, but the pods have {expected}."
                ) from None
            if row == expected:
                return at


class Neighbourhood:
    """The homes with their pods and agents, and the aggregator over them."""

    def __init__(
        self, homes: Sequence[Home], pods: Sequence[Pod], agents: Sequence[Agent], aggregator: Agent
    ) -> None:
        self.homes = {home.name: home for home in homes}
        self._pods = dict(zip(self.homes, pods, strict=True))
        self._agents = dict(zip(self.homes, agents, strict=True))
        self._aggregator = aggregator
        self._taking_part: set[str] = set()
        self._console = Console(highlight=False)
        self.checks = 0
        for home in homes:
            self._pods[home.name].write(home)
            pod = self._pods[home.name]
            self._agents[home.name].source(home.name, pod.kind, pod.address, pod.options)
        self._aggregate = Aggregate(aggregator.view("totals", TOTALS))

    def join(self, name: str) -> None:
        """The aggregator follows a home's view."""
        shared = self._agents[name].view("shared", SHARED)
        self._aggregator.source(name, "agent", shared, {"allow_private": True})
        self._taking_part.add(name)

    def leave(self, name: str) -> None:
        self._aggregator.remove_source(name)
        self._taking_part.discard(name)

    def write(self, name: str, change: Callable[[dict[str, tuple[Decimal, str]]], object]) -> None:
        """A home changes its readings, in its own pod."""
        change(self.homes[name].readings)
        self._pods[name].write(self.homes[name])

    def expected(self) -> Totals:
        """The aggregates, computed from the readings themselves."""
        values = [kwh for name in self._taking_part for kwh, _ in self.homes[name].readings.values()]
        count = Decimal(len(values))
        row = (count, sum(values, Decimal(0)), sum(values, Decimal(0)) / count, min(values), max(values))
        return tuple(value.quantize(_PLACES) for value in row)

    def happens(self, what: str, action: Callable[[], object]) -> None:
        """Runs an action, waits for the aggregator's correct row, and prints it with the time it took."""
        start = time.perf_counter()
        action()
        expected = self.expected()
        seconds = self._aggregate.wait_for(expected) - start
        self.checks += 1
        count, total, average, least, most = expected
        row = f"{count:>5.0f}{total:>8.1f}{average:>8.2f}{least:>7.1f}{most:>7.1f}"
        self._console.print(
            Text.assemble(f"{what:<46}", (row, "bold"), (f"   {duration(seconds)}", "dim")), soft_wrap=True
        )

    def heading(self) -> None:
        columns = f"{'count':>5}{'sum':>8}{'avg':>8}{'min':>7}{'max':>7}"
        self._console.print(Text(f"{'':46}{columns}   seen after", style="dim"), soft_wrap=True)


def week(neighbours: Neighbourhood) -> None:
    """The events in the pods, one after the other."""

    def reads(name: str, day: str, kwh: str, appliance: str) -> None:
        neighbours.write(name, lambda readings: readings.update({day: (Decimal(kwh), appliance)}))

    def forgets(name: str, day: str) -> None:
        neighbours.write(name, lambda readings: readings.pop(day))

    neighbours.heading()
    neighbours.happens("ada, ben and cleo take part", lambda: [neighbours.join(name) for name in NAMES])
    neighbours.happens("ada reads her meter: 2.0", lambda: reads("ada", "wed", "2.0", "kettle"))
    neighbours.happens("ben corrects a reading from 0.9 to 1.9", lambda: reads("ben", "tue", "1.9", "lamp"))
    neighbours.happens("cleo deletes the highest reading of all", lambda: forgets("cleo", "wed"))
    neighbours.happens("ben deletes the lowest", lambda: forgets("ben", "mon"))
    neighbours.happens("cleo stops taking part", lambda: neighbours.leave("cleo"))
    neighbours.happens("ada had guests: 9.9", lambda: reads("ada", "thu", "9.9", "oven"))
    neighbours.happens("cleo comes back", lambda: neighbours.join("cleo"))


def run(pods: Sequence[Pod], folder: Path, progress: Progress) -> int:
    """Runs the week; returns the exit code."""
    homes = [
        Home(name, {day: (Decimal(kwh), what) for day, (kwh, what) in FIRST[name].items()}) for name in NAMES
    ]
    with ExitStack() as stack:
        with progress.step("starting an agent in front of each pod, and an aggregator"):
            agents = [
                stack.enter_context(agent(folder / name, pod.environment))
                for name, pod in zip(NAMES, pods, strict=True)
            ]
            aggregator = stack.enter_context(agent(folder / "aggregator", {}))
            neighbours = Neighbourhood(homes, pods, agents, aggregator)
        try:
            week(neighbours)
        except sparqlive.CheckFailed as error:
            progress.line(f"check: {error}")
            return 1
    names = "COUNT, SUM, AVG, MIN and MAX"
    progress.line(f"check: the aggregator's {names} were those of the pods {neighbours.checks} times")
    return 0


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.aggregator", description=__doc__)
    parser.add_argument(
        "--documents",
        action="store_true",
        help="use documents on a small server as pods, even if a Solid server is installed",
    )
    parser.add_argument("--server", help="address of a running Community Solid Server; default: start one")
    options = parser.parse_args(given)
    progress = Progress()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            if options.documents or (options.server is None and not _has_solid()):
                pods = stack.enter_context(document_pods(NAMES))
            elif options.server is not None:
                pods = solid_pods(SolidServer(options.server), NAMES)
            else:
                with progress.step("starting a Community Solid Server with three pods"):
                    server = stack.enter_context(solid_server(solid_command()))
                    pods = solid_pods(server, NAMES)
            return run(pods, folder, progress)
    except sparqlive.Error as error:
        print(f"sparqlive: {error}", file=sys.stderr)
        return 1


def _has_solid() -> bool:
    try:
        return bool(solid_command())
    except sparqlive.Error:
        return False


if __name__ == "__main__":
    sys.exit(main())
