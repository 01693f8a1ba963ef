"""Evaluates quad patterns by lookups in the index that fits the bound positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sparqlive.live.code import Env, Function, Local, Point, times, tuple_of
from sparqlive.live.filtered import kept_rows, kept_values
from sparqlive.live.terms import Keep
from sparqlive.plan import operators as op
from sparqlive.plan.delta import State
from sparqlive.quads.columns import as_columns
from sparqlive.quads.merged import counts_of, pieces_of, values_per_object
from sparqlive.quads.scope import GRAPH, PREDICATE, Scope, scope_in
from sparqlive.quads.snapshot import Snapshot
from sparqlive.rdf.dictionary import Dictionary, Term
from sparqlive.sparql.algebra import Var, VarOrTerm
from sparqlive.zset.run import Column

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node

Filters: TypeAlias = Sequence[tuple[Var, Callable[[], Keep]]]
"""Tests of single variables by columns, created per request."""

_STATES = {State.OLD: "before", State.NEW: "after"}


def scope_of(dictionary: Dictionary, graph: op.GraphChoice) -> Scope:
    return scope_in(graph, dictionary.id_of)


def _graph_key(scope: Scope) -> int | Scope:
    """Returns the key of a scope's pairs: a graph's id, or the merged scope itself."""
    if scope.kind == "one":
        assert scope.graphs is not None
        return next(iter(scope.graphs))
    return scope


@dataclass
class _Access:
    """The lookup of a pattern: the relation, its key, the free positions, and the known positions."""

    relation: str
    key: str
    free: list[int]
    known: list[int]


def _positions(operator: op.Scan) -> list[VarOrTerm]:
    graph = [operator.graph.variable] if isinstance(operator.graph, op.NamedGraphs) else []
    return [*operator.positions, *graph]


def _known_positions(compiler: Compiler, operator: op.Scan, env: Env) -> dict[int, str]:
    """Returns the positions with a known value, each with its name in the code."""
    known = {}
    for position, term in enumerate(_positions(operator)):
        if not isinstance(term, Var):
            known[position] = _id(compiler, term)
        elif term in env:
            known[position] = env[term].name
    return known


def _id(compiler: Compiler, term: Term) -> str:
    return compiler.program.constant(lambda: compiler.terms.dictionary.id_of(term))


def _access(compiler: Compiler, operator: op.Scan, known: dict[int, str]) -> _Access:
    program, predicate = compiler.program, operator.predicate
    compiler.quads.watch(scope_of(compiler.terms.dictionary, operator.graph))
    named = isinstance(operator.graph, op.NamedGraphs)
    free = [p for p in range(4 if named else 3) if p not in known]

    def scope() -> Scope:
        return scope_of(compiler.terms.dictionary, operator.graph)

    def predicate_id() -> int:
        assert not isinstance(predicate, Var)
        return compiler.terms.dictionary.id_of(predicate)

    def pairs() -> Any:
        return compiler.quads.pairs(_graph_key(scope()), predicate_id())

    def inverse() -> Any:
        return compiler.quads.inverse(_graph_key(scope()), predicate_id())

    if PREDICATE in known and not named:
        forward = 0 in known or 2 not in known
        key = "" if 0 not in known and 2 not in known else known[0 if forward else 2]
        if not isinstance(predicate, Var):
            relation = program.made("r", pairs if forward else inverse)
        else:
            graph = program.made("g", lambda: _graph_key(scope()))
            at_run_time = _method(compiler, "pairs_if_any" if forward else "inverse_if_any")
            relation = f"{at_run_time}({graph}, {known[PREDICATE]})"
        return _Access(relation, key, free, [p for p in (0, 2) if p in known])
    is_fixed = not isinstance(predicate, Var)
    predicate_in_row = [] if is_fixed else [PREDICATE]
    in_row = [0, *predicate_in_row, 2, *([GRAPH] if named else [])]
    keys = [p for p in in_row if p in known]
    order = (*keys, *(p for p in in_row if p not in known))

    def index() -> Any:
        return compiler.quads.index(scope(), predicate_id() if is_fixed else None, order, len(keys))

    names = [known[p] for p in keys]
    key = "" if not names else names[0] if len(names) == 1 else tuple_of(names)
    return _Access(program.made("r", index), key, free, keys)


def _method(compiler: Compiler, method: str) -> str:
    """Returns one name for a method of the quads, although each access returns a new object."""
    names = compiler.methods
    if method not in names:
        names[method] = compiler.program.made("q", lambda: getattr(compiler.quads, method))
    return names[method]


def loop(
    compiler: Compiler,
    f: Function,
    node: Node,
    state: State,
    point: Point,
    filters: Filters = (),
) -> None:
    """`filters`: tests of `testable` variables."""
    operator, program = node.operator, compiler.program
    assert isinstance(operator, op.Scan)
    known = _known_positions(compiler, operator, point.env)
    access = _access(compiler, operator, known)
    when = _STATES[state]
    tests = _excluded(compiler, operator, known.get(PREDICATE)) if PREDICATE in known else []
    if not access.free:
        with f.when([_has(access, known, when), *tests]):
            point.then(f, point.env, point.weight)
        return
    if compiler.lazy and _loop_over_counts(compiler, f, operator, access, point, filters):
        return
    names = {position: f.fresh() for position in access.free}
    values = [names[p] for p in access.free]
    if access.key:
        pattern = values[0] if len(values) == 1 else tuple_of(values)
        rows = f"{access.relation}.{when}({access.key}) or ()"
        if filters:
            kept = program.name("q", kept_values)
            if len(values) > 1:
                kept, columns = program.name("q", kept_rows), program.name("q", as_columns)
                rows = f"{columns}({rows})"
            rows = f"{kept}({rows}, {_tests(compiler, operator, access.free, filters)})"
    else:
        pattern = tuple_of(values)
        rows = f"{access.relation}.rows_{when}()"
        if filters:
            kept, pieces = program.name("q", kept_rows), f"{access.relation}.pieces_before()"
            if PREDICATE in known and GRAPH not in access.free:
                pieces = f"{program.name('q', pieces_of)}({access.relation})"
            rows = f"{kept}({pieces}, {_tests(compiler, operator, access.free, filters)})"
    bound, repeated = _bind(operator, names)
    if PREDICATE in names:
        tests = _excluded(compiler, operator, names[PREDICATE])
    with f.block(f"for {pattern} in {rows}"), f.when([*repeated, *tests]):
        point.then(f, {**point.env, **bound}, point.weight)


def testable(operator: op.Scan, env: Env) -> frozenset[Var]:
    """Returns the subject and object of a pattern, if many of its rows can be tested at once.

    These are all rows of some parts, or the values of one key.
    """
    terms = _positions(operator)
    known = {place for place, term in enumerate(terms) if not isinstance(term, Var) or term in env}
    is_fixed = not isinstance(operator.predicate, Var)
    has_pairs = PREDICATE in known and (GRAPH in known or len(terms) == GRAPH)
    if not has_pairs and known - ({PREDICATE} if is_fixed else set()):
        return frozenset()
    return frozenset(term for place in (0, 2) if place not in known and isinstance(term := terms[place], Var))


def wholly_read(operator: op.Scan) -> frozenset[Var]:
    """Returns the subject and object of a pattern that matches all quads of some graphs and predicates."""
    variables = [term for term in _positions(operator) if isinstance(term, Var)]
    is_plain = len(set(variables)) == len(variables) and not operator.excluded
    is_whole = isinstance(operator.subject, Var) and isinstance(operator.object, Var)
    return testable(operator, {}) if is_plain and is_whole else frozenset()


def pieces(compiler: Compiler, operator: op.Scan) -> Iterator[Sequence[Column]]:
    """Yields all solutions of a wholly read pattern, as columns of its variables."""
    terms, predicate = _positions(operator), operator.predicate
    scope = scope_of(compiler.terms.dictionary, operator.graph)
    places = [place for place, term in enumerate(terms) if isinstance(term, Var)]
    quads = compiler.quads
    assert isinstance(quads, Snapshot)
    of = None if isinstance(predicate, Var) else compiler.terms.dictionary.id_of(predicate)
    if of is not None and len(terms) == GRAPH:
        found = pieces_of(quads.pairs(_graph_key(scope), of))
    else:
        found = quads.index(scope, of, tuple(places), 0).pieces_before()
    names = [terms[place] for place in places]
    for columns in found:
        yield [columns[names.index(v)] for v in operator.variables]


def _tests(compiler: Compiler, operator: op.Scan, places: Sequence[int], filters: Filters) -> str:
    """Returns a name for tests of rows that hold the values of some positions."""
    terms = [_positions(operator)[place] for place in places]
    return compiler.program.made(
        "t", lambda: tuple([(terms.index(variable), make()) for variable, make in filters])
    )


def _loop_over_counts(
    compiler: Compiler, f: Function, operator: op.Scan, access: _Access, point: Point, filters: Filters
) -> bool:
    """Writes a loop over the needed values with their counts, if an index can count them.

    Returns whether the loop was written.
    """
    terms = _positions(operator)
    free = [terms[position] for position in access.free]
    if len(set(free)) < len(free) or operator.excluded:
        return False
    read = [position for position in access.free if terms[position] in point.needed]
    if access.key:
        if access.known != [0] or read != [PREDICATE] or access.free != [PREDICATE, 2]:
            return False
        counts = f"{access.relation}.counts_of({access.key})"
    elif set(access.free) == {0, 2} and len(read) == 1:
        counted = compiler.program.name("q", kept_rows)
        tests = f", {_tests(compiler, operator, read, filters)}" if filters else ""
        counts_at = compiler.program.name("q", counts_of)
        counts = f"{counts_at}({access.relation}, {read[0] // 2}, {counted}{tests})"
    elif PREDICATE in access.free and {0, 2}.issubset(access.free) and not {0, 2}.intersection(read):
        counts = f"{access.relation}.counts({tuple_of([str(position) for position in read])})"
    else:
        return False
    names = [f.fresh() for _ in read]
    factor = f.fresh("w")
    pattern = names[0] if len(names) == 1 else tuple_of(names)
    bound = {terms[p]: Local(name, True) for p, name in zip(read, names, strict=True)}
    with f.block(f"for {pattern}, {factor} in {counts}"):
        point.then(f, {**point.env, **bound}, times(point.weight, factor))  # type: ignore[dict-item]
    return True


def _bind(operator: op.Scan, names: dict[int, str]) -> tuple[dict[Var, Local], list[str]]:
    """Returns the variables that a row binds, and tests that a repeated variable has one value."""
    bound: dict[Var, Local] = {}
    tests = []
    for position, term in enumerate(_positions(operator)):
        if isinstance(term, Var) and position in names:
            if term in bound:
                tests.append(f"{names[position]} == {bound[term].name}")
            else:
                bound[term] = Local(names[position], True)
    return bound, tests


def _excluded(compiler: Compiler, operator: op.Scan, name: str | None) -> list[str]:
    if not operator.excluded:
        return []
    ids = compiler.program.made(
        "x", lambda: frozenset(map(compiler.terms.dictionary.id_of, operator.excluded))
    )
    return [f"{name} not in {ids}"]


def _has(access: _Access, known: dict[int, str], when: str) -> str:
    if access.known == [0, 2] and access.key == known[0]:
        return f"{access.relation}.has_{when}({known[0]}, {known[2]})"
    return f"{access.relation}.has_{when}({access.key}, ())"


def count(compiler: Compiler, node: Node, state: State, env: Env) -> tuple[str, str]:
    """Writes the number of a pattern's solutions; if nothing is free, "1" and a test."""
    operator = node.operator
    assert isinstance(operator, op.Scan)
    known = _known_positions(compiler, operator, env)
    when = _STATES[state]
    free = [term for p, term in enumerate(_positions(operator)) if p not in known]
    simple = len(set(free)) == len(free) and not operator.excluded
    if simple:
        access = _access(compiler, operator, known)
        if not free:
            return "1", _has(access, known, when)
        if access.key:
            return f"{access.relation}.count_{when}({access.key})", ""
        return f"{access.relation}.size_{when}()", ""
    bound = [v for v in operator.variables if v in env]
    rows = compiler.probe(node, state, bound, ())
    return f"len({rows}({', '.join(env[v].name for v in bound)}))", ""


def changed_rows(
    compiler: Compiler, f: Function, operator: op.Scan
) -> tuple[str, dict[Var, Local], list[str]]:
    """Writes the header of a loop over changed quads that match; returns also its variables and tests."""
    names = {position: f.fresh() for position in range(4)}
    bound, tests = _bind(operator, names)
    tests += _excluded(compiler, operator, names[PREDICATE])
    return f"for {', '.join(names.values())}, w in rows", bound, tests


def most_quads(compiler: Compiler, operator: op.Scan) -> int | None:
    """Returns an upper bound on the quads that match a pattern, from its constants; None without an index."""
    id_of, reader = compiler.terms.dictionary.id_of, compiler.quads
    subject, predicate, object_ = operator.positions
    known = subject if not isinstance(subject, Var) else object_
    if isinstance(known, Var) or (isinstance(predicate, Var) and not reader.has_orders):
        return None
    if isinstance(predicate, Var):
        return reader.ordered("osp" if known is object_ else "spo", 1).count_before(id_of(known))
    part = reader.part(id_of(predicate))
    if part is None:
        return 0
    return (part.backward() if known is object_ else part.forward).count_before(id_of(known))


def fan_out(compiler: Compiler, operator: op.Scan, bound: frozenset[Var]) -> float | None:
    """Returns the measured number of solutions per lookup, if the index exists and has rows."""
    if isinstance(operator.predicate, Var) or isinstance(operator.graph, op.NamedGraphs):
        return None
    id_of = compiler.terms.dictionary.id_of
    graph = _graph_key(scope_of(compiler.terms.dictionary, operator.graph))
    forward = compiler.quads.pairs_if_any(graph, id_of(operator.predicate))
    size = forward.size_about()
    if not size:
        return None
    subject, object_ = operator.subject, operator.object
    if not isinstance(subject, Var):
        return float(forward.count_before(id_of(subject)))
    if subject in bound:
        return forward.fan_out
    if compiler.lazy and isinstance(object_, Var) and object_ in bound:
        return values_per_object(forward)
    if not isinstance(object_, Var) or object_ in bound:
        inverse = compiler.quads.inverse(graph, id_of(operator.predicate))
        if not isinstance(object_, Var):
            return float(inverse.count_before(id_of(object_)))
        return inverse.fan_out
    return float(size)
