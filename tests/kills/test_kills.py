"""Single kills at chosen moments, on a master with two workers. The store's runs are behind a link."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kills.cluster import Cluster, cluster
from tests.kills.writer import inspect

SEED = 11


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store's directory, with its runs behind a link."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "runs").symlink_to(tmp_path / "shared", target_is_directory=True)
    return tmp_path / "store"


def test_a_worker_dies_during_the_load(two_workers: Cluster, store: Path) -> None:
    driver = two_workers.driver(store, "-", two_workers.master, SEED, 3)
    driver.wait_until(lambda: any((store / "runs").glob("*/ingest/parts/*")), "part of the load")
    two_workers.kill_worker(0)
    two_workers.replace_worker(0)
    driver.finish()
    assert inspect(store, SEED, 3) == 3
    assert list((store.parent / "shared").rglob("*.parquet")), "runs are behind the link"


def test_a_worker_dies_during_an_epoch(two_workers: Cluster, store: Path) -> None:
    driver = two_workers.driver(store, "-", two_workers.master, SEED, 5)
    for epoch in (2, 3):
        driver.wait_for(f"begin {epoch}")
        time.sleep(0.3 * epoch)
        two_workers.kill_worker(epoch % 2)
        two_workers.replace_worker(epoch % 2)
        driver.wait_for(f"epoch {epoch}")
    driver.finish()
    assert inspect(store, SEED, 5) == 5


def test_the_driver_dies_during_a_commit(two_workers: Cluster, store: Path) -> None:
    """Before a step of its commits: the first, one in the middle, one of a later commit."""
    acknowledged = 0
    for step in (1, 7, 40):
        driver = two_workers.driver(store, "-", two_workers.master, SEED, acknowledged + 20, step)
        driver.wait_for_end()
        assert driver.lines[-1] != "end", "it was killed"
        acknowledged = inspect(store, SEED, max(acknowledged, driver.epoch()))
    two_workers.driver(store, "-", two_workers.master, SEED, acknowledged + 1).finish()
    assert inspect(store, SEED, acknowledged + 1) == acknowledged + 1
