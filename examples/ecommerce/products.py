"""The catalogue's content: products, their types, features and producers, as N-Triples lines.

E-commerce data as in the counting paper (§5.2.2): every product has a type, some of its type's features, a
producer, a label, a comment, three to five numeric and three to five textual properties. A product depends
only on its number and the seed, so that any task can generate any part of the catalogue.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

BASE = "http://example.org/shop/"
TYPES = 10
FEATURES_A_TYPE = 20
PRODUCTS_A_PRODUCER = 20

_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_PUBLISHER = "http://purl.org/dc/elements/1.1/publisher"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "hazel", "indigo", "juniper", "kelp")


def statement(subject: str, predicate: str, object_: str) -> str:
    """A line whose subject is in the shop's namespace; predicates may be full IRIs."""
    full = predicate if "://" in predicate else BASE + predicate
    return f"<{BASE}{subject}> <{full}> {object_} ."


def thing(name: str) -> str:
    """An IRI in the shop's namespace, as an object."""
    return f"<{BASE}{name}>"


def integer(value: int) -> str:
    """An integer, as an object."""
    return f'"{value}"^^<{_INTEGER}>'


def words(chance: random.Random, count: int) -> str:
    """A random text, as an object."""
    return f'"{" ".join(chance.choice(_WORDS) for _ in range(count))}"'


def producers_of(products: int) -> int:
    """How many producers a catalogue has."""
    return max(1, products // PRODUCTS_A_PRODUCER)


def frame(products: int) -> Iterator[str]:
    """Lines of the types, features and producers that products refer to."""
    for number in range(TYPES):
        yield statement(f"ProductType{number}", f"{_RDFS}label", f'"type {number}"')
    for number in range(TYPES * FEATURES_A_TYPE):
        yield statement(f"ProductFeature{number}", f"{_RDFS}label", f'"feature {number}"')
    for number in range(producers_of(products)):
        yield statement(f"Producer{number}", f"{_RDFS}label", f'"producer {number}"')


def product(number: int, products: int, seed: int) -> list[str]:
    """The lines of one product."""
    chance = random.Random(f"{seed} {number}")
    name = f"Product{number}"
    kind = chance.randrange(TYPES) if number else 0
    producer = thing(f"Producer{chance.randrange(producers_of(products))}")
    lines = [
        statement(name, _RDF_TYPE, thing("Product")),
        statement(name, _RDF_TYPE, thing(f"ProductType{kind}")),
        statement(name, f"{_RDFS}label", words(chance, 2)),
        statement(name, f"{_RDFS}comment", words(chance, 12)),
        statement(name, "producer", producer),
        statement(name, _PUBLISHER, producer),
    ]
    for place in chance.sample(range(FEATURES_A_TYPE), chance.randint(6, 12)):
        lines.append(
            statement(name, "productFeature", thing(f"ProductFeature{kind * FEATURES_A_TYPE + place}"))
        )
    for place in range(1, 6):
        if place <= 3 or chance.random() < 0.5:
            value = integer(chance.randint(1, 2000))
            lines.append(statement(name, f"productPropertyNumeric{place}", value))
        if place <= 3 or chance.random() < 0.5:
            lines.append(statement(name, f"productPropertyTextual{place}", words(chance, 5)))
    return lines
