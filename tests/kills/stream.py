"""Kills a pipeline that follows a stream of Spark at random moments: `python -m tests.kills.stream`.

Each file is a micro-batch, and must be one epoch, however often the pipeline is killed with SIGKILL. In the
end the store passes its check, and the sink's changes add up to the view.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import sparqlive

PIPELINE = """
store = "s.store"
master = "local[2]"
[sources.numbers]
kind = "spark"
format = "json"
schema = "op STRING, s STRING, p STRING, o STRING"
options = { path = "in", maxFilesPerTrigger = 1 }
[views.numbers]
query = "q.rq"
[sinks.numbers]
view = "numbers"
kind = "json-lines"
path = "out.jsonl"
"""
QUERY = "SELECT ?s (COUNT(*) AS ?n) { GRAPH <source:numbers> { ?s ?p ?o } } GROUP BY ?s"


def write(folder: Path, batches: int) -> None:
    """A batch adds a number and takes an older one away; each of them changes something."""
    (folder / "in").mkdir()
    (folder / "q.rq").write_text(QUERY, encoding="utf-8")
    (folder / "p.toml").write_text(PIPELINE, encoding="utf-8")
    for number in range(batches):
        rows = [("+", number), ("-", number - 10)]
        lines = [
            json.dumps({"op": op, "s": f"<u:{n % 7}>", "p": "<u:p>", "o": f'"{n}"'})
            for op, n in rows
            if n >= 0
        ]
        path = folder / "in" / f"{number:04d}.json"
        path.write_text("\n".join(lines), encoding="utf-8")
        os.utime(path, (number, number))


def epochs_in_sink(folder: Path) -> int:
    path = folder / "out.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run(folder: Path, batches: int, kills: int, seed: int) -> int:
    """Runs the pipeline until all batches are in the sink; returns how often it was killed."""
    rng, killed = random.Random(seed), 0
    while epochs_in_sink(folder) <= batches:
        log = open(folder / "log", "ab")  # noqa: SIM115 - the process has it
        command = [sys.executable, "-m", "sparqlive", "run", str(folder / "p.toml")]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        reached = epochs_in_sink(folder)
        target = reached + rng.randrange(1, max(2, 2 * batches // kills)) if killed < kills else batches + 1
        while epochs_in_sink(folder) < min(target, batches + 1):
            assert process.poll() is None, f"the pipeline ended by itself; see {folder / 'log'}"
            time.sleep(0.05)
        time.sleep(rng.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        log.close()
        killed += 1
        print(f"killed {killed} times, {epochs_in_sink(folder)} epochs in the sink", flush=True)
    return killed


def inspect(folder: Path, batches: int) -> None:
    content: Counter[str] = Counter()
    last = -1
    for text in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        assert line["epoch"] > last or line["reset"]
        last = line["epoch"]
        content = Counter() if line["reset"] else content
        for change in line["changes"]:
            content[json.dumps(change["row"], sort_keys=True)] += change["weight"]
    with sparqlive.open(folder / "s.store") as session:
        assert session.epoch == batches, f"{batches} batches are {session.epoch} epochs"
        view = session.views["numbers"]
        assert all(weight >= 0 for weight in content.values())
        content = +content
        assert sum(content.values()) == len(view)
        rows = json.loads(view.serialize("json"))["results"]["bindings"]
        assert content == Counter(json.dumps(row, sort_keys=True) for row in rows)
        session.check()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparqlive-kills-") as name:
        folder = Path(name)
        write(folder, options.batches)
        killed = run(folder, options.batches, options.kills, options.seed)
        inspect(folder, options.batches)
    print(f"{options.batches} batches are as many epochs, through {killed} kills")


if __name__ == "__main__":
    main()
