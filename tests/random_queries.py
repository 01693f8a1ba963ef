"""Hypothesis strategies for quads, batches and queries over a universe small enough for collisions.

A query is drawn as pieces of text that know two renderings: the engine's, and the oracle's where pyoxigraph
is known to be wrong (tests/oracle.py lists where). Left out because implementations may differ or pyoxigraph
errs: `=` between literals of different types, `<` between IRIs, MIN and MAX between numbers and strings,
SAMPLE, GROUP_CONCAT, COUNT of expressions, COUNT(DISTINCT *); inside EXISTS also MINUS, VALUES,
BIND, sub-SELECT, GRAPH with a variable, and paths of no steps (tests/plan/test_exists_paths.py has them, and
tests/random_nested.py, where the reference is the judge).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyoxigraph as ox
from hypothesis import strategies as st

from tests.oracle import Oracle, Weights, graph_names, graph_union

EX = "http://example.org/"
PROLOGUE = f"PREFIX : <{EX}>\n"
NODES = tuple(ox.NamedNode(f"{EX}n{number}") for number in range(3))
PREDICATES = tuple(ox.NamedNode(EX + name) for name in "pqr")
LITERALS = (ox.Literal(1), ox.Literal(2), ox.Literal("x"))
GRAPHS = (ox.DefaultGraph(), ox.NamedNode(EX + "g"), ox.NamedNode(EX + "h"))
VARIABLES = ("?a", "?b", "?c", "?d")

Names = Sequence[ox.NamedNode]


# Data

# Mostly the default graph and few subjects, so that patterns meet.
quads = st.builds(
    ox.Quad,
    st.sampled_from(NODES),
    st.sampled_from((*PREDICATES[:2], *PREDICATES)),
    st.sampled_from(NODES + NODES + LITERALS),
    st.sampled_from((GRAPHS[0], GRAPHS[0], GRAPHS[0], *GRAPHS)),
)
graphs = st.lists(quads, min_size=9, max_size=18, unique=True)
batches = st.lists(st.tuples(st.sampled_from("+-"), quads), min_size=2, max_size=8)


# Queries


@dataclass(frozen=True)
class Text:
    """A piece of a query; `oracle` renders it for pyoxigraph, given the graphs that exist."""

    text: str
    oracle: Callable[[Names], str]

    def __str__(self) -> str:
        return self.text


def plain(text: str) -> Text:
    return Text(text, lambda names: text)


def joined(template: str, *parts: Text) -> Text:
    """A template with `%s` for each part."""
    return Text(
        template % tuple(part.text for part in parts),
        lambda names: template % tuple(part.oracle(names) for part in parts),
    )


def in_graph(name: ox.NamedNode, body: Text) -> Text:
    """GRAPH with a constant: nothing where the graph does not exist, also for empty paths (§18.6)."""

    def oracle(names: Names) -> str:
        pattern = f"GRAPH {name} {{ {body.oracle(names)} }}"
        return pattern if name in names else f"{{ {pattern} FILTER(false) }}"

    return Text(f"GRAPH {name} {{ {body.text} }}", oracle)


@dataclass(frozen=True)
class RandomQuery:
    body: Text
    head: str
    variables: tuple[str, ...]
    dataset: str = ""
    modifiers: str = ""

    @property
    def text(self) -> str:
        return f"{PROLOGUE}{self.head} {self.dataset} WHERE {{ {self.body.text} }} {self.modifiers}"

    def expected(self, data: set[ox.Quad]) -> Weights:
        oracle = Oracle(data)
        text = f"{PROLOGUE}{self.head} {self.dataset} WHERE {{ %s }} {self.modifiers}"
        names = graph_names(oracle.dataset(text))
        return oracle.weights(text % self.body.oracle(names), self.variables)

    def __repr__(self) -> str:
        return f"<{self.text.removeprefix(PROLOGUE)}>"


variables = st.sampled_from(VARIABLES)
nodes = st.sampled_from(tuple(str(node) for node in NODES))
predicates = st.sampled_from(tuple(str(predicate) for predicate in (*PREDICATES[:2], *PREDICATES)))
constants = st.sampled_from(tuple(str(term) for term in NODES + LITERALS))
# One constant in five: `one_of` would draw its branches alike.
subjects = st.integers(0, 4).flatmap(lambda n: nodes if n == 4 else variables)
objects = st.integers(0, 4).flatmap(lambda n: constants if n == 4 else variables)


def hidden(start: str, end: str, pattern: str) -> str:
    """A pattern of which only the two ends are seen."""
    ends = " ".join(name for name in (start, end) if name.startswith("?"))
    return f"{{ SELECT {ends} WHERE {{ {pattern} }} }}"


@st.composite
def path_patterns(draw: st.DrawFn) -> Text:
    """Property paths: sequence, inverse, alternative, negated sets, optional and repeated steps."""
    start = draw(subjects)
    end = draw(st.sampled_from([name for name in VARIABLES if name != start]))
    first, second = draw(predicates), draw(predicates)
    kinds = ("sequence", "inverse", "alternative", "negated", "negated-inverse", "optional", *["closure"] * 3)
    match draw(st.sampled_from(kinds)):
        case "sequence":
            return plain(f"{start} {first}/{second} {end} .")
        case "inverse":
            return plain(f"{start} ^{first}/{second} {end} .")
        case "alternative":
            union = f"{{ {start} {first} {end} }} UNION {{ {start} {second} {end} }}"
            return Text(f"{start} {first}|{second} {end} .", lambda names: union)
        case "negated":
            step = f"{start} ?step {end} FILTER(?step NOT IN ({first}, {second}))"
            return Text(f"{start} !({first}|{second}) {end} .", lambda names: hidden(start, end, step))
        case "negated-inverse":
            step = f"{end} ?step {start} FILTER(?step NOT IN ({first}))"
            return Text(f"{start} !^{first} {end} .", lambda names: hidden(start, end, step))
        case "closure":
            return draw(closures(start, end))
    text = f"{start} {first}? {end} ."
    if start.startswith("?"):
        return plain(text)
    step = f"{{ VALUES {end} {{ {start} }} }} UNION {{ {start} {first} {end} }}"
    return Text(text, lambda names: f"{{ SELECT DISTINCT {end} WHERE {{ {step} }} }}")


@st.composite
def closures(draw: st.DrawFn, start: str, end: str) -> Text:
    """`+` and `*` over steps of all kinds; an end may be constant, both ends one variable."""
    first, second = draw(predicates), draw(predicates)
    steps = ("%s", "%s", "^%s", "(%s/%s)", "(%s|^%s)", "!%s", "(%s+/%s)", "(%s?/%s?)", "(%s*|%s)", "(!%s|%s)")
    template = draw(st.sampled_from(steps))
    step = template % (first, second)[: template.count("%s")]
    end = draw(st.sampled_from((end, end, end, start, *map(str, NODES), "1")))
    if draw(st.booleans()) and "?" not in template and "*" not in template:
        return plain(f"{start} ({step})+ {end} .")
    text = f"{start} ({step})* {end} ."
    terms = [term for term in (start, end) if not term.startswith("?")]
    if not terms:
        return plain(text)
    if len(terms) == 2:
        return Text(text, lambda names: "" if start == end else f"{start} ({step})+ {end} .")
    name = end if terms == [start] else start
    pattern = f"{{ VALUES {name} {{ {terms[0]} }} }} UNION {{ {start} ({step})+ {end} }}"
    return Text(text, lambda names: f"{{ SELECT DISTINCT {name} WHERE {{ {pattern} }} }}")


@st.composite
def triple_patterns(draw: st.DrawFn) -> Text:
    predicate = "?p" if draw(st.integers(0, 5)) == 5 else draw(predicates)
    return plain(f"{draw(subjects)} {predicate} {draw(objects)} .")


basic = st.lists(
    st.one_of(triple_patterns(), triple_patterns(), path_patterns()), min_size=1, max_size=2
).map(lambda parts: joined(" ".join(["%s"] * len(parts)), *parts))


_OF_NO_STEPS = re.compile(r"[>)][?*]")
with_steps = basic.filter(lambda part: not _OF_NO_STEPS.search(part.text))


@st.composite
def conditions(draw: st.DrawFn, depth: int) -> Text:
    """Conditions with all three truth values; EXISTS may stand anywhere in them."""
    left, right = draw(variables), draw(variables)
    simple = (
        f"BOUND({left})",
        f"SAMETERM({left}, {right})",
        f"{left} = <{EX}n0>",
        f"{left} != <{EX}n1>",
        f"{left} > 1",
        f"{left} < 2",
        f"ISIRI({left})",
    )
    kinds = ("simple", "simple", "not", "and", "or", "exists", "not exists")
    kind = draw(st.sampled_from(kinds if depth > 0 else ("simple",)))
    match kind:
        case "not":
            return joined("!(%s)", draw(conditions(depth - 1)))
        case "and":
            return joined("(%s && %s)", draw(conditions(depth - 1)), draw(conditions(depth - 1)))
        case "or":
            return joined("(%s || %s)", draw(conditions(depth - 1)), draw(conditions(depth - 1)))
        case "exists":
            return joined("EXISTS { %s }", draw(exists_bodies(depth - 1)))
        case "not exists":
            return joined("NOT EXISTS { %s }", draw(exists_bodies(depth - 1)))
    return plain(draw(st.sampled_from(simple)))


@st.composite
def exists_bodies(draw: st.DrawFn, depth: int) -> Text:
    body = draw(with_steps)
    match draw(st.sampled_from(("", "", "filter", "optional", "union", "graph"))):
        case "filter":
            return joined("%s FILTER(%s)", body, draw(conditions(depth)))
        case "optional":
            return joined("%s OPTIONAL { %s }", body, draw(with_steps))
        case "union":
            return joined("{ %s } UNION { %s }", body, draw(with_steps))
        case "graph":
            return in_graph(ox.NamedNode(f"{EX}g"), body)
    return body


@st.composite
def groups(draw: st.DrawFn, depth: int, counter: list[int]) -> Text:
    """A group: a basic graph pattern (or nothing, rarely) and up to two further elements."""
    parts = [] if draw(st.integers(0, 9)) == 9 else [draw(basic)]
    for _ in range(draw(st.integers(0, 2)) if depth > 0 else 0):
        parts.append(draw(elements(depth, counter)))
        if draw(st.booleans()) and draw(st.booleans()):
            parts.append(draw(basic))
    return joined(" ".join(["%s"] * len(parts)), *parts)


@st.composite
def elements(draw: st.DrawFn, depth: int, counter: list[int]) -> Text:
    inner = groups(depth - 1, counter)
    kinds = (
        "optional",
        "optional-filter",
        "minus",
        "union",
        "filter",
        "bind",
        "values",
        "select",
        "group",
        "graph",
        "graph-var",
    )
    match draw(st.sampled_from(kinds)):
        case "optional":
            return joined("OPTIONAL { %s }", draw(inner))
        case "optional-filter":
            return joined("OPTIONAL { %s FILTER(%s) }", draw(inner), draw(conditions(depth)))
        case "minus":
            return joined("MINUS { %s }", draw(inner))
        case "union":
            return joined("{ %s } UNION { %s }", draw(inner), draw(inner))
        case "filter":
            return joined("FILTER(%s)", draw(conditions(depth)))
        case "bind":
            return draw(binds(depth, counter))
        case "values":
            return draw(values())
        case "select":
            distinct = draw(st.sampled_from(("", "DISTINCT ")))
            names = draw(st.lists(variables, min_size=1, max_size=2, unique=True))
            order = draw(orders(names))
            return joined(f"{{ SELECT {distinct}{' '.join(names)} WHERE {{ %s }} {order} }}", draw(inner))
        case "group":
            grouping = draw(groupings(counter))
            template = f"{{ SELECT {grouping.select} WHERE {{ %s }} {grouping.modifiers} }}"
            return joined(template, draw(inner))
        case "graph":
            return in_graph(ox.NamedNode(EX + draw(st.sampled_from("gh"))), draw(inner))
    variable, body = draw(st.sampled_from(("?g", "?a"))), draw(inner)
    return Text(
        f"GRAPH {variable} {{ {body.text} }}",
        lambda names: f"{{ {graph_union(variable, body.oracle(names), names)} }}",
    )


@dataclass(frozen=True)
class Grouping:
    """GROUP BY with its aggregates: what is selected, under which names, and what follows WHERE."""

    select: str
    variables: tuple[str, ...]
    modifiers: str


@st.composite
def groupings(draw: st.DrawFn, counter: list[int]) -> Grouping:
    keys = draw(st.lists(variables, max_size=2, unique=True))
    key_expression = draw(st.sampled_from(("", "", "", "(ISIRI(?a))", "(?b + 1)")))
    found = list(keys)
    select = list(keys)
    for _ in range(draw(st.integers(0 if keys else 1, 2))):
        counter[0] += 1
        name = f"?e{counter[0]}"
        select.append(f"({draw(aggregates())} AS {name})")
        found.append(name)
    by = " ".join([*keys, key_expression]).strip()
    modifiers = f"GROUP BY {by}" if by else ""
    if draw(st.integers(0, 3)) == 3:
        tests = (f"({draw(aggregates())}) > 1", "COUNT(*) < 3", "SUM(?a) < 4 || COUNT(?b) > 0")
        modifiers += f" HAVING ({draw(st.sampled_from(tests))})"
    return Grouping(" ".join(select), tuple(found), modifiers)


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    variable = draw(variables)
    # Strings and IRIs, which every engine orders alike.
    comparable = f"IF(ISLITERAL({variable}), STR({variable}), {variable})"
    return draw(
        st.sampled_from(
            (
                "COUNT(*)",
                f"COUNT({variable})",
                f"COUNT(DISTINCT {variable})",
                f"SUM({variable})",
                f"SUM(DISTINCT {variable})",
                f"AVG({variable})",
                f"MIN({comparable})",
                f"MAX({comparable})",
                f"MIN({comparable}) = MAX({comparable})",
            )
        )
    )


@st.composite
def binds(draw: st.DrawFn, depth: int, counter: list[int]) -> Text:
    """BIND to a variable that nothing else binds."""
    counter[0] += 1
    name = f"?e{counter[0]}"
    variable = draw(variables)
    expressions = (f"{variable} + 1", variable, f"COALESCE({variable}, 7)", f"IF(BOUND({variable}), 1, 2)")
    expression = plain(draw(st.sampled_from(expressions)))
    if draw(st.booleans()):
        expression = joined("IF(%s, 1, 2)", draw(conditions(depth)))
    return joined(f"BIND(%s AS {name})", expression)


@st.composite
def values(draw: st.DrawFn) -> Text:
    names = draw(st.lists(variables, min_size=1, max_size=2, unique=True))
    entry = st.one_of(constants, st.just("UNDEF"))
    rows = draw(st.lists(st.tuples(*(entry for _ in names)), min_size=1, max_size=3))
    return plain(f"VALUES ({' '.join(names)}) {{ {' '.join('(' + ' '.join(row) + ')' for row in rows)} }}")


@st.composite
def orders(draw: st.DrawFn, names: Sequence[str]) -> str:
    """Often nothing. A window is cut where the order leaves nothing open: all columns are its keys."""
    kind = draw(st.sampled_from(("", "", "order", "window", "window")))
    if not kind:
        return ""
    keys = draw(st.permutations(names))
    if kind == "order":  # the bag is the same whatever the order, which `session.check` looks at
        keys = [*draw(st.lists(st.sampled_from((*VARIABLES, "(?a + ?b)", "BOUND(?c)")), max_size=2)), *keys]
    descending = draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    text = " ".join(f"DESC({key})" if down else key for key, down in zip(keys, descending, strict=True))
    if kind == "order":
        return f"ORDER BY {text}"
    limit = draw(st.sampled_from(("LIMIT 1", "LIMIT 2", "LIMIT 3", "LIMIT 7", "LIMIT 0", "")))
    offset = draw(st.sampled_from(("", "OFFSET 1", "OFFSET 2", "OFFSET 5")))
    return f"ORDER BY {text} {limit} {offset}"


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> RandomQuery:
    body = draw(groups(depth, [0]))
    head, shown = draw(heads())
    modifiers = draw(orders([f"?{name}" for name in shown])) if head.startswith("SELECT") else ""
    if draw(st.integers(0, 4)) == 4:
        grouping = draw(groupings([10]))
        head, shown = f"SELECT {grouping.select}", tuple(name[1:] for name in grouping.variables)
        modifiers = grouping.modifiers
    clauses = (
        *[""] * 12,
        f"FROM <{EX}g>",
        f"FROM <{EX}g> FROM <{EX}h>",
        f"FROM <{EX}g> FROM NAMED <{EX}h>",
    )
    return RandomQuery(body, head, shown, draw(st.sampled_from(clauses)), modifiers)


@st.composite
def heads(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """What a query gives, and the names of its columns: mostly SELECT."""
    kind = draw(st.integers(0, 9))
    if kind == 9:
        return "ASK", ()
    if kind > 6:
        blank = ("_:x", "_:y") if kind == 8 else ()
        subject = st.sampled_from((*VARIABLES, *blank, str(NODES[0])))
        predicate = st.sampled_from((*map(str, PREDICATES), "?p"))
        value = st.sampled_from((*VARIABLES, "?e1", "?g", *blank, "1"))
        triples = draw(st.lists(st.tuples(subject, predicate, value), min_size=1, max_size=3))
        template = " . ".join(" ".join(triple) for triple in triples)
        return f"CONSTRUCT {{ {template} }}", ("subject", "predicate", "object")
    names = draw(st.lists(st.sampled_from((*VARIABLES, "?g", "?p", "?e1", "?e2")), min_size=1, unique=True))
    distinct = draw(st.sampled_from(("", "", "DISTINCT ")))
    return f"SELECT {distinct}{' '.join(names)}", tuple(name[1:] for name in names)
