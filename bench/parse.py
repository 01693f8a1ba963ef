"""Parses queries and an update, text to algebra. The first call, which builds the parser, is not timed."""

from __future__ import annotations

from pyoxigraph import Store

from bench.measure import Report, Sizes, duration, middle, run_alone, timed
from sparqlive.sparql.syntax import parse_query, parse_update

SIZES = {"rounds": (300, 30)}
WANTED_SECONDS = 0.005

_PREFIXES = "PREFIX : <http://example.org/> PREFIX foaf: <http://xmlns.com/foaf/0.1/>\n"
QUERIES = {
    "a join with a filter": """SELECT ?item ?label ?price WHERE {
        ?item a :Product ; :label ?label ; :price ?price ; :feature :f1 , :f2 .
        FILTER(?price < 100 && lang(?label) = "en") } ORDER BY ?price LIMIT 10""",
    "OPTIONAL, EXISTS, a path and a group": """SELECT ?person (COUNT(DISTINCT ?friend) AS ?friends) WHERE {
        ?person a foaf:Person ; foaf:knows+ ?friend .
        OPTIONAL { ?person foaf:mbox ?mail FILTER(REGEX(STR(?mail), "@example")) }
        { ?person :age ?age } UNION { GRAPH :ages { ?person :age ?age } }
        FILTER NOT EXISTS { ?person :blocked true } BIND(?age + 1 AS ?next)
        } GROUP BY ?person HAVING(COUNT(?friend) > 2) ORDER BY DESC(?friends)""",
}
UPDATE = """WITH :people DELETE { ?p :age ?old } INSERT { ?p :age ?new }
    WHERE { ?p :age ?old ; foaf:mbox ?m BIND(?old + 1 AS ?new) FILTER(BOUND(?m)) } ; CLEAR GRAPH :old"""


def run(sizes: Sizes) -> Report:
    report = Report()
    _, building = timed(lambda: parse_query("ASK { }"))
    for name, text in QUERIES.items():
        Store().query(_PREFIXES + text)  # another parser takes it too
        seconds = [timed(lambda text=text: parse_query(_PREFIXES + text))[1] for _ in range(sizes["rounds"])]
        report.at_most(f"parse, {name}", middle(seconds), WANTED_SECONDS, duration)
    seconds = [timed(lambda: parse_update(_PREFIXES + UPDATE))[1] for _ in range(sizes["rounds"])]
    report.at_most("parse, an update of two operations", middle(seconds), WANTED_SECONDS, duration)
    report.remarks.append(f"parse: the first text of a process builds the parser, {duration(building)}.")
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
