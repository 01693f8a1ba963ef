"""Kills a pipeline that follows a stream of Spark at random moments: `python -m tests.kills.stream`.

In turn, SIGKILL ends the pipeline's process, which is Spark's driver, and the Java process that runs the
stream's query, after which the pipeline must end by itself. Each micro-batch must be one epoch. It has one
file, or two where Spark was killed after it had listed the first. After every kill, the table that a sink
wrote must equal the view at its epoch; in the end the store has what all files say and passes its check, and
the changes of another sink add up to the view.
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
[sinks.table]
view = "numbers"
kind = "delta-lake"
path = "table"
"""
END_SECONDS = 600
QUERY = "SELECT ?s (COUNT(*) AS ?n) { GRAPH <source:numbers> { ?s ?p ?o } } GROUP BY ?s"


def write(folder: Path, files: int) -> None:
    """A file adds a number and takes an older one away; each of them changes something."""
    (folder / "in").mkdir()
    (folder / "q.rq").write_text(QUERY, encoding="utf-8")
    (folder / "p.toml").write_text(PIPELINE, encoding="utf-8")
    for number in range(files):
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


def micro_batches(folder: Path) -> tuple[int, int]:
    """How many micro-batches Spark has begun, and how many files they have."""
    offsets = folder / "s.store/streams/numbers/checkpoint/offsets"
    last = max((int(path.name) for path in offsets.glob("[0-9]*")), default=-1)
    if last < 0:
        return 0, 0
    lines = (offsets / str(last)).read_text(encoding="utf-8").splitlines()
    return last + 1, json.loads(lines[-1])["logOffset"] + 1


def is_done(folder: Path, files: int) -> bool:
    """Whether all files are in the sink, whose first line is the empty view."""
    batches, taken = micro_batches(folder)
    return taken == files and epochs_in_sink(folder) == batches + 1


def java_of(process: subprocess.Popen[bytes]) -> int | None:
    """The Java process that a process started, if there is one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
    names = {
        int(child): Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() for child in children
    }
    return next((child for child, name in names.items() if name == "java"), None)


def kill(folder: Path, process: subprocess.Popen[bytes], is_driver: bool) -> str:
    """Kills a pipeline, or its Java process; returns which."""
    java = None if is_driver else java_of(process)
    if java is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return "the driver"
    os.kill(java, signal.SIGKILL)
    code = process.wait(END_SECONDS)
    assert code == 1, f"without Java, the pipeline ended with {code}:\n{log_end(folder)}"
    return "the query"


def run(folder: Path, files: int, kills: int, seed: int) -> int:
    """Runs the pipeline until all files are in the sink; returns how often it was killed."""
    rng, killed = random.Random(seed), 0
    while not is_done(folder, files):
        with open(folder / "log", "ab") as log:
            command = [sys.executable, "-X", "faulthandler", "-m", "sparqlive", "run", str(folder / "p.toml")]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        more = rng.randrange(1, max(2, 2 * files // kills)) if killed < kills else files
        target = epochs_in_sink(folder) + more
        while epochs_in_sink(folder) < target and not is_done(folder, files):
            assert process.poll() is None, f"the pipeline ended by itself:\n{log_end(folder)}"
            time.sleep(0.05)
        time.sleep(rng.random())
        assert process.poll() is None, f"the pipeline ended by itself:\n{log_end(folder)}"
        what = kill(folder, process, is_driver=killed % 2 == 0)
        killed += 1
        epoch = compare_table(folder)
        print(f"kill {killed}, of {what}: the table equals the view at epoch {epoch}", flush=True)
    return killed


def log_end(folder: Path) -> str:
    return (folder / "log").read_text(encoding="utf-8", errors="replace")[-4000:]


def compare_table(folder: Path) -> int:
    """Compares the table with the view at the epoch that the table has."""
    import deltalake

    table = deltalake.DeltaTable(str(folder / "table"))
    epoch = int(table.transaction_version("sparqlive"))
    with sparqlive.open(folder / "s.store", read_only=True) as session:
        view = session.views["numbers"]
        expected = view.at(epoch).to_arrow().to_pylist()
        assert epoch <= view.epoch
    found = table.to_pyarrow_table().to_pylist()
    assert Counter(map(repr, found)) == Counter(map(repr, expected)), f"at epoch {epoch}"
    return epoch


def inspect(folder: Path, files: int) -> int:
    """Compares the store and the sink in the end; returns the number of micro-batches."""
    content: Counter[str] = Counter()
    last = -1
    for text in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        assert line["epoch"] > last or line["reset"]
        last = line["epoch"]
        content = Counter() if line["reset"] else content
        for change in line["changes"]:
            content[json.dumps(change["row"], sort_keys=True)] += change["weight"]
    batches, _ = micro_batches(folder)
    with sparqlive.open(folder / "s.store") as session:
        assert session.epoch == batches, f"{batches} batches are {session.epoch} epochs"
        numbers = {int(quad.object.value) for quad in session.quads()}
        assert numbers == set(range(max(0, files - 10), files))
        view = session.views["numbers"]
        assert all(weight >= 0 for weight in content.values())
        content = +content
        assert sum(content.values()) == len(view)
        rows = json.loads(view.serialize("json"))["results"]["bindings"]
        assert content == Counter(json.dumps(row, sort_keys=True) for row in rows)
        session.check()
    return batches


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batches", type=int, default=200, help="files, each of them a micro-batch")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparqlive-kills-") as name:
        folder = Path(name)
        write(folder, options.batches)
        killed = run(folder, options.batches, options.kills, options.seed)
        batches = inspect(folder, options.batches)
    print(f"{options.batches} files in {batches} micro-batches are as many epochs, through {killed} kills")


if __name__ == "__main__":
    main()
