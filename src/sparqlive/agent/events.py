"""Encodes server-sent events for subscribers.

Owns the format (HTML Standard §9.2). An event has a kind, one line of JSON or the lines of an RDF Patch, and
an id: the reader's position after it, as an epoch. An event without an id leaves the position as it was. An
event after which a reader has no position has an empty id, which makes readers forget theirs: its content is
void, or it has only a part of it.

A large content or change is sent as several events of bounded size. All but the last have an empty id and
`"complete": false`, the last one has `"complete": true`; those after the first are deltas. So every reader
may add up what it gets, and one that loses its connection in between starts from the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from sparqlive.engine.results import Delta
from sparqlive.engine.view import View
from sparqlive.rdf.changes import Batch, write_patch
from sparqlive.rdf.dictionary import DEFAULT_GRAPH
from sparqlive.sparql.results import json_weighted, json_weighted_answer
from sparqlive.zset.blocks import Block

Format: TypeAlias = Literal["json", "patch"]
Ending: TypeAlias = Literal["dropped", "replaced", "failed", "stopping", "behind", "revoked"]

RETRY = b"retry: 1000\n"
"""Browsers reconnect after one second. Sent as a line of the first event, since some readers reject a block
without data."""
# Some readers wrongly take these for line ends. Escaped, they mean the same in JSON and in N-Quads.
_LINE_ENDS = [(end, f"\\u{ord(end):04X}") for end in "\x85\u2028\u2029"]
# After these, a reader that subscribes again starts from the beginning.
_FORGET: tuple[Ending, ...] = ("dropped", "replaced", "failed")


def content(view: View, format_: Format, epoch: int, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The whole content of a view: a snapshot, and if it is large, deltas that complete it."""
    return _parts(view, format_, "snapshot", epoch, blocks)


def delta(view: View, format_: Format, change: Delta) -> Iterator[bytes]:
    """The changes of one or more epochs; a progress event if these cancel out."""
    if not change:
        return iter((progress(change.epoch),))
    return _parts(view, format_, "delta", change.epoch, change.blocks(len(view.variables)))


def progress(epoch: int) -> bytes:
    """The view has not changed up to an epoch."""
    return _event("progress", f'{{"epoch":{epoch}}}', epoch)


def reset(epoch: int, sentence: str) -> bytes:
    """Invalidates everything before; a snapshot follows."""
    return _event("reset", json.dumps({"epoch": epoch, "reason": sentence}, ensure_ascii=False))


def end(ending: Ending, sentence: str) -> bytes:
    """The last event of a stream."""
    data = json.dumps({"reason": ending, "detail": sentence}, ensure_ascii=False)
    return _event("end", data, "" if ending in _FORGET else None)


def _parts(view: View, format_: Format, kind: str, epoch: int, blocks: Iterable[Block]) -> Iterator[bytes]:
    """Events of bounded size. Until the last one, a reader has no position: it holds a part of the rows."""
    is_json = format_ == "json"
    is_first = True
    for part, is_last in _json_parts(view, epoch, blocks) if is_json else _patches(view, blocks):
        if is_json:
            is_whole = is_first and is_last
            part += "}" if is_whole else f',"complete":{"true" if is_last else "false"}}}'
        event = _event(kind if is_first else "delta", part, epoch if is_last else "")
        part = ""  # the reader may take the event slowly
        yield event
        is_first = False


def is_part(event: bytes) -> bool:
    """Whether other events complete a content or a change: until then, a reader has no position."""
    return event.partition(b"data: ")[0].endswith(b"id: \n")


def _json_parts(view: View, epoch: int, blocks: Iterable[Block]) -> Iterator[tuple[str, bool]]:
    """The parts of a content or a change, each with whether it is the last."""
    if view.form == "ASK":
        weights = [weight for block in blocks for weight in block.weights.tolist()]
        return iter(((json_weighted_answer(epoch, weights), True),))
    return json_weighted(view.variables, epoch, blocks, view.texts)


def _patches(view: View, blocks: Iterable[Block]) -> Iterator[tuple[str, bool]]:
    """The same as RDF Patches."""
    decode = view.dictionary.quads
    remaining = iter(blocks)
    block = next(remaining, None)
    while True:
        signed: dict[bool, list[tuple[int, int, int, int]]] = {True: [], False: []}
        for (subject, predicate, object_), weight in () if block is None else block.rows():
            signed[weight > 0].append((subject, predicate, object_, DEFAULT_GRAPH))
        block = next(remaining, None)
        patch = write_patch([Batch(tuple(decode(signed[True])), tuple(decode(signed[False])))])
        yield "".join(patch), block is None
        if block is None:
            return


def _event(kind: str, data: str, identity: int | str | None = None) -> bytes:
    # Both formats escape the line ends in terms, so one line of data is one line of the event.
    if not data.isascii():
        for end, escaped in _LINE_ENDS:
            data = data.replace(end, escaped)
    lines = "".join(f"data: {line}\n" for line in data.removesuffix("\n").split("\n"))
    identified = "" if identity is None else f"id: {identity}\n"
    return f"event: {kind}\n{identified}{lines}\n".encode()
