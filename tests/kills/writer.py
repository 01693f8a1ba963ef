"""A driver that tests kill: loads a file, registers views, applies batches, says which epochs are committed.

What it does is decided by a seed, so that `inspect` knows from the number of an epoch what must be in the
store. Run as `python -m tests.kills.writer STORE RUNS MASTER SEED LAST [STEP]`; RUNS may be `-`: in the
store. With STEP, it kills itself before that step of its commits: a file that is written or synced, or a
statement of the catalog.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pyoxigraph as ox

import sparqlive
from bench.crash import Steps
from tests.oracle import Oracle

EX = "http://example.org/"
HELD = {
    "optional": "SELECT ?x ?y ?z { ?x :p ?y OPTIONAL { ?y :q ?z FILTER (?z != :n1) } }",
    "group": "SELECT ?y (COUNT(?x) AS ?n) { ?x :p ?y } GROUP BY ?y",
}
IN_STORE = {  # by Spark, from files to files
    "join": "SELECT ?x ?y ?z { ?x :p ?y . ?y :q ?z }",
    "totals": "SELECT ?z (COUNT(?y) AS ?n) { ?y :q ?z } GROUP BY ?z",
    "without": "SELECT ?x ?y { ?x :p ?y FILTER NOT EXISTS { ?y :q ?x } }",
}
NODES, EDGES = 200, 2400
Model = set[ox.Quad]


def text_of(name: str) -> str:
    return f"PREFIX : <{EX}> {(HELD | IN_STORE)[name]}"


def node(name: object) -> ox.NamedNode:
    return ox.NamedNode(f"{EX}{name}")


def edge(rng: random.Random) -> ox.Quad:
    ends = [node(f"n{rng.randrange(NODES)}") for _ in range(2)]
    return ox.Quad(ends[0], node(rng.choice("ppq")), ends[1])


def first(seed: int) -> Model:
    """The quads of the file that is loaded, which is epoch 1."""
    rng = random.Random(seed)
    return {edge(rng) for _ in range(EDGES)}


def batch(seed: int, epoch: int, data: Model) -> tuple[Model, Model]:
    """What comes and what goes in an epoch; one quad of its own, so that it changes something."""
    rng = random.Random(f"{seed}/{epoch}")
    gone = set(rng.sample(sorted(data, key=str), rng.randrange(30)))
    come = {edge(rng) for _ in range(rng.choice((3, 40)))}
    come.add(ox.Quad(node("clock"), node("at"), ox.Literal(epoch)))
    return come, gone


def model(seed: int, epoch: int) -> Model:
    if epoch == 0:
        return set()
    data = first(seed)
    for number in range(2, epoch + 1):
        come, gone = batch(seed, number, data)
        data = (data - gone) | come
    return data


def write(store: str, runs: str | None, master: str, seed: int, last: int, fatal: int | None) -> None:
    steps = Steps(sys.maxsize)
    steps.install()
    with sparqlive.open(store, runs=runs, spark=master) as session:
        say("open")
        if session.epoch == 0:
            file = Path(store).with_suffix(".nt")
            file.write_text("".join(f"{quad.triple} .\n" for quad in first(seed)))
            attempt(session.load, str(file))
            say(f"epoch {session.epoch}")
        for name in HELD:
            session.view(name, text_of(name))
        for name in IN_STORE:
            attempt(session.view, name, text_of(name), strategy="spark")
        say("views")
        data = set(session.quads())
        steps.left = fatal or steps.left
        while session.epoch < last:
            number = session.epoch + 1
            come, gone = batch(seed, number, data)
            rng = random.Random(f"{seed}/{number}/strategy")
            strategy = rng.choice(("spark", "spark", "spark", "rebuild", "auto"))
            say(f"begin {number}")
            attempt(session.apply, insert=come, delete=gone, strategy=strategy)
            say(f"epoch {session.epoch}")
            data = (data - gone) | come
            if rng.random() < 0.15:
                session.compact()
        session.check()
    say("end")


def attempt(action: Callable[..., object], *given: object, **options: object) -> None:
    """Tries again if Spark fails, which must have changed nothing."""
    for tries in range(5):
        try:
            action(*given, **options)
            return
        except sparqlive.SparkFailed as error:
            say(f"failed {' '.join(str(error).split())[:300]}")
            if tries == 4:
                raise


def say(line: str) -> None:
    print(line, flush=True)


def inspect(store: Path, seed: int, acknowledged: int) -> int:
    """Raises where the store is not as it must be; its epoch."""
    with sparqlive.open(store) as session:
        assert acknowledged <= session.epoch <= acknowledged + 1, (
            f"epoch {acknowledged} was acknowledged, and the store is at {session.epoch}"
        )
        data = model(seed, session.epoch)
        assert set(session.quads()) == data, "the quads are not those of the epoch"
        oracle = Oracle(data)
        for name, view in session.views.items():
            assert view.weights() == oracle.weights(text_of(name), view.variables), f"{name} is wrong"
        session.check()
        return session.epoch


if __name__ == "__main__":
    _, store, runs, master, seed, last, *fatal = sys.argv
    write(
        store, None if runs == "-" else runs, master, int(seed), int(last), int(fatal[0]) if fatal else None
    )
