"""Views that stay in files in memory: when, why, and how they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparqlive
from sparqlive.engine.budget import memory_limit
from sparqlive.rdf.dictionary import hash_of
from sparqlive.runtime.tuning import DEFAULT
from tests.conftest import examples
from tests.tuned import tune

pytestmark = pytest.mark.usefixtures("in_files")

QUERY = "SELECT ?x ?y { ?x <urn:p> ?z . ?z <urn:q> ?y }"
TOTALS = "SELECT ?y (COUNT(*) AS ?n) { ?x <urn:p> ?z . ?z <urn:q> ?y } GROUP BY ?y"


def edges(start: int, stop: int) -> str:
    return "".join(f"<urn:x{n}> <urn:p> <urn:z{n % 7}> .\n" for n in range(start, stop))


VALUES = "".join(f"<urn:z{n}> <urn:q> <urn:y{n % 3}> .\n" for n in range(7))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sparqlive.Session]:
    with sparqlive.open(tmp_path, memory=0) as session:
        session.apply(insert=VALUES + edges(0, 50))
        yield session


@pytest.mark.parametrize(
    ("value", "expected"), [(5, 5), ("5", 5), ("1.5GB", 1_500_000_000), ("2 MiB", 2 << 20), ("7k", 7000)]
)
def test_sizes(value: int | str, expected: int) -> None:
    assert memory_limit(value) == expected


@pytest.mark.parametrize("value", [-1, "4 apples", "", "GB", True, 1.5, "-3GB", "3iB"])
def test_other_sizes_are_rejected(value: object) -> None:
    with pytest.raises(sparqlive.Error, match="memory must be a number of bytes or a size"):
        sparqlive.open(memory=value)  # type: ignore[arg-type]


def test_the_choice_says_why(session: sparqlive.Session) -> None:
    session.view("view", QUERY)
    epoch = session.apply(insert=edges(50, 51))
    assert epoch.strategy == "duckdb"
    assert "stays in files" in epoch.choices["view"].reason
    assert "stays in files" in session.views["view"].explain()
    assert session.views["view"].stats()["strategy"] == "duckdb"


def test_a_view_that_fits_is_held(tmp_path: Path) -> None:
    with sparqlive.open(tmp_path, memory="1GB") as session:
        session.apply(insert=VALUES)
        assert session.view("view", QUERY)._state.content.is_held


def test_without_a_store_everything_is_held() -> None:
    with sparqlive.open(memory=0) as session:
        assert session.view("view", QUERY)._state.content.is_held


def test_the_same_query_has_one_content(session: sparqlive.Session) -> None:
    one, other = session.view("one", QUERY), session.view("other", QUERY)
    assert one._state.content is other._state.content
    session.drop("one")
    session.apply(insert=edges(50, 60))
    assert len(other) == 60
    session.drop("other")
    session.apply(insert=edges(60, 61))


def test_solutions_are_those_of_their_epoch(session: sparqlive.Session) -> None:
    """Also when the rows are written again before they are read."""
    view = session.view("view", QUERY)
    solutions = view.solutions()
    session.apply(delete=edges(0, 25))
    session.compact()
    assert sum(1 for _ in solutions) == 50
    assert sum(1 for _ in view.solutions()) == len(view) == 25


def test_the_history_is_in_the_store(session: sparqlive.Session) -> None:
    view = session.view("view", QUERY)
    first = session.epoch
    session.apply(insert=edges(50, 53))
    session.apply(delete=edges(0, 2))
    assert [len(delta) for delta in view.changes(first)] == [3, 2]
    assert len(view.weights(at=first)) == 50


@pytest.mark.parametrize("few", [0, 3])
def test_many_rows_are_in_files(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    store = session._writer.persistence.store  # type: ignore[union-attr]
    monkeypatch.setattr(store, "tuning", replace(DEFAULT, catalog_rows=few, file_rows=8))
    monkeypatch.setattr(session._writer, "tuning", replace(DEFAULT, reference_quads=-1))
    view, totals = session.view("view", QUERY), session.view("totals", TOTALS)
    assert len(view) == 50
    assert view.stats()["rows"] == 50
    session.apply(insert=edges(50, 90), delete=edges(0, 10))
    session.check()
    session.compact()
    session.apply(delete=edges(10, 80))
    session.check()
    assert len(view) == 10
    assert sum(int(row[1].value) for row in totals.weights()) == 10  # type: ignore[union-attr]


def test_check_names_the_rows_that_differ(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = session.view("view", QUERY)
    monkeypatch.setattr(session._writer, "tuning", replace(DEFAULT, reference_quads=-1))
    store = session._writer.persistence.store  # type: ignore[union-attr]
    row = next(view._state.content.items())[0]
    with store.catalog.transaction():
        store.catalog.add_delta(view._state.content.name, session.epoch + 1, 2, {row: 1})
    with pytest.raises(sparqlive.CheckFailed, match=r"in 1 rows: .*occurs 1 times too often"):
        session.check()


def test_a_reader_streams_and_checks_too(
    session: sparqlive.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.view("view", QUERY)
    with sparqlive.open(tmp_path, memory=0, read_only=True) as reader:
        view = reader.views["view"]
        assert not view._state.content.is_held
        assert len(view) == 50
        epoch = session.apply(insert=edges(50, 51)).number
        assert next(iter(view.changes(epoch - 1, follow=True))).epoch == epoch
        assert len(view.weights()) == 51
        reader.check()
        monkeypatch.setattr(reader._writer, "tuning", replace(DEFAULT, reference_quads=-1))
        assert reader.check() == {"view": ("duckdb",)}


def failing_spark(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is chosen for all work on files, and fails."""
    strategies = session._writer.strategies

    def fail(quads: int, target: object) -> None:
        raise RuntimeError("no worker\nis left")

    monkeypatch.setattr(strategies, "_file_backend", lambda *_: ("spark", "the work is large."))
    monkeypatch.setattr(strategies, "_spark_on_files", fail)


def test_when_spark_fails_duckdb_goes_on(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_spark(session, monkeypatch)
    view = session.view("view", QUERY)
    epoch = session.apply(insert=edges(50, 52))
    assert epoch.choices["view"].strategy == "duckdb"
    assert "Spark failed: RuntimeError: no worker" in epoch.choices["view"].reason
    assert len(view) == 52
    session.check()


def test_when_a_forced_spark_fails_nothing_changes(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = session.view("view", QUERY)
    failing_spark(session, monkeypatch)
    with pytest.raises(sparqlive.SparkFailed, match="Spark failed: RuntimeError: no worker"):
        session.apply(insert=edges(50, 52), strategy="spark")
    with pytest.raises(sparqlive.SparkFailed):
        session.view("other", TOTALS, strategy="spark")
    assert len(view) == 50
    assert "other" not in session.views
    session.check()


GROWING = {
    "join": QUERY,
    "totals": TOTALS,
    "distinct": "SELECT DISTINCT ?y { ?x <urn:p> ?z . ?z <urn:q> ?y }",
    "product": "SELECT ?x ?y { ?x <urn:p> <urn:z1> . ?y <urn:q> <urn:y1> }",
    "part": "SELECT ?x { ?x <urn:p> <urn:z1> }",
    "ordered": "SELECT ?x { ?x <urn:p> ?z } ORDER BY ?x LIMIT 3",
}


@examples(6)
@given(st.data())
def test_views_beside_views_that_are_not_held(data: st.DataObject) -> None:
    """In any order of epochs, strategies and reads, with a limit that some views exceed when they open."""
    with TemporaryDirectory() as folder:
        limit = data.draw(st.sampled_from([150_000, 310_000, 330_000, 360_000]))
        session = sparqlive.open(Path(folder) / "store", memory=limit)
        session.apply(insert=VALUES)
        for name, query in GROWING.items():
            session.view(name, query)
        added = 0
        for _ in range(data.draw(st.integers(3, 6))):
            kind = data.draw(st.sampled_from(["insert", "insert", "delete", "read", "reopen", "compact"]))
            strategy = data.draw(st.sampled_from(["auto", "live", "duckdb", "rebuild"]))
            before = {name: dict(view.weights()) for name, view in session.views.items()}
            solutions, epoch = session.views["join"].solutions(), session.epoch
            if kind == "insert":
                session.apply(insert=edges(added, added + 300), strategy=strategy)
                added += 300
            elif kind == "delete":
                session.apply(delete=edges(max(0, added - 350), added - 100), strategy=strategy)
            elif kind == "compact":
                session.compact()
            elif kind == "reopen":
                solutions = iter(list(solutions))
                session.close()
                session = sparqlive.open(Path(folder) / "store", memory=limit)
            assert sum(1 for _ in solutions) == sum(before["join"].values())
            for name, view in session.views.items():
                total: Counter[object] = Counter(before[name])
                for delta in view.changes(epoch):
                    assert not delta.reset or name == "distinct"
                    total = Counter() if delta.reset else total
                    for row, weight in delta.weights().items():
                        total[row] += weight
                assert {row: weight for row, weight in total.items() if weight} == view.weights()
            session.check()
        session.close()


NAMED = 'SELECT ?x ?n { ?x <urn:p> ?z BIND(CONCAT("name of ", STR(?x)) AS ?n) }'


def named(start: int, stop: int) -> set[tuple[str, str]]:
    return {(f"<urn:x{n}>", f'"name of urn:x{n}"') for n in range(start, stop)}


def rows_of(session: sparqlive.Session, name: str) -> set[tuple[str, str]]:
    return {(str(row["x"]), str(row["n"])) for row in session.views[name].solutions()}


@pytest.fixture
def few_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than four rows are many, and files have few terms."""
    tune(monkeypatch, few_changes=4, file_rows=14)


def entered_by_columns(session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lists how many computed terms this process takes in at once."""
    counts: list[int] = []
    dictionary = session.dictionary
    enter = dictionary.enter_together

    def counted(numbers: Any, texts: Any) -> Any:
        counts.append(len(numbers))
        return enter(numbers, texts)

    monkeypatch.setattr(dictionary, "enter_together", counted)
    return counts


@pytest.mark.usefixtures("few_computed")
def test_many_computed_terms_become_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparqlive.open(tmp_path, memory=0) as session:
        session.apply(insert=VALUES + edges(0, 50))
        counts = entered_by_columns(session, monkeypatch)
        session.view("named", NAMED)
        session.apply(insert=edges(50, 53), strategy="duckdb")
        session.apply(insert=edges(53, 100), delete=edges(0, 20), strategy="duckdb")
        session.apply(insert=edges(100, 120), strategy="rebuild")
        assert max(counts) <= 60  # of the batches that were given; 3 of those are computed
        assert rows_of(session, "named") == named(20, 120)
        session.check()
        session.compact()
        assert rows_of(session, "named") == named(20, 120)
    with sparqlive.open(tmp_path, memory=0) as session:
        assert rows_of(session, "named") == named(20, 120)
        session.view("again", f"{NAMED[:-1]} FILTER(STRENDS(?n, '7')) }}")
        assert rows_of(session, "again") == {row for row in named(20, 120) if row[1].endswith('7"')}
        session.check()


@pytest.mark.usefixtures("few_computed")
@pytest.mark.parametrize("count", [3, 50])
def test_computed_terms_never_share_an_id(tmp_path: Path, count: int) -> None:
    """The id of a computed term stands for another term already."""
    with sparqlive.open(tmp_path, memory=0) as session:
        taken = hash_of('"name of urn:x2"')
        session.dictionary._claim(taken, "<urn:owner>")
        session.dictionary.load_exceptions({"<urn:owner>": taken})
        session.apply(insert=VALUES + edges(0, count))
        session.view("named", NAMED)
        assert rows_of(session, "named") == named(0, count)
        assert session.dictionary.text(taken) == "<urn:owner>"
        session.apply(delete=edges(2, 3))
        session.apply(insert=edges(2, 3))
        session.check()
    with sparqlive.open(tmp_path, memory=0) as session:
        assert rows_of(session, "named") == named(0, count)


@pytest.mark.usefixtures("few_computed")
def test_computed_terms_of_a_failed_epoch_are_not_kept(
    session: sparqlive.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.view("named", NAMED)
    store = session._writer.persistence.store  # type: ignore[union-attr]
    before = store.term_runs()

    def fail(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "write", fail)
        with pytest.raises(sparqlive.StoreFailed, match="no space"):
            session.apply(insert=edges(50, 100), strategy="duckdb")
    assert store.term_runs() == before
    session.apply(insert=edges(50, 100), strategy="duckdb")
    assert rows_of(session, "named") == named(0, 100)
