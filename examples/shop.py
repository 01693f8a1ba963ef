"""A small shop: three views, a stream of changes, and the deltas as they happen (`make shop`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

import pyoxigraph as ox

import sparqlive

SHOP = "http://example.org/shop/"
Term = ox.NamedNode | ox.BlankNode | ox.Literal
PREFIX = f"PREFIX : <{SHOP}>\n"

CATALOGUE = f"""
@prefix : <{SHOP}> .
:tea    :price 4 ; :category :drinks ; :stock :full .
:coffee :price 9 ; :category :drinks ; :stock :low .
:cake   :price 3 ; :category :food .
:ann    :bought :tea .
:bob    :bought :cake .
"""

VIEWS = {
    "cheap": "SELECT ?item ?price WHERE { ?item :price ?price FILTER(?price < 5) }",
    "stock": "SELECT ?item ?stock WHERE { ?item :category ?c OPTIONAL { ?item :stock ?stock } }",
    "unsold": "SELECT ?item WHERE { ?item :price ?price FILTER NOT EXISTS { ?who :bought ?item } }",
}

# What happens, the inserted triples, the deleted triples.
STREAM: tuple[tuple[str, str, str], ...] = (
    ("coffee is reduced", ":coffee :price 4 .", ":coffee :price 9 ."),
    ("juice is new in the catalogue", ":juice :price 2 ; :category :drinks .", ""),
    ("the stock of juice is counted", ":juice :stock :full .", ""),
    ("bob buys juice", ":bob :bought :juice .", ""),
    ("ann buys juice as well", ":ann :bought :juice .", ""),
    ("bob returns his juice; ann still has hers", "", ":bob :bought :juice ."),
    ("ann returns hers: now it is unsold", "", ":ann :bought :juice ."),
    ("tea runs low", ":tea :stock :low .", ":tea :stock :full ."),
    ("the price of tea rises", ":tea :price 6 .", ":tea :price 4 ."),
    ("a delivery that is already known", ":juice :stock :full .", ""),
    ("the shelf list of coffee is lost", "", ":coffee :stock :low ."),
    ("cake is sold out and leaves the shop", "", ":cake :price 3 ; :category :food . :bob :bought :cake ."),
)


def triples(turtle: str) -> list[ox.Triple]:
    """The triples of a piece of Turtle, with the shop's prefix."""
    parsed = ox.parse(f"@prefix : <{SHOP}> .\n{turtle}", format=ox.RdfFormat.TURTLE)
    return [quad.triple for quad in parsed]


def show_term(term: Term | None) -> str:
    """A short form of a term; an unbound variable is a dash."""
    match term:
        case None:
            return "–"
        case ox.NamedNode():
            return term.value.removeprefix(SHOP)
        case _:
            return term.value


class Printer:
    """Prints signed rows in columns; in colour only on a terminal."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.colour = out.isatty()

    def line(self, text: str = "") -> None:
        print(text, file=self.out)

    def rows(self, name: str, weights: Iterable[tuple[tuple[Term | None, ...], int]]) -> None:
        """Prints one line per row: the view, the signed weight, the terms."""
        shown = [(tuple(show_term(term) for term in row), weight) for row, weight in weights]
        for row, weight in sorted(shown, key=lambda entry: (entry[1] > 0, entry[0])):
            sign = f"{weight:+d}"
            if self.colour:
                sign = f"\x1b[{32 if weight > 0 else 31}m{sign}\x1b[0m"
            self.line(f"    {name:<7} {sign}  " + "".join(f"{cell:<8}" for cell in row).rstrip())


def main(out: TextIO = sys.stdout) -> None:
    printer = Printer(out)
    with sparqlive.open() as session:
        session.load(triples(CATALOGUE))
        views = {name: session.view(name, PREFIX + query) for name, query in VIEWS.items()}
        printer.line(f"{len(list(session.quads()))} triples, {len(views)} views:")
        for name, view in views.items():
            printer.line(f"  {name}: {VIEWS[name]}")
            printer.rows(name, view.weights().items())
        printer.line()
        last = None
        for title, insert, delete in STREAM:
            epoch = session.apply(insert=triples(insert), delete=triples(delete))
            printer.line(f"epoch {epoch.number:>2}  {title}")
            if epoch.number == last:
                printer.line("    nothing changes, so there is no new epoch")
            last = epoch.number
            for name in views:
                printer.rows(name, epoch.deltas[name].weights().items())
        session.check()
        printer.line()
        printer.line(f"check: {len(views)} views equal their recomputation")


if __name__ == "__main__":
    main()
