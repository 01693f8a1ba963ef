"""Query results, read as their form allows: rows, solutions, answers, graphs, tables and deltas.

Terms are decoded only when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import chain, islice
from typing import Any, Literal, TypeAlias

import numpy as np
from pyoxigraph import Quad

from sparqlive.engine.sweeping import HeldDeltas
from sparqlive.errors import Error
from sparqlive.live.terms import Terms
from sparqlive.live.window import in_order, order_of
from sparqlive.numbers import short_repr
from sparqlive.plan.operators import Listing, Operator, kept_of
from sparqlive.rdf.dictionary import UNDEF, Dictionary
from sparqlive.runtime.collector import collector_paused
from sparqlive.runtime.deadline import paced
from sparqlive.sparql import html
from sparqlive.sparql.algebra import Query, Term
from sparqlive.sparql.graphs import write_graph
from sparqlive.sparql.results import write_answer, write_results
from sparqlive.zset.blocks import (
    Block,
    Blocks,
    blocks_of,
    cut,
    large_blocks,
    rows_in,
    sizes,
)
from sparqlive.zset.relation import Row
from sparqlive.zset.run import RunRows
from sparqlive.zset.zset import add_into, without_zeros

TermRow: TypeAlias = tuple[Term | None, ...]
Solution: TypeAlias = dict[str, Term]

GRAPH_FORMS = ("CONSTRUCT", "DESCRIBE")
FORMS = ("SELECT", "ASK", *GRAPH_FORMS)


def decoded(dictionary: Dictionary, rows: Mapping[Row, int]) -> dict[TermRow, int]:
    if len(rows) < dictionary.tuning.column_rows or not next(iter(rows), ()):
        known, term = dictionary.terms.get, dictionary.term
        return {tuple([known(id_) or term(id_) for id_ in row]): weight for row, weight in rows.items()}
    found: dict[TermRow, int] = {}
    with collector_paused():  # it would visit the new terms again and again
        for block in paced(large_blocks(rows)):
            terms = zip(*map(dictionary.terms_of, block.columns), strict=True)
            found.update(zip(terms, block.weights.tolist(), strict=True))
    return found


class Columns:
    """The visible columns of a plan's rows, and their order. Other columns are used only for ordering."""

    def __init__(self, plan: Operator, terms: Terms) -> None:
        self._variables = kept_of(plan).variables
        self._order = plan.order if isinstance(plan, Listing) else ()
        self._width = len(plan.variables)
        self._terms = terms
        self.are_visible = len(self._variables) == self._width
        """Whether all columns are visible."""

    def visible(self, rows: Mapping[Row, int]) -> Mapping[Row, int]:
        if self.are_visible:
            return rows
        total: dict[Row, int] = {}
        for row, weight in rows.items():
            total[row[: self._width]] = total.get(row[: self._width], 0) + weight
        return without_zeros(total)

    def listed(self, blocks: Blocks) -> Iterator[Block]:
        """The visible columns in the order of ORDER BY. Only an order needs all rows at once."""
        if not self._order:
            return (block.narrowed(self._width) for block in blocks())
        return self._sorted(list(paced(blocks())))

    def _sorted(self, blocks: Sequence[Block]) -> Iterator[Block]:
        if not blocks:
            return
        columns = [np.concatenate(parts) for parts in zip(*(block.columns for block in blocks), strict=True)]
        weights = np.concatenate([block.weights for block in blocks])
        if not columns:  # an order of no variables
            yield from blocks
            return
        places = order_of(columns, self._variables, self._order, self._terms)
        start = 0
        for size in sizes():
            if start >= len(places):
                return
            chosen = places[start : start + size]
            yield Block(tuple([column[chosen] for column in columns[: self._width]]), weights[chosen])
            start += size

    def distinct(self, blocks: Blocks) -> Iterator[Block]:
        """The visible columns of distinct rows. Only hidden columns need all rows at once."""
        if len(self._variables) == self._width:
            return blocks()
        return blocks_of(self.visible(dict(rows_in(paced(blocks())))).items(), self._width)

    def listed_rows(self, rows: Iterator[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        """The visible columns of ordered rows; a few rows are put in order one by one."""
        most = self._terms.tuning.column_rows
        few = list(islice(rows, most))
        if len(few) < most:
            ordered = in_order(few, self._variables, self._order, self._terms)
            return ((row[: self._width], weight) for row, weight in ordered)
        blocks = blocks_of(chain(few, rows), len(self._variables))
        return rows_in(self._sorted(list(paced(blocks))))

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
    """The result of a view or of a one-off query, read as its form allows.

    Every form has weights. Those of an ASK are `{(): 1}` or `{}`. A graph (CONSTRUCT, DESCRIBE) is a set of
    rows with the columns subject, predicate and object.
    """

    form: str
    variables: tuple[str, ...]

    def weights(self) -> dict[TermRow, int]:
        """Returns each distinct row with its multiplicity; None means unbound."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """Yields the rows as blocks of ids with weights, in the order of ORDER BY.

        Reads one captured epoch, some rows at a time. Without ORDER BY, only a block is in memory. A row that
        ORDER BY lists at several positions occurs several times.
        """
        raise NotImplementedError

    def distinct_blocks(self) -> Iterator[Block]:
        """Yields the distinct rows as blocks of ids with weights, in any order."""
        raise NotImplementedError

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """Returns the terms of ids in N-Triples syntax."""
        raise NotImplementedError

    def solutions(self) -> Iterable[Solution]:
        """Returns the solutions in the order of ORDER BY, with duplicates, without unbound variables."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Solution]:
        """Yields the solutions; where the content is large, as they are read."""
        raise NotImplementedError

    def answer(self) -> bool:
        """Returns the answer of an ASK query."""
        self._check_answer()
        return bool(self.weights())

    def _check_answer(self) -> None:
        if self.form != "ASK":
            raise Error(f"{_an(self.form)} query has no answer; only ASK has one. Use weights() instead.")

    def quads(self) -> Iterator[Quad]:
        """Yields the graph of a CONSTRUCT or DESCRIBE query, as quads of the unnamed graph."""
        raise NotImplementedError

    def ensure_graph(self) -> None:
        if self.form not in GRAPH_FORMS:
            raise Error(
                f"{_an(self.form)} query has no graph; only CONSTRUCT and DESCRIBE have one. "
                f"Use weights() instead."
            )

    def serialize(self, syntax: str) -> str:
        """Returns text: json, xml, csv or tsv; for a graph nt, nquads, turtle, trig, rdfxml or jsonld."""
        return "".join(self.pieces(syntax))

    def pieces(self, syntax: str) -> Iterator[str]:
        """Yields the text that `serialize` returns, in pieces of bounded size."""
        if self.form in GRAPH_FORMS:
            return write_graph(syntax, paced(self.distinct_blocks()), self.texts)
        if self.form == "ASK":
            return iter((write_answer(syntax, self.answer()),))
        return write_results(syntax, self.variables, paced(self.blocks()), self.texts)

    def to_arrow(self, *, typed: bool = True, weights: bool = False) -> Any:
        """Returns an Arrow table: a column per variable, and a row per solution in the order of ORDER BY.

        A variable whose values all have one datatype has that type: int64 or decimal, decimal, float, double,
        boolean, date, timestamp, string; IRIs are strings without brackets. Others are structs of value, type
        and language. Null is unbound. `typed=False` gives terms in N-Triples syntax. `weights=True` gives
        each distinct row once, with its multiplicity in the column `_weight`. An ASK has a column `answer`.
        """
        return self._tables(typed, weights).table()

    def to_pandas(
        self, *, typed: bool = True, weights: bool = False, terms: Literal["plain", "struct"] = "plain"
    ) -> Any:
        """Returns a pandas data frame: a column per variable, and a row per solution, as in `to_arrow`.

        A variable whose values are all numbers, booleans, dates or date-times has such a column; numbers of
        several datatypes, and decimals, become doubles. All other variables are strings: IRIs without
        brackets, blank nodes as `_:label`, literals as their text, without language tag and datatype. Unbound
        ones are missing. `terms="struct"` gives variables without a single datatype as dicts of value, type
        and language, as `to_arrow` does.
        """
        pandas = _package("pandas")
        from sparqlive.sparql.arrow import data_frame

        return data_frame(self._frame(typed, weights, terms), pandas)

    def to_polars(
        self, *, typed: bool = True, weights: bool = False, terms: Literal["plain", "struct"] = "plain"
    ) -> Any:
        """Returns a Polars data frame with the columns of `to_pandas`; decimals stay decimals."""
        return _package("polars").from_arrow(self._frame(typed, weights, terms))

    def _frame(self, typed: bool, weights: bool, terms: str) -> Any:
        """The Arrow table of a data frame."""
        if terms not in ("plain", "struct"):
            raise Error(f'terms must be "plain" or "struct", not {short_repr(terms)}.')
        if not typed and terms == "struct":
            raise Error('typed=False gives terms in N-Triples syntax. Leave out terms="struct".')
        return self._tables(typed, weights, plain=terms == "plain").table()

    def to_rdflib(self) -> Any:
        """Returns an rdflib Graph for CONSTRUCT and DESCRIBE, an rdflib Result for SELECT and ASK."""
        _package("rdflib")
        from sparqlive.rdf.rdflib_terms import answer_of, graph_of, solutions_of

        if self.form in GRAPH_FORMS:
            return graph_of(self.quads())
        if self.form == "ASK":
            return answer_of(self.answer())
        return solutions_of(self.variables, self.solutions())

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        if self.form == "ASK":
            return html.preformatted("true" if self.answer() else "false")
        rows: Iterable[Sequence[Term | None]]
        if self.form in GRAPH_FORMS:
            rows, noun = (tuple(quad.triple) for quad in self.quads()), "triple"
        else:
            rows, noun = ([one.get(name) for name in self.variables] for one in self), "solution"
        return html.table([f"?{name}" for name in self.variables], rows, noun)

    def _tables(self, typed: bool, weights: bool, plain: bool = False) -> Any:
        """The result as tables, with the distinct rows and their weights if `weights`; without structs if
        `plain`.
        """
        raise NotImplementedError

    def typed_pieces(self, syntax: str, weights: bool = False) -> Iterator[str] | Iterator[bytes]:
        """Yields a table with typed columns as ndjson, arrow (an IPC stream) or parquet; see `to_arrow`."""
        from sparqlive.sparql.arrow import WRITERS

        if syntax not in WRITERS:
            raise Error(f"A table cannot be written as {syntax!r}. Available formats: {', '.join(WRITERS)}.")
        written: Iterator[str] | Iterator[bytes] = WRITERS[syntax](self._tables(True, weights))
        return written


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise Error(f"The package {name} is not installed. Run: pip install {name}") from error


def _an(form: str) -> str:
    return f"An {form}" if form == "ASK" else f"A {form}"


class Answer(Readable):
    """The result of a one-off query, or of a view at an epoch; reads like a view."""

    def __init__(
        self,
        query: Query,
        plan: Operator,
        blocks: Blocks,
        terms: Terms,
        epoch: int,
        view: str | None = None,
        rows: Callable[[], Iterator[tuple[Row, int]]] | None = None,
        why_empty: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`rows`: the content row by row, if it is computed that way; a row may come several times."""
        self.form = query.form
        self.variables = tuple(variable.name for variable in plan.variables)
        self.epoch = epoch
        """The epoch that the answer belongs to."""
        self.view = view
        """The name of the view that the answer was read from, if any."""
        self._blocks = blocks
        self._rows = rows
        self._columns = Columns(plan, terms)
        self._dictionary = terms.dictionary
        self._why_empty = why_empty

    @cached_property
    def hint(self) -> str | None:
        """Why there are no rows: a predicate or class that no triple has, or that other graphs have."""
        return self._why_empty()

    def weights(self) -> dict[TermRow, int]:
        return decoded(self._dictionary, self._columns.visible(self._gathered()))

    def _gathered(self) -> dict[Row, int]:
        """All rows, each once."""
        if self._rows is None:
            return dict(rows_in(self._blocks()))
        total: dict[Row, int] = {}
        for row, weight in self._rows():
            total[row] = total.get(row, 0) + weight
        return total

    def blocks(self) -> Iterator[Block]:
        return self._columns.listed(self._blocks)

    def distinct_blocks(self) -> Iterator[Block]:
        if self._rows is not None:
            return blocks_of(self._columns.visible(self._gathered()).items(), len(self.variables))
        return self._columns.distinct(self._blocks)

    def _tables(self, typed: bool, weights: bool, plain: bool = False) -> Any:
        from sparqlive.sparql.arrow import Tables, answer_tables  # imported late because it is slow to import

        if self.form == "ASK" and not weights:
            return answer_tables(self.answer(), typed)
        blocks: Iterable[Block] = paced(
            self.distinct_blocks() if weights else self._columns.listed(self._blocks)
        )
        return Tables(self.variables, list(blocks), self.texts, typed, weights, plain)

    def texts(self, numbers: Sequence[int]) -> list[str]:
        return self._dictionary.texts(numbers)

    def solutions(self) -> list[Solution]:
        return list(iter(self))  # `list(self)` would count the rows first

    def __iter__(self) -> Iterator[Solution]:
        """Yields the solutions as they are computed; with ORDER BY, once all are."""
        column_rows = self._dictionary.tuning.column_rows
        if self._rows is None:
            blocks = self.blocks()
        else:
            rows = self._rows()
            if self._columns.is_ordered:
                rows = self._columns.listed_rows(rows)
            yield from self._solutions(islice(rows, column_rows))
            blocks = blocks_of(rows, len(self.variables))
        for block in paced(blocks):
            if len(block.weights) < column_rows or not block.columns:
                yield from self._solutions(block.rows())
                continue
            with collector_paused():
                found = self._solutions_of(block)
            for solution, weight in zip(found, block.weights.tolist(), strict=True):
                yield solution
                for _ in range(weight - 1):
                    yield dict(solution)

    def _solutions(self, rows: Iterable[tuple[Row, int]]) -> Iterator[Solution]:
        """The solutions of rows, one by one."""
        terms_in, names = self._dictionary.terms_in, self.variables
        solution: dict[str, Any]
        for row, weight in paced(rows):
            solution = dict(zip(names, terms_in(row)))  # noqa: B905  (an argument takes as long as a term)
            if UNDEF in row:
                solution = {name: term for name, term in solution.items() if term is not None}
            yield solution
            for _ in range(weight - 1):
                yield dict(solution)

    def _solutions_of(self, block: Block) -> list[Solution]:
        """The solutions of many rows, each once."""
        names = self.variables
        found: list[Any] = [dict(zip(names, row)) for row in self._terms_of(block)]  # noqa: B905
        if any((column == UNDEF).any() for column in block.columns):
            found = [{name: term for name, term in one.items() if term is not None} for one in found]
        return found

    def _terms_of(self, block: Block) -> Iterator[tuple[Any, ...]]:
        return zip(*map(self._dictionary.terms_of, block.columns), strict=True)

    def answer(self) -> bool:
        self._check_answer()
        if self._rows is not None:
            return any(True for _ in self._rows())
        return any(len(block.weights) for block in self._blocks())

    def quads(self) -> Iterator[Quad]:
        self.ensure_graph()
        blocks = self.blocks()
        if self._rows is not None:  # a graph is a set: each row counts once
            rows = iter(self._columns.visible(dict(self._rows())).items())
            few = islice(rows, self._dictionary.tuning.column_rows)
            yield from self._dictionary.triples(row for row, _ in few)
            blocks = blocks_of(rows, len(self.variables))
        for block in blocks:
            with collector_paused():
                found = [Quad(*triple) for triple in self._terms_of(block)]
            yield from found

    def __repr__(self) -> str:
        return f"Answer({self.form}, variables={self.variables}, epoch={self.epoch})"

    def __len__(self) -> int:
        """Number of solutions, counted with their multiplicity."""
        return sum(int(block.weights.sum()) for block in self._blocks())


class Decoder:
    """Decodes the terms of a view's deltas, for as long as a delta is referenced."""

    __slots__ = ("dictionary", "held")

    def __init__(self, dictionary: Dictionary, held: HeldDeltas | None) -> None:
        """`held`: records the deltas that are in no history, if terms may be given back."""
        self.dictionary = dictionary
        self.held = held

    def __call__(self, rows: Mapping[Row, int]) -> dict[TermRow, int]:
        return decoded(self.dictionary, rows)

    def hold(self, delta: Delta) -> Delta:
        """Keeps the terms of a delta readable while it is referenced."""
        if self.held is not None and delta.rows:
            self.held.add(delta)
        return delta


class Delta:
    """The change of a view from one epoch to the next.

    `reset` marks the whole content in place of a change, because the requested changes are no longer kept.
    """

    __slots__ = ("__weakref__", "_decode", "epoch", "reset", "rows")

    def __init__(self, epoch: int, rows: Mapping[Row, int], decode: Decoder, reset: bool = False) -> None:
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
        decode = deltas[0]._decode
        return decode.hold(cls(deltas[-1].epoch, rows, decode, deltas[0].reset))

    def blocks(self, width: int) -> Iterator[Block]:
        """Yields the changed rows, of `width` columns, as blocks of ids with weights.

        The delta is referenced until the last block, because its terms stay only that long.
        """
        if type(self.rows) is RunRows and self.rows.run.weights is not None:
            yield from cut(self.rows.run.columns, self.rows.run.weights)
        else:
            yield from blocks_of(self.rows.items(), width)

    def weights(self) -> dict[TermRow, int]:
        """Returns added rows (positive weight) and removed rows (negative weight)."""
        return self._decode(self.rows)

    def _repr_html_(self) -> str:
        """The first changed rows, for notebooks."""
        return html.signed_rows(
            self.weights(), f"epoch {self.epoch}{', whole content' if self.reset else ''}"
        )

    def __len__(self) -> int:
        """Number of changed rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __repr__(self) -> str:
        return f"Delta(epoch={self.epoch}, rows={len(self.rows)}{', reset' if self.reset else ''})"
