"""Small data on DuckDB in this process: evaluations and deltas by the bulk executor, as weights of terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyoxigraph as ox

from sparqlive.bulk.backends.duckdb import DuckDb
from sparqlive.bulk.delta import delta
from sparqlive.bulk.evaluate import ResultTables, evaluate
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import Dictionary, hash_of, term_of
from tests.oracle import Term, Weights


@dataclass
class DuckDbWork:
    """Evaluates over small sets of quads. What is asked for runs at once."""

    connection: duckdb.DuckDBPyConnection = field(
        default_factory=lambda: duckdb.connect(":memory:", config={"threads": "1"})
    )
    dictionary: Dictionary = field(default_factory=Dictionary)
    texts: dict[int, str] = field(default_factory=dict)

    def id_of(self, term: Term | ox.DefaultGraph) -> int:
        number = self.dictionary.id_of(term)
        self.texts[number] = str(term)
        return number

    def quads(self, quads: Iterable[ox.Quad]) -> pa.Table:
        return _table("spog", [tuple(map(self.id_of, quad)) for quad in quads])

    def changes(self, before: set[ox.Quad], after: set[ox.Quad]) -> pa.Table:
        signed = [(quad, 1) for quad in after - before] + [(quad, -1) for quad in before - after]
        return _table("spogw", [(*map(self.id_of, quad), weight) for quad, weight in signed])

    def terms(self, quads: Iterable[ox.Quad]) -> pa.Table:
        """The dictionary of these quads, and of nothing else that this test has seen."""
        found = {term for quad in quads for term in quad if not isinstance(term, ox.DefaultGraph)}
        schema = pa.schema([("id", pa.int64()), ("term", pa.string())])
        columns = {"id": [self.id_of(term) for term in found], "term": [str(term) for term in found]}
        return pa.table(columns, schema=schema)

    def evaluate(self, plan: op.Operator, quads: set[ox.Quad]) -> Weights:
        backend = DuckDb(self.connection)
        return self.weights(evaluate(plan, backend, self.quads(quads), self.terms(quads), self.id_of))

    def delta(self, plan: op.Operator, before: set[ox.Quad], after: set[ox.Quad]) -> Weights:
        changes, terms = self.changes(before, after), self.terms(before | after)
        backend = DuckDb(self.connection)
        return self.weights(delta(plan, backend, self.quads(before), changes, terms, self.id_of))

    def weights(self, result: ResultTables) -> Weights:
        """The rows as terms; checks that each is there once, and that ids are hashes of their texts."""
        texts = dict(self.texts)
        if result.new_terms is not None:
            columns = result.new_terms.to_pydict()
            for number, text in zip(columns["id"], columns["term"], strict=True):
                assert texts.setdefault(number, text) == text
                assert hash_of(text) == number, "the id is the hash of the text"
        found: Weights = {}
        *columns, weights = result.rows.to_pydict().values()
        rows: Iterable[Sequence[int]] = zip(*columns, strict=True) if columns else [()] * len(weights)
        for row, weight in zip(rows, weights, strict=True):
            terms = tuple(None if number == 0 else term_of(texts[number]) for number in row)
            assert weight != 0, "a zero weight"
            assert terms not in found, f"{terms} is there twice"
            found[terms] = weight
        return found


def _table(names: str, rows: Sequence[Sequence[int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(values, pa.int64()) for name, values in zip(names, columns, strict=True)})
