"""Query results, read in the ways of their form: rows, solutions, answers, graphs, tables and deltas.

Terms are decoded only when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from pyoxigraph import Quad

from sparqlive.errors import Error
from sparqlive.live.terms import Terms
from sparqlive.live.window import in_order
from sparqlive.plan.operators import Listing, Operator, kept_of
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.sparql.algebra import Query, Term
from sparqlive.sparql.deadline import paced
from sparqlive.sparql.results import write_answer, write_graph, write_results
from sparqlive.zset.relation import Row
from sparqlive.zset.zset import add_into, without_zeros

TermRow: TypeAlias = tuple[Term | None, ...]
Solution: TypeAlias = dict[str, Term]

GRAPH_FORMS = ("CONSTRUCT", "DESCRIBE")
FORMS = ("SELECT", "ASK", *GRAPH_FORMS)


def decoded(dictionary: Dictionary, items: Iterable[tuple[Row, int]]) -> dict[TermRow, int]:
    term = dictionary.term
    return {tuple([term(number) for number in row]): weight for row, weight in paced(items)}


class Columns:
    """The visible columns of a plan's rows, and their order. Other columns are used only for ordering."""

    def __init__(self, plan: Operator, terms: Terms) -> None:
        self._variables = kept_of(plan).variables
        self._order = plan.order if isinstance(plan, Listing) else ()
        self._width = len(plan.variables)
        self._terms = terms

    def visible(self, rows: Mapping[Row, int]) -> Mapping[Row, int]:
        if len(self._variables) == self._width:
            return rows
        total: dict[Row, int] = {}
        for row, weight in rows.items():
            total[row[: self._width]] = total.get(row[: self._width], 0) + weight
        return without_zeros(total)

    def listed(self, variables: tuple[str, ...], rows: Iterable[tuple[Row, int]]) -> list[Solution]:
        """The solutions in the order of ORDER BY, each as often as its multiplicity."""
        if self._order:
            rows = in_order(rows, self._variables, self._order, self._terms)
        term = self._terms.dictionary.term
        result: list[Solution] = []
        for row, weight in paced(rows):
            solution = {name: term(number) for name, number in zip(variables, row, strict=False) if number}
            result.extend(dict(solution) for _ in range(weight))  # type: ignore[arg-type]
        return result

    @property
    def is_ordered(self) -> bool:
        return bool(self._order)

    def first(self, rows: Iterable[tuple[Row, int]], count: int, sort: bool) -> dict[Row, int]:
        """The first distinct rows; any rows if there is no order."""
        if self._order and sort:
            rows = in_order(rows, self._variables, self._order, self._terms)
        found: dict[Row, int] = {}
        for row, weight in rows:
            shown = row[: self._width]
            if shown not in found and len(found) == count:
                break
            found[shown] = found.get(shown, 0) + weight
        return found


class Readable:
    """The result of a view or of a one-off query, read in the ways of its form.

    Every form has weights. Those of an ASK are `{(): 1}` or `{}`. A graph (CONSTRUCT, DESCRIBE) is a set of
    rows with the columns subject, predicate and object.
    """

    form: str
    variables: tuple[str, ...]

    def weights(self) -> dict[TermRow, int]:
        """Returns each distinct row with its multiplicity; None means unbound."""
        raise NotImplementedError

    def solutions(self) -> list[Solution]:
        """Returns the solutions in the order of ORDER BY, with duplicates, without unbound variables."""
        raise NotImplementedError

    def answer(self) -> bool:
        """Returns the answer of an ASK query."""
        if self.form != "ASK":
            raise Error(f"{_an(self.form)} query has no answer; only ASK has one. Use weights() instead.")
        return bool(self.weights())

    def quads(self) -> Iterator[Quad]:
        """Yields the graph of a CONSTRUCT or DESCRIBE query, as quads of the unnamed graph."""
        if self.form not in GRAPH_FORMS:
            raise Error(
                f"{_an(self.form)} query has no graph; only CONSTRUCT and DESCRIBE have one. "
                f"Use weights() instead."
            )
        for subject, predicate, object_ in self.weights():
            yield Quad(subject, predicate, object_)  # type: ignore[arg-type]

    def serialize(self, syntax: str) -> str:
        """Returns text: json, xml, csv or tsv; for a graph nt, nquads, turtle, trig, rdfxml or jsonld."""
        if self.form in GRAPH_FORMS:
            return write_graph(syntax, self.quads())
        if self.form == "ASK":
            return write_answer(syntax, self.answer())
        return "".join(write_results(syntax, self.variables, paced(self.solutions())))

    def to_arrow(self) -> Any:
        """Returns an Arrow table with one row per distinct row.

        One column per variable holds terms in N-Triples syntax, or null if unbound. The last column,
        `_weight`, holds the multiplicity.
        """
        from sparqlive.sparql.arrow import table  # imported late because it is slow to import

        return table(self.variables, self.weights())

    def to_pandas(self) -> Any:
        """Returns the Arrow table as a pandas data frame."""
        _package("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Returns the Arrow table as a Polars data frame."""
        return _package("polars").from_arrow(self.to_arrow())


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise Error(f"The package {name} is not installed. Run: pip install {name}") from error


def _an(form: str) -> str:
    return f"An {form}" if form == "ASK" else f"A {form}"


class Answer(Readable):
    """The result of a one-off query; reads like a view."""

    def __init__(
        self,
        query: Query,
        plan: Operator,
        rows: Mapping[Row, int],
        terms: Terms,
        epoch: int,
        view: str | None = None,
    ) -> None:
        self.form = query.form
        self.variables = tuple(variable.name for variable in plan.variables)
        self.epoch = epoch
        """The epoch that the answer belongs to."""
        self.view = view
        """The name of the view that the answer was read from, if any."""
        self._rows = rows
        self._columns = Columns(plan, terms)
        self._dictionary = terms.dictionary

    def weights(self) -> dict[TermRow, int]:
        return decoded(self._dictionary, self._columns.visible(self._rows).items())

    def as_delta(self) -> Delta:
        """The whole answer as a delta, marked `reset`."""
        return Delta(self.epoch, self._columns.visible(self._rows), partial(decoded, self._dictionary), True)

    def solutions(self) -> list[Solution]:
        return self._columns.listed(self.variables, self._rows.items())

    def __len__(self) -> int:
        """Number of solutions, counted with their multiplicity."""
        return sum(self._rows.values())


class Delta:
    """The change of a view from one epoch to the next.

    `reset` marks the whole content in place of a change, because the requested changes are no longer kept.
    """

    __slots__ = ("_decode", "epoch", "reset", "rows")

    def __init__(
        self,
        epoch: int,
        rows: Mapping[Row, int],
        decode: Callable[[Iterable[tuple[Row, int]]], dict[TermRow, int]],
        reset: bool = False,
    ) -> None:
        self.epoch = epoch
        self.reset = reset
        self.rows = rows
        self._decode = decode

    @classmethod
    def summed(cls, deltas: Sequence[Delta]) -> Delta:
        """Adds consecutive deltas up to one; changes that cancel each other disappear."""
        if len(deltas) == 1:
            return deltas[0]
        rows = dict(deltas[0].rows)
        for delta in deltas[1:]:
            add_into(rows, delta.rows)
        return cls(deltas[-1].epoch, rows, deltas[0]._decode, deltas[0].reset)

    def weights(self) -> dict[TermRow, int]:
        """Returns added rows (positive weight) and removed rows (negative weight)."""
        return self._decode(self.rows.items())

    def __len__(self) -> int:
        """Number of changed rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __repr__(self) -> str:
        return f"Delta(epoch={self.epoch}, rows={len(self.rows)}{', reset' if self.reset else ''})"
