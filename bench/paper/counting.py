"""The counting paper's own method: its delta rules in DuckDB, over strings, with every subpattern stored.

Written from the paper (§4 and §5.1) as the baseline. A pattern is a tree of operators; each operator stores
its result as one table per schema, with a column `k` for the multiplicity. `compute` evaluates all operators
from scratch. `update` evaluates the delta rules, operator by operator, and adds the deltas to what is stored.

`published=True` adds a delta as the paper says it: a new table by a full outer join (§5.1), and a copy of the
graph for G'. Otherwise the method is tuned: MERGE changes only rows that change, G' is a view, and the rule
of a triple pattern that nothing in the delta matches is left out.

Invariant: no stored table has a row with k = 0.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
Triple = tuple[str, str, str]
Schema = tuple[str, ...]
"""Names of variables, sorted."""


@dataclass(frozen=True)
class Bgp:
    """Triple patterns; a term that begins with `?` is a variable."""

    patterns: tuple[Triple, ...]
    label: str = "BGP"


@dataclass(frozen=True)
class Filter:
    """`condition` is SQL over the variables; `number(x)` is the number that a term is."""

    child: Pattern
    condition: str
    label: str = "Filter"


@dataclass(frozen=True)
class Project:
    child: Pattern
    variables: Schema
    label: str = "Project"


@dataclass(frozen=True)
class Union:
    left: Pattern
    right: Pattern
    label: str = "Union"


@dataclass(frozen=True)
class Minus:
    left: Pattern
    right: Pattern
    label: str = "Minus"


@dataclass(frozen=True)
class LeftJoin:
    left: Pattern
    right: Pattern
    label: str = "LeftJoin"


@dataclass(frozen=True)
class Sum:
    """SUM of the numbers of one variable for each value of another (§5.3)."""

    child: Pattern
    key: str
    value: str
    label: str = "Sum"


Pattern = Bgp | Filter | Project | Union | Minus | LeftJoin | Sum


def sparql(pattern: Pattern) -> str:
    """The group graph pattern in SPARQL that a tree of operators stands for. Not for Sum."""
    match pattern:
        case Bgp(patterns):
            return "{ " + " . ".join(" ".join(triple) for triple in patterns) + " }"
        case Filter(child, condition):
            test = re.sub(r"\b(?:number\()?([a-z]\w*)\)?", r"?\1", condition)
            test = test.replace("<>", "!=").replace("AND", "&&")
            return f"{{ {sparql(child)} FILTER({test}) }}"
        case Project(child, variables):
            return f"{{ SELECT {' '.join(f'?{name}' for name in variables)} {sparql(child)} }}"
        case Union(left, right):
            return f"{{ {sparql(left)} UNION {sparql(right)} }}"
        case Minus(left, right):
            return f"{{ {sparql(left)} MINUS {sparql(right)} }}"
        case LeftJoin(left, right):
            return f"{{ {sparql(left)} OPTIONAL {sparql(right)} }}"
        case Sum():
            raise ValueError("a sum has no pattern")


@dataclass
class Stored:
    """An operator with its tables: of its result, and of the delta of the current update."""

    pattern: Pattern
    children: list[Stored]
    name: str
    tables: dict[Schema, str] = field(default_factory=dict)
    deltas: dict[Schema, str] = field(default_factory=dict)
    seconds: float = 0.0
    """Of the last computation or update of this operator alone."""


class Counting:
    """A graph, given as triples or as a table of them, and one pattern over it."""

    def __init__(
        self, triples: Sequence[Triple] | pa.Table, pattern: Pattern, *, published: bool = False
    ) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": "2"})
        self._published = published
        self._changed: Sequence[Triple] = ()
        self._run("SET enable_progress_bar = false")
        self._run("""CREATE MACRO number(x) AS CAST(split_part(x, '"', 2) AS BIGINT)""")
        given = triples if isinstance(triples, pa.Table) else _table((*triple, 1) for triple in triples)
        self._connection.register("given", given)
        self._run("CREATE TABLE g AS SELECT * FROM given ORDER BY p, s")
        self._connection.unregister("given")
        self.operators: list[Stored] = []
        self.replace(pattern)

    def replace(self, pattern: Pattern) -> None:
        """Forgets what is stored. The new pattern is not computed yet."""
        for operator in self.operators:
            for table in (*operator.tables.values(), *operator.deltas.values()):
                self._run(f"DROP TABLE {table}")
        self._count = 0
        self.root = self._stored(pattern)
        self.operators = list(_all(self.root))

    def _stored(self, pattern: Pattern) -> Stored:
        match pattern:
            case Bgp():
                children = []
            case Union(left, right) | Minus(left, right) | LeftJoin(left, right):
                children = [self._stored(left), self._stored(right)]
            case _:
                children = [self._stored(pattern.child)]
        self._count += 1
        return Stored(pattern, children, f"r{self._count}")

    # From scratch

    def compute(self) -> float:
        """Evaluates and stores every operator. Returns the seconds of all."""
        for operator in self.operators:
            start = time.perf_counter()
            for number, (schema, sql) in enumerate(self._scratch(operator)):
                name = f"{operator.name}_{number}"
                self._run(f"CREATE OR REPLACE TABLE {name} AS {sql}")
                operator.tables[schema] = name
            operator.seconds = time.perf_counter() - start
        return self.seconds

    def _scratch(self, operator: Stored) -> Iterable[tuple[Schema, str]]:
        inputs = [child.tables for child in operator.children]
        match operator.pattern:
            case Bgp(patterns):
                yield _bgp(patterns, ["g"] * len(patterns))
            case LeftJoin() | Minus():
                left, (right,) = inputs[0], inputs[1].items()
                for schema, table in left.items():
                    shared = [name for name in schema if name in right[0]]
                    if isinstance(operator.pattern, LeftJoin):
                        yield _join(schema, table, *right)
                    if isinstance(operator.pattern, Minus) and not shared:
                        yield schema, f"SELECT * FROM {table}"
                    else:
                        yield schema, f"SELECT * FROM {table} l WHERE {_absent(right[1], shared)}"
            case _:
                yield from self._linear(operator.pattern, inputs)

    def _linear(self, pattern: Pattern, inputs: Sequence[dict[Schema, str]]) -> Iterable[tuple[Schema, str]]:
        """Operators whose delta is the operator applied to the delta."""
        match pattern:
            case Filter(_, condition):
                for schema, table in inputs[0].items():
                    yield schema, f"SELECT * FROM {table} WHERE {condition}"
            case Project(_, variables):
                found: dict[Schema, list[str]] = {}
                for schema, table in inputs[0].items():
                    kept = tuple(name for name in schema if name in variables)
                    found.setdefault(kept, []).append(f"SELECT {_list(kept, 'k')} FROM {table}")
                for kept, parts in found.items():
                    yield kept, _summed(kept, " UNION ALL ".join(parts))
            case Union():
                schemas = dict.fromkeys([*inputs[0], *inputs[1]])
                for schema in schemas:
                    tables = [tables[schema] for tables in inputs if schema in tables]
                    parts = [f"SELECT {_list(schema, 'k')} FROM {table}" for table in tables]
                    yield schema, _summed(schema, " UNION ALL ".join(parts))
            case Sum(_, key, value):
                ((_, table),) = inputs[0].items()
                yield (
                    (key,),
                    f"SELECT {key}, CAST(sum(number({value}) * k) AS BIGINT) AS total, "
                    f"CAST(sum(k) AS BIGINT) AS k FROM {table} GROUP BY {key}",
                )

    # The delta rules

    def update(self, deletes: Sequence[Triple], inserts: Sequence[Triple]) -> float:
        """Carries a change of the graph through all operators. Returns the seconds of all, graph included."""
        start = time.perf_counter()
        self._changed = [*deletes, *inserts]
        rows = [*((*triple, -1) for triple in deletes), *((*triple, 1) for triple in inserts)]
        self._connection.register("given", _table(rows))
        self._run("CREATE OR REPLACE TABLE delta_g AS SELECT * FROM given")
        self._connection.unregister("given")
        kind = "TABLE" if self._published else "VIEW"
        union = "SELECT * FROM g UNION ALL SELECT * FROM delta_g"
        new = _summed(("s", "p", "o"), union) if self._published else union
        self._run(f"CREATE OR REPLACE {kind} nu_g AS {new}")
        for operator in self.operators:
            begun = time.perf_counter()
            self._delta(operator)
            operator.seconds = time.perf_counter() - begun
        for operator in self.operators:
            begun = time.perf_counter()
            for schema, delta in operator.deltas.items():
                self._add(operator.tables[schema], delta, schema, isinstance(operator.pattern, Sum))
            operator.seconds += time.perf_counter() - begun
        if self._published:
            self._run("DROP TABLE g")
            self._run("ALTER TABLE nu_g RENAME TO g")
        else:
            self._add("g", "delta_g", ("s", "p", "o"))
        return time.perf_counter() - start

    def _delta(self, operator: Stored) -> None:
        operator.deltas = {}
        changed = any(self._has_rows(t) for child in operator.children for t in child.deltas.values())
        if operator.children and not changed:
            return
        match operator.pattern:
            case Bgp(patterns):
                rules = self._rules(patterns)
                if not rules:
                    return
                schema = _variables(patterns)
                found: Iterable[tuple[Schema, str]] = [(schema, _summed(schema, " UNION ALL ".join(rules)))]
            case LeftJoin() | Minus():
                found = self._negation(operator)
            case _:
                found = self._linear(operator.pattern, [child.deltas for child in operator.children])
        for number, (schema, sql) in enumerate(found):
            name = f"d_{operator.name}_{number}"
            self._run(f"CREATE OR REPLACE TABLE {name} AS {sql}")
            operator.deltas[schema] = name

    def _rules(self, patterns: Sequence[Triple]) -> list[str]:
        """Theorem 4.3: pattern i reads the delta, those before it G', those after it G."""
        rules = []
        for number, pattern in enumerate(patterns):
            if not self._published and not any(_matches(pattern, triple) for triple in self._changed):
                continue
            sources = ["nu_g"] * number + ["delta_g"] + ["g"] * (len(patterns) - number - 1)
            rules.append(_bgp(patterns, sources)[1])
        return rules

    def _negation(self, operator: Stored) -> Iterable[tuple[Schema, str]]:
        """Theorem 4.6: (ΔL ⊖ R) + (L' ⋈ flips(R, ΔR)); and for LeftJoin the two join rules (Theorem 4.5)."""
        left, right = operator.children
        ((right_schema, right_table),) = right.tables.items()
        right_delta = right.deltas.get(right_schema)
        for schema, table in left.tables.items():
            shared = [name for name in schema if name in right_schema]
            delta = left.deltas.get(schema)
            if delta is None and right_delta is None:
                continue
            new = table if delta is None else f"(SELECT * FROM {table} UNION ALL SELECT * FROM {delta})"
            if isinstance(operator.pattern, LeftJoin):
                parts = []
                if delta is not None:
                    parts.append(_join(schema, delta, right_schema, right_table)[1])
                if right_delta is not None:
                    parts.append(_join(schema, new, right_schema, right_delta)[1])
                both = tuple(sorted({*schema, *right_schema}))
                yield both, _summed(both, " UNION ALL ".join(parts))
            if isinstance(operator.pattern, Minus) and not shared:
                if delta is not None:
                    yield schema, f"SELECT * FROM {delta}"
                continue
            parts = []
            if delta is not None:
                parts.append(
                    f"SELECT {_list(schema, 'k')} FROM {delta} l WHERE {_absent(right_table, shared)}"
                )
            if right_delta is not None:
                on = " AND ".join(f"l.{name} = f.{name}" for name in shared) or "true"
                parts.append(
                    f"SELECT {_list([f'l.{name}' for name in schema], 'l.k * f.k AS k')} FROM {new} l "
                    f"JOIN ({_flips(right_table, right_delta, shared)}) f ON {on}"
                )
            yield schema, _summed(schema, " UNION ALL ".join(parts))

    def _add(self, table: str, delta: str, schema: Schema, sums: bool = False) -> None:
        """Adds a delta to what is stored."""
        values = ("total", "k") if sums else ("k",)
        on = " AND ".join(f"t.{name} = d.{name}" for name in schema) or "true"
        if self._published:
            columns = [f"coalesce(t.{name}, d.{name}) AS {name}" for name in schema]
            columns += [f"coalesce(t.{v}, 0) + coalesce(d.{v}, 0) AS {v}" for v in values]
            self._run(
                f"CREATE OR REPLACE TABLE new AS SELECT {', '.join(columns)} "
                f"FROM {table} t FULL OUTER JOIN {delta} d ON {on} "
                f"WHERE coalesce(t.k, 0) + coalesce(d.k, 0) <> 0"
            )
            self._run(f"DROP TABLE {table}")
            self._run(f"ALTER TABLE new RENAME TO {table}")
            return
        changed = ", ".join(f"{value} = t.{value} + d.{value}" for value in values)
        columns = [*schema, *values]
        self._run(
            f"MERGE INTO {table} t USING {delta} d ON {on} "
            f"WHEN MATCHED AND t.k + d.k = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET {changed} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f'd.{column}' for column in columns)})"
        )

    # What is there

    @property
    def seconds(self) -> float:
        return sum(operator.seconds for operator in self.operators)

    def rows(self, operator: Stored | None = None) -> int:
        """How many rows an operator stores; without one: all operators."""
        operators = self.operators if operator is None else [operator]
        return sum(self._number(f"SELECT count(*) FROM {t}") for o in operators for t in o.tables.values())

    def weights(self, variables: Sequence[str]) -> dict[tuple[str | None, ...], int]:
        """The result as a view's weights are, with terms as text."""
        found = {}
        for schema, table in self.root.tables.items():
            names = [name if name in schema else "NULL" for name in variables]
            if isinstance(self.root.pattern, Sum):
                rows = self._run(f"SELECT {self.root.pattern.key}, total, 1 FROM {table}").fetchall()
            else:
                rows = self._run(f"SELECT {_list(names, 'k')} FROM {table}").fetchall()
            found.update({tuple(row[:-1]): row[-1] for row in rows})
        return found

    def checksum(self, variables: Sequence[str]) -> str:
        """See `digest`."""
        parts = []
        for schema, table in self.root.tables.items():
            names = [name if name in schema else f"CAST(NULL AS VARCHAR) AS {name}" for name in variables]
            if isinstance(self.root.pattern, Sum):
                names = [self.root.pattern.key, f"""'"' || total || '"^^<{_INTEGER}>' AS total"""]
            weight = "1" if isinstance(self.root.pattern, Sum) else "k"
            parts.append(f"SELECT {_list(names, f'{weight} AS k')} FROM {table}")
        return digest(self._connection, " UNION ALL ".join(parts), variables, "k")

    def close(self) -> None:
        self._connection.close()

    def _run(self, sql: str) -> Any:
        return self._connection.execute(sql)

    def _number(self, sql: str) -> int:
        return int(self._run(sql).fetchall()[0][0])

    def _has_rows(self, table: str) -> bool:
        return bool(self._run(f"SELECT 1 FROM {table} LIMIT 1").fetchall())


def digest(connection: duckdb.DuckDBPyConnection, rows: str, names: Sequence[str], weight: str) -> str:
    """A checksum of rows with weights, in any order: how many there are, and a sum over all of them."""
    text = " || ' ' || ".join(f"coalesce({name}, '')" for name in names)
    connection.execute("SET enable_progress_bar = false")
    sql = f"SELECT count(*), sum(CAST(md5_number_lower({text}) AS HUGEINT) * {weight}) FROM ({rows})"
    ((rows_count, total),) = connection.execute(sql).fetchall()
    return f"{rows_count}:{int(total or 0) % 2**64:016x}"


def _all(operator: Stored) -> Iterable[Stored]:
    """Operators, children first."""
    for child in operator.children:
        yield from _all(child)
    yield operator


def _table(rows: Iterable[tuple[str, str, str, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    types = (pa.string(), pa.string(), pa.string(), pa.int64())
    return pa.table({name: pa.array(c, t) for name, c, t in zip("spok", columns, types, strict=True)})


def _list(names: Sequence[str], last: str) -> str:
    return ", ".join([*names, last])


def _summed(schema: Sequence[str], sql: str) -> str:
    """Adds up the multiplicities of equal rows."""
    group = f" GROUP BY {', '.join(schema)}" if schema else ""
    return f"SELECT {_list(schema, 'CAST(sum(k) AS BIGINT) AS k')} FROM ({sql}){group} HAVING sum(k) <> 0"


def _variables(patterns: Sequence[Triple]) -> Schema:
    return tuple(sorted({term[1:] for pattern in patterns for term in pattern if term.startswith("?")}))


def _matches(pattern: Triple, triple: Triple) -> bool:
    return all(term.startswith("?") or term == own for term, own in zip(pattern, triple, strict=True))


def _constants(table: str, pattern: Triple) -> str:
    quoted = {column: term.replace("'", "''") for column, term in zip("spo", pattern, strict=True)}
    return " AND ".join(f"{table}{c} = '{t}'" for c, t in quoted.items() if not t.startswith("?")) or "true"


def _bgp(patterns: Sequence[Triple], sources: Sequence[str]) -> tuple[Schema, str]:
    """The join of triple patterns, each over its source (appendix A)."""
    first: dict[str, str] = {}
    conditions = []
    for number, pattern in enumerate(patterns):
        conditions.append(_constants(f"t{number}.", pattern))
        for column, term in zip("spo", pattern, strict=True):
            place = f"t{number}.{column}"
            if term.startswith("?") and first.setdefault(term[1:], place) != place:
                conditions.append(f"{place} = {first[term[1:]]}")
    schema = _variables(patterns)
    columns = [f"{first[name]} AS {name}" for name in schema]
    weight = " * ".join(f"t{number}.k" for number in range(len(patterns)))
    tables = ", ".join(f"{source} t{number}" for number, source in enumerate(sources))
    return schema, f"SELECT {_list(columns, f'{weight} AS k')} FROM {tables} WHERE {' AND '.join(conditions)}"


def _join(schema: Schema, left: str, right_schema: Schema, right: str) -> tuple[Schema, str]:
    both = tuple(sorted({*schema, *right_schema}))
    on = " AND ".join(f"l.{name} = r.{name}" for name in schema if name in right_schema) or "true"
    columns = [f"{'l' if name in schema else 'r'}.{name}" for name in both]
    return both, f"SELECT {_list(columns, 'l.k * r.k AS k')} FROM {left} l JOIN {right} r ON {on}"


def _absent(right: str, shared: Sequence[str]) -> str:
    on = " AND ".join(f"l.{name} = r.{name}" for name in shared) or "true"
    return f"NOT EXISTS (SELECT 1 FROM {right} r WHERE {on})"


def _flips(right: str, delta: str, shared: Sequence[str]) -> str:
    """+1 for keys that leave the right side altogether, −1 for keys that enter it."""
    keys = ", ".join(shared)
    group = f" GROUP BY {keys}" if shared else ""
    on = " AND ".join(f"o.{name} = d.{name}" for name in shared) or "true"
    return (
        f"SELECT {_list([f'd.{name}' for name in shared], 'CASE WHEN o.k IS NULL THEN -1 ELSE 1 END AS k')} "
        f"FROM (SELECT {_list(shared, 'sum(k) AS k')} FROM {delta}{group}) d "
        f"LEFT JOIN (SELECT {_list(shared, 'sum(k) AS k')} FROM {right}{group} HAVING count(*) > 0) o "
        f"ON {on} "
        f"WHERE (o.k IS NULL AND d.k > 0) OR o.k + d.k = 0"
    )
