"""Finds and reads the data of the Berlin SPARQL Benchmark, and chooses parameters for its queries.

The data is not part of this project: it is read from the folder in SPARQLIVE_DATA.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode, Quad, RdfFormat, parse

VOCABULARY = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/"
PREFIXES = f"""
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
PREFIX bsbm: <{VOCABULARY}>
"""
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_PRODUCT = NamedNode(VOCABULARY + "Product")


def file() -> Path:
    root = Path(__file__).resolve().parents[1]
    folder = os.environ.get("SPARQLIVE_DATA") or root.parent / "shared" / "data"
    return Path(folder) / "bsbm-1000.nt.gz"


def read() -> list[Quad]:
    with gzip.open(file()) as stream:
        return list(parse(stream, RdfFormat.N_TRIPLES))


@dataclass(frozen=True)
class Case:
    """A query, a product in its answer, and triples of a product that does not concern it."""

    name: str
    query: str
    relevant: list[Quad]
    irrelevant: list[Quad]
    parameters: dict[str, str]
    """The values that the query was filled with, as terms or numbers."""


class Products:
    """The products of the data, with all triples that involve each."""

    def __init__(self, quads: list[Quad]) -> None:
        products = {quad.subject for quad in quads if quad.predicate == _TYPE and quad.object == _PRODUCT}
        self.triples: dict[Any, list[Quad]] = {product: [] for product in sorted(products, key=str)}
        self.values: dict[Any, dict[str, list[Any]]] = {product: defaultdict(list) for product in products}
        self.users: Counter[Any] = Counter()
        """Types and features: how many products have each."""
        for quad in quads:
            if quad.subject in products:
                self.triples[quad.subject].append(quad)
                self._note(quad)
            elif quad.object in products:
                self.triples[quad.object].append(quad)

    def _note(self, quad: Quad) -> None:
        name = quad.predicate.value.removeprefix(VOCABULARY)
        if quad.predicate == _TYPE and quad.object != _PRODUCT:
            name = "type"
        self.values[quad.subject][name].append(quad.object)
        if name in ("type", "productFeature"):
            self.users[quad.object] += 1

    def number(self, product: Any, name: str) -> int:
        return int(self.values[product][name][0].value)

    def by_use(self, product: Any, name: str) -> list[Any]:
        """The types or features of a product, the most common first."""
        return sorted(self.values[product][name], key=lambda term: (-self.users[term], str(term)))

    def without(self, feature: Any) -> Any:
        return next(p for p in self.triples if feature not in self.values[p]["productFeature"])

    def lonely_copy(self, product: Any) -> list[Quad]:
        """A product like this one, whose producer makes nothing else."""
        copy, producer = NamedNode(product.value + "-copy"), NamedNode(VOCABULARY + "NewProducer")
        return [
            Quad(
                copy, quad.predicate, producer if quad.predicate.value.endswith("/producer") else quad.object
            )
            for quad in self.triples[product]
            if quad.subject == product
        ]


def cases(products: Products) -> list[Case]:
    """The paper's queries (§5.2.2 and §5.2.3), each with answers that the product in the middle is one of."""
    product = list(products.triples)[len(products.triples) // 2]
    kind = products.by_use(product, "type")[1]
    first, second, third, *_ = products.by_use(product, "productFeature")
    other = products.without(first)
    missing = _companion(products, product, first)
    numbers = [products.number(product, f"productPropertyNumeric{n}") for n in (1, 2, 3)]
    x, y, z = numbers[0] // 2, numbers[1] // 2, numbers[2] * 2
    head = f"?p rdfs:label ?label . ?p rdf:type {kind} . ?p bsbm:productFeature {first} ."
    queries = {
        "Q1": f"""SELECT ?p ?label WHERE {{ {head} ?p bsbm:productFeature {second} .
            ?p bsbm:productPropertyNumeric1 ?value1 FILTER(?value1 > {x}) }}""",
        "Q2": _second(product),
        "Q3": f"""SELECT ?p ?label WHERE {{
            {{ {head} ?p bsbm:productPropertyNumeric1 ?p1 FILTER(?p1 > {x})
               ?p bsbm:productPropertyNumeric3 ?p3 FILTER(?p3 < {z}) }}
            MINUS {{ ?p bsbm:productFeature {missing} }} }}""",
        "Q4": f"""SELECT ?p ?label ?text WHERE {{
            {{ {head} ?p bsbm:productFeature {second} . ?p bsbm:productPropertyTextual1 ?text .
               ?p bsbm:productPropertyNumeric1 ?p1 FILTER(?p1 > {x}) }}
            UNION
            {{ {head} ?p bsbm:productFeature {third} . ?p bsbm:productPropertyTextual1 ?text .
               ?p bsbm:productPropertyNumeric2 ?p2 FILTER(?p2 > {y}) }} }}""",
        "hop": """SELECT ?feat WHERE { ?product1 bsbm:producer ?producer . ?product2 bsbm:producer ?producer .
            ?product2 bsbm:productFeature ?feat FILTER(?product1 != ?product2) }""",
    }
    parameters = {
        "product": product,
        "kind": kind,
        "first": first,
        "second": second,
        "third": third,
        "missing": missing,
        "x": x,
        "y": y,
        "z": z,
    }
    # Every product of the data concerns the hop query.
    irrelevant = {"hop": products.lonely_copy(product)}
    return [
        Case(
            name,
            PREFIXES + query,
            products.triples[product],
            irrelevant.get(name, products.triples[other]),
            {key: str(value) for key, value in parameters.items()},
        )
        for name, query in queries.items()
    ]


def _companion(products: Products, product: Any, feature: Any) -> Any:
    """A feature that the product lacks and that others with the given feature have: MINUS takes them out."""
    own = set(products.values[product]["productFeature"])
    found = Counter(
        term
        for values in products.values.values()
        if feature in values["productFeature"]
        for term in values["productFeature"]
        if term not in own
    )
    return min(found, key=lambda term: (-found[term], str(term)))


def _second(product: Any) -> str:
    optional = ("productPropertyTextual4", "productPropertyTextual5", "productPropertyNumeric4")
    return f"""
        SELECT ?label ?comment ?p ?pFeature ?text1 ?text2 ?text3 ?num1 ?num2 ?o0 ?o1 ?o2 WHERE {{
          {product} rdfs:label ?label . {product} rdfs:comment ?comment .
          {product} bsbm:producer ?p . ?p rdfs:label ?producer . {product} dc:publisher ?p .
          {product} bsbm:productFeature ?f . ?f rdfs:label ?pFeature .
          {product} bsbm:productPropertyTextual1 ?text1 . {product} bsbm:productPropertyTextual2 ?text2 .
          {product} bsbm:productPropertyTextual3 ?text3 .
          {product} bsbm:productPropertyNumeric1 ?num1 . {product} bsbm:productPropertyNumeric2 ?num2 .
          {" ".join(f"OPTIONAL {{ {product} bsbm:{name} ?o{i} }}" for i, name in enumerate(optional))}
        }}"""
