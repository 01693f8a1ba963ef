"""Generates Python functions as source text, compiled once per query shape.

A `Function` collects the solutions of nested loops in one of several ways (`Gathering`). Loops that would
nest deeper than Python allows continue in a nested function. Invariant: the source text contains only names,
never constants of the query, so queries of one shape share one code object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any, TypeAlias

from sparqlive.plan.checks import too_large
from sparqlive.runtime.deadline import Flag, flagged, give_way
from sparqlive.sparql.algebra import Var

# CPython rejects more than 20 nested loops and 100 levels of indentation.
_DEEPEST = 12
# Maximum number of nested calls while writing; the remaining code is written afterwards.
_LONGEST = 40


class Gathering(Enum):
    """What a function does with a solution."""

    SUM = "adds its weight in the dict `out`"
    ROWS = "appends (row, weight) to the list `out`"
    EACH = "yields (row, weight)"
    FIRST = "yields (row, weight), the first as early as possible: counts nothing ahead"
    COUNT = "adds its weight to a number"
    EXISTS = "stops at the first"


LAZY = (Gathering.EACH, Gathering.FIRST)


@dataclass(frozen=True, slots=True)
class Local:
    """A variable of the query as a local of the function. `bound`: the variable is never UNDEF."""

    name: str
    bound: bool


UNBOUND = "0"
"""Replaces the name of a local for a variable that is never bound."""

Env: TypeAlias = Mapping[Var, Local]
Continue: TypeAlias = "Callable[[Function, Env, str], None]"


@dataclass(frozen=True, slots=True)
class Point:
    """A point in a function: its bound variables, weight so far, variables read later, and continuation.

    `then` is called once per written loop, with the variables that the loop binds and its weight.
    """

    env: Env
    weight: str
    needed: frozenset[Var]
    then: Continue

    def within(self, env: Env, then: Continue) -> Point:
        """The same point with another environment, and another continuation."""
        return Point(env, self.weight, self.needed, then)


class Program:
    """The namespace that the functions of one plan share: relations, constants and each other, by name.

    `renewable`: the functions run repeatedly, each time on other quads and terms (`renew`).
    """

    def __init__(self, renewable: bool = False) -> None:
        self.stop: Flag = flagged([])
        """All loops check it: an exception stored here ends them, and None makes them yield to other threads.
        """
        self.namespace: dict[str, Any] = {"stop": self.stop, "halt": self._halt, "either": _either}
        self.sources: list[str] = []
        self.length = 0
        """Total number of characters in all sources."""
        self._names: dict[int, str] = {}
        self._objects: list[Any] = []
        self._numbers = count()
        self._renewable = renewable
        self._made: dict[str, Callable[[], Any]] = {}
        """Factories of the values that depend on quads or terms, by name."""

    def name(self, prefix: str, value: Any) -> str:
        """Returns the global name of an object; the same object always gets the same name."""
        known = self._names.get(id(value))
        if known is not None and self.namespace[known] is value:
            return known
        name = f"{prefix}{next(self._numbers)}"
        self.namespace[name] = value
        self._names[id(value)] = name
        self._objects.append(value)
        return name

    def made(self, prefix: str, make: Callable[[], Any]) -> str:
        """Returns a global name for an object that depends on the quads or terms."""
        return self._fresh(prefix, make) if self._renewable else self.name(prefix, make())

    def constant(self, make: Callable[[], int]) -> str:
        """Returns a name for a number of the query. Equal numbers may have several names."""
        return self._fresh("c", make)

    def _fresh(self, prefix: str, make: Callable[[], Any]) -> str:
        name = f"{prefix}{next(self._numbers)}"
        self.namespace[name] = make()
        if self._renewable:
            self._made[name] = make
        return name

    def renew(self) -> None:
        """Recreates all objects that depend on the quads or terms."""
        self.stop = self.namespace["stop"] = flagged([])
        for name, make in self._made.items():
            self.namespace[name] = make()

    def release(self) -> None:
        """Drops the objects that depend on quads or terms, and keeps the functions."""
        self.namespace.update(dict.fromkeys(self._made))

    def check(self) -> None:
        """Raises the error that stops the evaluation, if there is one."""
        if self.stop:
            self._halt()

    def _halt(self) -> None:
        error = self.stop[0]
        if error is not None:
            raise error
        give_way(self.stop)

    def function(self, prefix: str, parameters: Sequence[str], gathering: Gathering) -> Function:
        return Function(self, f"{prefix}{next(self._numbers)}", parameters, gathering)

    def define(self, source: str) -> None:
        self.sources.append(source)
        self.length += len(source)
        exec(_compiled(source), self.namespace)


def _either(rows: Iterable[Any], others: Iterable[Any]) -> Iterator[Any]:
    """Yields the rows, or the others if there are no rows."""
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        yield from others


@lru_cache(maxsize=4096)
def _compiled(source: str) -> CodeType:
    try:
        return compile(source, "<sparqlive plan>", "exec")
    except (SyntaxError, MemoryError, RecursionError) as error:
        # Python raises one of these errors if the text nests too deeply.
        if not _is_deep(source):
            raise
        raise too_large() from error


def _is_deep(source: str) -> bool:
    return max(len(line) - len(line.lstrip()) for line in source.splitlines()) > 2 * _DEEPEST


class Function:
    """A Python function while it is being written."""

    def __init__(self, program: Program, name: str, parameters: Sequence[str], gathering: Gathering) -> None:
        self.program = program
        self.name = name
        self.gathering = gathering
        self._lines = [f"def {name}({', '.join(parameters)}):"]
        self._depth = 1
        self._floor = 1  # the depth of the current body, of this function or of a nested one
        self._steps = 0
        self._later: list[_Later] = []
        self._locals = count()
        if gathering is Gathering.SUM:
            self.line("get = out.get")
        elif gathering is Gathering.COUNT:
            self.line("n = 0")

    def fresh(self, hint: str = "v") -> str:
        return f"{hint}_{next(self._locals)}"

    def skip_names_of(self, other: Function) -> None:
        """Makes fresh names of this function differ from those of another."""
        self._locals = other._locals

    def line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(f"{header}:")
        self._depth += 1
        mark = len(self._lines)
        if header.startswith("for "):
            self.line("if stop: halt()")
        yield
        if len(self._lines) == mark:
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def when(self, tests: Sequence[str]) -> Iterator[None]:
        """Opens a block under all of these conditions, or no block if there are none."""
        if not tests:
            yield
            return
        with self.block(f"if {' and '.join(tests)}"):
            yield

    def emit(self, env: Env, weight: str, columns: Sequence[Var]) -> None:
        """Writes the innermost lines: what happens to a solution and its weight."""
        row = tuple_of([env[v].name if v in env else "0" for v in columns])
        match self.gathering:
            case Gathering.SUM:
                self.line(f"r = {row}")
                self.line(f"out[r] = get(r, 0) + {weight}")
            case Gathering.ROWS:
                self.line(f"out.append(({row}, {weight}))")
            case Gathering.EACH | Gathering.FIRST:
                self.line(f"yield {row}, {weight}")
            case Gathering.COUNT:
                self.line(f"n += {weight}")
            case Gathering.EXISTS:
                self.line("return True")

    def unless_too_deep(self, env: Env, weight: str, then: Continue) -> None:
        """Continues here, or in a nested function where Python would not allow more nested loops.

        The nested function stands at the start of this one, where indentation is smallest, and sees its
        locals. It is written after this one, so that a long join needs no deep recursion.
        """
        if self._depth - self._floor <= _DEEPEST and self._steps < _LONGEST:
            self._steps += 1
            then(self, env, weight)
            self._steps -= 1
            return
        name = self.fresh("go")
        self._later.append(_Later(name, env, weight, then))
        if self.gathering is Gathering.EXISTS:
            with self.block(f"if {name}()"):
                self.line("return True")
        elif self.gathering in LAZY:
            self.line(f"yield from {name}()")
        else:
            self.line(f"{name}()")

    def _with_what_follows(self, lines: list[str], depth: int) -> list[str]:
        """Returns a function's lines, with its nested functions at the start of the body."""
        later, self._later = self._later, []
        inside = [line for one in later for line in self._nested_lines(one, depth)]
        return [lines[0], *inside, *lines[1:]]

    def _nested_lines(self, later: _Later, depth: int) -> list[str]:
        self._lines, self._depth, self._floor, self._steps = [], depth, depth + 1, 0
        with self.block(f"def {later.name}()"):
            if self.gathering is Gathering.COUNT:
                self.line("nonlocal n")
            later.then(self, later.env, later.weight)
            if self.gathering is Gathering.EXISTS:
                self.line("return False")
            elif self.gathering in LAZY:
                self._be_generator()
        return self._with_what_follows(self._lines, depth + 1)

    def _be_generator(self) -> None:
        """Makes the function a generator even if no solution writes a `yield`."""
        self.line("return")
        self.line("yield")

    def finish(self) -> str:
        """Compiles the function and returns its name."""
        self._depth = 1
        match self.gathering:
            case Gathering.ROWS:
                self.line("return out")
            case Gathering.COUNT:
                self.line("return n")
            case Gathering.EXISTS:
                self.line("return False")
            case Gathering.EACH | Gathering.FIRST:
                self._be_generator()
        self.program.define("\n".join(self._with_what_follows(self._lines, 1)) + "\n")
        return self.name


@dataclass(frozen=True, slots=True)
class _Later:
    """A nested function that is already called but not written yet."""

    name: str
    env: Env
    weight: str
    then: Continue


def locals_of(env: Env) -> list[str]:
    """Returns the names of the locals in an environment, except those of variables that are never bound."""
    return list(dict.fromkeys(local.name for local in env.values() if local.name != UNBOUND))


def tuple_of(items: Sequence[str]) -> str:
    """Writes a tuple as source text; the text is also valid as the target of a `for` header."""
    if not items:
        return "()"
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def times(weight: str, factor: str) -> str:
    if weight == "1":
        return factor
    return weight if factor == "1" else f"{weight} * {factor}"
