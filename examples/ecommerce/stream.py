"""Writes a stream of changes to the catalogue: products are added, removed and changed, in batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.ecommerce.products import FEATURES_A_TYPE, TYPES, integer, product, statement, thing, words

_START = datetime(2026, 1, 1, tzinfo=UTC)
_CHANGES_A_BATCH = 4


@dataclass
class Shop:
    """The products after the stream so far; untouched products are as generated."""

    products: int
    seed: int
    chance: random.Random = field(init=False)
    touched: dict[int, list[str]] = field(default_factory=dict)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"stream {self.seed}")
        self.size = self.products

    def batch(self) -> Iterator[str]:
        """The lines of one batch."""
        for _ in range(self.chance.randint(1, _CHANGES_A_BATCH)):
            happens = self.chance.choice((self._comes, self._goes, self._price, self._feature, self._text))
            yield from happens()

    def price_list(self) -> Iterator[str]:
        """A large batch: the first number of half of the products changes."""
        for number in range(0, self.products, 2):
            yield from self._set(number, "productPropertyNumeric1", integer(self.chance.randint(1, 2000)))

    def new_feature(self) -> Iterator[str]:
        """A large batch: three of five products get one more feature."""
        for number in range(self.products):
            if number % 5 < 3 and (lines := self._lines(number)):
                feature = thing(f"ProductFeature{self.chance.randrange(TYPES * FEATURES_A_TYPE)}")
                line = statement(f"Product{number}", "productFeature", feature)
                if line not in lines:
                    lines.append(line)
                    yield f"+ {line}"

    def _lines(self, number: int) -> list[str]:
        return self.touched.setdefault(number, product(number, self.products, self.seed))

    def _some(self) -> int:
        """A random product; sometimes the one that a view asks about."""
        return 0 if self.chance.random() < 0.1 else self.chance.randrange(self.size)

    def _comes(self) -> Iterator[str]:
        number, self.size = self.size, self.size + 1
        yield from (f"+ {line}" for line in self._lines(number))

    def _goes(self) -> Iterator[str]:
        """A product is removed with all its triples, or added again."""
        number = self._some()
        if lines := self._lines(number):
            yield from (f"- {line}" for line in lines)
            self.touched[number] = []
        else:
            self.touched[number] = product(number, self.products, self.seed)
            yield from (f"+ {line}" for line in self.touched[number])

    def _price(self) -> Iterator[str]:
        value = integer(self.chance.randint(1, 2000))
        name = f"productPropertyNumeric{self.chance.choice((1, 2, 3))}"
        yield from self._set(self._some(), name, value)

    def _text(self) -> Iterator[str]:
        """An optional text is set or removed."""
        text = words(self.chance, 5) if self.chance.random() < 0.5 else None
        yield from self._set(self._some(), f"productPropertyTextual{self.chance.choice((4, 5))}", text)

    def _set(self, number: int, name: str, value: str | None) -> Iterator[str]:
        """A product gets a value in place of the present one, or none."""
        lines = self._lines(number)
        if not lines:
            return
        start = statement(f"Product{number}", name, "").rstrip(" .") + " "
        for line in [line for line in lines if line.startswith(start)]:
            lines.remove(line)
            yield f"- {line}"
        if value is not None:
            lines.append(statement(f"Product{number}", name, value))
            yield f"+ {lines[-1]}"

    def _feature(self) -> Iterator[str]:
        """A feature is added or removed."""
        number = self._some()
        lines = self._lines(number)
        if not lines:
            return
        feature = thing(f"ProductFeature{self.chance.randrange(TYPES * FEATURES_A_TYPE)}")
        line = statement(f"Product{number}", "productFeature", feature)
        if line in lines:
            lines.remove(line)
            yield f"- {line}"
        else:
            lines.append(line)
            yield f"+ {line}"


def write_stream(folder: Path, products: int, batches: int, seed: int = 1) -> int:
    """Writes `folder`/*.changes; returns the number of changes.

    Files with `batches` small batches each alternate with files of one large batch.
    """
    shop = Shop(products, seed)
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    small = [shop.batch] * batches
    for number, made in enumerate((small, [shop.price_list], small, [shop.new_feature], small)):
        lines: list[str] = []
        for place, batch in enumerate(made):
            moment = _START + timedelta(minutes=number * batches + place)
            lines += [f"@ {moment:%Y-%m-%dT%H:%M:%SZ}", *batch()]
        path = folder / f"{number:05d}.changes"
        beside = path.with_suffix(".tmp")  # a file of a stream appears whole
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        beside.rename(path)
        count += len(lines) - len(made)
    return count
