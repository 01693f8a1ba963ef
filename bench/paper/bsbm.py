"""A generator of data in the shape of the Berlin SPARQL Benchmark, and the paper's queries as patterns.

The shape is that of the published dataset specification: products with a type from a tree of types and all
types above it, a label, a comment, a producer (one for about 40 products), features of their type, three to
five textual and three to five numeric properties, offers and reviews. Names and numbers are our own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from pyoxigraph import RdfFormat, parse

from bench.bsbm_data import VOCABULARY, Case, Products
from bench.paper.counting import Bgp, Filter, LeftJoin, Minus, Pattern, Project, Triple, Union

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_DC = "http://purl.org/dc/elements/1.1/"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_INSTANCES = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/"
_WORDS = ("amber", "birch", "copper", "delta", "ember", "flint", "grove", "heron", "iris", "juniper")


def graph(products: int, offers: int, reviews: int) -> tuple[list[str], Products]:
    """A graph with so many products, and on average so many offers and reviews per product; its products."""
    lines = list(_lines(products, offers, reviews, random.Random(products)))
    of_products = re.compile(rf"{re.escape(_INSTANCES)}Product[0-9]")
    text = "\n".join(line for line in lines if of_products.search(line))
    return lines, Products(list(parse(text, RdfFormat.N_TRIPLES)))


def _lines(products: int, offers: int, reviews: int, chance: random.Random) -> Iterator[str]:
    def iri(kind: str, number: int) -> str:
        return f"<{_INSTANCES}{kind}{number}>"

    def text(words: int) -> str:
        return '"' + " ".join(chance.choices(_WORDS, k=words)) + '"'

    def line(subject: str, predicate: str, object_: str, vocabulary: str = VOCABULARY) -> str:
        return f"{subject} <{vocabulary}{predicate}> {object_} ."

    def typed(subject: str, kind: str) -> str:
        return line(subject, "type", f"<{VOCABULARY}{kind}>", _RDF)

    types = 5 + products // 60
    features = 40 + products // 6
    for number in range(types):
        name = iri("ProductType", number)
        yield typed(name, "ProductType")
        yield line(name, "label", f'"type {number}"', _RDFS)
        if number:
            yield line(name, "subClassOf", iri("ProductType", (number - 1) // 4), _RDFS)
    for number in range(features):
        yield typed(iri("ProductFeature", number), "ProductFeature")
        yield line(iri("ProductFeature", number), "label", f'"feature {number}"', _RDFS)
    producers = max(2, products // 40)
    for number in range(producers):
        yield typed(iri("Producer", number), "Producer")
        yield line(iri("Producer", number), "label", f'"producer {number}"', _RDFS)
    for number in range(products):
        product, producer = iri("Product", number), iri("Producer", chance.randrange(producers))
        kind = chance.randrange(types // 2, types)
        yield typed(product, "Product")
        yield line(product, "label", f'"product {number}"', _RDFS)
        yield line(product, "comment", text(20), _RDFS)
        yield line(product, "producer", producer)
        yield line(product, "publisher", producer, _DC)
        own = sorted(
            {(kind * 7 + chance.randrange(30)) % features for _ in range(12)}
            | {n for n in range(4) if chance.random() < 0.5}
        )
        for feature in own:
            yield line(product, "productFeature", iri("ProductFeature", feature))
        while True:  # the type and all types above it
            yield line(product, "type", iri("ProductType", kind), _RDF)
            if kind == 0:
                break
            kind = (kind - 1) // 4
        for prop in range(1, 4 + chance.randrange(3)):
            yield line(product, f"productPropertyTextual{prop}", text(8))
        for prop in range(1, 4 + chance.randrange(3)):
            value = f'"{1 + chance.randrange(2000)}"^^<{_XSD}integer>'
            yield line(product, f"productPropertyNumeric{prop}", value)
    for number in range(products * offers):
        offer = iri("Offer", number)
        yield typed(offer, "Offer")
        yield line(offer, "product", iri("Product", number % products))
        yield line(offer, "vendor", iri("Vendor", chance.randrange(max(2, products // 20))))
        yield line(offer, "price", f'"{5 + chance.randrange(10_000)}"^^<{_XSD}integer>')
        yield line(offer, "deliveryDays", f'"{1 + chance.randrange(20)}"^^<{_XSD}integer>')
    for number in range(products * reviews):
        review = iri("Review", number)
        yield typed(review, "Review")
        yield line(review, "reviewFor", iri("Product", number % products))
        yield line(review, "reviewer", iri("Reviewer", chance.randrange(max(2, products // 2))))
        yield line(review, "title", text(5), _DC)
        yield line(review, "text", text(40))
        yield line(review, "rating1", f'"{1 + chance.randrange(10)}"^^<{_XSD}integer>')


# The paper's queries (§5.2.2, §5.2.3) as trees of operators


def pattern_of(case: Case) -> Pattern:
    """The pattern of a query of `bench.bsbm_data.cases`, from its parameters."""
    label, feature = f"<{_RDFS}label>", f"<{VOCABULARY}productFeature>"
    numeric, textual = f"<{VOCABULARY}productPropertyNumeric", f"<{VOCABULARY}productPropertyTextual"
    given = case.parameters
    if case.name == "Q2":
        return _second(given["product"])
    if case.name == "hop":
        producer = f"<{VOCABULARY}producer>"
        patterns = (
            ("?product1", producer, "?producer"),
            ("?product2", producer, "?producer"),
            ("?product2", feature, "?feat"),
        )
        return Project(Filter(Bgp(patterns), "product1 <> product2"), ("feat",))
    head: tuple[Triple, ...] = (
        ("?p", label, "?label"),
        ("?p", f"<{_RDF}type>", given["kind"]),
        ("?p", feature, given["first"]),
    )

    def having(term: str) -> Triple:
        return ("?p", feature, term)

    if case.name == "Q1":
        bgp = Bgp((*head, having(given["second"]), ("?p", f"{numeric}1>", "?value1")))
        return Project(Filter(bgp, f"number(value1) > {given['x']}"), ("label", "p"))
    if case.name == "Q3":
        bgp = Bgp((*head, ("?p", f"{numeric}1>", "?p1"), ("?p", f"{numeric}3>", "?p3")))
        left = Filter(bgp, f"number(p1) > {given['x']} AND number(p3) < {given['z']}")
        return Project(Minus(left, Bgp((having(given["missing"]),), "BGP_1")), ("label", "p"))
    text = ("?p", f"{textual}1>", "?text")
    one = Bgp((*head, having(given["second"]), text, ("?p", f"{numeric}1>", "?p1")))
    two = Bgp((*head, having(given["third"]), text, ("?p", f"{numeric}2>", "?p2")), "BGP_1")
    kept = ("label", "p", "text")
    return Project(
        Union(
            Filter(one, f"number(p1) > {given['x']}"),
            Filter(two, f"number(p2) > {given['y']}", "Filter_1"),
        ),
        kept,
    )


def _second(product: str) -> Pattern:
    def own(name: str, variable: str, vocabulary: str = VOCABULARY) -> Triple:
        return (product, f"<{vocabulary}{name}>", f"?{variable}")

    pattern: Pattern = Bgp(
        (
            own("label", "label", _RDFS),
            own("comment", "comment", _RDFS),
            own("producer", "p"),
            ("?p", f"<{_RDFS}label>", "?producer"),
            own("publisher", "p", _DC),
            own("productFeature", "f"),
            ("?f", f"<{_RDFS}label>", "?pFeature"),
            own("productPropertyTextual1", "text1"),
            own("productPropertyTextual2", "text2"),
            own("productPropertyTextual3", "text3"),
            own("productPropertyNumeric1", "num1"),
            own("productPropertyNumeric2", "num2"),
        )
    )
    optional = ("productPropertyTextual4", "productPropertyTextual5", "productPropertyNumeric4")
    for number, name in enumerate(optional):
        right = Bgp((own(name, f"o{number}"),), f"BGP_{number + 1}")
        pattern = LeftJoin(pattern, right, f"LeftJoin_{number + 1}")
    kept = ("label", "comment", "p", "pFeature", "text1", "text2", "text3", "num1", "num2", "o0", "o1", "o2")
    return Project(pattern, kept)
