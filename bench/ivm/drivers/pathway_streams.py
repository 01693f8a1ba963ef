"""pathway: the relational form of a few queries, written by hand as a dataflow that it maintains.

Run with an interpreter that has pathway. Queries without such a form are refused. pathway runs one dataflow
per process, so every `start` has a process of its own.

A batch is one logical time. It is timed until this time has ended for the result, as its subscriber is told.
Subscribers are not told of times without a change: if the input's time has ended, and the result's has not
within two seconds, the batch had no effect on the result, and is timed until the input's end.
"""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.ivm.cells import HERE
from bench.ivm.drivers.serving import QueryRefusedError, Rows, serve

_LINE = re.compile(r"(\S+) <([^>]*)> (.*) \.\s*", re.DOTALL)
_NUMBER = re.compile(r'"(-?\d+)"\^\^<[^>]*integer>')
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_LONGEST_SECONDS = 600
_NO_EFFECT_SECONDS = 2
Change = tuple[str, str, str, int]


def _flows() -> dict[str, Callable[[Any], Any]]:
    """For each query: from the table of triples to the table of its result."""
    import pathway as pw

    def of(triples: Any, name: str) -> Any:
        return triples.filter(triples.p == name).select(pw.this.s, pw.this.o, pw.this.n)

    def three_hop(triples: Any) -> Any:
        a, b, c = of(triples, "link"), of(triples, "link"), of(triples, "link")
        ab = a.join(b, a.o == b.s).select(x=a.s, z=b.o)
        return ab.join(c, ab.z == c.s).select(a=ab.x, b=c.o)

    def star(triples: Any) -> Any:
        c, w, m = of(triples, "colour"), of(triples, "weight"), of(triples, "maker")
        cw = c.join(w, c.s == w.s).select(s=c.s, c=c.o, w=w.o)
        return cw.join(m, cw.s == m.s).select(a=cw.s, b=cw.c, c=cw.w, d=m.o)

    def optional(triples: Any) -> Any:
        c, n = of(triples, "colour"), of(triples, "note")
        return c.join_left(n, c.s == n.s).select(a=c.s, b=c.o, c=n.o)

    def minus(triples: Any) -> Any:
        c, f = of(triples, "colour"), of(triples, "flag")
        flagged = f.groupby(f.s).reduce(f.s, k=pw.reducers.count())
        joined = c.join_left(flagged, c.s == flagged.s).select(a=c.s, b=c.o, k=flagged.k)
        return joined.filter(joined.k.is_none()).select(pw.this.a, pw.this.b)

    def count(triples: Any) -> Any:
        c = of(triples, "colour")
        return c.groupby(c.o).reduce(a=c.o, b=pw.reducers.count())

    def by_colour(reducer: Any) -> Callable[[Any], Any]:
        def flow(triples: Any) -> Any:
            c, w = of(triples, "colour"), of(triples, "weight")
            joined = c.join(w, c.s == w.s).select(c=c.o, n=w.n)
            return joined.groupby(joined.c).reduce(a=joined.c, b=reducer(joined.n))

        return flow

    return {
        "paths/three-hop": three_hop,
        "stars/star": star,
        "stars/optional": optional,
        "stars/minus": minus,
        "stars/count": count,
        "stars/sum": by_colour(pw.reducers.sum),
        "stars/max": by_colour(pw.reducers.max),
    }


class Pathway:
    """The dataflow of one query, in a thread."""

    def __init__(self) -> None:
        import pathway as pw

        self._pw = pw
        self.name = f"pathway {pw.__version__}"
        self._batches: queue.Queue[list[tuple[Change, bool]]] = queue.Queue()
        self._rows: dict[Any, list[str | None]] = {}
        self._news = threading.Condition()
        self._ended = {"triples": 0, "result": 0}
        """The last logical time that has ended, of the input and of the result."""

    def start(self, file: str, query: str) -> None:
        names = {
            f.read_text(encoding="utf-8"): f"{f.parent.name}/{f.stem}" for f in HERE.glob("queries/*/*.rq")
        }
        flow = _flows().get(names.get(query, ""))
        if flow is None:
            raise QueryRefusedError("there is no dataflow for this query")
        pw, batches = self._pw, self._batches
        schema = pw.schema_builder(
            {
                **{name: pw.column_definition(dtype=str, primary_key=True) for name in "spo"},
                "n": pw.column_definition(dtype=int),
            }
        )

        class Feed(pw.io.python.ConnectorSubject):  # type: ignore[misc, name-defined]
            def run(self) -> None:
                while True:
                    for (subject, predicate, object_, number), added in batches.get():
                        row = {"s": subject, "p": predicate, "o": object_, "n": number}
                        if added:
                            self.next(**row)
                        else:
                            self.delete(**row)  # written out: pathway looks for this call in the source
                    self.commit()

        triples = pw.io.python.read(Feed(), schema=schema, autocommit_duration_ms=None)
        pw.io.subscribe(flow(triples), on_change=self._change, on_time_end=partial(self._end, "result"))
        pw.io.subscribe(triples, on_change=lambda **_: None, on_time_end=partial(self._end, "triples"))
        run = threading.Thread(
            target=pw.run, kwargs={"monitoring_level": pw.MonitoringLevel.NONE}, daemon=True
        )
        run.start()
        with open(file, encoding="utf-8") as lines:
            self.apply([], self.parsed([*lines]))

    def _change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self._rows[key] = [
                f'"{value}"^^<{_INTEGER}>' if isinstance(value, int) else value for value in row.values()
            ]
        elif self._rows.get(key) is not None:
            del self._rows[key]

    def _end(self, table: str, logical_time: int) -> None:
        with self._news:
            self._ended[table] = logical_time
            self._news.notify()

    def parsed(self, lines: list[str]) -> list[Change]:
        changes = []
        for line in lines:
            found = _LINE.fullmatch(line)
            assert found is not None, line
            number = _NUMBER.fullmatch(found[3])
            changes.append(
                (found[1], re.split("[/#]", found[2])[-1], found[3], int(number[1]) if number else 0)
            )
        return changes

    def apply(self, delete: list[Change], insert: list[Change]) -> float:
        before, begun = self._ended["triples"], time.perf_counter()
        self._batches.put([*((change, False) for change in delete), *((change, True) for change in insert)])
        with self._news:
            if not self._news.wait_for(lambda: self._ended["triples"] > before, _LONGEST_SECONDS):
                raise TimeoutError(f"pathway did not process a batch in {_LONGEST_SECONDS} s")
            read = time.perf_counter()
            if self._news.wait_for(
                lambda: self._ended["result"] >= self._ended["triples"], _NO_EFFECT_SECONDS
            ):
                return time.perf_counter() - begun
            return read - begun

    def rows(self) -> Rows:
        return list(self._rows.values())


def relay() -> None:
    """A process for each `start`; requests and answers pass through."""
    worker: subprocess.Popen[str] | None = None
    for line in sys.stdin:
        if worker is None or json.loads(line)["op"] == "start":
            if worker is not None:
                worker.kill()
                worker.wait()
            worker = subprocess.Popen(
                [sys.executable, "-m", "bench.ivm.drivers.pathway_streams", "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(line)
        worker.stdin.flush()
        while not (answer := worker.stdout.readline()).startswith("{") and answer:
            pass  # pathway prints lines of its own
        sys.stdout.write(answer)
        sys.stdout.flush()
    if worker is not None:
        worker.kill()


if __name__ == "__main__":
    serve(Pathway) if "--worker" in sys.argv else relay()
