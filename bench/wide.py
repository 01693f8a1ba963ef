"""Many graphs, sources or predicates, and one busy node: lookups, changes, views, memory; beside pyoxigraph.

Each shape of data is in memory, in a store, and in pyoxigraph (in memory), each in a process of its own. A
cell that exceeds its limit of time or memory is stopped, and the table says at what; the others are measured
in another process. Answers are compared with pyoxigraph's by number of rows and checksum.

`python -m bench.wide --graphs 20000 --output bench/results/wide.md` writes a page with a table per shape;
`--shapes plain own` measures some of them (bytes per quad are judged beside `plain`), and `--cpu` judges
processor time, on a busy machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse

import sparqlive
from bench.answers import Digest, content, digest, digest_of_peer, ours, peers, warm_up
from bench.limited import Cells, Limits, Outcomes, Stopped, measured
from bench.measure import (
    AllSizes,
    Report,
    Sizes,
    Time,
    anonymous_bytes,
    asked,
    clocked,
    medians,
    same,
    sizes_of,
)
from bench.provenance import command_of, provenance
from bench.side_by_side import Row, Side, Sides, Table, bytes_a_quad, megabytes, summary
from bench.text import duration
from bench.wide_data import BY_KEY, CHANGES, PREFIXES, SHAPES, Shape, graph
from sparqlive.sources.manager import Source
from sparqlive.sources.watcher import Content, Version
from sparqlive.sources.watcher import Report as Reporting

SIZES: AllSizes = {
    "graphs": (20_000, 50),
    "objects": (300_000, 500),
    "changes": (CHANGES, 10),
    "rounds": (15, 2),
    "seconds": (10, 30),
    "megabytes": (6_000, 2_000),
}
OPENING_SECONDS = 1.0
CHANGE_SECONDS = {"memory": 0.0002, "store": 0.002}
REGISTERING_SECONDS = 2.0
GRAPH_SECONDS = 0.005
LOOKUP_TIMES, LOOKUP_SECONDS = 3.0, 0.001
ANONYMOUS_BYTES = 300e6
BYTES_TIMES = 1.5

_JOIN = "join"
_REPLACED = 20
"""So many graphs are replaced and dropped, one by one."""

# In child processes


def measure_peer(cells: Cells, key: str, data: Path, size: int, sizes: Sizes) -> None:
    shape = BY_KEY[key]

    def load() -> tuple[Store, Time]:
        store = Store()
        _, taken = clocked(lambda: store.bulk_load(path=str(data), format=RdfFormat.N_QUADS))
        return store, taken

    store = cells.prepare("load", load)
    for name, lookup in shape.lookups(size).items():

        def look(text: str = PREFIXES + lookup.text, merged: bool = lookup.merged) -> dict[str, Any]:
            union = shape.default_graph == "union" and "FROM" not in text  # it would win over FROM
            found, times = asked(lambda: peers(store, text, union=union), sizes["rounds"])
            return {**times, "digest": digest_of_peer(found, as_set=merged)}

        cells.cell(name, look)
    cells.cell("anonymous memory", anonymous_bytes)


def build_store(cells: Cells, key: str, data: Path, size: int, folder: Path) -> None:
    """A store with the data and the join, for others to open."""
    shape = BY_KEY[key]
    warm_up()

    def load() -> tuple[sparqlive.Session, Time]:
        session = sparqlive.open(folder, default_graph=shape.default_graph, durability="relaxed")
        return session, clocked(lambda: _load(session, shape, data))[1]

    with cells.prepare("load", load) as session:
        cells.cell("registering the join", lambda: _register(session, shape))
        cells.cell("compacting", lambda: clocked(session.compact)[1])


def measure_ours(
    cells: Cells,
    key: str,
    data: Path,
    size: int,
    sizes: Sizes,
    folder: Path | None,
    expected: dict[str, Digest],
) -> None:
    shape = BY_KEY[key]
    warm_up()
    before = anonymous_bytes()
    with cells.prepare(
        "load" if folder is None else "opening", lambda: _ready(shape, data, size, folder)
    ) as session:
        cells.cell("growth", lambda: anonymous_bytes() - before)
        _measure_lookups(cells, session, shape, size, sizes, expected)
        if folder is None:
            cells.cell("registering the join", lambda: _register(session, shape), again=True)
        cells.cell("single change", lambda: _changes(session, shape, size, sizes["changes"]))
        cells.cell("bytes of quads", lambda: session.memory()[0])
        _measure_views(cells, session, shape, size, sizes, expected)
        if shape.has_graphs:
            cells.cell("PUT of a graph", lambda: _replacing(session, size))
            cells.cell("DELETE of a graph", lambda: _dropping(session, shape, size))
        cells.cell("anonymous memory", anonymous_bytes)


def _ready(shape: Shape, data: Path, size: int, folder: Path | None) -> tuple[sparqlive.Session, Time]:
    """A session with the data; one of a store has carried a change, which is withdrawn again."""
    if folder is None:
        session = sparqlive.open(default_graph=shape.default_graph)
        return session, clocked(lambda: _load(session, shape, data))[1]
    change = [shape.change(size, 0)]

    def opened() -> sparqlive.Session:
        session = sparqlive.open(folder, watch=False)
        session.apply(insert=change)
        return session

    session, taken = clocked(opened)
    session.apply(delete=change)
    return session, taken


def _load(session: sparqlive.Session, shape: Shape, data: Path) -> None:
    if shape.has_sources:
        _add_sources(session, data)
    elif not len(session):
        session.load(data)


class _Given:
    """Watches nothing: it reports its quads once."""

    def __init__(self, quads: list[Quad]) -> None:
        self._quads = quads

    async def watch(self, version: Version | None, report: Reporting, wake: Any) -> None:
        quads, self._quads = self._quads, []
        await report(Content(quads, {"given": True}))


def _add_sources(session: sparqlive.Session, data: Path) -> None:
    """A source per graph, on the way that all sources take, but without a file or a server for each."""
    manager = session._manager
    quads = parse(path=str(data), format=RdfFormat.N_QUADS)
    for graph_name, given in groupby(quads, attrgetter("graph_name.value")):
        if graph_name not in session.sources:
            manager.add(Source(manager, graph_name, "file", f"{graph_name}.nq", {}), _Given(list(given)))
    while not all(source.ended or source.error for source in session.sources.values()):
        time.sleep(0.01)
    same("sources that failed", [source.error for source in session.sources.values() if source.error], [])


def _register(session: sparqlive.Session, shape: Shape) -> Time:
    view, taken = clocked(lambda: session.view(_JOIN, PREFIXES + shape.join))
    assert len(view)
    return taken


def _measure_lookups(
    cells: Cells,
    session: sparqlive.Session,
    shape: Shape,
    size: int,
    sizes: Sizes,
    expected: dict[str, Digest],
) -> None:
    for name, lookup in shape.lookups(size).items():

        def look(name: str = name, text: str = PREFIXES + lookup.text) -> dict[str, Time]:
            found, times = asked(lambda: ours(session, text), sizes["rounds"])
            if name in expected:
                same(f"{shape.title}, {name}", digest(found), expected[name])
            return times

        cells.cell(name, look)


def _measure_views(
    cells: Cells,
    session: sparqlive.Session,
    shape: Shape,
    size: int,
    sizes: Sizes,
    expected: dict[str, Digest],
) -> None:
    """Lookups as views, then changes that all of them are there for."""
    for name, lookup in shape.lookups(size).items():

        def register(name: str = name, text: str = PREFIXES + lookup.text) -> Time:
            view, taken = clocked(lambda: session.view(f"view {name}", text, replace=True))
            if name in expected:
                same(f"{shape.title}, {name} as a view", digest(content(view)), expected[name])
            return taken

        cells.cell(f"as a view: {name}", register, again=True)
    cells.cell("single change with all views", lambda: _changes(session, shape, size, sizes["changes"]))
    for name in [name for name in session.views if name != _JOIN]:
        session.drop(name)


def _changes(session: sparqlive.Session, shape: Shape, size: int, count: int) -> Time:
    """Single inserts, each with the delete that undoes it."""
    times = []
    for number in range(count):
        quad = shape.change(size, number)
        epoch, taken = clocked(lambda quad=quad: session.apply(insert=[quad]))
        times.append(taken)
        same(f"{shape.title}: quads inserted", epoch.inserted, 1)
        if _JOIN in session.views:
            same(f"{shape.title}: rows of the join", len(epoch.deltas[_JOIN]), 1)
        epoch, taken = clocked(lambda quad=quad: session.apply(delete=[quad]))
        times.append(taken)
        same(f"{shape.title}: quads deleted", epoch.deleted, 1)
    return medians(times)


def _replacing(session: sparqlive.Session, size: int) -> Time:
    """PUT: the content of a graph, in which one triple is another one."""
    times = []
    for number in range(min(_REPLACED, size // 2)):
        name = graph(number)
        first, *others = session.quads(name)
        changed = Quad(first.subject, first.predicate, NamedNode(f"{name.value}-new"), name)
        epoch, taken = clocked(lambda name=name, quads=[changed, *others]: session.replace(name, quads))
        times.append(taken)
        same("quads inserted by a PUT", epoch.inserted, 1)
        assert changed in set(session.quads(name))
    return medians(times)


def _dropping(session: sparqlive.Session, shape: Shape, size: int) -> Time:
    """DELETE: a graph with everything in it, or a source."""
    times = []
    for number in range(size // 2 + 1, size // 2 + 1 + min(_REPLACED, size // 2 - 1)):
        name = graph(number)
        if shape.has_sources:
            taken = clocked(session.sources[name.value].remove)[1]
        else:
            taken = clocked(lambda name=name: session.update(f"DROP GRAPH {name}"))[1]
        times.append(taken)
        same("quads of a dropped graph", list(session.quads(name)), [])
    return medians(times)


# The tables


def rows_of(shape: Shape, size: int, quads: int, sides: Sides, disk: int, plain: Sequence[Row]) -> list[Row]:
    seconds, size_of = sides.seconds, sides.number
    registered = seconds("memory", "registering the join"), seconds("building", "registering the join")
    opening = _with_join(seconds("store", "opening"), registered[1])
    rows = [
        Row("load", seconds("memory", "load"), seconds("building", "load"), seconds("peer", "load")),
        Row("opening, to the first change", None, opening, None, (None, OPENING_SECONDS)),
        Row("registering the join", *registered, None, (REGISTERING_SECONDS, REGISTERING_SECONDS)),
    ]
    rows.append(Row("compacting", None, seconds("building", "compacting")))
    both = ("memory", "store")
    limits = (CHANGE_SECONDS["memory"], CHANGE_SECONDS["store"])
    changes = [
        _with_join(seconds(side, "single change"), join) for side, join in zip(both, registered, strict=True)
    ]
    rows.append(Row("single change", *changes, None, limits))
    for name in shape.lookups(size):
        for part, words in (("first", "first time"), ("warm", "warm")):
            peer = seconds("peer", name, part)
            most = LOOKUP_TIMES * peer + LOOKUP_SECONDS if isinstance(peer, float) else None
            rows.append(
                Row(f"{name}, {words}", *(seconds(side, name, part) for side in both), peer, (most, most))
            )
    for name in shape.lookups(size):
        values = [seconds(side, f"as a view: {name}") for side in both]
        rows.append(Row(f"as a view: {name}", *values, None, (REGISTERING_SECONDS, REGISTERING_SECONDS)))
    views = [seconds(side, "single change with all views") for side in both]
    rows.append(Row("single change with all views", *views))
    if shape.has_graphs:
        for name in ("PUT of a graph", "DELETE of a graph"):
            rows.append(
                Row(name, *(seconds(side, name) for side in both), None, (GRAPH_SECONDS, GRAPH_SECONDS))
            )
    anonymous = [size_of(side, "anonymous memory") for side in (*both, "peer")]
    rows.append(Row("anonymous memory", *anonymous, (ANONYMOUS_BYTES, ANONYMOUS_BYTES), megabytes))
    return [*rows, *_bytes_rows(size_of, quads, disk, plain)]


def _with_join(value: Side, join: Side) -> Side:
    """What was measured without the join, because it could not be registered, is not what is wanted."""
    if isinstance(join, Stopped) and isinstance(value, float):
        return Stopped(f"{duration(value)}, without the join")
    return value


def _bytes_rows(size_of: Callable[..., Any], quads: int, disk: int, plain: Sequence[Row]) -> list[Row]:
    """Bytes per quad, which one graph with five predicates sets the bound of."""
    bounds = {row.name: row for row in plain}

    def row(name: str, memory: Side, store: Side) -> Row:
        known = bounds.get(name)
        wanted = [
            value * BYTES_TIMES if isinstance(value, float) else None
            for value in ((known.first, known.second) if known else (None, None))
        ]
        return Row(name, memory, store, None, (wanted[0], wanted[1]), bytes_a_quad)

    held = [size_of(side, "bytes of quads", quads) for side in ("memory", "store")]
    growth = [size_of(side, "growth", quads) for side in ("memory", "store")]
    return [
        Row("growth of the process per quad, when ready", *growth, text=bytes_a_quad),
        row("bytes per quad in memory, as the session counts them", *held),
        row("bytes per quad on disk", None, disk / quads),
    ]


# Running


def tables_of(sizes: Sizes, keys: Sequence[str], cpu: bool = False) -> Iterator[Table]:
    limits = Limits(sizes["seconds"], sizes["megabytes"] * 1_000_000)
    is_small = sizes["graphs"] <= SIZES["graphs"][1]
    plain: Sequence[Row] = []
    for shape in SHAPES:
        if shape.key in keys:
            table = _table(shape, sizes, limits, cpu, plain)
            plain = table.rows if shape.key == "plain" else plain
            yield table.unjudged() if is_small else table


def _table(shape: Shape, sizes: Sizes, limits: Limits, cpu: bool, plain: Sequence[Row]) -> Table:
    size = sizes["objects" if shape.busy else "graphs"]
    with tempfile.TemporaryDirectory(prefix="sparqlive-wide-") as folder:
        data, store = Path(folder) / "data.nq", Path(folder) / "store"
        quads = shape.write(data, size)
        print(f"{shape.title}: {quads:,} quads", file=sys.stderr, flush=True)
        peer = measured(measure_peer, (shape.key, data, size, sizes), limits)
        expected = {name: value["digest"] for name, value in peer.values.items() if isinstance(value, dict)}
        memory = measured(measure_ours, (shape.key, data, size, sizes, None, expected), limits)
        building = measured(build_store, (shape.key, data, size, store), limits)
        disk = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        stored = Outcomes()
        if not isinstance(building.values.get("load", Stopped("")), Stopped):
            stored = measured(measure_ours, (shape.key, data, size, sizes, store, expected), limits)
    what = (
        "triples of one node"
        if shape.busy
        else "graphs of 20 triples"
        if shape.has_graphs
        else "× 20 triples"
    )
    title = f"{shape.title}: {size:,} {what}, {quads:,} quads"
    sides = Sides({"memory": memory, "building": building, "store": stored, "peer": peer}, cpu)
    return Table(title, rows_of(shape, size, quads, sides, disk, plain))


def run(sizes: Sizes) -> Report:
    return summary("wide", list(tables_of(sizes, [*BY_KEY])))


def page(tables: Sequence[Table], command: str, sizes: Sizes, cpu: bool) -> str:
    lines = [
        "# Many graphs, sources and predicates, measured",
        "",
        *provenance(command, ("sparqlive", "pyoxigraph", "duckdb")),
        "",
        f"{'Processor time of all threads' if cpu else 'Time by the clock'}; medians of {sizes['rounds']}",
        f"where a cell can be repeated. A cell is stopped after {sizes['seconds']} s, a load or an opening",
        f"after ten times that, and all at {sizes['megabytes'] / 1000:g} GB. Every side has its own process;",
        "pyoxigraph has its data in memory. Answers are compared with its answers. A join of two patterns is",
        f"registered while single changes are measured. Lookups are wanted within {LOOKUP_TIMES:g}× of",
        f"pyoxigraph plus {duration(LOOKUP_SECONDS)}; bytes per quad within {BYTES_TIMES:g}× of one graph",
        "with five predicates. Modules that every session needs are imported before the measurements.",
    ]
    for table in tables:
        lines += ["", f"## {table.title}", "", *table.lines()]
    return "\n".join(lines) + "\n"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    for name, (full, quick) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, help=f"default {full:,}, quick {quick:,}")
    parser.add_argument("--shapes", nargs="+", choices=[*BY_KEY], default=[*BY_KEY], metavar="SHAPE")
    parser.add_argument("--cpu", action="store_true", help="processor time, on a busy machine")
    parser.add_argument("--output", type=Path, help="where to write the page")
    options = parser.parse_args(given)
    chosen = sizes_of(SIZES, options.quick)
    chosen |= {name: vars(options)[name] for name in SIZES if vars(options)[name] is not None}
    command = command_of("python -m bench.wide", sys.argv[1:] if given is None else given)
    tables = []
    for table in tables_of(chosen, options.shapes, options.cpu):
        print("\n".join(["", table.title, "", *table.lines()]), flush=True)
        tables.append(table)
        if options.output:  # after each table, because a run may be ended
            text = page(tables, command, chosen, options.cpu)
            options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
