"""Answers of both sides to one query: read to the last solution, and compared.

Invariant: what is compared has been read as terms on both sides, so a fast wrong answer is noticed.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyoxigraph import NamedNode, Quad, Store

import sparqlive
from bench.explore_data import Query
from bench.measure import same

Digest = tuple[int, int]
"""The number of rows, and a checksum that does not depend on their order."""


def ours(session: sparqlive.Session, text: str) -> Any:
    return content(session.query(text))


def content(answer: Any) -> Any:
    """All that an answer or a view says."""
    if answer.form == "ASK":
        return answer.answer()
    if answer.form in ("CONSTRUCT", "DESCRIBE"):
        return list(answer.quads())
    return answer.solutions()


def peers(store: Store, text: str, *, union: bool = False) -> Any:
    result: Any = store.query(text, use_default_graph_as_union=union)
    return bool(result) if text.partition("{")[0].rstrip().endswith("ASK") else list(result)


def warm_up() -> None:
    """Imports what any session needs, so that no measurement pays for it."""
    with tempfile.TemporaryDirectory() as folder, sparqlive.open(folder) as session:
        session.view("join", "SELECT ?a ?c { ?a <x:p> ?b . ?b <x:p> ?c }")
        session.apply(insert="<x:a> <x:p> <x:b> .")
        ours(session, "DESCRIBE <x:a>")


# Comparing in one process


def check(store: Store, query: Query, found: Any) -> None:
    """Compares our answer with the peer's: all solutions; with a LIMIT their number, and that each is one."""
    result: Any = store.query(query.text)
    if isinstance(found, bool):
        same(query.name, found, bool(result))
    elif found and isinstance(found[0], Quad) and query.answer == "some":
        same(query.name, len(found), sum(1 for _ in result))
        for quad in found:
            same(f"{query.name}: {quad}", Quad(*quad.triple) in store, True)
    elif found and isinstance(found[0], Quad):
        # A description: pyoxigraph's is not concise, so only triples of subjects.
        same(query.name, _triples(result) - _triples(found), Counter())
    elif query.answer == "all":
        same(query.name, _bag(found), _bag(_solution(result, row) for row in result))
    elif query.answer == "top":
        rows = [_solution(result, row) for row in result]
        same(query.name, len(found), len(rows))
        same(
            query.name,
            Counter(str(row.get(query.key)) for row in found),
            Counter(str(row.get(query.key)) for row in rows),
        )
    else:
        same(query.name, len(found), sum(1 for _ in result))
        for row in found[:20]:
            same(f"{query.name}: {row}", bool(store.query(_asked(query.text, row))), True)


def _triples(found: Iterable[Any]) -> Counter[tuple[Any, Any, Any]]:
    return Counter((triple.subject, triple.predicate, triple.object) for triple in found)


def _solution(result: Any, row: Any) -> dict[str, Any]:
    names = [variable.value for variable in result.variables]
    return {name: row[name] for name in names if row[name] is not None}


def _bag(rows: Iterable[dict[str, Any]]) -> Counter[frozenset[tuple[str, str]]]:
    return Counter(frozenset((name, str(term)) for name, term in row.items()) for row in rows)


def _asked(text: str, row: dict[str, Any]) -> str:
    """Whether a row is a solution of the query's pattern."""
    head, _, body = text.partition("{")
    pattern = body.rpartition("}")[0]
    values = " ".join(str(term) for term in row.values() if not isinstance(term, str))
    names = " ".join(f"?{name}" for name in row)
    prologue = head.rpartition("SELECT")[0]
    assert not any("_:" in str(term) for term in row.values() if not isinstance(term, NamedNode))
    return f"{prologue} ASK {{ VALUES ({names}) {{ ({values}) }} {{ {pattern} }} }}"


# Comparing between processes


def digest(found: Any) -> Digest:
    """Of an answer of ours."""
    if isinstance(found, bool):
        return int(found), 0
    return _digest(_words(row) for row in found)


def digest_of_peer(found: Any, *, as_set: bool) -> Digest:
    """Of an answer of pyoxigraph, which repeats what several graphs of a merged default graph have.

    Its solutions do not name their variables: the query lists them in the order of the alphabet.
    """
    if isinstance(found, bool):
        return int(found), 0
    rows: Iterable[str] = map(_words, found)
    return _digest(set(rows) if as_set else rows)


def _words(row: Any) -> str:
    if isinstance(row, dict):
        return " ".join(str(row[name]) for name in sorted(row))
    if hasattr(row, "subject"):
        return f"{row.subject} {row.predicate} {row.object}"
    return " ".join(str(term) for term in row if term is not None)


def _digest(rows: Iterable[str]) -> Digest:
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(hashlib.blake2b(row.encode(), digest_size=8).digest(), "big")
    return count, total % 2**64
