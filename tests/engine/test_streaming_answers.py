"""Answers that are read while they are computed: early ends, one epoch, limits, and what queries keep."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Quad, RdfFormat, Store, parse

import sparqlive
from sparqlive.live.terms import Terms
from sparqlive.runtime.tuning import DEFAULT, Tuning
from sparqlive.session import Session
from sparqlive.zset.keyed_relation import RelationSnapshot

BY_COLUMNS = replace(DEFAULT, column_rows=1)
ENDLESS = " . ".join(f"?a{i} <x:p> ?b{i}" for i in range(8))
"""A product of 400 to the power of 8 solutions: reading all of it would never end."""


def data(count: int) -> str:
    lines = []
    for i in range(count):
        lines += [f"<x:i{i}> <x:p> <x:i{(i * 7 + 1) % count}> .", f'<x:i{i}> <x:label> "item {i}" .']
        lines += [
            f"<x:i{i}> <x:type> <x:C{i % 5}> <x:g{i % 3}> .",
            f"<x:i{i}> <x:p> <x:i{i // 2}> <x:g{i % 2}> .",
        ]
    return "\n".join(lines)


def quads_of(text: str) -> list[Quad]:
    return list(parse(text, RdfFormat.N_QUADS))


@pytest.fixture(params=["memory", "disk", "overlay"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(kind: str, tmp_path: Path) -> sparqlive.Session:
    return session_of(kind, tmp_path, DEFAULT)


@pytest.fixture
def session_by_columns(kind: str, tmp_path: Path) -> sparqlive.Session:
    """However few rows there are."""
    return session_of(kind, tmp_path, BY_COLUMNS)


def session_of(kind: str, path: Path, tuning: Tuning) -> sparqlive.Session:
    """The same quads in runs in memory, on disk, and as changes on top of runs."""
    if kind == "disk":
        with sparqlive.open(path) as first:
            first.apply(insert=data(400))
            first.compact()
        return Session(path, tuning=tuning)
    session = Session(tuning=tuning)
    session.load(quads_of(data(400 if kind == "memory" else 390)))
    assert list(session._writer.quads.columns()), "the quads are now in runs"
    if kind == "overlay":
        wanted = set(quads_of(data(400)))
        session.apply(insert=wanted - set(session.quads()), delete=set(session.quads()) - wanted)
    return session


EARLY = (
    f"SELECT * {{ {ENDLESS} }} LIMIT 3",
    f"ASK {{ {ENDLESS} }}",
    f"SELECT ?a0 {{ {ENDLESS} }} LIMIT 3",
    f"SELECT DISTINCT ?a0 {{ {ENDLESS} }} LIMIT 3",
    f"SELECT * {{ {{ {ENDLESS} }} UNION {{ ?x <x:p> ?y }} }} LIMIT 3 OFFSET 2",
    f"SELECT * {{ {ENDLESS} OPTIONAL {{ ?a1 <x:none> ?z }} }} LIMIT 3",
    f"SELECT * {{ ?s <x:label> ?l OPTIONAL {{ {ENDLESS} }} }} LIMIT 3",
    f"SELECT * {{ {ENDLESS} FILTER(?a0 != ?b1) BIND(STR(?a0) AS ?t) }} LIMIT 3",
    f"SELECT ?s {{ ?s <x:label> ?l FILTER EXISTS {{ {ENDLESS} }} }} LIMIT 3",
    f"SELECT ?s {{ ?s <x:label> ?l FILTER NOT EXISTS {{ {ENDLESS} }} }} LIMIT 3",
    f"SELECT * {{ {{ SELECT * {{ {ENDLESS} }} LIMIT 2 }} ?a0 <x:label> ?l }}",
    f"SELECT * {{ {{ SELECT ?a0 {{ {ENDLESS} }} }} ?a0 <x:label> ?l }} LIMIT 3",
    "SELECT * { GRAPH ?g { ?s ?q ?o . ?t ?q ?v . ?u ?q ?w . ?x ?q ?y } } LIMIT 3",
    f"CONSTRUCT {{ ?a0 <x:q> ?b1 }} {{ {ENDLESS} }} LIMIT 3",
    "SELECT * { ?a (<x:p>|^<x:p>)+ ?b . ?c <x:p>+ ?d . ?e <x:p>* ?f } LIMIT 3",
)


@pytest.mark.parametrize("text", EARLY)
def test_the_first_solutions_end_the_search(session: sparqlive.Session, text: str) -> None:
    with session:
        found = session.query(text, timeout_seconds=120)
        count = len(list(found.quads())) if found.form == "CONSTRUCT" else len(found)
        assert count == (1 if found.form == "ASK" else 0 if "NOT EXISTS" in text else count)
        assert count <= 3


SHAPES = (
    *("SELECT * { ?s ?p ?o }", "SELECT ?p ?o { <x:i7> ?p ?o }", "SELECT ?s ?p { ?s ?p <x:i7> }"),
    *("SELECT ?s { ?s <x:p> <x:i3> }", "SELECT ?p { <x:i7> ?p <x:i3> }", "SELECT DISTINCT ?p { ?s ?p ?o }"),
    *("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"),
    *("SELECT * { GRAPH ?g { ?s ?p ?o } }", "SELECT * { GRAPH ?g { <x:i7> ?p ?o } }"),
    *("SELECT * { GRAPH ?g { ?s ?p <x:i3> } }", "SELECT ?g ?s { GRAPH ?g { ?s <x:p> <x:i3> } }"),
    *("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g", "SELECT ?g { GRAPH ?g {} }"),
    *("SELECT ?g ?p (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g ?p", "ASK { <x:i7> ?p <x:i3> }"),
    *("SELECT * { GRAPH <x:g1> { ?s ?p ?o } }", "SELECT * FROM <x:g0> FROM <x:g1> { ?s ?p ?o }"),
    *(
        "SELECT * FROM <x:g0> FROM <x:g1> { ?s ?p <x:i3> }",
        "SELECT * FROM <x:g0> FROM <x:g1> { <x:i7> ?p ?o }",
    ),
    *("SELECT ?c (COUNT(*) AS ?n) FROM <x:g0> FROM <x:g1> FROM <x:g2> { ?s <x:type> ?c } GROUP BY ?c",),
    *("SELECT ?s (COUNT(*) AS ?n) FROM <x:g0> FROM <x:g1> { ?s <x:p> ?c } GROUP BY ?s",),
    *("SELECT ?x { <x:i7> <x:p>+ ?x }", "SELECT ?x { ?x <x:p>* <x:i7> }", "ASK { <x:i7> <x:p>+ <x:i3> }"),
    *("SELECT ?a ?b { ?a <x:p> ?c . ?b <x:p> ?c }", "SELECT * { ?a <x:label> ?l OPTIONAL { ?b <x:p> ?a } }"),
    *("SELECT ?l { ?s <x:label> ?l } ORDER BY ?l LIMIT 7", "SELECT * { ?s !<x:label> ?o . ?o <x:label> ?l }"),
)


@pytest.mark.parametrize("text", SHAPES)
def test_every_kind_of_lookup(session: sparqlive.Session, text: str) -> None:
    """Against pyoxigraph; also the same query again, after the turned runs exist."""
    store = Store()
    store.extend(quads_of(data(400)))
    with session:
        for _ in range(2):
            answer = session.query(text)
            found = store.query(text)
            if answer.form == "ASK":
                assert answer.answer() == bool(found)
                continue
            names = answer.variables
            theirs = Counter(tuple(str(row[name]) for name in names) for row in found)
            ours = Counter(tuple(str(row.get(name)) for name in names) for row in answer)
            assert ours == theirs
            assert sum(answer.weights().values()) == len(answer) == sum(theirs.values())


@pytest.mark.parametrize(
    "text",
    [
        *SHAPES,
        "SELECT ?t ?n { ?s <x:label> ?l . ?s <x:p> ?t OPTIONAL { ?t <x:none> ?n } }",
        "SELECT ?t ?n { ?s <x:p> ?t OPTIONAL { ?t <x:type> ?n } } ORDER BY ?l",
    ],
)
def test_many_rows_are_decoded_by_columns(session_by_columns: sparqlive.Session, text: str) -> None:
    test_every_kind_of_lookup(session_by_columns, text)


@pytest.mark.parametrize("text", ["SELECT * { [] <x:p> [] }", "SELECT ?none { ?s <x:p> ?o }"])
def test_many_solutions_without_terms(session_by_columns: sparqlive.Session, text: str) -> None:
    with session_by_columns as session:
        assert len(list(session.query("SELECT ?s ?o { ?s <x:p> ?o }"))) > session.tuning.column_rows
        assert list(session.query(text)) == [{}] * len(session.query("SELECT ?s ?o { ?s <x:p> ?o }"))


@pytest.mark.parametrize("tuning", [DEFAULT, replace(BY_COLUMNS, block_rows=7)], ids=["rows", "columns"])
def test_a_large_description_follows_its_blank_nodes(tuning: Tuning) -> None:
    text = "".join(
        f'<x:hub> <x:p> <x:i{i}> .\n<x:hub> <x:p> _:b{i} .\n_:b{i} <x:q> _:b{i + 1} .\n_:b{i} <x:q> "{i}" .\n'
        for i in range(40)
    )
    with Session(tuning=tuning) as session:
        session.apply(insert=f"{text}<x:i7> <x:q> <x:other> .")
        found = session.query("DESCRIBE <x:hub>")
        assert len(found) == len(list(found.quads())) == len(set(found.quads())) == 160
        assert set(found.quads()) == set(session.quads()) - set(quads_of("<x:i7> <x:q> <x:other> ."))


FILTERED = (
    'SELECT * { ?s <x:label> ?l FILTER(CONTAINS(?l, "1")) }',
    "SELECT * { ?s ?p ?o FILTER(ISIRI(?o)) }",
    'SELECT ?l { ?s <x:label> ?l FILTER(REGEX(?l, "^item .*7$")) }',
    'SELECT (COUNT(*) AS ?n) { ?s <x:label> ?l FILTER(?l > "item 3") }',
    'ASK { ?s ?p ?o FILTER(?o = "none") }',
    'ASK { ?s ?p ?o FILTER(?o = "item 7") }',
    'SELECT ?s { ?s <x:p> <x:i3> FILTER(STRENDS(STR(?s), "6")) }',
    "SELECT * { ?s ?p ?s FILTER(ISIRI(?s)) }",
    'SELECT * { GRAPH ?g { ?s <x:p> ?o FILTER(STRENDS(STR(?o), "7") && STRENDS(STR(?s), "3")) } }',
    'SELECT * FROM <x:g0> FROM <x:g1> { ?s <x:p> ?o FILTER(STRENDS(STR(?o), "7")) }',
    'SELECT * { ?s ?p ?o FILTER(STRENDS(STR(?s), "77") && ?o != <x:i3>) }',
    'SELECT * { ?s <x:label> ?l . ?s <x:p> ?o FILTER(CONTAINS(?l, "9") && STRENDS(STR(?o), "2")) }',
    'SELECT ?s { ?s <x:label> ?l FILTER(REGEX(?l, "9")) OPTIONAL { ?s <x:p> ?o FILTER(?o != <x:i1>) } }',
    'SELECT ?s { ?s <x:label> ?l FILTER EXISTS { ?t <x:p> ?s FILTER(STRENDS(STR(?t), "9")) } }',
)


@pytest.mark.parametrize("text", FILTERED)
def test_filters_by_columns(session_by_columns: sparqlive.Session, text: str) -> None:
    """Against pyoxigraph, however few rows there are."""
    test_every_kind_of_lookup(session_by_columns, text)


def values(seed: int, kinds: tuple[str, ...]) -> str:
    """Values of one or of several kinds, some of them equal, and some of them errors for SUM."""
    chance = random.Random(seed)
    lines = []
    for i in range(60):
        number = chance.choice((0, 1, 7, 7, 50, -3, 2**40, 2**62, chance.randrange(1000)))
        alike = "a" * chance.choice((0, 7, 8, 9, 300)) + chance.choice(
            ("", "!", "0", "é", "\ufb01", "𝄞", "z")
        )
        forms = {
            "alike": f'"{alike}"{chance.choice(("", "@en", "@de"))}',
            "named alike": f"<x:{alike}>",
            "integer": f'"{number}"^^<{XSD}integer>',
            "padded": f'"00{abs(number)}"^^<{XSD}integer>',
            "decimal": f'"{number}.{chance.randrange(100):02}"^^<{XSD}decimal>',
            "double": f'"{number}.5e0"^^<{XSD}double>',
            "date": f'"20{10 + i % 20}-0{1 + i % 9}-11"^^<{XSD}date>',
            "zoned": f'"2020-01-0{1 + i % 9}Z"^^<{XSD}date>',
            "string": f'"text {number}"',
            "escaped": f'"text \\n {number}"',
            "tagged": f'"text {number}"@{chance.choice(("en", "de"))}',
            "iri": f"<x:i{number}>",
        }
        lines.append(f"<x:s{i}> <x:v> {forms[chance.choice(kinds)]} ; <x:type> <x:C{i % 4}> .")
    return "\n".join(lines)


XSD = "http://www.w3.org/2001/XMLSchema#"
AGGREGATES = " ".join(
    f"({name}({distinct} ?v) AS ?{name.lower()}{len(distinct)})"
    for name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
    for distinct in ("", "DISTINCT")
)
GATHERED = (
    f"SELECT {AGGREGATES} {{ ?s <x:v> ?v }}",
    f"SELECT {AGGREGATES} {{ ?s <x:none> ?v }}",
    f"SELECT {AGGREGATES} {{ ?s <x:v> ?v FILTER(?v > 5) }}",
    f"SELECT ?c (COUNT(*) AS ?n) {AGGREGATES} {{ ?s <x:type> ?c ; <x:v> ?v }} GROUP BY ?c",
    f"SELECT ?c {AGGREGATES} {{ ?s <x:type> ?c OPTIONAL {{ ?s <x:v> ?v FILTER(?v > 5) }} }} GROUP BY ?c",
    f"SELECT ?c {AGGREGATES} {{ ?s <x:type> ?c OPTIONAL {{ ?s <x:none> ?v }} }} GROUP BY ?c",
    "SELECT ?p (COUNT(DISTINCT ?s) AS ?n) (COUNT(DISTINCT *) AS ?m) { ?s ?p ?o } GROUP BY ?p",
    "SELECT (COUNT(DISTINCT ?s) AS ?n) (MAX(?o) AS ?m) { ?s ?p ?o }",
    "SELECT ?d (COUNT(*) AS ?n) { ?s ?p ?v BIND(DATATYPE(?v) AS ?d) } GROUP BY ?d",
    "SELECT ?d (COUNT(?s) AS ?n) { ?s <x:v> ?v } GROUP BY (LANG(?v) AS ?d)",
    "SELECT ?d (COUNT(*) AS ?n) { ?s ?p ?v } GROUP BY (IF(ISIRI(?v), 'iri', STR(DATATYPE(?v))) AS ?d)",
    "SELECT ?d (COUNT(*) AS ?n) (MAX(?l) AS ?m) { ?s <x:v> ?v BIND(YEAR(?v) AS ?d) BIND(STRLEN(?v) AS ?l) } "
    "GROUP BY ?d",
    "SELECT ?d (SUM(?w) AS ?n) { ?s <x:v> ?v BIND(?v AS ?w) BIND(ABS(?w) > 5 AS ?d) } GROUP BY ?d",
    "SELECT ?d ?s { ?s <x:v> ?v BIND(COALESCE(LANG(?v), 'none') AS ?d) } ORDER BY DESC(?d) ?s LIMIT 9",
    "SELECT * { ?s <x:v> ?v } ORDER BY ?v LIMIT 5",
    "SELECT * { ?s <x:v> ?v } ORDER BY DESC(?v) OFFSET 3 LIMIT 5",
    "SELECT ?v { ?s <x:type> ?c ; <x:v> ?v } ORDER BY DESC(?v) ?c LIMIT 7",
    "SELECT * { ?s <x:type> ?c OPTIONAL { ?s <x:v> ?v FILTER(?v > 5) } } ORDER BY ?v LIMIT 30",
    "SELECT * { ?s <x:v> ?v } ORDER BY ?v LIMIT 0",
)


@pytest.mark.parametrize(
    "kinds",
    [
        *(("integer",), ("integer", "padded"), ("integer", "decimal"), ("decimal", "double"), ("string",)),
        *(("date",), ("date", "zoned"), ("string", "tagged"), ("string", "escaped"), ("tagged",)),
        ("integer", "double", "date", "string", "iri"),
        ("date", "string", "escaped", "tagged", "iri"),
        *(("alike",), ("named alike",), ("alike", "escaped", "named alike")),
    ],
    ids=" ".join,
)
def test_many_rows_are_gathered_by_columns(kinds: tuple[str, ...]) -> None:
    """The same as row by row, whatever kinds of values there are."""

    def found(**numbers: int) -> Iterator[list[str]]:
        with Session(tuning=replace(DEFAULT, sorting_rows=20, **numbers)) as session:
            session.load(list(parse(values(len(kinds), kinds), RdfFormat.TURTLE)))
            for text in GATHERED:
                rows = session.query(text).solutions()
                yield sorted(str({name: str(term) for name, term in row.items()}) for row in rows)

    by_rows = list(found(column_rows=10**9))
    assert list(found(column_rows=1)) == by_rows
    assert list(found(column_rows=1, gathered_rows=40)) == by_rows


def test_a_binding_of_datatypes_reads_one_term_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[int] = set()
    value = Terms.value

    def counted(terms: Terms, number: int) -> Any:
        read.add(number)
        return value(terms, number)

    monkeypatch.setattr(Terms, "value", counted)
    kinds = ("integer", "string", "escaped", "tagged", "iri")
    with Session(tuning=BY_COLUMNS) as session:
        session.load(list(parse(values(3, kinds), RdfFormat.TURTLE)))
        text = "SELECT ?d (COUNT(*) AS ?n) { ?s <x:v> ?v } GROUP BY (DATATYPE(?v) AS ?d)"
        assert len(session.query(text).solutions()) == 4
    # By rows it reads some before it counts them; then one for each datatype and language tag, in each piece.
    assert len(read) < 20


def test_lookups_by_object_follow_changes() -> None:
    with sparqlive.open() as session:
        session.load(quads_of(data(400)))
        before = session.query("SELECT ?s { ?s <x:p> <x:i1> }").solutions()
        session.apply(insert="<x:new> <x:p> <x:i1> .", delete=f"{before[0]['s']} <x:p> <x:i1> .")
        count = "SELECT (COUNT(*) AS ?n) { ?s <x:p> <x:i1> }"
        assert session.query(count).solutions()[0]["n"].value == str(len(before))


def test_a_part_with_a_limit_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not looked up for each quad."""
    listed = 0
    rows_before = RelationSnapshot.rows_before

    def counted(relation: RelationSnapshot) -> Any:
        nonlocal listed
        for row in rows_before(relation):
            listed += 1
            yield row

    monkeypatch.setattr(RelationSnapshot, "rows_before", counted)
    with sparqlive.open() as session:
        session.load(quads_of(data(400)))
        for part in (
            "{ SELECT ?s { ?s <x:p> ?x } LIMIT 5 }",
            "{ SELECT DISTINCT ?s { { ?s <x:p> <x:i1> } UNION { ?s <x:p> <x:i2> } } }",
            "{ SELECT ?s { ?s <x:p> <x:i1> OPTIONAL { ?s <x:none> ?n } } ORDER BY ?s LIMIT 3 }",
            "{ SELECT (MIN(?x) AS ?s) { ?x <x:p> <x:i1> } }",
            "{ ?s <x:p> <x:i1> OPTIONAL { ?s <x:none> ?n } }",
        ):
            listed = 0
            assert session.query(f"SELECT ?s ?p ?o {{ {part} ?s ?p ?o }}").solutions()
            assert listed < 50, part


def test_many_lookups_by_object_turn_the_pairs_once() -> None:
    with sparqlive.open() as session:
        session.load(quads_of(data(400)))
        assert list(session._writer.quads.columns()), "the quads are now in runs"
        text = "SELECT ?a ?b { ?a <x:p> ?c . ?b <x:p> ?c }"
        once = Counter(map(str, session.query(text)))
        (part,) = [part for part in session._writer.quads.parts() if part.pairs.has_backward]
        turned = part.backward()
        session.apply(insert="<x:new> <x:p> <x:i1> .", delete="<x:i0> <x:p> <x:i1> .")
        again = Counter(map(str, session.query(text)))
        assert again != once
        assert any("x:new" in row for row in again)
        assert part.backward() is turned


def test_an_answer_belongs_to_one_epoch(session: sparqlive.Session) -> None:
    """Rows that are read late are those of the epoch of the question, whatever was written since."""
    with session:
        before = Counter(session.query("SELECT * { ?s ?p ?o }").weights())
        answer = session.query("SELECT * { ?s ?p ?o }")
        reading = iter(answer)
        first = list(itertools.islice(reading, 5))
        for i in range(50):
            session.apply(insert=f"<x:new{i}> <x:p> <x:i1> .", delete=f'<x:i{i}> <x:label> "item {i}" .')
        if session._writer.persistence is not None:
            session.compact()
        assert len(first) + sum(1 for _ in reading) == sum(before.values())
        assert Counter(answer.weights()) == before
        assert len(session.query("SELECT * { ?s <x:label> ?o }")) == 350


def test_queries_beside_a_writer() -> None:
    """Each epoch swaps one triple for another, so every answer has the same number of rows."""
    with sparqlive.open() as session:
        session.load(quads_of(data(400)))
        done, wrong = threading.Event(), []

        def ask(text: str, expected: int) -> None:
            while not done.is_set():
                count = len(session.query(text))
                if count != expected:
                    wrong.append((text, count))

        texts = {
            "SELECT * { ?s <x:p> ?o }": 400,
            "SELECT * { ?s ?p ?o }": 800,
            "SELECT ?s { ?s ?q <x:o> }": 1,
        }
        session.apply(insert="<x:n0> <x:p> <x:o> .", delete="<x:i0> <x:p> <x:i1> .")
        readers = [threading.Thread(target=ask, args=item) for item in texts.items()]
        for reader in readers:
            reader.start()
        for i in range(300):
            session.apply(insert=f"<x:n{i + 1}> <x:p> <x:o> .", delete=f"<x:n{i}> <x:p> <x:o> .")
        done.set()
        for reader in readers:
            reader.join()
        assert not wrong
        session._writer.quads.check()


def test_a_stream_is_stopped_by_its_limits() -> None:
    with sparqlive.open() as session:
        session.apply(insert=data(400))
        answer = session.query(f"SELECT * {{ {ENDLESS} }}", row_limit=5000, stream=True)
        with pytest.raises(sparqlive.TooLarge, match="5,000"):
            sum(1 for _ in answer)
        with pytest.raises(sparqlive.TooLarge, match="5,000"):
            answer.weights()
        slow = session.query(f"SELECT * {{ {ENDLESS} }}", timeout_seconds=0.3, stream=True)
        with pytest.raises(sparqlive.Timeout, match="time limit"):
            for _ in slow:
                pass


def test_equal_texts_are_planned_once_but_see_new_data_and_views() -> None:
    with sparqlive.open() as session:
        text = "SELECT ?s { ?s <x:p> ?o }"
        assert len(session.query(text)) == 0
        session.apply(insert="<x:a> <x:p> <x:b> .")
        assert len(session.query(text)) == 1
        assert len({str(session.query("SELECT (UUID() AS ?u) {}").solutions()) for _ in range(3)}) == 3
        session.view("v", "CONSTRUCT { ?s <x:q> ?o } { ?s <x:p> ?o }")
        reader = "SELECT * { GRAPH <view:v> { ?s ?p ?o } }"
        assert len(session.query(reader)) == 1
        session.view("v", "CONSTRUCT { ?s <x:q> ?o . ?o <x:q> ?s } { ?s <x:p> ?o }", replace=True)
        assert len(session.query(reader)) == 2


def test_what_is_kept_of_a_query_does_not_grow() -> None:
    text = 'SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s <x:label> ?l FILTER(CONTAINS(?l, "1")) }'
    with Session(tuning=BY_COLUMNS) as session:
        session.load(quads_of(data(40)))
        sizes = []
        for _ in range(3):
            session.query(text).solutions()
            kept = session._registration.planning.planned_before(text, None, None)
            assert kept is not None
            sizes.append(len(kept.runnable._idle[0].program.namespace))
        assert len(set(sizes)) == 1


@pytest.mark.parametrize("most", [10, 50_000])
def test_many_rows_are_grouped_in_bulk(most: int) -> None:
    store = Store()
    store.extend(quads_of(data(400)))
    with Session(tuning=replace(BY_COLUMNS, bulk_groups=most)) as session:
        session.load(quads_of(data(400)))
        for text in (
            "SELECT ?c (COUNT(?s) AS ?n) { GRAPH ?g { ?s <x:type> ?c } ?s <x:p> ?o } GROUP BY ?c",
            "SELECT ?q (COUNT(*) AS ?n) { ?s <x:p> ?o . ?o ?q ?v } GROUP BY ?q ORDER BY DESC(?n)",
            "SELECT (COUNT(DISTINCT ?o) AS ?n) FROM <x:g0> FROM <x:g1> { ?s <x:p> ?o OPTIONAL { ?o ?q ?v } }",
        ):
            rows = Counter(str(sorted(map(str, row))) for row in store.query(text))
            found = session.query(text).solutions()
            assert Counter(str(sorted(map(str, row.values()))) for row in found) == rows
