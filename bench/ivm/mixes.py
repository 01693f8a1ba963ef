"""How a graph changes: a sequence of batches for each mix. The same sizes give the same batches everywhere.

A tenth of a graph's lines is held back at the start, so that what is inserted looks like the rest.
Invariant: a batch deletes only lines that are there, and inserts only lines that are not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import count, islice

from bench.ivm import data, railway

Batch = tuple[list[str], list[str]]
"""Lines to delete and lines to insert."""
EPOCHS = 20


def _single(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """One line goes, one line comes, in turn."""
    while True:
        yield from ((_moved(there, spare, 1), []), ([], _moved(spare, there, 1)))


def _batch(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """A hundredth of the graph at a time, half deleted and half inserted."""
    half = max(5, len(there) // 200)
    while True:
        inserts = _moved(spare, there, half)
        yield _moved(there, spare, half), inserts


def _insert_only(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """Ten lines come; when the last held back has come, nothing more."""
    size = min(10, max(1, len(spare) // EPOCHS))
    while spare:
        yield [], _moved(spare, there, size)


def _delete_heavy(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """Nine lines go for one that comes."""
    while len(there) > 9:
        inserts = _moved(spare, there, 1)
        yield _moved(there, spare, 9), inserts


def _irrelevant(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """Ten lines that no query asks for come, and go."""
    for number in count():
        lines = [
            data.quad(data.node("stranger", number * 10 + one), "unrelated", data.integer(one))
            for one in range(10)
        ]
        yield [], lines
        yield lines, []


def _hot_keys(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """Lines of the three nodes that most lines mention go and come, five at a time."""
    mentions = Counter(part for line in there for part in _nodes(line))
    hot = {name for name, _ in sorted(mentions.items(), key=lambda item: (-item[1], item[0]))[:3]}
    lines = deque(line for line in there if hot.intersection(_nodes(line)))
    while True:
        some = [lines[one] for one in range(min(5, len(lines)))]
        lines.rotate(-5)
        yield some, []
        yield [], some


def _churn(there: deque[str], spare: deque[str]) -> Iterator[Batch]:
    """The same twenty lines go and come again and again."""
    some = list(islice(there, 20))
    while True:
        yield some, []
        yield [], some


MIXES: dict[str, Callable[[deque[str], deque[str]], Iterator[Batch]]] = {
    "single": _single,
    "batch": _batch,
    "insert-only": _insert_only,
    "delete-heavy": _delete_heavy,
    "irrelevant": _irrelevant,
    "hot-keys": _hot_keys,
    "churn": _churn,
}
TRAIN_MIXES = ("inject", "repair")
"""Errors that a query of the railway looks for come, or go. Each query has batches of its own."""
_MOST_ERRORS = 10
"""In a batch; fewer in small models, so that there are enough batches."""


def changing(dataset: str, triples: int, mix: str, query: str) -> tuple[list[str], Iterator[Batch]]:
    """The lines of a graph at the start, and its batches of changes, at most `EPOCHS`."""
    if mix in TRAIN_MIXES:
        model = railway.Model(triples, data.Dice(f"train {triples}"))
        lines = model.lines()
        if mix == "repair":  # small models have few errors
            deletes, inserts = model.inject(query, model.places(query, right=True) // 2)
            gone = set(deletes)
            lines = [line for line in lines if line not in gone] + inserts
        return lines, islice(_of_train(model, mix, query), EPOCHS)
    lines = data.graph(dataset, triples)
    held_back = len(lines) // 10
    there, spare = deque(lines[held_back:]), deque(lines[:held_back])
    return list(there), islice(MIXES[mix](there, spare), EPOCHS)


def _of_train(model: railway.Model, mix: str, query: str) -> Iterator[Batch]:
    change = model.inject if mix == "inject" else model.repair
    size = model.places(query, right=mix == "inject") // EPOCHS
    while any(batch := change(query, max(1, min(size, _MOST_ERRORS)))):
        yield batch


def _moved(source: deque[str], target: deque[str], size: int) -> list[str]:
    """Takes lines from the front of one and puts them at the end of the other."""
    lines = [source.popleft() for _ in range(min(size, len(source)))]
    target.extend(lines)
    return lines


def _nodes(line: str) -> tuple[str, ...]:
    subject, _, object_ = line.split(" ", 2)
    name = object_.split(" ", 1)[0]
    return (subject, name) if name.startswith("<") else (subject,)
