"""Runs all tests in four parts at once: most of them wait for something else than a core.

Each part's output is shown as a whole when the part ends. SIGINT ends all of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

APART = ["tests/agent", "tests/sources"]
PARTS = {
    "on Spark": ["-m", "spark"],
    "the agent": ["-m", "not spark", "tests/agent"],
    "sources": ["-m", "not spark", "tests/sources"],
    "all others": ["-n", "2", "-m", "not spark", *(f"--ignore={folder}" for folder in APART)],
}


def main() -> int:
    start = time.monotonic()
    print(
        f"pytest, in {len(PARTS)} parts at once: {'; '.join(PARTS)}. This takes about twenty minutes.",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="sparqlive-tests-") as folder:
        running = {}
        for number, (name, options) in enumerate(PARTS.items()):
            output = open(f"{folder}/{number}", "w+")  # noqa: SIM115 - read when the part has ended
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
            running[name] = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT), output
        failed = []
        while running:
            ended = [name for name, (process, _) in running.items() if process.poll() is not None]
            for name in ended:
                process, output = running.pop(name)
                output.seek(0)
                print(f"\n== {name}, after {time.monotonic() - start:.0f} s\n{output.read()}", flush=True)
                output.close()
                if process.returncode:
                    failed.append(name)
            time.sleep(0.2)
    print(f"failed: {'; '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
