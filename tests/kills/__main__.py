"""Kills workers and the driver at random moments, and checks the store after each: `make test-kills`.

A cluster of a master and two workers runs one store for as many lives of a driver as it takes. Counts kills,
not seconds; prints what was killed, which epoch the store had then, and how often Spark gave up.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kills.cluster import Cluster, Driver, cluster
from tests.kills.writer import inspect

EPOCHS_A_LIFE = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparqlive-kills-") as folder:
        shared, store = Path(folder, "shared"), Path(folder, "store")
        shared.mkdir()
        store.mkdir()
        (store / "runs").symlink_to(shared, target_is_directory=True)
        with cluster(Path(folder, "cluster")) as two_workers:
            killed = kill_loop(two_workers, store, options.kills, options.seed)
    print(
        f"survived {killed.total()} kills: {killed['worker']} of a worker, {killed['driver']} of the driver"
    )


def kill_loop(two_workers: Cluster, store: Path, kills: int, seed: int) -> Counter[str]:
    """Kills so many times; the store is inspected whenever no driver has it open."""
    rng = random.Random(seed)
    killed: Counter[str] = Counter()
    acknowledged = 0
    while killed.total() < kills:
        driver = two_workers.driver(store, "-", two_workers.master, seed, acknowledged + EPOCHS_A_LIFE)
        driver.wait_for(rng.choice(("open", "begin", "begin", "begin")))
        live_until_killed(two_workers, driver, killed, kills, rng)
        acknowledged = inspect(store, seed, max(acknowledged, driver.epoch()))
        print(
            f"{killed.total()} kills ({dict(killed)}): epoch {acknowledged}, checked; "
            f"in this life Spark failed {len(driver.failures())} times",
            flush=True,
        )
    return killed


def live_until_killed(
    two_workers: Cluster, driver: Driver, killed: Counter[str], kills: int, rng: random.Random
) -> None:
    """Kills workers, until the driver's turn comes, or it has reached its last epoch."""
    while True:
        time.sleep(rng.uniform(0.2, 6))
        if driver.has_ended():
            driver.finish()
            return
        victim = rng.choice(("worker", "worker", "driver"))
        killed[victim] += 1
        if victim == "driver":
            driver.kill()
            return
        number = rng.randrange(2)
        two_workers.kill_worker(number)
        two_workers.replace_worker(number)
        said = len(driver.lines)
        driver.wait_for("epoch", "views", "end", after=said)  # it goes on with what is left
        if killed.total() == kills:
            driver.kill()  # the end, and not counted
            return


if __name__ == "__main__":
    main()
