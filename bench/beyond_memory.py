"""Stores beside memory: pages of a listing, `bench.explore`, views with little memory, compaction.

Sides have processes of their own, and a cell that exceeds its limit of time or memory is stopped; the table
says at what. pyoxigraph has its data on disk, in the same process, and takes turns. Answers are compared with
its answers; deltas with what the orders must give.

`python -m bench.beyond_memory --all --output bench/results/beyond_memory.md` measures the sizes that the
targets are for, up to 12M triples; `--orders 30000000 100000000` larger ones, with their time and disk.
`--parts` chooses some of the parts, `--cpu` judges processor time, on a busy machine.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import Quad, RdfFormat, Store

import sparqlive
from bench import explore_data, listing_data
from bench.answers import check, content, digest, digest_of_peer, ours, peers, warm_up
from bench.explore_data import Query
from bench.limited import Cells, Limits, Outcomes, measured
from bench.listing_data import CLASSES, PREFIXES
from bench.measure import (
    AllSizes,
    Report,
    Sizes,
    Time,
    anonymous_bytes,
    clocked,
    medians,
    middle,
    percentile,
    same,
    sizes_of,
)
from bench.orders import VIEWS, Catalogue
from bench.provenance import command_of, provenance
from bench.side_by_side import Row, Sides, Table, megabytes, summary
from bench.text import duration
from bench.wide_data import node

SIZES: AllSizes = {
    "listed": (120_000, 3_000),
    "explored": (100_000, 2_000),
    "orders": (1_200_000, 3_000),
    "stream": (20_000, 200),
    "rounds": (15, 2),
    "seconds": (60, 60),
    "megabytes": (6_000, 2_000),
}
ALL = {"listed": [120_000, 10_000_000], "explored": [100_000, 1_000_000, 10_000_000], "orders": [12_000_000]}
ALL_STREAM = 60_000
PAGE_TIMES, PAGE_SECONDS = 2.0, 0.0003
FIRST_SECONDS = 0.1
EXPLORE_TIMES, EXPLORE_SECONDS = 1.3, 0.00005
NEW_TERM_SECONDS = 0.005
ORDERS_OPENING_SECONDS = 2.0
ORDER_SECONDS, HUNDRED_SECONDS = 0.002, 0.03
ORDERS_BYTES = 400e6
LONGEST_SECONDS = 0.1

_MEMORY = "300MB"
_NEW_TERMS = 100
_COMPARED_TRIPLES = 200_000
"""Up to here, pyoxigraph computes the views over orders too."""


def _explored(triples: int) -> list[Query]:
    del triples  # the same queries at each size
    return [
        Query(query.name, explore_data.PREFIXES + query.text, query.answer, query.key, query.whole)
        for query in (*explore_data.MEASURED_BEFORE, *explore_data.EXPLORATORY)
    ]


QUERIES = {"listed": listing_data.pages, "explored": _explored}


# In child processes


def build(cells: Cells, data: Path, folder: Path, theirs: Path, views: Mapping[str, str]) -> None:
    """A store, a copy of it with views, if there are any, and pyoxigraph's."""
    warm_up()

    def load() -> tuple[None, Time]:
        with sparqlive.open(folder) as session:
            if not len(session):
                return None, clocked(lambda: session.load(data))[1]
        return None, (0.0, 0.0)

    def register() -> Time:
        viewed = folder.with_name("viewed")
        shutil.rmtree(viewed, ignore_errors=True)
        shutil.copytree(folder, viewed)
        with sparqlive.open(viewed) as session:
            return clocked(lambda: [session.view(name, PREFIXES + text) for name, text in views.items()])[1]

    def load_theirs() -> Time:
        store = Store(str(theirs))
        return clocked(lambda: store.bulk_load(path=str(data), format=RdfFormat.N_TRIPLES))[1]

    cells.prepare("load", load)
    if views:
        cells.cell("registering", register)
    cells.cell("their load", load_theirs)


def ask(
    cells: Cells, part: str, triples: int, data: Path, folder: Path | None, theirs: Path, rounds: int
) -> None:
    """Asks all queries of a part, of a session in memory or of a store, and of pyoxigraph."""
    warm_up()
    store = Store.read_only(str(theirs))

    def ready() -> tuple[sparqlive.Session, Time]:
        session, taken = clocked(lambda: sparqlive.open(folder))
        if folder is None:
            taken = clocked(lambda: session.load(data))[1]
        return session, taken

    with cells.prepare("load" if folder is None else "opening", ready) as session:
        if part == "listed":
            cells.cell("new terms", lambda: _new_terms(session, store, triples))
        for query in QUERIES[part](triples):
            cells.cell(query.name, partial(_in_turns, session, store, query, rounds))
        cells.cell("anonymous memory", anonymous_bytes)


def _new_terms(session: sparqlive.Session, store: Store, triples: int) -> dict[str, Time]:
    """Lookups of subjects and of literals that nothing asked for before: one by one, each once."""
    times = []
    for text in listing_data.new_terms(triples, _NEW_TERMS):
        found, taken = clocked(lambda text=text: ours(session, text))  # type: ignore[misc]
        times.append(taken)
        same("new terms", digest(found), digest_of_peer(peers(store, text), as_set=False))
    slowest = max(wall for wall, _ in times), max(cpu for _, cpu in times)
    return {"first": times[0], "middle": medians(times), "slowest": slowest}


def _in_turns(session: sparqlive.Session, store: Store, query: Query, rounds: int) -> dict[str, Time]:
    found, first = clocked(lambda: ours(session, query.text))
    check(store, query, found)
    mine, theirs = [], []
    for _ in range(rounds if first[0] < 1 else 1):
        mine.append(clocked(lambda: ours(session, query.text))[1])
        theirs.append(clocked(lambda: peers(store, query.text))[1])
    return {"first": first, "warm": medians(mine), "theirs": medians(theirs)}


def build_orders(cells: Cells, data: Path, folder: Path, triples: int) -> None:
    warm_up()

    def load() -> tuple[sparqlive.Session, Time]:
        session = sparqlive.open(folder, memory=_MEMORY)
        return session, clocked(lambda: None if len(session) else session.load(data))[1]

    with cells.prepare("load", load) as session:
        for name, query in VIEWS.items():
            register = partial(session.view, name, PREFIXES + query)
            cells.cell(f"registering {name}", lambda register=register: clocked(register)[1])  # type: ignore[misc]
        if triples <= _COMPARED_TRIPLES:
            cells.cell("comparing", lambda: _compare_views(session, data))


def _compare_views(session: sparqlive.Session, data: Path) -> None:
    store = Store()
    store.bulk_load(path=str(data), format=RdfFormat.N_TRIPLES)
    for name in session.views:
        view = session.views[name]
        result: Any = store.query(PREFIXES + VIEWS[name])
        rows = [{name: row[name] for name in view.variables} for row in result]
        same(name, digest(content(view)), digest(rows))


def carry_orders(cells: Cells, folder: Path, triples: int, rounds: int) -> None:
    """A store with three views and little memory: opened, then changed by orders."""
    warm_up()
    catalogue = Catalogue(triples)
    batches = iter(range(1_000_000, 2_000_000))

    def ready() -> tuple[sparqlive.Session, Time]:
        first = catalogue.new_orders(1, next(batches))

        def opened() -> sparqlive.Session:
            session = sparqlive.open(folder, memory=_MEMORY)
            session.apply(insert=first)
            return session

        return clocked(opened)

    with cells.prepare("opening", ready) as session:
        cells.cell("a single order", lambda: _orders(session, catalogue, 1, batches, rounds * 4))
        cells.cell("100 orders", lambda: _orders(session, catalogue, 100, batches, rounds))
        cells.cell("anonymous memory", anonymous_bytes)
        cells.cell(
            "strategies", lambda: {name: view.stats()["strategy"] for name, view in session.views.items()}
        )


def _orders(
    session: sparqlive.Session, catalogue: Catalogue, count: int, batches: Iterator[int], rounds: int
) -> Time:
    times = []
    for _ in range(rounds):
        text = catalogue.new_orders(count, 10_000_000 + next(batches))
        epoch, taken = clocked(lambda text=text: session.apply(insert=text))  # type: ignore[misc]
        times.append(taken)
        unshipped = count - text.count("shipped>")
        for view, rows in (("join", count), ("open", unshipped)):
            if view in session.views:
                same(f"rows of {view} for {count} orders", len(epoch.deltas[view].weights()), rows)
        if "totals" in session.views:
            assert epoch.deltas["totals"].weights()
    return medians(times)


def stream(cells: Cells, folder: Path, changes: int) -> None:
    """Single changes while another thread compacts the store, again and again."""
    warm_up()

    def opened() -> tuple[sparqlive.Session, Time]:
        return clocked(lambda: sparqlive.open(folder, durability="relaxed"))

    with cells.prepare("opening", opened) as session:
        cells.prepare("stream", lambda: (None, _streamed(session, changes)))  # which may take longer


def _streamed(session: sparqlive.Session, changes: int) -> dict[str, Any]:
    done, compactions = threading.Event(), []

    def compact() -> None:
        while not done.is_set():
            start = time.perf_counter()
            session.compact()
            compactions.append(time.perf_counter() - start)
            done.wait(0.2)

    seconds = []
    before = len(session)
    compactor = threading.Thread(target=compact)
    compactor.start()
    try:
        for number in range(changes):
            quad = Quad(node(f"new{number}"), node("type"), node(f"C{number % CLASSES}"))
            start = time.perf_counter()
            session.apply(insert=[quad])
            seconds.append(time.perf_counter() - start)
    finally:
        done.set()
        compactor.join()
    same("quads after the stream", len(session), before + changes)
    return {
        "longest": max(seconds),
        "p99.9": percentile(seconds, 99.9),
        "middle": middle(seconds),
        "compactions": len(compactions),
        "compaction": max(compactions),
    }


# Parts


@dataclass(frozen=True)
class Run:
    """The sizes and limits of all parts."""

    sizes: Sizes
    limits: Limits
    cpu: bool
    folder: Path


def listed(run: Run, triples: int) -> Iterator[Table]:
    """Pages of a listing, terms that nothing asked for before, and changes during compaction."""
    data, store, theirs = run.folder / "items.nt", run.folder / "store", run.folder / "theirs"
    viewed, rounds = run.folder / "viewed", run.sizes["rounds"]
    listing_data.write(data, triples)
    building = measured(build, (data, store, theirs, listing_data.VIEWS), run.limits)
    first = measured(ask, ("listed", triples, data, store, theirs, rounds), run.limits)
    second = measured(ask, ("listed", triples, data, viewed, theirs, rounds), run.limits)
    sides = Sides({"first": first, "second": second, "building": building}, run.cpu)
    both = ("first", "second")
    rows = [
        Row("load", sides.seconds("building", "load"), None, sides.seconds("building", "their load")),
        Row("registering a view over the classes", None, sides.seconds("building", "registering")),
        Row("opening", *(sides.seconds(side, "opening") for side in both)),
    ]
    most = (NEW_TERM_SECONDS, NEW_TERM_SECONDS)
    for part, words, wanted in (
        ("first", "new terms: the first query", None),
        ("middle", f"new terms: median of {_NEW_TERMS}", most),
        ("slowest", "new terms: the slowest", most),
    ):
        values = [sides.seconds(side, "new terms", part) for side in both]
        rows.append(Row(words, *values, None, wanted or (None, None)))
    for query in listing_data.pages(triples):
        peer = sides.seconds("second", query.name, "theirs")
        limit = PAGE_TIMES * peer + PAGE_SECONDS if isinstance(peer, float) else None
        times = [[sides.seconds(side, query.name, part) for side in both] for part in ("first", "warm")]
        rows.append(Row(f"{query.name}, first time", *times[0], None, (FIRST_SECONDS, FIRST_SECONDS)))
        rows.append(Row(f"{query.name}, warm", *times[1], peer, (limit, limit)))
    rows.append(
        Row("anonymous memory", *(sides.number(side, "anonymous memory") for side in both), text=megabytes)
    )
    yield Table(f"a listing: {triples:,} triples in a store", rows, ("without views", "with a view"))
    yield _stream_table(measured(stream, (viewed, run.sizes["stream"]), run.limits), triples, run)


def _stream_table(found: Outcomes, triples: int, run: Run) -> Table:
    value: Any = found.values.get("stream")
    title = f"compaction: {run.sizes['stream']:,} changes to {triples:,} triples with a view over the classes"
    names = {"longest": LONGEST_SECONDS, "p99.9": None, "middle": None, "compaction": None}
    if not isinstance(value, dict):
        return Table(title, [Row("longest change", None, value, None, (None, LONGEST_SECONDS))])
    words = {"longest": "longest change", "p99.9": "99.9 % of the changes within", "middle": "median change"}
    words["compaction"] = f"longest of {value['compactions']} compactions"
    rows = [Row(words[name], None, value[name], None, (None, most)) for name, most in names.items()]
    return Table(title, rows)


def explored(run: Run, triples: int) -> Iterator[Table]:
    """Every query of `bench.explore`, on a store and on the same data in memory."""
    data, store, theirs = run.folder / "catalogue.nt", run.folder / "store", run.folder / "theirs"
    explore_data.write(data, triples)
    building = measured(build, (data, store, theirs, {}), run.limits)
    rounds = run.sizes["rounds"]
    memory = measured(ask, ("explored", triples, data, None, theirs, rounds), run.limits)
    stored = measured(ask, ("explored", triples, data, store, theirs, rounds), run.limits)
    sides = Sides({"memory": memory, "store": stored, "building": building}, run.cpu)
    rows = [
        Row("load", sides.seconds("memory", "load"), sides.seconds("building", "load")),
        Row("opening", None, sides.seconds("store", "opening")),
    ]
    for query in _explored(triples):
        first, second = (sides.seconds(side, query.name, "warm") for side in ("memory", "store"))
        most = EXPLORE_TIMES * first + EXPLORE_SECONDS if isinstance(first, float) else None
        rows.append(
            Row(query.name, first, second, sides.seconds("store", query.name, "theirs"), (None, most))
        )
    used = [sides.number(side, "anonymous memory") for side in ("memory", "store")]
    rows.append(Row("anonymous memory", *used, text=megabytes))
    yield Table(f"explore, warm: {triples:,} triples", rows)


def orders(run: Run, triples: int) -> Iterator[Table]:
    """Three views over orders, with little memory."""
    data, store = run.folder / "orders.nt", run.folder / "store"
    Catalogue(triples).write(data)
    building = measured(build_orders, (data, store, triples), run.limits)
    text = data.stat().st_size
    data.unlink()
    carrying = measured(carry_orders, (store, triples, run.sizes["rounds"]), run.limits)
    disk = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    sides = Sides({"building": building, "store": carrying}, run.cpu)
    rows = [Row("load", None, sides.seconds("building", "load"))]
    rows += [
        Row(f"registering {name}", None, sides.seconds("building", f"registering {name}")) for name in VIEWS
    ]
    for name, most in (
        ("opening", ORDERS_OPENING_SECONDS),
        ("a single order", ORDER_SECONDS),
        ("100 orders", HUNDRED_SECONDS),
    ):
        words = "opening, to the first change" if name == "opening" else name
        rows.append(Row(words, None, sides.seconds("store", name), None, (None, most)))
    used = sides.number("store", "anonymous memory")
    rows.append(Row("anonymous memory", None, used, None, (None, ORDERS_BYTES), megabytes))
    for words, outcomes in (("while it is built", building), ("at most, later", carrying)):
        rows.append(Row(f"anonymous memory {words}", None, float(outcomes.most_bytes), text=megabytes))
    rows.append(Row("store on disk", None, float(disk), text=megabytes))
    strategies = carrying.values.get("strategies")
    how = (
        ", ".join(f"{name} {how}" for name, how in strategies.items())
        if isinstance(strategies, dict)
        else "?"
    )
    title = f'orders: {triples:,} triples ({megabytes(text)} as text), memory="{_MEMORY}", carried by: {how}'
    yield Table(title, rows)


PARTS = {"listed": listed, "explored": explored, "orders": orders}


# Running


def tables_of(sizes: Sizes, several: Mapping[str, Sequence[int]], cpu: bool = False) -> Iterator[Table]:
    """`several` has the sizes of each part that is measured."""
    limits = Limits(sizes["seconds"], sizes["megabytes"] * 1_000_000)
    is_small = sizes["stream"] <= SIZES["stream"][1]
    for part, measure in PARTS.items():
        for triples in several.get(part, ()):
            print(f"{part}: {triples:,} triples", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="sparqlive-beyond-") as folder:
                for table in measure(Run(sizes, limits, cpu, Path(folder)), triples):
                    yield table.unjudged() if is_small else table


def run(sizes: Sizes) -> Report:
    return summary("beyond_memory", list(tables_of(sizes, {part: [sizes[part]] for part in PARTS})))


def page(tables: Sequence[Table], command: str, sizes: Sizes, cpu: bool) -> str:
    lines = [
        "# Stores beside memory, measured",
        "",
        *provenance(command, ("sparqlive", "pyoxigraph", "duckdb")),
        "",
        f"{'Processor time of all threads' if cpu else 'Time by the clock'} (of changes during compaction by",
        f"the clock); medians of {sizes['rounds']} where a cell can be repeated. A cell is stopped after",
        f"{sizes['seconds']} s, a load or an opening after ten times that, and all at",
        f"{sizes['megabytes'] / 1000:g} GB. pyoxigraph has its data on disk and takes turns. Pages are",
        f"wanted within {PAGE_TIMES:g}× of pyoxigraph plus {duration(PAGE_SECONDS)}, queries of explore on a",
        f"store within {EXPLORE_TIMES:g}× of memory plus {duration(EXPLORE_SECONDS)}.",
    ]
    for table in tables:
        lines += ["", f"## {table.title}", "", *table.lines()]
    return "\n".join(lines) + "\n"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--all", action="store_true", help="the sizes of the targets; an hour, 10 GB of disk")
    for name, (full, quick) in SIZES.items():
        several = "+" if name in PARTS else None
        parser.add_argument(f"--{name}", type=int, nargs=several, help=f"default {full:,}, quick {quick:,}")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS], metavar="PART")
    parser.add_argument("--cpu", action="store_true", help="processor time, on a busy machine")
    parser.add_argument("--output", type=Path, help="where to write the page")
    options = parser.parse_args(given)
    sizes = sizes_of(SIZES, options.quick)
    several = ALL if options.all else {part: [sizes[part]] for part in PARTS}
    several = {part: vars(options)[part] or several[part] for part in options.parts}
    if options.all:
        sizes["stream"] = ALL_STREAM
    sizes |= {
        name: vars(options)[name] for name in SIZES if name not in PARTS and vars(options)[name] is not None
    }
    command = command_of("python -m bench.beyond_memory", sys.argv[1:] if given is None else given)
    tables = []
    for table in tables_of(sizes, several, options.cpu):
        print("\n".join(["", table.title, "", *table.lines()]), flush=True)
        tables.append(table)
        if options.output:  # after each table, because a run may be ended
            options.output.write_text(page(tables, command, sizes, options.cpu), encoding="utf-8")


if __name__ == "__main__":
    main()
