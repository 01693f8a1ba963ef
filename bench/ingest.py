"""Ingest of N-Triples by Spark on this machine: from one file to sorted files of ids and a dictionary.

The data is a shop: products, offers, people and reviews, ordered by subject, with types, links, numbers,
dates, tagged labels, texts of some sentences and a few blank nodes. The peer loads the
same file into its store on disk, on the same cores. Starting Spark is not counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import RdfFormat, Store

from bench.local_spark import local_spark
from bench.measure import Report, Sizes, duration, number, run_alone, same, timed, watched
from sparqlive.bulk.backends.spark.workers import SparkWorkers
from sparqlive.bulk.ingest.job import IngestResult, ingest

SIZES = {"triples": (10_000_000, 200_000)}
WANTED = 2.0

_SHOP = "http://shop.example.org/"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_A_BLOCK = 20_000
_WORDS = """the of and to in is that with as for was on are by this be from or an which strong light blue
    small large soft fine round heavy quiet warm cotton steel glass paper leather wooden lamp chair table
    shelf cable bottle jacket window garden kitchen travel winter summer really quite never always good better
    best cheap dear quick slow works broke lasted arrived returned again after before two weeks years"""
_DICTIONARY = pa.array(_WORDS.split())

Texts = Any  # an Arrow array of strings
Numbers = npt.NDArray[np.int64]


# The data


def write_triples(path: Path, triples: int, seed: int = 7) -> None:
    """N-Triples lines, `triples` of them; a few are there twice."""
    left = triples
    with path.open("wb") as file:
        for block in _blocks(triples, np.random.default_rng(seed)):
            kept = block.slice(0, min(left, len(block)))
            file.write(_text(kept))
            left -= len(kept)
            if not left:
                return


def _text(lines: pa.StringArray) -> bytes:
    """What an array of strings holds, one after the other."""
    lines = pa.concat_arrays([lines])
    _, ends, data = lines.buffers()
    last = np.frombuffer(ends, np.int32)[lines.offset + len(lines)]
    first = np.frombuffer(ends, np.int32)[lines.offset]
    return bytes(memoryview(data)[first:last])


def _blocks(triples: int, chance: np.random.Generator) -> Iterator[pa.StringArray]:
    """Each block: products, offers of them, people, and their reviews of products."""
    products = 0
    while True:
        known = products + _A_BLOCK
        yield _interleaved(_products(np.arange(products, known), chance))
        yield _interleaved(_offers(np.arange(2 * products, 2 * known), known, chance))
        yield _interleaved(_people(np.arange(products // 2, known // 2), known, chance))
        yield _interleaved(_reviews(np.arange(2 * products, 2 * known), known, chance))
        products = known


def _products(products: Numbers, chance: np.random.Generator) -> list[Texts]:
    subject = _iri("product/", products)
    made_by = _iri("producer/", chance.integers(1 + len(products) // 40, size=len(products)))
    features = [_iri("feature/", _skewed(chance, 5000, len(products))) for _ in range(3)]
    return [
        _lines(subject, _TYPE, _iri("ProductType", _skewed(chance, 300, len(products)))),
        _lines(subject, _LABEL, _tagged(_sentences(chance, len(products), 3, 5), "en")),
        _lines(subject, _predicate("producer"), made_by),
        *(_lines(subject, _predicate("feature"), feature) for feature in features),
        _lines(subject, _predicate("weight"), _typed(_skewed(chance, 2000, len(products)), "integer")),
        _lines(subject, _predicate("comment"), _quoted(_sentences(chance, len(products), 12, 30))),
    ]


def _offers(offers: Numbers, products: int, chance: np.random.Generator) -> list[Texts]:
    subject = _iri("offer/", offers)
    cents = _text_of(chance.integers(100, size=len(offers)) + 100)
    price = _join(_text_of(_skewed(chance, 3000, len(offers))), ".", pc.utf8_slice_codeunits(cents, 1))
    return [
        _lines(subject, _TYPE, _iri("Offer", np.zeros(len(offers), np.int64))),
        _lines(subject, _predicate("product"), _iri("product/", chance.integers(products, size=len(offers)))),
        _lines(subject, _predicate("vendor"), _iri("vendor/", _skewed(chance, 500, len(offers)))),
        _lines(subject, _predicate("price"), _typed(price, "decimal")),
        _lines(subject, _predicate("validTo"), _date(chance, len(offers))),
        _lines(subject, _predicate("deliveryDays"), _typed(chance.integers(1, 15, len(offers)), "integer")),
    ]


def _people(people: Numbers, products: int, chance: np.random.Generator) -> list[Texts]:
    subject = _iri("person/", people)
    address = _join("_:address", _text_of(people))
    mail = _join('"mailto:person', _text_of(people), '@mail.example.org"')
    friends = [_iri("person/", chance.integers(products // 2, size=len(people))) for _ in range(3)]
    return [
        _lines(subject, _TYPE, _iri("Person", np.zeros(len(people), np.int64))),
        _lines(subject, _predicate("name"), _quoted(_sentences(chance, len(people), 2, 3))),
        _lines(subject, _predicate("mail"), mail),
        *(_lines(subject, _predicate("knows"), friend) for friend in friends),
        _lines(subject, _predicate("address"), address),
        _lines(address, _predicate("country"), _iri("country/", _skewed(chance, 60, len(people)))),
    ]


def _reviews(reviews: Numbers, products: int, chance: np.random.Generator) -> list[Texts]:
    subject = _iri("review/", reviews)
    count = len(reviews)
    return [
        _lines(subject, _TYPE, _iri("Review", np.zeros(count, np.int64))),
        _lines(subject, _predicate("reviewOf"), _iri("product/", chance.integers(products, size=count))),
        _lines(subject, _predicate("reviewer"), _iri("person/", chance.integers(products // 2, size=count))),
        _lines(subject, _predicate("rating"), _typed(chance.integers(1, 11, count), "integer")),
        _lines(subject, _predicate("date"), _date(chance, count)),
        _lines(subject, _predicate("title"), _tagged(_sentences(chance, count, 3, 6), "de")),
        _lines(subject, _predicate("text"), _tagged(_sentences(chance, count, 15, 40), "en")),
    ]


def _interleaved(columns: list[Texts]) -> pa.StringArray:
    """A subject's lines one after the other."""
    size, count = len(columns[0]), len(columns)
    order = (np.arange(size)[:, None] + size * np.arange(count)[None, :]).ravel()
    return pa.chunked_array(columns).combine_chunks().take(pa.array(order))


def _lines(subject: Texts, predicate: str, object_: Texts) -> Texts:
    return _join(subject, f" {predicate} ", object_, " .\n")


def _join(*parts: Texts | str) -> Texts:
    return pc.binary_join_element_wise(*parts, "")


def _text_of(numbers: Numbers) -> Texts:
    return pa.array(numbers).cast(pa.string())


def _iri(kind: str, numbers: Numbers) -> Texts:
    return _join(f"<{_SHOP}{kind}", _text_of(numbers), ">")


def _predicate(name: str) -> str:
    return f"<{_SHOP}vocabulary#{name}>"


def _quoted(texts: Texts) -> Texts:
    return _join('"', texts, '"')


def _tagged(texts: Texts, tag: str) -> Texts:
    return _join('"', texts, f'"@{tag}')


def _typed(values: Numbers | Texts, datatype: str) -> Texts:
    texts = _text_of(values) if isinstance(values, np.ndarray) else values
    return _join('"', texts, f'"^^<{_XSD}{datatype}>')


def _date(chance: np.random.Generator, count: int) -> Texts:
    days = pa.array(chance.integers(14_000, 20_000, count), pa.int32()).cast(pa.date32())
    return _typed(days.cast(pa.string()), "date")


def _skewed(chance: np.random.Generator, most: int, count: int) -> Numbers:
    """Numbers below `most`, small ones more often."""
    return (most * chance.random(count) ** 2).astype(np.int64)


def _sentences(chance: np.random.Generator, count: int, shortest: int, longest: int) -> Texts:
    """Some words each, with a space between."""
    lengths = chance.integers(shortest, longest + 1, count)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    words = _DICTIONARY.take(pa.array((len(_DICTIONARY) * chance.random(int(ends[-1]))).astype(np.int64)))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), words), " ")


# The measurement


def run(sizes: Sizes) -> Report:
    triples = sizes["triples"]
    report = Report()
    with tempfile.TemporaryDirectory(prefix="sparqlive-ingest-") as name:
        folder = Path(name)
        file = folder / "data.nt"
        _, making = timed(lambda: write_triples(file, triples))
        with local_spark("4g") as spark:
            ingested, ours, memory = watched(lambda: ingest(SparkWorkers(spark), file, None, folder / "runs"))
        peer, peer_quads = _peer(file, folder / "peer")
        same("ingest", ingested.quads, peer_quads)
        report.ratio_at_least(f"ingest of {triples:,} N-Triples", ours, peer, WANTED)
        report.remarks += _remarks(ingested, file.stat().st_size, memory)
        report.remarks.append(
            f"ingest: {number(triples / ours)} lines a second (peer {number(triples / peer)}); "
            f"making the file took {duration(making)}."
        )
    return report


def _remarks(ingested: IngestResult, size: int, memory: int) -> list[str]:
    phases = ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in ingested.seconds.items())
    written = sum(
        (Path(ingested.target) / path).stat().st_size
        for path in [
            *(made.path for made in ingested.quad_files),
            *(made.path for made in ingested.term_files),
        ]
    )
    return [
        f"ingest: {phases}; {ingested.quads:,} quads in {len(ingested.quad_files)} files, "
        f"{ingested.terms:,} terms in {len(ingested.term_files)}; "
        f"{size >> 20:,} MiB became {written >> 20:,} MiB; "
        f"at most {memory >> 20:,} MiB of memory in all processes, Spark's included.",
    ]


def _peer(file: Path, folder: Path) -> tuple[float, int]:
    """Seconds to load the file into a store on disk, and how many quads that has."""
    store = Store(str(folder))
    _, seconds = timed(lambda: store.bulk_load(path=str(file), format=RdfFormat.N_TRIPLES))
    return seconds, len(store)


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
