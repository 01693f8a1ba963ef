"""Kills a writer at random moments and at every single step of its commits, and checks what is left.

A child process applies batches to a store with several views, and reports on a pipe which epochs were
acknowledged. It is killed (SIGKILL). Then another process opens the store and checks: no acknowledged epoch
is lost, every view equals its recomputation, and a reader that resumes gets every delta exactly once. `python
-m bench.crash --minutes 10` reports how many kills the store survived.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyoxigraph as ox

import sparqlive
from sparqlive.bulk.ingest.lines import Lines, TextPiece
from sparqlive.bulk.ingest.workers import Here
from sparqlive.engine.changes import commit_by_workers
from sparqlive.runtime.tuning import DEFAULT
from sparqlive.store import catalog, runs

EX = "http://example.org/"
VIEWS = {
    "optional": "SELECT ?x ?y ?z { ?x :p ?y OPTIONAL { ?y :q ?z } }",
    "distinct": "SELECT DISTINCT ?x { ?x :p/:p ?y }",
    "stored": "SELECT ?x ?z { ?x :p ?y OPTIONAL { ?y :q ?z } ?z :p ?x }",
    "product": "SELECT ?x ?y { ?x :q :n1 . ?y :p :n2 }",
    "group": "SELECT ?x (COUNT(?y) AS ?n) { ?x :p ?y } GROUP BY ?x",
    "path": "SELECT ?x { :n1 :p+ ?x }",
    "later": "SELECT ?x ?y { ?x :p ?z . ?z :q ?y }",
}
MUCH = 1 << 30
"""Of memory: all views are held."""
Model = set[ox.Quad]


def node(name: object) -> ox.NamedNode:
    return ox.NamedNode(f"{EX}{name}")


def batch(seed: int, epoch: int, data: Model) -> tuple[Model, Model]:
    """What comes and what goes in an epoch; one quad of its own, so that it changes something."""
    rng = random.Random(f"{seed}/{epoch}")
    there = sorted(data, key=str)
    gone = set(rng.sample(there, min(rng.randrange(4), len(there))))
    come = {
        ox.Quad(node(f"n{rng.randrange(8)}"), node(rng.choice("pqr")), node(f"n{rng.randrange(8)}"))
        for _ in range(rng.choice((1, 2, 12)))
    }
    come.add(ox.Quad(node("clock"), node("at"), ox.Literal(epoch)))
    return come, gone


def model(seed: int, epoch: int) -> Model:
    data: Model = set()
    for number in range(1, epoch + 1):
        come, gone = batch(seed, number, data)
        data = (data - gone) | come
    return data


def opened(path: Path, memory: int) -> sparqlive.Session:
    """Small bounds, so that a short run writes many files and compacts often, every other store by ranges.

    With no memory, views stay in the store.
    """
    range_rows = 8 if path.name[-1] in "13579" else 10**9
    tuning = replace(DEFAULT, compacted_rows=60, catalog_rows=5, range_rows=range_rows)
    session = sparqlive.Session(path, memory=memory, tuning=tuning)
    session._writer.strategies.workers = lambda: (Here(), "live")  # type: ignore[method-assign]
    return session


def applied(session: sparqlive.Session, come: Model, gone: Model, by_workers: bool) -> int:
    """Commits a batch, which workers may read; its epoch."""
    if not by_workers:
        return session.apply(insert=come, delete=gone).number
    texts = [("".join(f"{quad} .\n" for quad in quads), weight) for quads, weight in ((gone, -1), (come, 1))]
    pieces = [TextPiece(text.encode(), weight) for text, weight in texts if text]
    lines = Lines(session._writer.strategies.workers()[0], pieces)
    epoch = commit_by_workers(session._writer, lines, None, "auto", None, counts_each=False)
    assert epoch is not None
    return epoch.number


# The writer


def write(path: Path, seed: int, last: int, memory: int, say: Callable[[int], None]) -> None:
    """Registers views and applies batches up to an epoch; views come and go in between."""
    with opened(path, memory) as session:
        rng = random.Random(f"{seed}/{session.epoch}/views")
        for name, text in VIEWS.items():
            session.view(
                name, f"PREFIX : <{EX}> {text}", refresh="manual" if name == "later" else "immediate"
            )
        data = set(session.quads())
        while session.epoch < last:
            come, gone = batch(seed, session.epoch + 1, data)
            say(applied(session, come, gone, by_workers=rng.random() < 0.3))
            data = (data - gone) | come
            choice = rng.randrange(12)
            if choice == 0:
                session.compact()
            elif choice == 1:
                name = rng.choice(("group", "stored"))
                session.drop(name)
                session.view(name, f"PREFIX : <{EX}> {VIEWS[name]}")
            elif choice == 2:
                session.views["later"].refresh()


# What is left


def inspect(path: Path, seed: int, acknowledged: int, memory: int) -> int:
    """Raises where the store is not as it must be; its epoch."""
    with opened(path, memory) as session:
        assert acknowledged <= session.epoch <= acknowledged + 1, (
            f"epoch {acknowledged} was acknowledged, and the store is at {session.epoch}"
        )
        assert set(session.quads()) == model(seed, session.epoch), "the quads are not those of the epoch"
        session.check()
        cursor = path.with_suffix(".cursor")
        seen: dict[str, tuple[int, int, Any]] = pickle.loads(cursor.read_bytes()) if cursor.exists() else {}
        for name, view in session.views.items():
            resume(name, view, seen)
        rng = random.Random(f"{seed}/{session.epoch}/cursor")
        kept = {name: (view.since, view.epoch, view.weights()) for name, view in session.views.items()}
        cursor.write_bytes(pickle.dumps({**kept, **seen} if rng.random() < 0.7 else kept))
        return session.epoch


def resume(name: str, view: sparqlive.View, seen: dict[str, tuple[int, int, Any]]) -> None:
    if name not in seen or seen[name][0] != view.since:  # a view of that name that came later
        seen.pop(name, None)
        return
    _, last, weights = seen[name]
    total = Counter(weights)
    for delta in view.changes(since=last):
        assert not delta.reset, f"the changes of {name} after epoch {last} are lost"
        assert delta.epoch > last, f"a delta of {name} came twice"
        last = delta.epoch
        total.update(delta.weights())
    rows = {row: weight for row, weight in total.items() if weight}
    assert rows == view.weights(), f"the changes of {name} do not add up to its content"


# Processes: the parent forks and never opens a store itself


def warm_up() -> None:
    """What every child would do again: parsing, compiling."""
    with sparqlive.open() as session:
        for name, text in VIEWS.items():
            session.view(name, f"PREFIX : <{EX}> {text}")
        for epoch in range(1, 4):
            come, gone = batch(0, epoch, set(session.quads()))
            session.apply(insert=come, delete=gone)
        session.check()


def forked(action: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        action()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def inspected(path: Path, seed: int, acknowledged: int, memory: int) -> None:
    child = forked(lambda: (inspect(path, seed, acknowledged, memory), None)[1])
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"seed {seed}, after epoch {acknowledged}: the store {path} is not as it must be")


def kill_at_random(
    path: Path, seed: int, acknowledged: int, memory: int, rng: random.Random
) -> tuple[int, bool]:
    """One life of a writer: the last epoch acknowledged, and whether it was killed."""
    seconds = rng.choice((0.05, 0.2, 0.5)) * rng.random() + (0.02 if memory else 0.5)
    return lived(partial(write, path, seed, acknowledged + 200, memory), acknowledged, seconds)


def lived(
    action: Callable[[Callable[[int], None]], None], acknowledged: int, seconds: float | None
) -> tuple[int, bool]:
    """Runs a writer, for so many seconds; the last epoch that it acknowledged, and whether it was killed."""
    read_end, write_end = os.pipe()
    child = forked(lambda: action(lambda epoch: (os.write(write_end, epoch.to_bytes(8, "big")), None)[1]))
    os.close(write_end)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read_end, "rb") as stream:
        said = stream.read()
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit("the writer failed by itself")
    return int.from_bytes(said[-8:], "big") if said else acknowledged, os.WIFSIGNALED(status)


def random_kills(directory: Path, until: float, least: int, first_seed: int) -> int:
    """How many kills at random moments there were: until a time, and at least so many."""
    kills, seed = 0, first_seed
    while time.monotonic() < until or kills < least:
        path, acknowledged = directory / f"random-{seed}", 0
        rng = random.Random(seed)
        for _ in range(25):
            memory = rng.choice((0, MUCH, MUCH))
            acknowledged, was_killed = kill_at_random(path, seed, acknowledged, memory, rng)
            kills += was_killed
            inspected(path, seed, acknowledged, memory)
            acknowledged = epoch_of(path)
            if time.monotonic() > until and kills >= least:
                break
        shutil.rmtree(path)
        path.with_suffix(".cursor").unlink(missing_ok=True)
        seed += 1
    return kills


def epoch_of(path: Path) -> int:
    with sqlite3.connect(path / "catalog.sqlite") as database:
        return int(database.execute("SELECT coalesce(max(number), 0) FROM epochs").fetchone()[0])


# Faults: killed before the n-th step, for every n


class Steps:
    """Counts whatever a commit does to the disk, and kills the process before one of them."""

    def __init__(self, fatal: int) -> None:
        self.left = fatal

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        steps = self

        class Connection(sqlite3.Connection):
            def execute(self, *given: Any) -> sqlite3.Cursor:
                if not given[0].startswith(("SELECT", "PRAGMA")):
                    steps.step()
                return super().execute(*given)

            def executemany(self, *given: Any) -> sqlite3.Cursor:
                steps.step()
                return super().executemany(*given)

        connect = sqlite3.connect
        catalog.sqlite3.connect = lambda *given, **options: connect(*given, factory=Connection, **options)  # type: ignore[attr-defined, assignment]
        for owner, name in (
            (runs.pq, "write_table"),
            (os, "fsync"),
            (os, "mkdir"),
            (Path, "unlink"),
            (shutil, "rmtree"),
        ):
            self._watch(owner, name)

    def _watch(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def watched(*given: Any, **options: Any) -> Any:
            self.step()
            return original(*given, **options)

        setattr(owner, name, watched)


def scenario(path: Path, seed: int, fatal: int, memory: int, say: Callable[[int], None]) -> None:
    """Every kind of commit once: epochs, views, a refresh, a compaction, a drop."""
    Steps(fatal).install()
    with opened(path, memory) as session:
        data = set(session.quads())

        def apply(by_workers: bool = False) -> None:
            nonlocal data
            come, gone = batch(seed, session.epoch + 1, data)
            say(applied(session, come, gone, by_workers))
            data = (data - gone) | come

        for name in ("optional", "distinct", "later"):
            session.view(
                name, f"PREFIX : <{EX}> {VIEWS[name]}", refresh="manual" if name == "later" else "immediate"
            )
        for by_workers in (False, True, False):
            apply(by_workers)
        session.compact()
        session.views["later"].refresh()
        apply()
        session.view("distinct", f"PREFIX : <{EX}> {VIEWS['group']}", replace=True)
        apply(by_workers=True)
        session.compact()
        apply()
        session.drop("distinct")
        apply()


def faults(directory: Path, until: float, least: int, stride: int = 16) -> tuple[int, bool]:
    """How many steps there was a kill before, and whether those were all.

    First every sixteenth, then those between: a short run covers all kinds. In every third store no view is
    held.
    """
    fatal, offset, kills = 1, 1, 0
    while time.monotonic() < until or kills < least:
        path, seed = directory / f"fault-{fatal}", 7
        memory = 0 if fatal % 3 == 1 else MUCH
        acknowledged, was_killed = lived(partial(scenario, path, seed, fatal, memory), 0, None)
        if not was_killed:  # there are fewer steps
            offset += 1
            fatal = offset
            if offset > stride:
                return kills, True
            continue
        kills += 1
        inspected(path, seed, acknowledged, memory)
        inspected(path, seed, acknowledged, MUCH - memory)  # the first opening has left all in order, too
        shutil.rmtree(path)
        path.with_suffix(".cursor").unlink(missing_ok=True)
        fatal += stride
    return kills, False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=0, help="go on until there were so many of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.monotonic()
    seconds = options.minutes * 60
    warm_up()
    with tempfile.TemporaryDirectory(prefix="sparqlive-crash-") as directory:
        steps, complete = faults(Path(directory), start + seconds * 0.6, options.kills)
        kills = random_kills(Path(directory), start + seconds, options.kills, options.seed)
    every = "every step" if complete else "steps"
    print(f"crash: survived {steps} kills before {every} of the commits, and {kills} at random moments")


if __name__ == "__main__":
    main()
