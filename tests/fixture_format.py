"""Reads `.view` fixtures: a query, data, changes by epoch and the deltas they must give, in one text.

A line that starts in the first column begins a section; indented lines belong to it.

    # A comment: what the fixture shows.
    prefix : <http://example.org/>
    default-graph union            optional: how the session is opened
    query
      SELECT ?p ?mail WHERE { ?p a :Person OPTIONAL { ?p :mail ?mail } }
    equivalent                     optional: a query for the oracle, where pyoxigraph gets the first one wrong
      SELECT …
    data
      :ann a :Person .
    graph :g                       the graph of the next data section, or of the changes that follow
    data
      :ann :mail "a@x" .
    snapshot ?p ?mail              or: ordered ?p ?mail | ask true | error Unsupported
      :ann UNDEF
    epoch 1: an address
      + :ann :mail "a@x" .
    delta
      - :ann UNDEF
      + :ann "a@x"

A row may begin with its weight: `+`, `-`, `+2`. Prefixes are put before the query. Under `error`, each line
is a piece of text that the error's sentence must contain. `graph default` names the unnamed graph.
Invariant: what is not understood raises FixtureError with its line; nothing is skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox

Term = ox.NamedNode | ox.BlankNode | ox.Literal
Row = tuple[Term | None, ...]
Weights = dict[Row, int]

TOKEN = re.compile(
    r"""
    <[^<>\s]*>
  | "(?:[^"\\]|\\.)*"(?:@[A-Za-z-]+(?:--[a-z]+)?|\^\^(?:<[^<>\s]*>|[\w.-]*:[\w.-]+))?
  | _:[\w.-]+
  | [\w.-]*:[\w.%-]*
  | [+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?
  | true\b | false\b | UNDEF\b
    """,
    re.VERBOSE,
)
WEIGHT = re.compile(r"([+-]\d*)(?:\s+|$)")
CHANGE = re.compile(r"([+-])\s+(\S.*)")


class FixtureError(Exception):
    """The text is not a fixture; says which line and why."""


@dataclass(frozen=True)
class Change:
    sign: str
    quad: ox.Quad


@dataclass
class Epoch:
    title: str
    changes: list[Change] = field(default_factory=list)
    delta: Weights = field(default_factory=dict)


@dataclass
class Fixture:
    name: str = ""
    comment: str = ""
    prefixes: dict[str, str] = field(default_factory=dict)
    default_graph: str = "strict"
    query: str = ""
    equivalent: str = ""  # what to ask the oracle instead, where it is known to get the query wrong
    data: list[ox.Quad] = field(default_factory=list)
    kind: str = ""  # snapshot, ordered, ask or error
    variables: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)  # of the snapshot, in order, one entry a multiplicity
    error: str = ""  # the name of the error's class
    error_says: list[str] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)

    @property
    def snapshot(self) -> Weights:
        return dict(Counter(self.rows))

    @property
    def text(self) -> str:
        """The query as the session gets it."""
        return self._prologue + self.query

    @property
    def oracle_text(self) -> str:
        """The query as the oracle gets it."""
        return self._prologue + (self.equivalent or self.query)

    @property
    def _prologue(self) -> str:
        return "".join(f"PREFIX {name} <{iri}>\n" for name, iri in self.prefixes.items())


def last_words(changes: list[Change]) -> tuple[list[ox.Quad], list[ox.Quad]]:
    """(insert, delete) for one call of `apply`, where deletes come first: the last word on a quad wins.

    A quad that is deleted and then inserted stands in both lists.
    """
    last: dict[ox.Quad, str] = {change.quad: change.sign for change in changes}
    insert = [quad for quad, sign in last.items() if sign == "+"]
    delete = list(dict.fromkeys(change.quad for change in changes if change.sign == "-"))
    return insert, delete


def read(path: Path) -> Fixture:
    fixture = parse(path.read_text(encoding="utf-8"))
    fixture.name = path.stem
    return fixture


def parse(text: str) -> Fixture:
    return _Parser().run(text)


class _Parser:
    """Goes through the lines once; `block` handles the indented lines of the current section."""

    def __init__(self) -> None:
        self.fixture = Fixture()
        self.section = "header"
        self.graph: ox.NamedNode | ox.DefaultGraph = ox.DefaultGraph()
        self.pending: list[str] = []  # Turtle of a data section, which may run over several lines

    def run(self, text: str) -> Fixture:
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self.line(line)
            except (FixtureError, SyntaxError, ValueError) as error:
                raise FixtureError(f"line {number}: {line.strip()!r}: {error}") from error
        self.end_of_section()
        self.complete()
        return self.fixture

    def complete(self) -> None:
        fixture = self.fixture
        if not fixture.query:
            raise FixtureError("there is no query")
        if not fixture.kind:
            raise FixtureError("there is no snapshot, ordered, ask or error")
        if self.section.startswith("epoch"):
            raise FixtureError("the last epoch has no delta")

    def line(self, line: str) -> None:
        if not line.strip() or line.lstrip().startswith("# "):
            if self.section == "header" and line.startswith("# "):
                self.fixture.comment = f"{self.fixture.comment} {line[2:].strip()}".strip()
        elif line[0].isspace():
            self.block(line.strip())
        else:
            self.heading(*line.split(maxsplit=1))

    def heading(self, word: str, rest: str = "") -> None:
        fixture = self.fixture
        if self.section == "epoch" and word not in ("delta", "graph"):
            raise FixtureError(f"an epoch ends with its delta, not with {word!r}")
        if word != "graph":
            self.end_of_section()
        match word:
            case "prefix":
                name, iri = rest.split()
                fixture.prefixes[name] = iri.strip("<>")
            case "default-graph":
                fixture.default_graph = rest
            case "graph":
                if self.section == "data":
                    self.end_of_section()
                    self.section = "between"
                self.graph = self.graph_name(rest)
                return
            case "query" | "equivalent" | "data":
                self.section = word
            case "snapshot" | "ordered":
                self.section = fixture.kind = word
                fixture.variables = tuple(name.removeprefix("?") for name in rest.split())
            case "ask" if rest in ("true", "false"):
                self.section = fixture.kind = word
                fixture.rows = [()] if rest == "true" else []
            case "error":
                self.section = fixture.kind = word
                fixture.error = rest or "Error"
            case "epoch":
                self.section = word
                fixture.epochs.append(Epoch(rest.partition(":")[2].strip()))
            case "delta" if fixture.epochs:
                self.section = word
            case _:
                raise FixtureError("no section begins like this")
        if word != "data":
            self.graph = ox.DefaultGraph()

    def end_of_section(self) -> None:
        if self.section == "data":
            self.fixture.data += self.quads("\n".join(self.pending))
            self.graph = ox.DefaultGraph()
        self.pending = []

    def block(self, line: str) -> None:
        fixture = self.fixture
        match self.section:
            case "query":
                fixture.query = f"{fixture.query}\n{line}".strip()
            case "equivalent":
                fixture.equivalent = f"{fixture.equivalent}\n{line}".strip()
            case "data":
                self.pending.append(line)
            case "snapshot" | "ordered":
                weight, row = self.row(line)
                if weight < 1:
                    raise FixtureError("a snapshot holds no negative weights")
                fixture.rows += [row] * weight
            case "error":
                fixture.error_says.append(line)
            case "epoch":
                change = CHANGE.fullmatch(line)
                if change is None:
                    raise FixtureError("a change is '+' or '-', a space and Turtle statements")
                fixture.epochs[-1].changes += [Change(change[1], quad) for quad in self.quads(change[2])]
            case "delta":
                weight, row = self.row(line)
                if row in fixture.epochs[-1].delta or weight == 0:
                    raise FixtureError("a delta has each row once, with a weight that is not zero")
                fixture.epochs[-1].delta[row] = weight
            case _:
                raise FixtureError("an indented line outside of a section")

    def row(self, line: str) -> tuple[int, Row]:
        """The weight and the terms of one row."""
        sign = WEIGHT.match(line)
        weight = 1
        if sign is not None:
            line = line[sign.end() :]
            weight = int(sign[1] + "1") if len(sign[1]) == 1 else int(sign[1])
        tokens = TOKEN.findall(line)
        if "".join(tokens) != re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda m: m[1] or "", line):
            raise FixtureError(f"these are not all terms; read: {tokens}")
        variables = self.fixture.variables
        if len(tokens) != len(variables):
            raise FixtureError(f"{len(tokens)} terms for the {len(variables)} variables {variables}")
        return weight, tuple(None if token == "UNDEF" else self.term(token) for token in tokens)

    def term(self, token: str) -> Term:
        [quad] = self.quads(f"<x:row> <x:has> {token} .")
        assert not isinstance(quad.object, ox.Triple)
        return quad.object

    def graph_name(self, text: str) -> ox.NamedNode | ox.DefaultGraph:
        if text == "default":
            return ox.DefaultGraph()
        name = self.term(text)
        if not isinstance(name, ox.NamedNode):
            raise FixtureError("a graph is named by an IRI")
        return name

    def quads(self, turtle: str) -> list[ox.Quad]:
        """Turtle with the fixture's prefixes, in the current graph; blank nodes keep their labels."""
        head = "".join(f"@prefix {name} <{iri}> .\n" for name, iri in self.fixture.prefixes.items())
        parsed = ox.parse(head + turtle, format=ox.RdfFormat.TURTLE)
        return [ox.Quad(quad.subject, quad.predicate, quad.object, self.graph) for quad in parsed]
