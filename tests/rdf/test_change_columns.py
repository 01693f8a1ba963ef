"""Files of changes by columns: the same batches, last words, epochs and errors as by rows."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad

import sparqlive
from sparqlive.rdf import change_columns
from sparqlive.rdf.change_columns import EncodedBatch, parse_batches, read_batches
from sparqlive.rdf.changes import Batch, opened, parse_changes
from sparqlive.rdf.dictionary import Dictionary
from sparqlive.runtime.tuning import DEFAULT
from tests.conftest import times

# One quad in several spellings: the last word is on the quad, however it is written.
STATEMENTS = [
    *(f"<http://e.org/s{n}> <http://e.org/p{n % 2}> <http://e.org/o{n % 3}> ." for n in range(5)),
    "<http://e.org/s1> <http://e.org/p1> <http://e.org/o1> <http://e.org/g> .",
    "_:b1 <http://e.org/p0> _:b2 .",
    "_:b1 <http://e.org/p0> _:b2 _:g .",
    '<http://e.org/s1> <http://e.org/p0> "a \\"b\\" c"@en .',
    '<http://e.org/s1> <http://e.org/p0> "a \\"b\\" c"@EN .',
    '<http://e.org/s1> <http://e.org/p0> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    '<http://e.org/s1> <http://e.org/p0> "x"^^<http://www.w3.org/2001/XMLSchema#string> .',
    '<http://e.org/s1> <http://e.org/p0> "x" .',
    '<http://e.org/s1> <http://e.org/p0> "\\u0078" . # the same',
    "<http://e.org/s1>  <http://e.org/p0>\t<http://e.org/o1>   .  ",
    '<http://e.org/ä> <http://e.org/p0> "ü . + - @" .',
]
PLAIN = ("", "# a comment", "#", "  ", "\t# indented")
STARTS = ("@", "@ 2026-01-01T00:00:00Z", "  @", "@ 2026-01-01")
FAULTS = (
    "+ <http://e.org/s> <http://e.org/p> .",
    "+ <a <http://e.org/p> <http://e.org/o> .",
    "+<http://e.org/s> <http://e.org/p> <http://e.org/o> .",
    "* <http://e.org/s> <http://e.org/p> <http://e.org/o> .",
    "+ # nothing",
    "+",
    "-  ",
    "@ yesterday",
    "@prefix",
    '+ "s" <http://e.org/p> <http://e.org/o> .',
    "+ <http://e.org/s> <http://e.org/p> <<( <http://e.org/s> <http://e.org/p> <http://e.org/o> )>> .",
    "+ <a:s> <a:p> <a:o> . <a:s> <a:p> <a:o> .",
    "+ <a:s> <a:p> <a:o> .\r<a:s> <a:p> <a:o> .",
    '+ <http://e.org/s> <http://e.org/p> "\udcff" .',
    "# \udcff",
)


def random_text(rng: random.Random, faults: int = 0) -> bytes:
    """A file of several batches; the same few quads come and go in it again and again."""
    lines = [f"{rng.choice('+-')} {rng.choice(STATEMENTS)}" for _ in range(rng.randrange(1, 60))]
    for texts, count in ((PLAIN, 3), (STARTS, rng.randrange(4)), (FAULTS, faults)):
        for _ in range(count):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(texts))
    if rng.random() < 0.2:
        lines[rng.randrange(len(lines))] = f"  +\t{STATEMENTS[0]}"
    end = rng.choice(("\n", "\n", "\r\n"))
    text = end.join(lines) + rng.choice(("", end))
    return text.encode(errors="surrogateescape")


BY_COLUMNS = replace(DEFAULT, column_bytes=0)


@pytest.fixture(params=[7, 100, 1 << 20])
def by_columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch goes by columns, in blocks of one line, a few lines, or all lines."""
    monkeypatch.setattr(change_columns, "_BLOCK_BYTES", request.param)


def outcome(
    batches: Iterable[Batch | EncodedBatch], kinds: list[type] | None = None
) -> tuple[list[object], str | None]:
    """The changes, time and line of each batch, and the error at the end. `kinds` gets the batches' types."""
    found: list[object] = []
    try:
        for batch in batches:
            found.append((last_words(batch), batch.time, batch.line))
            if kinds is not None:
                kinds.append(type(batch))
    except sparqlive.Error as error:
        return found, f"{type(error).__name__}: {error}"
    return found, None


def read_by_rows(file: Path) -> Iterator[Batch]:
    with opened(file) as stream:
        yield from parse_changes(stream, str(file))


def last_words(batch: Batch | EncodedBatch) -> dict[Quad, int]:
    if isinstance(batch, Batch):
        return dict.fromkeys(batch.insert, 1) | dict.fromkeys(batch.delete, -1)
    words: dict[Quad, int] = {}
    dictionary = Dictionary()
    for part, weights in batch.parts:
        assert dictionary.enter_columns(part.ids, part.texts).tolist() == part.ids.tolist()
        numbers = zip(*(column.tolist() for column in part.quads), strict=True)
        words.update(zip(dictionary.quads(numbers), weights.tolist(), strict=True))  # type: ignore[arg-type]
    return words


@pytest.mark.usefixtures("by_columns")
@pytest.mark.parametrize("faults", [0, 1, 2])
def test_batches_and_errors_are_those_of_rows(faults: int) -> None:
    rng = random.Random(faults)
    encoded = 0
    for _ in range(times(40, 200)):
        text = random_text(rng, faults)
        graph = rng.choice((None, NamedNode("http://e.org/g")))
        rows = outcome(parse_changes(io.BytesIO(text), "x.changes", graph))
        kinds: list[type] = []
        assert (
            outcome(parse_batches(io.BytesIO(text), "x.changes", {}, graph, tuning=BY_COLUMNS), kinds) == rows
        ), text
        encoded += kinds.count(EncodedBatch)
    assert encoded > times(8, 40), "hardly any batch was read by columns"


@pytest.mark.usefixtures("by_columns")
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
def test_epochs_are_those_of_rows(tmp_path: Path, kept: bool) -> None:
    """Numbers, counts of ignored changes, views and quads; with and without a source's assertions."""
    rng = random.Random(5)
    query = "SELECT ?s (COUNT(*) AS ?n) { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } } GROUP BY ?s"
    paths = [tmp_path / name if kept else None for name in ("rows", "columns")]
    (tmp_path / "asserted.ttl").write_text("<http://e.org/s1> <http://e.org/p1> <http://e.org/o1> .")
    with sparqlive.open(paths[0]) as one, sparqlive.open(paths[1]) as other:
        for session in (one, other):
            session.view("view", query)
        for number in range(30):
            if number == 20:
                for session in (one, other):
                    session.source("file", str(tmp_path / "asserted.ttl"), name="source").refresh()
            file = tmp_path / f"{number}.changes"
            file.write_bytes(random_text(rng))
            pairs = zip(
                read_by_rows(file),
                read_batches(file, other.dictionary.exceptions, tuning=BY_COLUMNS),
                strict=True,
            )
            for rows, columns in pairs:
                by_rows = one.apply(insert=rows.insert, delete=rows.delete)
                by_columns = other.apply_batch(columns)
                for name in ("number", "inserted", "deleted", "ignored"):
                    assert getattr(by_rows, name) == getattr(by_columns, name), name
                assert by_rows.deltas["view"].weights() == by_columns.deltas["view"].weights()
        assert set(one.quads()) == set(other.quads())
        other.check()


@pytest.mark.parametrize("ending", ["changes", "changes.gz", "rdfp"])
def test_only_large_batches_of_large_files_are_read_by_columns(tmp_path: Path, ending: str) -> None:
    signs = {"+": "A", "-": "D"} if ending == "rdfp" else {"+": "+", "-": "-"}
    large = [f'{signs["+"]} <http://e.org/s{n}> <http://e.org/p> "{n}" .' for n in range(50_000)]
    marks = ("TX .", "TC .") if ending == "rdfp" else ("@", "# end")
    texts = [marks[0], *large, marks[1], marks[0], large[0], f"{signs['-']}{large[1][1:]}", marks[1]]
    data = "\n".join(texts).encode()
    file = tmp_path / f"some.{ending}"
    file.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    first, second = read_batches(file, {})
    assert isinstance(first, EncodedBatch) == (ending != "rdfp")
    assert isinstance(second, Batch)
    assert last_words(first) == last_words(next(read_by_rows(file)))
    assert (len(second.insert), len(second.delete)) == (1, 1)


def test_a_batch_of_a_stream_is_applied_once(tmp_path: Path) -> None:
    (tmp_path / "x.changes").write_text("".join(f"+ {statement}\n" for statement in STATEMENTS))
    with sparqlive.open() as session:
        [batch] = read_batches(tmp_path / "x.changes", {}, tuning=BY_COLUMNS)
        assert isinstance(batch, EncodedBatch)
        assert session.apply_batch(batch, batch=("stream", 1)).inserted == 13
        assert session.apply_batch(batch, batch=("stream", 1)).inserted == 0
        assert session.epoch == 1
        with pytest.raises(sparqlive.Error, match="strategy must be one of"):
            session.apply_batch(batch, strategy="fast")  # type: ignore[arg-type]


def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    lines = "".join(
        f"+ <http://e.org/{random.random()}> <http://e.org/p> <http://e.org/o> .\n" for _ in range(20_000)
    )
    file = tmp_path / "x.changes.gz"
    file.write_bytes(gzip.compress(lines.encode())[:-500])
    with pytest.raises(sparqlive.Error, match="cannot be read"):
        list(read_batches(file, {}))
