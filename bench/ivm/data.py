"""The graphs of the benchmark, as lines of N-Quads. The same sizes give the same lines on every machine.

Only `random()` of Python's generator is used: its sequence is the same in all versions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.ivm import railway

Item = TypeVar("Item")
PREFIX = "http://ivm.example/"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


class Dice:
    """Random choices that depend on the seed alone."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        return int(self._random() * limit)

    def chance(self, fraction: float) -> bool:
        return self._random() < fraction

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return sorted(items, key=lambda _: self._random())


def node(kind: str, number: int) -> str:
    return f"<{PREFIX}{kind}/{number}>"


def integer(value: int) -> str:
    return f'"{value}"^^<{_INTEGER}>'


def quad(subject: str, predicate: str, object_: str, graph: str = "") -> str:
    return " ".join(part for part in (subject, f"<{PREFIX}{predicate}>", object_, graph, ".") if part)


def paths(triples: int, dice: Dice) -> list[str]:
    """Four layers of nodes, with random links from each to the next, five for each node."""
    nodes = max(2, triples // 15)
    return [
        quad(node(source, dice.below(nodes)), "link", node(target, dice.below(nodes)))
        for source, target in ("ab", "bc", "cd")
        for _ in range(nodes * 5)
    ]


def stars(triples: int, dice: Dice) -> list[str]:
    """Subjects with up to five properties."""
    lines = []
    for number in range(max(2, triples * 10 // 39)):
        subject = node("item", number)
        lines.append(quad(subject, "colour", node("colour", dice.below(10))))
        lines.append(quad(subject, "weight", integer(dice.below(1000))))
        lines.append(quad(subject, "maker", node("maker", dice.below(50))))
        if dice.chance(0.7):
            lines.append(quad(subject, "note", f'"note {dice.below(100)}"'))
        if dice.chance(0.2):
            lines.append(quad(subject, "flag", node("flag", dice.below(3))))
    return lines


def ecommerce(triples: int, dice: Dice) -> list[str]:
    """Products with features, offers and reviews."""
    products = max(2, triples // 16)
    lines = []
    for number in range(products):
        product = node("product", number)
        lines.append(quad(product, "type", node("type", dice.below(8))))
        lines.append(quad(product, "label", f'"product {number}"'))
        lines.append(quad(product, "producer", node("producer", dice.below(max(2, products // 10)))))
        lines.append(quad(product, "size", integer(dice.below(2000))))
        lines += [quad(product, "feature", node("feature", dice.below(40))) for _ in range(3)]
        for offer in range(number * 2, number * 2 + dice.below(3)):
            lines.append(quad(node("offer", offer), "product", product))
            lines.append(quad(node("offer", offer), "vendor", node("vendor", dice.below(30))))
            lines.append(quad(node("offer", offer), "price", integer(1 + dice.below(5000))))
        for review in range(number * 4, number * 4 + dice.below(5)):
            lines.append(quad(node("review", review), "about", product))
            lines.append(quad(node("review", review), "rating", integer(1 + dice.below(10))))
            lines.append(quad(node("review", review), "by", node("person", dice.below(products))))
    return lines


def social(triples: int, dice: Dice) -> list[str]:
    """People who know each other, write posts with tags, and like posts. A few are known by many."""
    people = max(2, triples // 14)
    lines = []
    for number in range(people):
        person = node("person", number)
        lines.append(quad(person, "name", f'"name {number}"'))
        lines.append(quad(person, "age", integer(15 + dice.below(60))))
        for _ in range(4):
            other = dice.below(people) if dice.chance(0.8) else dice.below(max(2, people // 50))
            if other != number:
                lines.append(quad(person, "knows", node("person", other)))
        if dice.chance(0.8):
            for post in range(number * 3, number * 3 + 1 + dice.below(2)):
                lines.append(quad(node("post", post), "creator", person))
                lines.append(quad(node("post", post), "tag", node("tag", dice.below(20))))
        lines += [quad(person, "likes", node("post", dice.below(people) * 3)) for _ in range(4)]
    return lines


def taxonomy(triples: int, dice: Dice) -> list[str]:
    """Classes below classes, some below two, with labels and instances."""
    classes = max(3, triples // 4)
    lines = []
    for number in range(classes):
        if number:
            lines.append(quad(node("class", number), "broader", node("class", (number - 1) // 4)))
            if dice.chance(0.05):
                lines.append(quad(node("class", number), "broader", node("class", dice.below(number))))
        if dice.chance(0.9):
            lines.append(quad(node("class", number), "label", f'"class {number}"'))
        lines += [
            quad(node("thing", number * 2 + one), "isA", node("class", number))
            for one in range(1 + dice.below(2))
        ]
        if dice.chance(0.2):
            lines.append(quad(node("class", number), "related", node("class", dice.below(classes))))
    return lines


def sensors(triples: int, dice: Dice) -> list[str]:
    """Sensors in rooms, their readings, and their state in a graph for each room."""
    sensors = max(2, triples // 45)
    lines = []
    for number in range(sensors):
        sensor, room = node("sensor", number), number // 5
        lines.append(quad(sensor, "room", node("room", room)))
        lines.append(quad(sensor, "kind", node("kind", number % 3)))
        lines.append(quad(sensor, "state", node("state", dice.below(3)), node("graph", room)))
        for reading in range(number * 20, number * 20 + 14):
            lines.append(quad(node("reading", reading), "of", sensor))
            lines.append(quad(node("reading", reading), "value", integer(dice.below(500))))
            lines.append(quad(node("reading", reading), "at", integer(dice.below(100_000))))
    return lines


DATASETS: dict[str, Callable[[int, Dice], list[str]]] = {
    "paths": paths,
    "stars": stars,
    "ecommerce": ecommerce,
    "social": social,
    "taxonomy": taxonomy,
    "railway": lambda triples, dice: railway.Model(triples, dice).lines(),
    "sensors": sensors,
}


def graph(dataset: str, triples: int) -> list[str]:
    """The distinct lines of a graph, in random order."""
    dice = Dice(f"{dataset} {triples}")
    return dice.shuffled(list(dict.fromkeys(DATASETS[dataset](triples, dice))))
