"""Sources end when they are told to, whatever happens at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import sparqlive
from sparqlive.sources.polling import first_of, wait
from sparqlive.sources.watcher import KINDS, Kind, Report, Version


@pytest.mark.parametrize("waiting", [wait, lambda event, seconds: first_of(event, seconds=seconds)])
@pytest.mark.parametrize("steps", range(4))
def test_waiting_is_cancelled_also_when_the_event_comes_together_with_it(
    waiting: Callable[[asyncio.Event, float], Awaitable[None]], steps: int
) -> None:
    async def cancelled() -> bool:
        event = asyncio.Event()

        async def waits() -> None:
            await waiting(event, 60)
            await asyncio.sleep(60)

        task = asyncio.create_task(waits())
        await asyncio.sleep(0.01)
        event.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=120)
        return task.cancelled()

    assert asyncio.run(cancelled())


class Stubborn:
    """Does not end when it is told to for the first time."""

    def __init__(self, address: str) -> None: ...

    async def watch(self, version: Version | None, report: Report, wake: asyncio.Event) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)


def test_a_source_that_goes_on_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparqlive.sources.manager._CANCEL_SECONDS", 0.1)
    monkeypatch.setitem(KINDS, "stubborn", Kind("tests.sources.test_ending:Stubborn"))
    with sparqlive.open() as session:
        session.source("stubborn", "urn:x")
        session.source("stubborn", "urn:y").remove()
    assert list(session.sources) == ["urn:x"]


def test_a_source_whose_quads_cannot_be_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds no such source finds none of its quads: they are removed first."""
    (tmp_path / "a.nt").write_text("<x:s> <x:p> <x:o> .\n")

    def fails(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    with sparqlive.open() as session:
        source = session.source("file", str(tmp_path / "a.nt"), name="a")
        source.refresh()
        with monkeypatch.context() as patched:
            patched.setattr("sparqlive.engine.writer.Writer.commit", fails)
            with pytest.raises(OSError, match="disk"):
                source.remove()
        assert session.sources["a"] is source
        assert len(session) == 1
        source.remove()
        assert not session.sources
        assert len(session) == 0


def test_a_source_that_is_removed_before_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Following links, for example, removes sources while others are looked at."""
    monkeypatch.setitem(KINDS, "stubborn", Kind("tests.sources.test_ending:Stubborn"))
    monkeypatch.setattr("sparqlive.sources.manager._CANCEL_SECONDS", 0.1)
    with sparqlive.open() as session:
        source = session.source("stubborn", "urn:x")
        manager = session._manager
        running = manager._running

        def removing() -> asyncio.AbstractEventLoop:
            monkeypatch.setattr(manager, "_running", running)
            source.remove()
            return running()

        monkeypatch.setattr(manager, "_running", removing)
        source.refresh(timeout_seconds=60)
        assert not session.sources
