"""Generates a large graph, as columns, for a star and a path of three patterns, and batches of changes.

A sixth of the triples each: three values of every subject of the star, and the edges from each layer of the
path to the next, one from every node to a random one. Each view has as many solutions as a sixth of the
triples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import NamedNode, Quad

PREFIX = "http://example.org/"
VIEWS = {
    "star": f"PREFIX : <{PREFIX}> SELECT ?s ?x ?y ?z {{ ?s :a ?x . ?s :b ?y . ?s :c ?z }}",
    "path": f"PREFIX : <{PREFIX}> SELECT ?x ?y {{ ?x :p ?z1 . ?z1 :q ?z2 . ?z2 :r ?y }}",
}
_VALUES = 1000
_EDGES = {
    "star": [("a", "s", "o"), ("b", "s", "o"), ("c", "s", "o")],
    "path": [("p", "w", "x"), ("q", "x", "y"), ("r", "y", "z")],
}
"""For each view its predicates, with the kinds of nodes that they go from and to."""
_LINES_AT_ONCE = 500_000


class Graph:
    def __init__(self, triples: int, seed: int = 11) -> None:
        self.nodes = triples // 6
        chance = np.random.default_rng(seed)
        self._targets = {
            predicate: chance.integers(_VALUES if kind == "o" else self.nodes, size=self.nodes)
            for edges in _EDGES.values()
            for predicate, _, kind in edges
        }

    @property
    def triples(self) -> int:
        return 6 * self.nodes

    def write(self, path: Path) -> None:
        """As N-Triples."""
        with path.open("wb") as file:
            for edges in _EDGES.values():
                for predicate, source, target in edges:
                    for start in range(0, self.nodes, _LINES_AT_ONCE):
                        sources = np.arange(start, min(self.nodes, start + _LINES_AT_ONCE))
                        targets = self._targets[predicate][sources]
                        lines = _lines(_iris(source, sources), predicate, _iris(target, targets))
                        file.write(lines.buffers()[2])

    def batch(self, view: str, changes: int, seed: int) -> tuple[list[Quad], list[Quad]]:
        """Quads to delete and as many to insert: random nodes get another value, or another neighbour.

        A single change is an insertion.
        """
        chance = np.random.default_rng(seed)
        deletes, inserts = [], []
        moved = chance.choice(self.nodes, size=(changes // 2 + 2) // 3 + 1, replace=False)
        for predicate, source, target in _EDGES[view]:
            name = NamedNode(PREFIX + predicate)
            old = self._targets[predicate][moved]
            others = _VALUES if target == "o" else self.nodes
            new = (old + chance.integers(1, others, size=len(moved))) % others
            for node, before, after in zip(moved.tolist(), old.tolist(), new.tolist(), strict=True):
                subject = NamedNode(f"{PREFIX}{source}{node}")
                deletes.append(Quad(subject, name, NamedNode(f"{PREFIX}{target}{before}")))
                inserts.append(Quad(subject, name, NamedNode(f"{PREFIX}{target}{after}")))
        order = chance.permutation(len(deletes)).tolist()
        count = changes // 2
        return [deletes[i] for i in order[:count]], [inserts[i] for i in order[: changes - count]]


def _iris(kind: str, numbers: npt.NDArray[np.int64]) -> Any:
    return _joined(f"<{PREFIX}{kind}", pa.array(numbers).cast(pa.string()), ">")


def _lines(sources: Any, predicate: str, targets: Any) -> Any:
    return pa.concat_arrays([_joined(sources, f" <{PREFIX}{predicate}> ", targets, " .\n")])


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")
