"""Ten thousand views against ten: a change must not cost more because of views that it does not concern.

Two kinds of views: those whose patterns the change does not match, and those of one shape that differ in a
constant, whose patterns all match it and of which one changes. The views that change are the same in both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from pyoxigraph import Literal, NamedNode, Quad

import sparqlive
from bench.measure import Report, Sizes, duration, middle, number, run_alone, same

SIZES = {"views": (10_000, 500), "changes_a_round": (100, 50), "rounds": (5, 2)}
FEW = 10
WANTED = 2.0

_PREFIX = "http://example.org/"
Views = Iterator[tuple[str, str]]


def node(name: str) -> NamedNode:
    return NamedNode(_PREFIX + name)


def triple(subject: str, predicate: str, object_: str) -> Quad:
    return Quad(node(subject), node(predicate), node(object_))


# Views that the change does not match


def other_data() -> list[Quad]:
    chance = random.Random(5)
    hot = [triple(f"s{n}", "hot", f"o{n % 50}") for n in range(1000)]
    near = [triple(f"o{n % 50}", f"near{n % FEW}", f"t{chance.randrange(100)}") for n in range(1000)]
    cold = [triple(f"s{n}", f"cold{n % 100}", f"k{n % 7}") for n in range(1000)]
    return list(dict.fromkeys([*hot, *near, *cold]))


def other_views(count: int) -> Views:
    """The first ten match a change of a `hot` triple, the rest have another predicate or another constant."""
    for n in range(FEW):
        yield f"match{n}", f"PREFIX : <{_PREFIX}> SELECT ?x ?y ?z {{ ?x :hot ?y . ?y :near{n} ?z }}"
    for n in range(FEW, count):
        pattern = (
            f"?x :cold{n} ?y . ?y :near{n % FEW} ?z",
            f"?x :hot :elsewhere{n} . ?x :cold{n % 100} ?y",
            f":elsewhere{n} :hot ?x . ?x :near{n % FEW} ?y",
        )[n % 3]
        yield f"other{n}", f"PREFIX : <{_PREFIX}> SELECT * {{ {pattern} }}"


def other_changes(rounds: int) -> list[Quad]:
    chance = random.Random(6)
    return [triple(f"s{chance.randrange(1000)}", "hot", f"o{chance.randrange(50)}") for _ in range(rounds)]


# Views of one shape


def group_data(count: int) -> list[Quad]:
    """Five members a group."""
    members = [(f"m{n}", f"group{n % count}") for n in range(5 * count)]
    names = [Quad(node(member), node("name"), Literal(f"name of {member}")) for member, _ in members]
    return [*(triple(member, "member", group) for member, group in members), *names]


def group_views(count: int) -> Views:
    for n in range(count):
        pattern = f"?x :member :group{n} . ?x :name ?y"
        yield f"group{n}", f"PREFIX : <{_PREFIX}> SELECT ?x ?y {{ {pattern} }}"


def group_changes(count: int, rounds: int) -> list[Quad]:
    """Second names of members of the first ten groups."""
    chance = random.Random(7)
    members = [f"m{chance.randrange(5) * count + chance.randrange(FEW)}" for _ in range(rounds)]
    return [Quad(node(member), node("name"), Literal(f"other name of {member}")) for member in members]


# Measuring


def opened(data: list[Quad], views: Views) -> tuple[sparqlive.Session, float]:
    """A session with its views, and the seconds that a view took."""
    session = sparqlive.open()
    session.load(data)
    start = time.perf_counter()
    for name, query in views:
        session.view(name, query)
    return session, (time.perf_counter() - start) / len(session.views)


def changes(session: sparqlive.Session, quads: list[Quad]) -> tuple[list[float], list[dict[str, int]]]:
    """Seconds a change, and how many rows changed of which view."""
    samples, changed = [], []
    for quad in quads:
        for batch in ({"insert": [quad]}, {"delete": [quad]}):
            start = time.perf_counter()
            deltas = session.apply(**batch).deltas
            samples.append(time.perf_counter() - start)
            changed.append({name: len(deltas[name]) for name in deltas.changed()})
    return samples, changed


def compared(
    report: Report,
    name: str,
    data: list[Quad],
    all_views: tuple[Views, Views],
    quads: list[Quad],
    sizes: Sizes,
) -> None:
    sessions = [opened(data, views) for views in all_views]
    there = set(data)
    quads = [quad for quad in quads if quad not in there]
    (few, _), (many, registering) = sessions
    few_samples, many_samples = [], []
    for _ in range(sizes["rounds"]):
        some, few_changed = changes(few, quads)
        few_samples += some
        some, many_changed = changes(many, quads)
        many_samples += some
        same(name, many_changed, few_changed)
        same(f"{name}: some view changes", all(many_changed), True)
    for view in few.views:
        same(name, many.views[view].weights(), few.views[view].weights())
    for session, _ in sessions:
        session.close()
    ratio = middle(many_samples) / middle(few_samples)
    title = f"{name}: {sizes['views']:,} views against {FEW}"
    report.ratio_at_most(title, middle(many_samples), middle(few_samples), ratio, WANTED)
    report.remarks.append(f"{name}: {duration(registering)} to register a view among {sizes['views']:,}.")


def run(sizes: Sizes) -> Report:
    report = Report()
    count, a_round = sizes["views"], sizes["changes_a_round"]
    compared(
        report,
        "many_views, other patterns",
        other_data(),
        (other_views(FEW), other_views(count)),
        other_changes(a_round),
        sizes,
    )
    compared(
        report,
        "many_views, one shape",
        group_data(count),
        (group_views(FEW), group_views(count)),
        group_changes(count, a_round),
        sizes,
    )
    report.remarks.append(
        f"many_views: 'ours' is a change with {number(count)} views, 'peer' the same change with {FEW}."
    )
    return report


def main() -> None:
    run_alone(__doc__, SIZES, run)


if __name__ == "__main__":
    main()
