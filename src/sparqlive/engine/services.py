"""Asks the endpoints of a query's SERVICEs, under the rules of sources.

Owns what is sent: the group as it was written, and the values that solutions found so far have for its
variables (VALUES), in requests of bounded size. Invariant: all values come from the quads that the rest of
the query reads, of the same epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import islice

from pyoxigraph import BlankNode

from sparqlive.errors import Error, ServiceFailed, Timeout, Unsupported
from sparqlive.live.once import runnable, stream_once
from sparqlive.live.terms import Terms
from sparqlive.plan.operators import Operator, kept_of
from sparqlive.plan.services import columns_of, with_answers
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.deadline import gathers, paced, seconds_left
from sparqlive.sparql import algebra as al
from sparqlive.sparql.algebra import Term, Var

_VALUES_PER_REQUEST = 100
_MOST_CHARACTERS = 200_000
# Beyond these, an endpoint is asked for all its solutions at once.
_MOST_VALUES = 10_000
_MOST_SECONDS = 60.0
# The query's own limit comes first: its error says more.
_MORE_SECONDS = 1.0


class Services:
    """The endpoints of one query. `refusal`: the error if none may be asked."""

    def __init__(
        self,
        query: al.Query,
        plan_of: Callable[[al.Query], Operator],
        quads: Snapshot,
        terms: Terms,
        allow_private: bool,
        refusal: Error | None,
    ) -> None:
        self._query = query
        self._plan_of = plan_of
        self._quads = quads
        self._terms = terms
        self._allow_private = allow_private
        self._refusal = refusal

    def answered(self) -> al.Query:
        """Returns the query with the solutions of its SERVICEs as tables."""
        return with_answers(self._query, self._ask)

    def _ask(self, service: al.Service, around: al.Pattern | None, keys: Sequence[Var]) -> al.Values:
        if self._refusal is not None and not service.silent:
            raise self._refusal
        columns = columns_of(service)
        queries = list(_queries(service, columns, *self._values(around, keys)))
        try:
            rows = self._solutions(service, queries, columns) if queries else ()
        except Timeout:
            raise
        except Error as error:
            if not service.silent:
                raise ServiceFailed(f"SERVICE {service.name}: {error}") from error
            rows = ((None,) * len(columns),)  # Federated Query §2.2
        return al.Values(columns, tuple(rows))

    def _solutions(
        self, service: al.Service, queries: Sequence[str], columns: Sequence[Var]
    ) -> Sequence[tuple[Term | None, ...]]:
        if self._refusal is not None:
            raise self._refusal
        if find_spec("httpx") is None:
            raise Unsupported("SERVICE needs an HTTP client. Run: pip install 'sparqlive[sources]'")
        from sparqlive.web.endpoint import solutions_of
        from sparqlive.web.network import ReachOnce, checked_url

        assert not isinstance(service.name, Var)
        left = seconds_left()
        limit = _MOST_SECONDS if left is None else min(_MOST_SECONDS, left + _MORE_SECONDS)
        reach = ReachOnce(allow_private=self._allow_private, timeout_seconds=limit)
        address = str(checked_url(service.name.value))
        rows = solutions_of(address, queries, [column.name for column in columns], reach)
        gathers(rows)
        return rows

    def _values(
        self, around: al.Pattern | None, keys: Sequence[Var]
    ) -> tuple[Sequence[Var], list[tuple[Term, ...]]]:
        """Returns the different values of some of the keys in the solutions of a pattern.

        Without keys: all solutions of the endpoint are needed.
        """
        if around is None:
            return (), [()]
        projected = al.Distinct(al.Project(around, tuple(keys)))
        plan = self._plan_of(al.Query("SELECT", projected, tuple(keys), self._query.dataset))
        rows = stream_once(runnable(kept_of(plan)), self._quads, self._terms)
        found = [row for row, _ in islice(paced(rows), _MOST_VALUES + 1)]
        solutions = [[self._terms.value(number) for number in row] for row in found]
        bound = [place for place in range(len(keys)) if all(s[place] is not None for s in solutions)]
        if len(found) > _MOST_VALUES or not bound:
            return (), [()]
        terms = ((solution[place].term for place in bound) for solution in solutions)  # type: ignore[union-attr]
        # An endpoint never has a blank node of this session, so a solution with one joins nothing.
        values = dict.fromkeys(
            row for row in map(tuple, terms) if not any(isinstance(term, BlankNode) for term in row)
        )
        return [keys[place] for place in bound], list(values)


def _queries(
    service: al.Service, columns: Sequence[Var], keys: Sequence[Var], values: Sequence[tuple[Term, ...]]
) -> Iterator[str]:
    """The queries that ask an endpoint for the solutions with some values."""
    text = service.text
    assert text is not None
    selected = " ".join(map(str, columns)) or "*"
    for rows in _batches([f"({' '.join(map(_written, row))})" for row in values]):
        known = f"VALUES ({' '.join(map(str, keys))}) {{ {' '.join(rows)} }} " if keys else ""
        yield f"{text.prologue}\nSELECT {selected} WHERE {{ {known}{text.group} }}"


def _batches(rows: Sequence[str]) -> Iterator[Sequence[str]]:
    """Rows in requests of bounded size, unless a single one is larger."""
    start, characters = 0, 0
    for end, row in enumerate(rows):
        characters += len(row)
        if end > start and (end - start == _VALUES_PER_REQUEST or characters > _MOST_CHARACTERS):
            yield rows[start:end]
            start, characters = end, len(row)
    if rows:
        yield rows[start:]


def _written(term: Term) -> str:
    """A term in the syntax of SPARQL, which may decode `\\uXXXX` even after an escaped backslash (§19.2)."""
    return re.sub(r"\\\\([uU])|\\.", lambda m: f"\\\\\\u{ord(m[1]):04X}" if m[1] else m[0], str(term))
