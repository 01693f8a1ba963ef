"""`sparqlive.follow`: what comes adds up to the view, over restarts, lost connections and other histories."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode

import sparqlive
from sparqlive.agent.access import Access
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from sparqlive.agent.tokens import Tokens
from sparqlive.engine.results import TermRow
from sparqlive.web.event_stream import EventStreamReader, Parser
from tests.agent.conftest import serving
from tests.waiting import happens, wait_until

QUERY = "SELECT ?s ?o { ?s <http://x/p> ?o }"
PAGE = Path(sparqlive.__file__).parent / "agent" / "page"


def triple(subject: object, value: object) -> str:
    return f'<http://x/{subject}> <http://x/p> "{value}" .\n'


class Follower:
    """Follows a view in a thread, and adds up what comes."""

    def __init__(self, following: EventStreamReader) -> None:
        self.following = following
        self.content: dict[TermRow, int] = {}
        self.resets = 0
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            for delta in self.following:
                if delta.reset:
                    self.resets += 1
                content = {} if delta.reset else dict(self.content)
                for row, weight in delta.weights().items():
                    content[row] = content.get(row, 0) + weight
                self.content = {row: weight for row, weight in content.items() if weight}
                assert all(weight > 0 for weight in self.content.values())
        except Exception as error:
            self.error = error

    def has(self, wanted: Callable[[], dict[TermRow, int]]) -> bool:
        return happens(lambda: self.content == wanted())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_a_view_is_followed(session: sparqlive.Session, agent: Agent) -> None:
    view = session.view("v", QUERY)
    session.apply(insert=triple("a", 1))
    with serving(agent) as address:
        deltas = iter(sparqlive.follow(f"{address}/views/v"))
        first = next(deltas)
        assert (first.epoch, first.reset, first.variables) == (1, True, ("s", "o"))
        assert first.weights() == view.weights() == {(NamedNode("http://x/a"), Literal("1")): 1}
        session.apply(insert=triple("a", 2), delete=triple("a", 1))
        second = next(deltas)
        assert (second.epoch, second.reset, len(second)) == (2, False, 2)
        assert second.weights() == {
            (NamedNode("http://x/a"), Literal("2")): 1,
            (NamedNode("http://x/a"), Literal("1")): -1,
        }
        deltas.close()  # type: ignore[attr-defined]


def test_a_view_is_followed_by_async_for(session: sparqlive.Session, agent: Agent) -> None:
    session.view("v", QUERY)

    async def read(address: str) -> list[tuple[int, bool]]:
        found = []
        async for delta in sparqlive.follow(f"{address}/views/v/changes"):
            found.append((delta.epoch, delta.reset))
            if len(found) == 3:
                return found
            await asyncio.to_thread(session.apply, insert=triple("a", len(found)))
        raise AssertionError

    with serving(agent) as address:
        assert asyncio.run(read(address)) == [(0, True), (1, False), (2, False)]


def test_every_kind_of_term_comes_as_it_is(session: sparqlive.Session, agent: Agent) -> None:
    view = session.view("v", "SELECT ?s ?o ?x { ?s <http://x/p> ?o OPTIONAL { ?o <http://x/q> ?x } }")
    values = [
        '"\\u2028 \\n\\r\\t\\" \\\\ \U0001f600"',
        '"a"@en-gb',
        '"1"^^<http://x/d>',
        "_:b",
        "<http://x/é>",
    ]
    session.apply(insert="".join(f"<http://x/a> <http://x/p> {value} .\n" for value in values))
    with serving(agent) as address:
        deltas = iter(sparqlive.follow(f"{address}/views/v"))
        assert next(deltas).weights() == view.weights()
        deltas.close()  # type: ignore[attr-defined]
        assert any(isinstance(term, BlankNode) for row in view.weights() for term in row)


def test_an_ask_is_followed(session: sparqlive.Session, agent: Agent) -> None:
    session.view("v", "ASK { ?s <http://x/p> ?o }")
    with serving(agent) as address:
        deltas = iter(sparqlive.follow(f"{address}/views/v"))
        assert next(deltas).weights() == {}
        session.apply(insert=triple("a", 1))
        assert next(deltas).weights() == {(): 1}
        deltas.close()  # type: ignore[attr-defined]


def test_a_reader_goes_on_where_another_left_off(session: sparqlive.Session, agent: Agent) -> None:
    session.view("v", QUERY)
    session.apply(insert=triple("a", 1))
    with serving(agent) as address:
        before = sparqlive.follow(f"{address}/views/v")
        next(iter(before))
        session.apply(insert=triple("a", 2))
        again = sparqlive.follow(f"{address}/views/v", since=before.epoch, lineage=before.lineage)
        assert (delta := next(iter(again))).epoch == 2
        assert not delta.reset
        new = sparqlive.follow(f"{address}/views/v", snapshot=False)
        deltas = iter(new)
        waiting = threading.Thread(target=lambda: found.append(next(deltas)))
        found: list[object] = []
        waiting.start()
        while new.epoch is None:
            time.sleep(0.01)
        session.apply(insert=triple("a", 3))
        waiting.join(120)
        assert repr(found[0]) == "Followed(epoch=3, rows=1)"


def test_subscribers_resume_over_a_restart(tmp_path: Path) -> None:
    """The agent is stopped and started on the same port while clients follow; changes come in between too."""
    port, numbers = free_port(), itertools.count()

    @contextmanager
    def running() -> Iterator[tuple[sparqlive.Session, str]]:
        with sparqlive.open(tmp_path / "store") as session, serving(Agent(session), port) as address:
            yield session, address

    def write(session: sparqlive.Session) -> None:
        for _ in range(30):
            number = next(numbers)
            session.apply(insert=triple("a", number), delete=triple("a", number - 5))

    followers: list[Follower] = []
    with running() as (session, address):
        session.view("v", QUERY)
        session.view("n", "SELECT (COUNT(*) AS ?n) { ?s <http://x/p> ?o }")
        write(session)
        followers += [Follower(sparqlive.follow(f"{address}/views/{name}")) for name in "vnvnv"]
        for follower, name in zip(followers, "vnvnv", strict=True):
            assert follower.has(session.views[name].weights)
        write(session)
    with sparqlive.open(tmp_path / "store") as session:
        write(session)
    for _ in range(2):
        with running() as (session, _):
            for follower, name in zip(followers, "vnvnv", strict=True):
                assert follower.has(session.views[name].weights), follower.error
            write(session)
    with running() as (session, _):
        for follower, name in zip(followers, "vnvnv", strict=True):
            assert follower.has(session.views[name].weights)
            assert (follower.resets, follower.error) == (1, None)  # they were sent nothing twice
        session.drop("v")
        session.drop("n")


def test_the_epochs_of_another_session_are_not_mistaken_for_ours() -> None:
    port = free_port()
    with ExitStack() as first:
        session = first.enter_context(sparqlive.open())
        address = first.enter_context(serving(Agent(session), port))
        session.view("v", QUERY)
        session.apply(insert=triple("a", 1))
        follower = Follower(sparqlive.follow(f"{address}/views/v"))
        assert follower.has(session.views["v"].weights)
        session.apply(insert=triple("a", 2))
        assert follower.has(session.views["v"].weights)
    with sparqlive.open() as session:
        session.view("v", QUERY)
        for number in range(10, 15):
            session.apply(insert=triple("b", number))
        with serving(Agent(session), port):
            assert follower.has(session.views["v"].weights)
            assert follower.resets == 2
            session.drop("v")


def test_a_store_has_one_history_unless_epochs_can_be_lost(tmp_path: Path) -> None:
    found = []
    for durability in ("epoch", "epoch", "relaxed", "relaxed"):
        with sparqlive.open(tmp_path, durability=durability) as session:  # type: ignore[arg-type]
            found.append(session.lineage)
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_what_cannot_come_right_is_an_error(session: sparqlive.Session, agent: Agent, tmp_path: Path) -> None:
    view = session.view("v", QUERY)
    with serving(agent) as address:
        with pytest.raises(sparqlive.UnknownView, match="nothing"):
            next(iter(sparqlive.follow(f"{address}/views/nothing")))
        with pytest.raises(sparqlive.Error, match="snapshot must be true or false"):
            next(iter(sparqlive.follow(f"{address}/views/v?snapshot=perhaps")))
        follower = Follower(sparqlive.follow(f"{address}/views/v"))
        assert follower.has(view.weights)
        while follower.following.epoch is None:
            time.sleep(0.01)
        session.drop("v")
        wait_until(lambda: follower.error is not None)
        assert isinstance(follower.error, sparqlive.UnknownView)
        assert "dropped" in str(follower.error)


def test_a_token_is_sent(session: sparqlive.Session, tmp_path: Path) -> None:
    session.view("v", QUERY)
    _, secret = Tokens(tmp_path).create(["read:view=v"])
    agent = Agent(session, Settings(), Access(tmp_path))
    with serving(agent) as address:
        with pytest.raises(sparqlive.Error, match="token"):
            next(iter(sparqlive.follow(f"{address}/views/v")))
        assert next(iter(sparqlive.follow(f"{address}/views/v", token=secret))).reset


def test_events_come_in_any_pieces() -> None:
    delta = 'event: delta\nid: 7\ndata: {"a":\ndata: "\u2028é"}\n\n'
    text = f"retry: 1000\n\n{delta}event: end\nid: \ndata: {{}}\n\n".encode()
    whole = Parser().feed(text)
    assert [(event.kind, event.id) for event in whole] == [("message", None), ("delta", "7"), ("end", "")]
    assert whole[1].data == '{"a":\n"\u2028é"}'
    for size in (1, 2, 3, 7):
        parser = Parser()
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert [event for piece in pieces for event in parser.feed(piece)] == whole
    with pytest.raises(sparqlive.Error, match="larger"):
        Parser(max_bytes=10).feed(b"data: 01234567890")


def test_sparqlive_is_imported_without_a_client() -> None:
    code = "import sys, sparqlive; assert 'httpx' not in sys.modules; assert callable(sparqlive.follow)"
    subprocess.run([sys.executable, "-c", code], check=True)


_SCRIPT = """
import { follow } from "./follow.mjs";
const [address, token] = process.argv.slice(2);
const rows = new Map();
for await (const event of follow(address, { token })) {
  if (event.type === "snapshot") rows.clear();
  (event.data.results?.bindings ?? []).forEach((row, place) => {
    const weight = (rows.get(row.o.value) ?? 0) + event.data.weights[place];
    if (weight) rows.set(row.o.value, weight);
    else rows.delete(row.o.value);
  });
  console.log(JSON.stringify([event.type, event.epoch, [...rows.keys()].sort()]));
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="JavaScript is tested by node, which is not there")
def test_javascript_follows_over_a_restart(tmp_path: Path) -> None:
    (tmp_path / "follow.mjs").write_text((PAGE / "follow.js").read_text())
    (tmp_path / "script.mjs").write_text(_SCRIPT)
    port = free_port()
    with sparqlive.open(tmp_path / "store") as session:
        session.view("v", QUERY)
        session.apply(insert=triple("a", 1))
        with ExitStack() as stack:
            address = stack.enter_context(serving(Agent(session), port))
            command = ["node", "script.mjs", f"{address}/views/v"]
            node = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
            assert node.stdout is not None
            try:
                assert node.stdout.readline() == '["snapshot",1,["1"]]\n'
                session.apply(insert=triple("a", "\u2028 2"))
                assert node.stdout.readline() == '["delta",2,["1","\u2028 2"]]\n'
                stack.close()
                session.apply(insert=triple("a", 3), delete=triple("a", 1))
                stack.enter_context(serving(Agent(session), port))
                assert node.stdout.readline() == '["delta",3,["3","\u2028 2"]]\n'
                session.drop("v")
                assert node.wait(120) != 0  # the view is gone, which is an error
            finally:
                node.kill()
                node.wait()
                node.stdout.close()


def test_a_reader_says_once_that_it_cannot_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:  # bound, and not listening
        closed.bind(("127.0.0.1", 0))
        reader = sparqlive.follow(f"http://127.0.0.1:{closed.getsockname()[1]}/views/v")
        said: list[str] = []
        reader.on_failure = said.append
        waited = iter(range(3))
        counted = reader._pause_seconds

        def pause_seconds() -> float:
            if next(waited, None) is None:
                raise KeyboardInterrupt
            return counted() * 0

        # Of this reader alone: readers of other tests may still be waiting for their agents in threads.
        monkeypatch.setattr(reader, "_pause_seconds", pause_seconds)
        with pytest.raises(KeyboardInterrupt):
            next(iter(reader))
        assert len(said) == 1
        assert "Connection refused" in said[0]
