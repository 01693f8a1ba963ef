"""The party in the pods: a room in the host's pod, a message box in each pod."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyoxigraph import Literal, NamedNode

from examples.watch_party.server import Person

SCHEMA = "http://schema.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"

# The two queries of the paper; the first is about one room.
BOXES = """
PREFIX schema: <http://schema.org/>
SELECT ?messageBoxes
WHERE {
  <ROOM> schema:subjectOf ?messageBoxes .
}
"""
MESSAGES = """
PREFIX schema: <http://schema.org/>
SELECT ?message ?dateSent ?text ?sender
WHERE {
  ?message a schema:Message .
  ?message schema:dateSent ?dateSent .
  ?message schema:text ?text .
  ?message schema:sender ?sender .
}
"""


class Party:
    """The pods' side: who is in the room, and what they write."""

    def __init__(self, host: Person, guests: Sequence[Person]) -> None:
        self.host = host
        self.room = f"{host.pod}party/room#it"
        self._document = self.room.partition("#")[0]
        self._written = 0
        host.put(self._document, "")
        host.share(self._document, guests, "acl:Read, acl:Append")
        for person in (host, *guests):
            person.put(self.box(person), "")
            person.share(
                self.box(person), [other for other in (host, *guests) if other is not person], "acl:Read"
            )

    @staticmethod
    def box(person: Person) -> str:
        """The address of a person's message box, which the others can read."""
        return f"{person.pod}party/messages"

    def join(self, person: Person) -> None:
        """A person adds their message box to the room."""
        person.patch(self._document, insert=self._link(person))

    def leave(self, person: Person) -> None:
        """The host removes a person's message box from the room."""
        self.host.patch(self._document, delete=self._link(person))

    def _link(self, person: Person) -> str:
        return f"<{self.room}> <{SCHEMA}subjectOf> <{self.box(person)}> ."

    def write(self, person: Person, text: str) -> NamedNode:
        """A person adds a message to their box."""
        self._written += 1
        message = NamedNode(f"{self.box(person)}#{self._written}")
        now = Literal(datetime.now(UTC).isoformat(), datatype=NamedNode(f"{XSD}dateTime"))
        parts = {"sender": NamedNode(person.web_id), "text": Literal(text), "dateSent": now}
        said = "".join(f"; <{SCHEMA}{name}> {value}" for name, value in parts.items())
        person.patch(self.box(person), insert=f"{message} a <{SCHEMA}Message>{said} .")
        return message
