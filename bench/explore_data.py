"""Generates a catalogue to explore, as N-Triples, and lists the queries that people type into a new endpoint.

Ten triples per item: its class (of 50, most items in the first), label, comment, price, date, maker, two
items near it, and two tags.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.bsbm_data import PREFIXES as BSBM_PREFIXES

PREFIX = "http://example.org/"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = f"PREFIX : <{PREFIX}> PREFIX rdf: <{_RDF}> PREFIX rdfs: <{_RDFS}> "
TRIPLES_PER_ITEM = 10
_CLASSES, _MAKERS, _TAGS = 50, 2_000, 500
_SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "si", "to", "ve", "za")
_ITEMS_AT_ONCE = 20_000


def words(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(count)]


def write(path: Path, triples: int) -> int:
    """Writes the catalogue; returns its number of items."""
    items = max(20, triples // TRIPLES_PER_ITEM)
    chance, vocabulary = random.Random(7), words(5, 3_000)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, items, _ITEMS_AT_ONCE):
            numbers = range(start, min(items, start + _ITEMS_AT_ONCE))
            file.write("".join(_item(number, items, chance, vocabulary) for number in numbers))
    return items


def _item(number: int, items: int, chance: random.Random, vocabulary: list[str]) -> str:
    item, pick = f"<{PREFIX}item{number}>", chance.random
    kind = int(_CLASSES * pick() ** 3)
    some = [vocabulary[int(3_000 * pick() ** 2)] for _ in range(9)]
    lines = [
        f"{item} <{_RDF}type> <{PREFIX}Class{kind}> .",
        f'{item} <{_RDFS}label> "{some[0]} {some[1]} {number}"@en .',
        f'{item} <{_RDFS}comment> "{" ".join(some[2:])}" .',
        f'{item} <{PREFIX}price> "{int(100_000 * pick())}"^^<{_XSD}integer> .',
        f'{item} <{PREFIX}added> "20{10 + int(15 * pick())}-0{1 + int(9 * pick())}-{10 + int(18 * pick())}"'
        f"^^<{_XSD}date> .",
        f"{item} <{PREFIX}madeBy> <{PREFIX}maker{int(_MAKERS * pick() ** 2)}> .",
        f"{item} <{PREFIX}near> <{PREFIX}item{(number + 1 + int(50 * pick())) % items}> .",
        f"{item} <{PREFIX}near> <{PREFIX}item{int(items * pick() ** 2)}> .",
        f"{item} <{PREFIX}tag> <{PREFIX}tag{int(_TAGS * pick())}> .",
        f"{item} <{PREFIX}tag> <{PREFIX}tag{int(_TAGS * pick() ** 3)}> .",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Query:
    """A query of the benchmark.

    answer: `all` solutions are the answer; `some`: a LIMIT takes any of them; `top`: a LIMIT takes the first
    by `key`, and ties are open. whole: it has to read most of the data.
    """

    name: str
    text: str
    answer: Literal["all", "some", "top"] = "all"
    key: str = ""
    whole: bool = False


ITEM = f"<{PREFIX}item17>"
MEASURED_BEFORE = (
    Query("first ten rows", "SELECT * { ?s ?p ?o } LIMIT 10", "some"),
    Query(
        "the page's own query",
        "SELECT ?subject ?predicate ?object { ?subject ?predicate ?object } LIMIT 100",
        "some",
    ),
    Query("describe an item", f"DESCRIBE {ITEM}"),
    Query("values of an item", f"SELECT ?o {{ {ITEM} ?p ?o }}"),
    Query("is there anything", "ASK { ?s ?p ?o }"),
)
EXPLORATORY = (
    Query("properties of an item", f"SELECT ?p ?o {{ {ITEM} ?p ?o }}"),
    Query("what leads to an item", f"SELECT ?s ?p {{ ?s ?p {ITEM} }}"),
    Query("classes", "SELECT DISTINCT ?c { ?s a ?c }", whole=True),
    Query("a hundred classes", "SELECT DISTINCT ?c { ?s a ?c } LIMIT 100", "some", whole=True),
    Query(
        "classes with counts",
        "SELECT ?c (COUNT(*) AS ?n) { ?s a ?c } GROUP BY ?c ORDER BY DESC(?n)",
        whole=True,
    ),
    Query("predicates", "SELECT DISTINCT ?p { ?s ?p ?o }", whole=True),
    Query("predicates with counts", "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p", whole=True),
    Query("number of triples", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", whole=True),
    Query("ten of a class", "SELECT ?s { ?s a :Class7 } LIMIT 10", "some"),
    Query("ten of a class, labelled", "SELECT ?s ?l { ?s a :Class7 ; rdfs:label ?l } LIMIT 10", "some"),
    Query("a class with everything", "SELECT ?s ?p ?o { ?s a :Class7 . ?s ?p ?o } LIMIT 100", "some"),
    Query("size of a class", "SELECT (COUNT(*) AS ?n) { ?s a :Class7 }"),
    Query(
        "predicates of a class",
        "SELECT ?p (COUNT(*) AS ?n) { ?s a :Class7 . ?s ?p ?o } GROUP BY ?p",
        whole=True,
    ),
    Query(
        "text in labels",
        'SELECT ?s ?l { ?s rdfs:label ?l FILTER(CONTAINS(LCASE(?l), "bake")) } LIMIT 20',
        "some",
    ),
    Query(
        "text in any literal",
        'SELECT ?s ?p ?o { ?s ?p ?o FILTER(ISLITERAL(?o) && REGEX(?o, "zanura", "i")) } LIMIT 10',
        "some",
    ),
    Query("two with one neighbour", "SELECT ?a ?b { ?a :near ?c . ?b :near ?c } LIMIT 10", "some"),
    Query(
        "most used tags",
        "SELECT ?t (COUNT(?s) AS ?n) { ?s :tag ?t } GROUP BY ?t ORDER BY DESC(?n) LIMIT 10",
        "top",
        "n",
        whole=True,
    ),
    Query(
        "makers by items of a class",
        "SELECT ?m (COUNT(?s) AS ?n) { ?s a :Class3 ; :madeBy ?m } GROUP BY ?m ORDER BY DESC(?n) LIMIT 10",
        "top",
        "n",
        whole=True,
    ),
    Query(
        "cheapest of a maker",
        "SELECT ?s ?v { ?s :madeBy :maker5 ; :price ?v } ORDER BY ?v LIMIT 10",
        "top",
        "v",
    ),
    Query("reachable from an item", f"SELECT ?x {{ {ITEM} :near+ ?x }} LIMIT 50", "some"),
    Query(
        "optional maker of tagged items",
        "SELECT ?s ?m ?x { ?s :tag :tag9 OPTIONAL { ?s :madeBy ?m } OPTIONAL { ?s :absent ?x } } LIMIT 20",
        "some",
    ),
    Query("graphs", "SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }"),
)
GATHERED = (
    Query("average price", "SELECT (AVG(?v) AS ?n) { ?s :price ?v }", whole=True),
    Query("least and greatest price", "SELECT (MIN(?v) AS ?a) (MAX(?v) AS ?b) { ?s :price ?v }", whole=True),
    Query("first label", "SELECT (MIN(?l) AS ?a) { ?s rdfs:label ?l }", whole=True),
    Query("different objects", "SELECT (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o }", whole=True),
    Query(
        "datatypes",
        "SELECT ?d (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY (DATATYPE(?o) AS ?d)",
        whole=True,
    ),
    Query(
        "dearest of each class",
        "SELECT ?c (MAX(?v) AS ?n) { ?s a ?c ; :price ?v } GROUP BY ?c",
        whole=True,
    ),
    Query(
        "first label of each tag",
        "SELECT ?t (MIN(?l) AS ?n) { ?s :tag ?t ; rdfs:label ?l } GROUP BY ?t",
        whole=True,
    ),
    Query(
        "dearest items", "SELECT ?s ?v { ?s :price ?v } ORDER BY DESC(?v) LIMIT 10", "top", "v", whole=True
    ),
    Query("items by label", "SELECT ?s ?l { ?s rdfs:label ?l } ORDER BY ?l LIMIT 10", "top", "l", whole=True),
    Query(
        "latest items with prices",
        "SELECT ?s ?d ?v { ?s :added ?d ; :price ?v } ORDER BY DESC(?d) LIMIT 10",
        "top",
        "d",
        whole=True,
    ),
    Query("cheap items", "SELECT (COUNT(*) AS ?n) { ?s :price ?v FILTER(?v < 100) }", whole=True),
    Query(
        "comments with a word",
        'SELECT (COUNT(*) AS ?n) { ?s rdfs:comment ?c FILTER(CONTAINS(LCASE(?c), "bake")) }',
        whole=True,
    ),
    Query(
        "comments by a pattern",
        'SELECT ?s ?c { ?s rdfs:comment ?c FILTER(REGEX(?c, "^(ba|ke).*(ra|si) to$")) }',
        whole=True,
    ),
    Query(
        "labels in a language",
        'SELECT (COUNT(*) AS ?n) { ?s rdfs:label ?l FILTER(LANG(?l) = "de") }',
        whole=True,
    ),
)
"""Large groups, orders and searches of texts, which are evaluated by columns."""

_INSTANCES = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/"
_FROM_PRODUCER = "dataFromProducer1/"


def bsbm(product: str, kind: str, features: tuple[str, str, str], offer: str, review: str) -> list[Query]:
    """The queries of the explore use case, with constants of the data: IRIs in angle brackets."""
    first, second, third = features
    queries = {
        "1 products of a type with features": f"""SELECT DISTINCT ?product ?label {{
            ?product rdfs:label ?label ; a {kind} ; bsbm:productFeature {first}, {second} ;
                bsbm:productPropertyNumeric1 ?value FILTER(?value > 100) }} ORDER BY ?label LIMIT 10""",
        "2 a product": f"""SELECT ?label ?comment ?producer ?feature ?text1 ?text2 ?number1 ?text4 {{
            {product} rdfs:label ?label ; rdfs:comment ?comment ; bsbm:producer ?p ; dc:publisher ?p ;
                bsbm:productFeature ?f ; bsbm:productPropertyTextual1 ?text1 ;
                bsbm:productPropertyTextual2 ?text2 ; bsbm:productPropertyNumeric1 ?number1 .
            ?p rdfs:label ?producer . ?f rdfs:label ?feature
            OPTIONAL {{ {product} bsbm:productPropertyTextual4 ?text4 }} }}""",
        "3 with one feature, not another": f"""SELECT ?product ?label {{
            ?product rdfs:label ?label ; a {kind} ; bsbm:productFeature {first} ;
                bsbm:productPropertyNumeric1 ?x FILTER(?x > 50)
            ?product bsbm:productPropertyNumeric3 ?y FILTER(?y < 1800)
            OPTIONAL {{ ?product bsbm:productFeature {third} . ?product rdfs:label ?other }}
            FILTER(!BOUND(?other)) }} ORDER BY ?label LIMIT 10""",
        "4 one of two features": f"""SELECT DISTINCT ?product ?label ?text {{
            {{ ?product rdfs:label ?label ; a {kind} ; bsbm:productFeature {first}, {second} ;
                bsbm:productPropertyTextual1 ?text ; bsbm:productPropertyNumeric1 ?x FILTER(?x > 30) }}
            UNION
            {{ ?product rdfs:label ?label ; a {kind} ; bsbm:productFeature {first}, {third} ;
                bsbm:productPropertyTextual1 ?text ; bsbm:productPropertyNumeric2 ?y FILTER(?y > 30) }}
            }} ORDER BY ?label OFFSET 5 LIMIT 10""",
        "5 similar products": f"""SELECT DISTINCT ?product ?label {{
            ?product rdfs:label ?label FILTER({product} != ?product)
            {product} bsbm:productFeature ?f ; bsbm:productPropertyNumeric1 ?x1 ;
                bsbm:productPropertyNumeric2 ?x2 .
            ?product bsbm:productFeature ?f ; bsbm:productPropertyNumeric1 ?y1
            FILTER(?y1 < ?x1 + 120 && ?y1 > ?x1 - 120)
            ?product bsbm:productPropertyNumeric2 ?y2 FILTER(?y2 < ?x2 + 170 && ?y2 > ?x2 - 170)
            }} ORDER BY ?label LIMIT 5""",
        "7 offers and reviews": f"""SELECT ?label ?offer ?price ?vendor ?review ?title ?reviewer ?rating {{
            {product} rdfs:label ?label
            OPTIONAL {{ ?offer bsbm:product {product} ; bsbm:price ?price ; bsbm:vendor ?v ;
                dc:publisher ?v ; bsbm:validTo ?date . ?v rdfs:label ?vendor FILTER(?price < 10000) }}
            OPTIONAL {{ ?review bsbm:reviewFor {product} . ?review <http://purl.org/stuff/rev#reviewer> ?r .
                ?r <http://xmlns.com/foaf/0.1/name> ?reviewer .
                ?review dc:title ?title OPTIONAL {{ ?review bsbm:rating1 ?rating }} }} }}""",
        "8 recent reviews in English": f"""SELECT ?title ?text ?reviewer ?rating {{
            ?review bsbm:reviewFor {product} ; dc:title ?title ; <http://purl.org/stuff/rev#text> ?text
            FILTER(LANGMATCHES(LANG(?text), "EN"))
            ?review bsbm:reviewDate ?date ; <http://purl.org/stuff/rev#reviewer> ?reviewer
            OPTIONAL {{ ?review bsbm:rating1 ?rating }} }} ORDER BY DESC(?date) LIMIT 20""",
        "9 a reviewer": f"""DESCRIBE ?x {{ {review} <http://purl.org/stuff/rev#reviewer> ?x }}""",
        "10 cheap offers": f"""SELECT DISTINCT ?offer ?price {{
            ?offer bsbm:product {product} ; bsbm:vendor ?vendor ; dc:publisher ?vendor ;
                bsbm:deliveryDays ?days FILTER(?days <= 5) ?offer bsbm:price ?price }}
            ORDER BY ?price LIMIT 10""",
        "11 everything about an offer": f"""SELECT ?property ?value ?inverse {{
            {{ {offer} ?property ?value }} UNION {{ ?inverse ?property {offer} }} }}""",
        "12 an offer elsewhere": f"""CONSTRUCT {{ {offer} bsbm:ofProduct ?p ; bsbm:label ?label ;
                bsbm:price ?price }}
            {{ {offer} bsbm:product ?p ; bsbm:price ?price . ?p rdfs:label ?label }}""",
    }
    keys = {"8": "date", "10": "price"}
    return [
        Query(
            f"bsbm {name}",
            BSBM_PREFIXES + text,
            "top" if "LIMIT" in text else "all",
            keys.get(name.split()[0], "label"),
        )
        for name, text in queries.items()
    ]
