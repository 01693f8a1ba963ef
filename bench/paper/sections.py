"""The page of the counting paper's experiments: a section for each, from the results that are there.

What the paper publishes as a number is quoted with its place. Its figures 3, 5, 6, 8, 9, 10 and 11 are drawn
without numbers; what its text says about them is quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.measure import duration, number
from bench.paper import cases
from bench.paper.cases import LABELS, PRODUCT_UPDATES, QUERIES, Sizes

Results = Callable[[str, str], Mapping[str, Any]]
"""Of a case and a method: what `bench.paper.worker` found; empty if it was not measured."""
PUBLISHED_SIZES = {
    1000: ("1K", "1K"),
    100: ("1M", "600K"),
    50: ("8M", "1M"),
    35: ("23M", "1M"),
    30: ("37M", "1M"),
    25: ("64M", "1M"),
}
"""§5.2.1, the table of memory overheads: 1/p: rows of the pattern and of its projection."""
PUBLISHED_SECOND = {1_000: "16.8 s", 10_000: "20.8 s", 15_000: "21.2 s"}
"""Figure 5: BSBM Query 2, incrementally."""
PUBLISHED_MEMORY = {"Q1": 13, "Q2": 123, "Q3": 289, "Q4": 69}
"""Figure 4: triples of the from-scratch approach; the incremental one has about 100 % more."""
_PAPER_NODES = 1000


@dataclass
class Section:
    """A part of the page: a title, a table, remarks, and what a plot shows."""

    name: str
    title: str
    table: list[list[str]]
    remarks: list[str] = field(default_factory=list)
    x_label: str = ""
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """For the plot: seconds of each method by x."""
    bars: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """For a plot of bars instead: how many times as fast incremental is, of each method by case."""


class Writer:
    """Adds rows to sections, for some methods."""

    def __init__(self, results: Results, methods: Sequence[str]) -> None:
        self._results, self._methods = results, methods

    @property
    def head(self) -> list[str]:
        return [part for method in self._methods for part in (f"{method}: from scratch", "incremental", "×")]

    def add(
        self,
        section: Section,
        case: str,
        update: str,
        before: Callable[[Mapping[str, Any]], list[str]],
        after: Sequence[str] = (),
        *,
        x: float | None = None,
        label: str = "",
    ) -> None:
        """Adds a row, if any method has a result: `before` gives its first cells from what is known."""
        cells: list[str] = []
        known: dict[str, Any] = {}
        for method in self._methods:
            result = self._results(case, method)
            entry = next((e for e in result.get("updates", ()) if e["update"] == update), None)
            if entry is None:
                cells += [result.get("unfinished", ""), "", ""]
                continue
            known = {"triples": result["triples"], **entry, **known}
            scratch, incremental = entry["scratch"], entry["incremental"]
            cells += [duration(scratch), duration(incremental), f"{number(scratch / incremental)}×"]
            if x is not None:
                section.series.setdefault(f"{method}, from scratch", []).append((x, scratch))
                section.series.setdefault(f"{method}, incremental", []).append((x, incremental))
            if label:
                section.bars.setdefault(method, []).append((label, scratch / incremental))
        if known:
            section.table.append([*before(known), *cells, *after])

    def known(self, case: str) -> dict[str, Any]:
        """What the methods found out about a case, of its largest update."""
        known: dict[str, Any] = {}
        for method in self._methods:
            for entry in self._results(case, method).get("updates", ()):
                known |= {k: max(v, known.get(k, v)) for k, v in entry.items() if isinstance(v, int)}
        return known


def paths(sizes: Sizes, writer: Writer) -> Iterator[Section]:
    head = ["1/p", "edges", "rows of the pattern", "paper", "rows of the result", "paper", *writer.head]
    section = Section("paths", "Three-hop paths (§5.2.1, figure 3)", [head], x_label="1/p")
    for one_in in sizes.one_in:
        said = PUBLISHED_SIZES.get(one_in, ("", "")) if sizes.nodes == _PAPER_NODES else ("", "")

        def before(known: Mapping[str, Any], one_in: int = one_in, said: tuple[str, str] = said) -> list[str]:
            counts = [_count(known, name) for name in ("triples", "pattern_rows", "result_rows")]
            return [f"{one_in:,}", counts[0], counts[1], said[0], counts[2], said[1]]

        writer.add(section, cases.path_name(sizes, one_in), "50 edges", before, x=one_in)
    section.remarks = [
        f"{sizes.nodes:,} nodes in each of four layers. 50 random edges are deleted and 50 are inserted.",
        "The paper: from scratch is faster below p = 1/100, the two are even at 1/100, incremental wins at "
        "1/50 and 1/35, and its lead shrinks from 1/30 on, when the pattern no longer fits in memory.",
    ]
    yield section


def isolated(sizes: Sizes, writer: Writer) -> Iterator[Section]:
    section = Section("isolated", "25 isolated edges (§5.2.1)", [["1/p", *writer.head]])
    shown = [f"{sizes.isolated_one_in}"]
    writer.add(section, cases.isolated_name(sizes), "25 isolated edges", lambda _: shown)
    section.remarks = [
        "The paper: 60 s from scratch and 21 s incrementally at p = 1/35, a ratio of 3 (§5.2.1)."
    ]
    yield section


def bsbm(sizes: Sizes, writer: Writer) -> Iterator[Section]:
    head = ["products", "triples", "query", "update", "changed triples", *writer.head]
    times = Section("bsbm", "BSBM queries 1 to 4 (§5.2.2, figure 5)", [[*head, "paper, incremental"]])
    hop = Section("hop", "The hop query on BSBM data (§5.2.3, figure 8)", [head])
    for products in sizes.products:
        for query in QUERIES:
            said = [] if query == "hop" else [PUBLISHED_SECOND.get(products, "") if query == "Q2" else ""]
            for update in PRODUCT_UPDATES:

                def before(
                    known: Mapping[str, Any], start: tuple[int, str, str] = (products, query, update)
                ) -> list[str]:
                    count, name, kind = start
                    changes = _count(known, "changes")
                    return [f"{count:,}", _count(known, "triples"), name, kind, changes]

                name = cases.products_name(sizes, query, products)
                label = f"{query}, {products:,}, {update}"
                section = hop if query == "hop" else times
                writer.add(section, name, update, before, said, label=label)
    times.remarks = [
        "The paper's text: incremental is faster for queries 1 and 3 on the two larger graphs, for query 4 "
        "on the largest; query 2 takes 16.8, 20.8 and 21.2 s incrementally.",
        f"Data in the published shape: {sizes.offers} offers and {sizes.reviews} reviews per product.",
    ]
    hop.remarks = ["The paper's text: incremental is faster than from scratch for all operators."]
    yield from (times, hop, _memory(sizes, writer))


def _memory(sizes: Sizes, writer: Writer) -> Section:
    head = ["products", "query", "rows of the result", "counting: rows stored", "paper: from scratch"]
    section = Section("memory", "Memory (§5.2.2, figure 4)", [[*head, "ours: state"]])
    for products in sizes.products:
        for query in QUERIES:
            known = writer.known(cases.products_name(sizes, query, products))
            if known:
                said = f"{PUBLISHED_MEMORY[query]:,} triples" if query in PUBLISHED_MEMORY else ""
                counts = [_count(known, name) for name in ("result_rows", "stored_rows", "state_bytes")]
                row = [f"{products:,}", query, counts[0], counts[1], said]
                section.table.append([*row, f"{counts[2]} B" if counts[2] else ""])
    section.remarks = [
        "The paper: about 100 % more than from scratch for every query, on the smallest graph. `rows stored` "
        "are those of all operators of its method; ours keeps the result, and what the plan must keep."
    ]
    return section


def operators(sizes: Sizes, results: Results) -> Iterator[Section]:
    head = ["counting: from scratch", "incremental", "÷"]
    ours = ["live, up to the operator: from scratch", "incremental", "÷"]
    section = Section(
        "operators", "Time per operator (§5.2.2, figure 6)", [["query", "operator", *head, *ours]]
    )
    for query, labels in LABELS.items():
        counting = results(cases.products_name(sizes, query, sizes.products[0]), "counting")
        for label in labels:
            theirs = [
                (scratch, incremental)
                for entry in counting.get("updates", ())
                for name, scratch, incremental in entry["operators"]
                if name == label
            ]
            up_to = results(cases.operator_name(sizes, query, label), "live").get("updates", ())
            own = [(entry["scratch"], entry["incremental"]) for entry in up_to]
            if theirs or own:
                section.table.append([query, label, *_summed(theirs), *_summed(own)])
    section.remarks = [
        "Sums over the four kinds of update, on the smallest graph. The paper's text: incremental is faster "
        "for all operations except Minus, LeftJoin and BGPs of many triple patterns. Ours keeps no result "
        "per operator: each line is a view of the pattern up to it."
    ]
    yield section


def _summed(timings: Sequence[tuple[float, float]]) -> list[str]:
    if not timings:
        return ["", "", ""]
    scratch, incremental = (sum(part) for part in zip(*timings, strict=True))
    return [
        duration(scratch),
        duration(incremental),
        f"{100 * incremental / scratch:.3g} %" if scratch else "",
    ]


def shapes(sizes: Sizes, writer: Writer) -> Iterator[Section]:
    section = Section(
        "shapes",
        "Star against path (§5.2.3, figures 9 and 10)",
        [["graph", "shape", "rows of the result", *writer.head]],
    )

    def add(name: str, graph: str, shape: str, update: str) -> None:
        def before(known: Mapping[str, Any]) -> list[str]:
            return [graph, shape, _count(known, "result_rows")]

        writer.add(section, name, update, before, label=f"{shape}, {graph}")

    for one_in in sizes.star_one_in:
        for shape, name in (("star", cases.star_name), ("path", cases.shape_name)):
            add(name(sizes, one_in), f"synthetic, p = 1/{one_in}", shape, "50 edges")
    add(cases.product_star_name(sizes), f"BSBM, {sizes.products[0]:,} products", "star", PRODUCT_UPDATES[0])
    section.remarks = [
        "The paper's text: the star on BSBM data is well supported from scratch (figure 9), and the shape "
        "alone does not explain who wins (figure 10, §5.4). The path on BSBM data is the hop query above.",
    ]
    yield section


def sums(sizes: Sizes, writer: Writer) -> Iterator[Section]:
    for values in sizes.values:
        section = Section(
            f"sum-{values}",
            f"SUM over m groups of {values} values (§5.3, figure 11)",
            [["m", "triples", *writer.head]],
            x_label="groups",
        )
        for groups in sizes.groups:

            def before(known: Mapping[str, Any], groups: int = groups) -> list[str]:
                return [f"{groups:,}", _count(known, "triples")]

            writer.add(section, cases.sum_name(groups, values), "100 values", before, x=groups)
        section.remarks = [
            "Five values of each of ten groups are deleted and five are inserted. The paper's text: "
            "incremental gets better compared to from scratch as m grows."
        ]
        yield section


def sections(sizes: Sizes, results: Results, methods: Sequence[str]) -> list[Section]:
    """All sections that have a result."""
    writer = Writer(results, methods)
    found = [
        *paths(sizes, writer),
        *isolated(sizes, writer),
        *bsbm(sizes, writer),
        *operators(sizes, results),
        *shapes(sizes, writer),
        *sums(sizes, writer),
    ]
    return [section for section in found if len(section.table) > 1]


def _count(known: Mapping[str, Any], name: str) -> str:
    return f"{known[name]:,}" if name in known else ""
