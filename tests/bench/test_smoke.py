"""Each benchmark of `python -m bench` in process, with the smallest sizes. They stop where a result is wrong.

Others are run in small elsewhere: throughput and bulk_aggregates (tests/engine), crash (tests/store), soak
(tests/sources), subscribers and hostile (tests/agent). bsbm needs data that is not part of the project; the
paper's experiments (test_paper.py) run its queries on generated data.
"""

from __future__ import annotations

import pytest

from bench.suite import IN_PROCESS, module_of, page

SIZES = {
    "path3": {"nodes": 60, "edges_a_round": 3, "rounds": 1, "most_rounds": 1},
    "star": {"subjects": 200, "changes_a_round": 5, "rounds": 1},
    "many_views": {"views": 20, "changes_a_round": 5, "rounds": 1},
    "memory": {"triples": 5_000, "predicates": 10},
    "pauses": {"rows": 300, "changes": 50},
    "parse": {"rounds": 1},
    "window": {"rows": 300, "changes": 20},
    "closures": {"concepts": 200, "nodes": 60, "edges": 100, "changes_a_round": 5, "rounds": 1},
    "aggregates": {"groups": 5, "values": 8, "changes_a_round": 5, "rounds": 1},
    "durability": {"changes": 5, "quads": 2_000, "stream": 100},
    "explore": {"triples": 300, "rounds": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_benchmark(name: str) -> None:
    module = module_of(name)
    assert SIZES[name].keys() == module.SIZES.keys()
    report = module.run(SIZES[name])
    assert report.figures
    assert name in page("make test", {name: report}, quick=True)


def test_all_are_here() -> None:
    assert {*SIZES, "bsbm"} == set(IN_PROCESS)
