"""The experiments of the counting paper as graphs, queries and updates.

What is measured can be listed without making a graph: `Planned` names the cases of a graph.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyoxigraph import Quad

from bench import bsbm_data, path3
from bench.paper import bsbm
from bench.paper.compare import METHODS, Case, Update
from bench.paper.counting import (
    Bgp,
    Filter,
    LeftJoin,
    Minus,
    Pattern,
    Project,
    Sum,
    Triple,
    Union,
    sparql,
)

LINK = f"<{path3.PREFIX}link>"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
PRODUCT_UPDATES = ("relevant, deleted", "relevant, inserted", "irrelevant, deleted", "irrelevant, inserted")
"""The four kinds of §5.2.2."""
QUERIES = ("Q1", "Q2", "Q3", "Q4", "hop")
_PATH = Bgp((("?x", LINK, "?z1"), ("?z1", LINK, "?z2"), ("?z2", LINK, "?y")))
_STAR = Bgp(tuple(("?x", LINK, f"?y{one}") for one in range(1, 5)))


@dataclass(frozen=True)
class Sizes:
    nodes: int
    one_in: Sequence[int]
    isolated_one_in: int
    star_one_in: Sequence[int]
    products: Sequence[int]
    offers: int
    reviews: int
    groups: Sequence[int]
    values: Sequence[int]


FULL = Sizes(
    nodes=1000,
    one_in=(1000, 300, 100, 50, 35, 30, 25),
    isolated_one_in=35,
    star_one_in=(1000, 500, 250),
    products=(1_000, 10_000, 15_000),
    offers=20,
    reviews=10,
    groups=(1_000, 5_000, 10_000, 20_000, 50_000),
    values=(50, 100),
)
QUICK = Sizes(
    nodes=100,
    one_in=(100, 50, 20, 10),
    isolated_one_in=10,
    star_one_in=(50, 25),
    products=(100, 300),
    offers=2,
    reviews=1,
    groups=(100, 500),
    values=(10,),
)
SMOKE = Sizes(
    nodes=20,
    one_in=(5,),
    isolated_one_in=5,
    star_one_in=(10,),
    products=(50,),
    offers=1,
    reviews=1,
    groups=(20,),
    values=(8,),
)


@dataclass(frozen=True)
class Planned:
    """A graph with the names of its cases. `make` gives its lines of N-Triples and the cases themselves."""

    names: Sequence[str]
    make: Callable[[], tuple[list[str], list[Case]]]
    methods: Sequence[str] = METHODS


# §5.2.1


def paths(sizes: Sizes) -> Iterator[Planned]:
    for one_in in sizes.one_in:
        yield Planned([path_name(sizes, one_in)], lambda one_in=one_in: _paths(sizes, one_in))  # type: ignore[misc]


def path_name(sizes: Sizes, one_in: int) -> str:
    return f"paths, {sizes.nodes:,} nodes, p = 1/{one_in}"


def _paths(sizes: Sizes, one_in: int) -> tuple[list[str], list[Case]]:
    lines = _edges(sizes.nodes, one_in)
    return lines, [_path(path_name(sizes, one_in), _edge_update(lines, sizes.nodes, one_in))]


def _path(name: str, update: Update) -> Case:
    return Case(name, path3.QUERY, Project(_PATH, ("x", "y")), [update])


def isolated_name(sizes: Sizes) -> str:
    return f"isolated, {sizes.nodes:,} nodes, p = 1/{sizes.isolated_one_in}"


def isolated(sizes: Sizes) -> Iterator[Planned]:
    strangers = [
        _line((f"<{path3.PREFIX}from/{one}>", LINK, f"<{path3.PREFIX}to/{one}>")) for one in range(25)
    ]
    case = _path(isolated_name(sizes), Update("25 isolated edges", [], strangers))
    yield Planned([case.name], lambda: (_edges(sizes.nodes, sizes.isolated_one_in), [case]))


def _edges(nodes: int, one_in: int) -> list[str]:
    chance = random.Random(one_in)
    return [
        _line((f"<{path3.PREFIX}{source}/{one}>", LINK, f"<{path3.PREFIX}{target}/{two}>"))
        for source, target in pairwise("abcd")
        for one in range(nodes)
        for two in range(nodes)
        if chance.random() * one_in < 1
    ]


def _edge_update(lines: Sequence[str], nodes: int, seed: int) -> Update:
    """Deletes 50 random edges and inserts 50; in a small graph, at most a tenth of its edges."""
    chance, there = random.Random(seed), set(lines)
    count = min(50, max(1, len(lines) // 10))
    new: dict[str, None] = {}
    while len(new) < count:
        source = chance.randrange(3)
        ends = [f"<{path3.PREFIX}{layer}/{chance.randrange(nodes)}>" for layer in "abcd"[source : source + 2]]
        line = _line((ends[0], LINK, ends[1]))
        if line not in there:
            new[line] = None
    return Update("50 edges", chance.sample(list(lines), count), list(new))


# §5.2.2


def products_name(sizes: Sizes, query: str, products: int) -> str:
    return f"{query}, {products:,} products, {sizes.offers} offers, {sizes.reviews} reviews"


def bsbm_queries(sizes: Sizes) -> Iterator[Planned]:
    for products in sizes.products:
        names = [products_name(sizes, query, products) for query in QUERIES]
        yield Planned(names, lambda products=products: _bsbm(sizes, products))  # type: ignore[misc]


def _bsbm(sizes: Sizes, products: int) -> tuple[list[str], list[Case]]:
    lines, given = bsbm.graph(products, sizes.offers, sizes.reviews)
    return lines, [
        Case(products_name(sizes, one.name, products), one.query, bsbm.pattern_of(one), _updates(one))
        for one in bsbm_data.cases(given)
    ]


def _updates(case: bsbm_data.Case) -> list[Update]:
    """The four kinds of update, in an order in which each changes the graph. A copy is inserted first."""
    relevant, irrelevant = _lines(case.relevant), _lines(case.irrelevant)
    there = [(relevant, []), ([], relevant), (irrelevant, []), ([], irrelevant)]
    updates = [Update(name, *change) for name, change in zip(PRODUCT_UPDATES, there, strict=True)]
    return [*updates[:2], updates[3], updates[2]] if case.name == "hop" else updates


def operator_name(sizes: Sizes, query: str, label: str) -> str:
    return f"{query} up to {label}, {products_name(sizes, query, sizes.products[0])}"


def operators(sizes: Sizes) -> Iterator[Planned]:
    """Ours keeps no result per operator. So each operator is measured as a view of the pattern up to it."""
    names = [operator_name(sizes, query, label) for query, labels in LABELS.items() for label in labels]
    yield Planned(names, lambda: _operators(sizes), ["live"])


LABELS = {
    "Q1": ("BGP", "Filter", "Project"),
    "Q2": (
        "BGP",
        *("BGP_1", "LeftJoin_1", "BGP_2", "LeftJoin_2", "BGP_3", "LeftJoin_3"),
        "Project",
    ),
    "Q3": ("BGP", "Filter", "BGP_1", "Minus", "Project"),
    "Q4": ("BGP", "Filter", "BGP_1", "Filter_1", "Union", "Project"),
    "hop": ("BGP", "Filter", "Project"),
}
"""The operators of each query, those below first."""


def _operators(sizes: Sizes) -> tuple[list[str], list[Case]]:
    lines, cases = _bsbm(sizes, sizes.products[0])
    return lines, [
        Case(
            operator_name(sizes, query, pattern.label),
            f"SELECT * {sparql(pattern)}",
            pattern,
            case.updates,
        )
        for query, case in zip(QUERIES, cases, strict=True)
        for pattern in _subpatterns(case.pattern)
    ]


def _subpatterns(pattern: Pattern) -> Iterator[Pattern]:
    """Those below first."""
    match pattern:
        case Bgp() | Sum():
            pass
        case Filter(child) | Project(child):
            yield from _subpatterns(child)
        case Union(left, right) | Minus(left, right) | LeftJoin(left, right):
            yield from _subpatterns(left)
            yield from _subpatterns(right)
    yield pattern


# §5.2.3


def star_name(sizes: Sizes, one_in: int) -> str:
    return f"star, {sizes.nodes:,} nodes, p = 1/{one_in}"


def shape_name(sizes: Sizes, one_in: int) -> str:
    return f"path beside a star, {sizes.nodes:,} nodes, p = 1/{one_in}"


def product_star_name(sizes: Sizes) -> str:
    return products_name(sizes, "star", sizes.products[0])


def shapes(sizes: Sizes) -> Iterator[Planned]:
    for one_in in sizes.star_one_in:
        names = [star_name(sizes, one_in), shape_name(sizes, one_in)]
        yield Planned(names, lambda one_in=one_in: _shapes(sizes, one_in))  # type: ignore[misc]
    yield Planned([product_star_name(sizes)], lambda: _product_star(sizes))


def _shapes(sizes: Sizes, one_in: int) -> tuple[list[str], list[Case]]:
    lines = _edges(sizes.nodes, one_in)
    update = _edge_update(lines, sizes.nodes, one_in)
    query = f"PREFIX : <{path3.PREFIX}> SELECT ?x ?y1 ?y2 ?y3 ?y4 {{ ?x :link ?y1 , ?y2 , ?y3 , ?y4 }}"
    star = Case(star_name(sizes, one_in), query, Project(_STAR, ("x", "y1", "y2", "y3", "y4")), [update])
    return lines, [star, _path(shape_name(sizes, one_in), update)]


def _product_star(sizes: Sizes) -> tuple[list[str], list[Case]]:
    lines, given = bsbm.graph(sizes.products[0], sizes.offers, sizes.reviews)
    predicates = ("producer", "productPropertyNumeric1", "productPropertyTextual1", "productFeature")
    patterns = tuple(
        ("?p", f"<{bsbm_data.VOCABULARY}{name}>", f"?v{one}") for one, name in enumerate(predicates)
    )
    body = " . ".join(f"?p bsbm:{name} ?v{one}" for one, name in enumerate(predicates))
    query = f"{bsbm_data.PREFIXES} SELECT ?p ?v0 ?v1 ?v2 ?v3 {{ {body} }}"
    pattern = Project(Bgp(patterns), ("p", "v0", "v1", "v2", "v3"))
    return lines, [Case(product_star_name(sizes), query, pattern, _updates(bsbm_data.cases(given)[0])[:1])]


# §5.3


def sum_name(groups: int, values: int) -> str:
    return f"sum, {groups:,} groups of {values}"


def sums(sizes: Sizes) -> Iterator[Planned]:
    for values in sizes.values:
        for groups in sizes.groups:
            yield Planned(
                [sum_name(groups, values)],
                lambda groups=groups, values=values: _sum(groups, values),  # type: ignore[misc]
            )


def _sum(groups: int, values: int) -> tuple[list[str], list[Case]]:
    predicate = f"<{bsbm_data.VOCABULARY}productPropertyNumeric1>"
    query = f"SELECT ?p (SUM(?v) AS ?total) {{ ?p {predicate} ?v }} GROUP BY ?p"
    chance = random.Random(groups)
    lines = [
        _line((f"<{path3.PREFIX}p/{group}>", predicate, _value(one * 1000 + chance.randrange(1000))))
        for group in range(groups)
        for one in range(values)
    ]
    deletes, inserts = [], []
    for group in chance.sample(range(groups), min(10, groups)):
        deletes += chance.sample(lines[group * values : (group + 1) * values], 5)
        inserts += [
            _line((f"<{path3.PREFIX}p/{group}>", predicate, _value((values + one) * 1000)))
            for one in range(5)
        ]
    pattern = Sum(Bgp((("?p", predicate, "?v"),)), "p", "v")
    return lines, [Case(sum_name(groups, values), query, pattern, [Update("100 values", deletes, inserts)])]


def _value(value: int) -> str:
    return f'"{value}"^^<{_INTEGER}>'


def _line(triple: Triple) -> str:
    return f"{' '.join(triple)} ."


def _lines(quads: Iterable[Quad]) -> list[str]:
    return [f"{quad.triple} ." for quad in quads]


EXPERIMENTS: Mapping[str, Callable[[Sizes], Iterator[Planned]]] = {
    "paths": paths,
    "isolated": isolated,
    "bsbm": bsbm_queries,
    "operators": operators,
    "shapes": shapes,
    "sums": sums,
}
