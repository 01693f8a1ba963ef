"""The hospital of the counting paper: its Tables 1 to 4 as views, and changes to them (`make patients`).

Table 3 is what SQL gets wrong: the join of two tables that leave different columns undefined. The paper
spells the predicate of a diagnosis in two ways, and a name with and without its full stop; here each has one
spelling.
"""

from __future__ import annotations

import pyoxigraph as ox
from rich.console import Console
from rich.table import Table

import sparqlive

HOSPITAL = "http://example.org/hospital/"
PREFIX = f"PREFIX : <{HOSPITAL}>\n"
Term = ox.NamedNode | ox.BlankNode | ox.Literal

# Figure 1, the medications of Section 3.2, and the graph Link of Figure 2, in which :a and :c are doctors.
GRAPH = """
:alice :hasDiagnosis :diabetes ; :treatedBy :carol .
:bob   :hasDiagnosis :hypertension .
:carol a :doctor ; :name "Dr. Carol" .
:hyde  a :doctor ; :name "Dr. Hyde" .
:alice :takes :insulin , :metformin .
:a :treats :b .
:b :favoriteDr :c .
"""

DIAGNOSES = """SELECT ?patient ?diagnosis ?physicianName WHERE {
  ?patient :hasDiagnosis ?diagnosis .
  OPTIONAL { ?patient :treatedBy ?physician . ?physician :name ?physicianName . }
}"""
PHYSICIANS = """SELECT ?physicianName ?patient ?diagnosis WHERE {
  ?physician a :doctor . ?physician :name ?physicianName .
  OPTIONAL { ?patient :treatedBy ?physician . ?patient :hasDiagnosis ?diagnosis . }
}"""
VIEWS = {
    "table 1": DIAGNOSES,
    "table 2": PHYSICIANS,
    "table 3": f"SELECT ?patient ?diagnosis ?physicianName WHERE {{ {{ {DIAGNOSES} }} {{ {PHYSICIANS} }} }}",
    "medicated": "SELECT ?patient ?diagnosis { ?patient :hasDiagnosis ?diagnosis ; :takes ?medication }",
    "hop": "SELECT ?x ?y { ?x :treats|:favoriteDr ?z . ?z :treats|:favoriteDr ?y }",
}

# What happens, the inserted triples, the deleted triples.
EVENTS: tuple[tuple[str, str, str], ...] = (
    ("Table 4: :a no longer treats :b, and :c does", ":c :treats :b .", ":a :treats :b ."),
    ("Alice gets a third medication", ":alice :takes :aspirin .", ""),
    ("Dr. Hyde treats Bob: tables 1 and 2 change, their join does not", ":bob :treatedBy :hyde .", ""),
    (
        "Dr. Carol's name is removed: Alice's row has none now",
        "",
        ':carol :name "Dr. Carol" .',
    ),
    ("Dr. Carol's name is back", ':carol :name "Dr. Carol" .', ""),
)


def triples(turtle: str) -> list[ox.Triple]:
    """The triples of a piece of Turtle, with the hospital's prefix."""
    parsed = ox.parse(f"@prefix : <{HOSPITAL}> .\n{turtle}", format=ox.RdfFormat.TURTLE)
    return [quad.triple for quad in parsed]


def show(term: Term | None) -> str:
    """A term in the notation of the paper."""
    match term:
        case None:
            return "[italic dim]undefined[/]"
        case ox.NamedNode():
            return ":" + term.value.removeprefix(HOSPITAL)
    return str(term)


def rows(view: sparqlive.View, weights: dict[tuple[Term | None, ...], int], signed: bool) -> Table:
    table = Table(title=view.name, title_style="bold", title_justify="left")
    for variable in view.variables:
        table.add_column(f"?{variable}")
    table.add_column("k", justify="right")
    for row, weight in sorted(weights.items(), key=lambda entry: (entry[1] > 0, str(entry[0]))):
        colour = ("green" if weight > 0 else "red") if signed else "none"
        table.add_row(*map(show, row), f"[{colour}]{weight:+d}[/]" if signed else str(weight))
    return table


def main(console: Console | None = None) -> None:
    console = console or Console()
    with sparqlive.open() as session:
        session.load(triples(GRAPH))
        views = [session.view(name, PREFIX + query) for name, query in VIEWS.items()]
        console.print(f"{len(session)} triples, {len(views)} views.\n")
        for view in views:
            console.print(rows(view, view.weights(), signed=False))
        for title, insert, delete in EVENTS:
            epoch = session.apply(insert=triples(insert), delete=triples(delete))
            console.rule(f"epoch {epoch.number}: {title}", align="left")
            for view in views:
                delta = epoch.deltas[view.name].weights()
                if delta:
                    console.print(rows(view, delta, signed=True))
        session.check()
        console.print(f"\ncheck: {len(views)} views equal their recomputation")


if __name__ == "__main__":
    main()
