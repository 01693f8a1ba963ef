"""A watch party on Solid pods: a room in the host's pod, a message box in each pod, the chat as a view.

The room lists the message boxes, so the first view determines the sources of the second. One guest comes
late, another leaves. Each message is timed, from its PATCH to its row in the view. (Vandenbrande and others,
Incremunica, 2025, section 5.)
"""

from __future__ import annotations

import argparse
import os
import queue
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pyoxigraph import NamedNode
from rich.console import Console
from rich.text import Text

import sparqlive
from examples.watch_party.party import BOXES, MESSAGES, Party
from examples.watch_party.server import Person, SolidServer, solid_command, solid_server
from sparqlive.pipeline.progress import Progress, duration

NAMES = ("hanna", "gita", "otto", "zoe")
COLOURS = dict(zip(NAMES, ("magenta", "cyan", "green", "yellow"), strict=True))
CHAT = (
    "Is everyone here?",
    "Here, with popcorn.",
    "Who has the remote?",
    "Start already!",
    "Did she just say that?",
    "I have seen this one: the dog survives.",
    "No spoilers, please.",
    "Pause, someone is at the door.",
    "Is that the same actor?",
    "What a twist!",
)
_SECRET = "WATCH_PARTY_SECRET"
_PATIENCE_SECONDS = 30.0


class Screen:
    """The viewers' side: which messages appear in the view, and when."""

    def __init__(self, session: sparqlive.Session) -> None:
        self._epochs: queue.SimpleQueue[tuple[float, sparqlive.Epoch]] = queue.SimpleQueue()
        self._came: dict[object, float] = {}
        session.observe(lambda epoch: self._epochs.put((time.perf_counter(), epoch)))

    def came(self, message: NamedNode) -> float:
        """The time at which a message appeared in the view."""
        self.wait(lambda: message in self._came, f"The message {message.value} was not seen")
        return self._came[message]

    def wait(self, condition: Callable[[], bool], sentence: str) -> float:
        """Waits for epochs until a condition holds; returns the time of the last one."""
        at = time.perf_counter()
        while not condition():
            try:
                at, epoch = self._epochs.get(timeout=_PATIENCE_SECONDS)
            except queue.Empty:
                raise sparqlive.Error(f"{sentence} within {_PATIENCE_SECONDS:g} seconds.") from None
            for row, weight in epoch.deltas["messages"].weights().items():
                if weight > 0:
                    self._came.setdefault(row[0], at)
        return at


class Show:
    """The evening: what happens, and how soon the view shows it."""

    def __init__(self, session: sparqlive.Session, party: Party) -> None:
        self._session = session
        self._party = party
        self._screen = Screen(session)
        self._console = Console(highlight=False)
        self.seconds: list[float] = []

    def begin(self, people: Sequence[Person], options: Mapping[str, Any]) -> None:
        """Registers the views and their sources: the room, and the boxes that it lists."""
        self._session.view("messages", MESSAGES)
        self._session.view("boxes", BOXES.replace("ROOM", self._party.room))
        self._session.source("solid", self._party.room, **options)
        self._session.sources_from("boxes", "messageBoxes", kind="solid", **options)
        for person in people:
            self._party.join(person)
        self._wait_for_boxes(len(people))

    def _wait_for_boxes(self, count: int) -> None:
        """Waits until there are `count` boxes, each with notifications."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            states = [source.status() for source in self._session.sources.values()]
            if len(states) == count + 1 and all(state["notifications"] for state in states):
                return
            if time.monotonic() > deadline:
                raise sparqlive.Error(f"The room's {count} message boxes are not followed: {states}")
            time.sleep(0.01)

    def say(self, person: Person, text: str) -> None:
        start = time.perf_counter()
        message = self._party.write(person, text)
        seconds = self._screen.came(message) - start
        self.seconds.append(seconds)
        name = (f"{person.name:>8}  ", COLOURS[person.name])
        self._console.print(Text.assemble(name, f"{text:<42}", (duration(seconds), "dim")), soft_wrap=True)

    def arrive(self, person: Person) -> None:
        """A guest who has already written messages adds their box to the room."""
        before = len(self._session.views["messages"])
        messages = [self._party.write(person, text) for text in ("Sorry, the train.", "What did I miss?")]
        start = time.perf_counter()
        self._party.join(person)
        came = max(self._screen.came(message) for message in messages)
        gained = len(self._session.views["messages"]) - before
        self._event(f"{person.name} joins: {gained} messages appear at once", came - start)
        self._wait_for_boxes(len(self._session.views["boxes"]))

    def leave(self, person: Person) -> None:
        view = self._session.views["messages"]
        theirs = {row for row in view.weights() if row[3] == NamedNode(person.web_id)}
        start = time.perf_counter()
        self._party.leave(person)
        at = self._screen.wait(lambda: theirs.isdisjoint(view.weights()), f"{person.name} did not leave")
        self._event(f"{person.name} leaves: {len(theirs)} messages disappear at once", at - start)

    def _event(self, text: str, seconds: float) -> None:
        self._console.print(
            Text.assemble((f"{'':10}{text:<42}", "italic"), (duration(seconds), "dim")), soft_wrap=True
        )


def run(server: SolidServer, messages: int, progress: Progress) -> int:
    """Runs the party; returns the exit code."""
    with progress.step(f"creating pods for {', '.join(NAMES)}, a room and message boxes"):
        people = [server.person(name) for name in NAMES]
        host, *guests = people
        party = Party(host, guests)
    os.environ[_SECRET] = host.client_secret
    options = {
        "issuer": server.address,
        "client_id": host.client_id,
        "client_secret_variable": _SECRET,
        "allow_private": True,
    }
    with sparqlive.open(default_graph="union") as session:
        show = Show(session, party)
        with progress.step("watching the room, and the message boxes that it lists"):
            show.begin(people[:-1], options)
        present = people[:-1]
        for number in range(messages):
            if number == messages // 3:
                show.arrive(people[-1])
                present = people
            if number == 2 * messages // 3:
                show.leave(guests[0])
                present = [person for person in people if person is not guests[0]]
            show.say(present[number % len(present)], CHAT[number % len(CHAT)])
        median, worst = statistics.median(show.seconds), max(show.seconds)
        progress.line(
            f"from a message's PATCH to its row: median {duration(median)}, worst {duration(worst)}"
        )
        try:
            session.check()
        except sparqlive.CheckFailed as error:
            progress.line(f"check: {error}")
            return 1
        progress.line(f"check: {len(session.views)} views equal their recomputation")
        return 0


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.watch_party", description=__doc__)
    parser.add_argument("--messages", type=int, default=12, help="number of messages (12)")
    parser.add_argument("--server", help="address of a running Community Solid Server; default: start one")
    options = parser.parse_args(given)
    progress = Progress()
    try:
        if options.server is not None:
            return run(SolidServer(options.server), options.messages, progress)
        with ExitStack() as stack:
            with progress.step("starting a Community Solid Server") as step:
                server = stack.enter_context(solid_server(solid_command()))
                step.result = server.address
            return run(server, options.messages, progress)
    except sparqlive.Error as error:
        print(f"sparqlive: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
