"""The peer of `bench.throughput`: the same orders in pathway, in a process with an interpreter that has it.

Imports nothing of this project. Reads the arrays that `bench.throughput` wrote to a folder, and prints one
line of JSON: the seconds of the batches, the number of logical times, the number of changed rows of the join,
and sum and count for each city.

The orders come from a Python connector with one commit per batch, which makes one logical time per batch. The
clock starts when the first orders are in both results, and stops when the last batch is. With `--wait`, the
connector sends a batch when the results have the one before. Subscribers receive the changes of both results.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pathway as pw


class Orders(pw.Schema):
    order: int = pw.column_definition(primary_key=True)
    customer: int
    value: int


class Customers(pw.Schema):
    customer: int = pw.column_definition(primary_key=True)
    city: int


class Result:
    """Sum and count for each city, and the number of changed rows of the join, as subscribers have them."""

    def __init__(self) -> None:
        self.cities: dict[int, tuple[int, int]] = {}
        self.orders = 0
        self.joined = 0
        self.times = 0
        self.join_times = 0
        self.last_time = 0.0
        self.news = threading.Condition()

    def change_of_join(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        self.joined += 1

    def end_time_of_join(self, _: int) -> None:
        with self.news:
            self.join_times += 1
            self.last_time = time.perf_counter()
            self.news.notify()

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        city, group = row["city"], (row["total"], row["number"])
        self.orders += group[1] if is_addition else -group[1]
        if is_addition:
            self.cities[city] = group
        elif self.cities.get(city) == group:
            del self.cities[city]

    def end_time(self, _: int) -> None:
        with self.news:
            self.times += 1
            self.last_time = time.perf_counter()
            self.news.notify()

    def wait_for_orders(self, count: int) -> None:
        with self.news:
            self.news.wait_for(lambda: self.orders == self.joined == count)
            self.times = self.join_times = self.joined = 0

    def wait_for_times(self, count: int) -> None:
        with self.news:
            self.news.wait_for(lambda: min(self.times, self.join_times) >= count)


class OrderFeed(pw.io.python.ConnectorSubject):
    def __init__(self, folder: Path, batch: int, waits: bool, result: Result) -> None:
        super().__init__()
        self._first = np.load(folder / "orders.npy").T.tolist()
        self._changes = np.load(folder / "changes.npy").T.tolist()
        self._batch = batch
        self._waits = waits
        self._result = result
        self.batches = len(self._changes[0]) // batch
        self.first_batch_at = 0.0

    def run(self) -> None:
        for order, customer, value in zip(*self._first, strict=True):
            self.next(order=order, customer=customer, value=value)
        self.commit()
        self._result.wait_for_orders(len(self._first[0]))
        changes = zip(*self._changes, strict=True)
        self.first_batch_at = time.perf_counter()
        for number in range(1, self.batches + 1):
            for sign, order, customer, value in islice(changes, self._batch):
                if sign > 0:
                    self.next(order=order, customer=customer, value=value)
                else:
                    self.delete(order=order, customer=customer, value=value)
            self.commit()
            if self._waits:
                self._result.wait_for_times(number)


class CustomerFeed(pw.io.python.ConnectorSubject):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._cities = np.load(folder / "cities.npy").tolist()

    def run(self) -> None:
        for customer, city in enumerate(self._cities):
            self.next(customer=customer, city=city)
        self.commit()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--persist", type=Path, help="folder for pathway's persistence")
    options = parser.parse_args()
    result = Result()
    feed = OrderFeed(options.folder, options.batch, options.wait, result)
    orders = pw.io.python.read(feed, schema=Orders, autocommit_duration_ms=None, name="orders")
    customers = pw.io.python.read(
        CustomerFeed(options.folder), schema=Customers, autocommit_duration_ms=None, name="customers"
    )
    joined = orders.join(customers, orders.customer == customers.customer).select(
        orders.order, orders.value, customers.city
    )
    sums = joined.groupby(joined.city).reduce(
        joined.city, total=pw.reducers.sum(joined.value), number=pw.reducers.count()
    )
    pw.io.subscribe(sums, on_change=result.change, on_time_end=result.end_time)
    pw.io.subscribe(joined, on_change=result.change_of_join, on_time_end=result.end_time_of_join)
    persistence = None
    if options.persist is not None:
        persistence = pw.persistence.Config(pw.persistence.Backend.filesystem(options.persist))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=persistence)
    found = {
        "version": pw.__version__,
        "seconds": result.last_time - feed.first_batch_at,
        "times": result.times,
        "joined": result.joined,
        "cities": sorted([city, *group] for city, group in result.cities.items()),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
