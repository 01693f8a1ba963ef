"""Reads the rows of a plan that is evaluated once as columns.

Covers whole patterns, and bindings and projections over them. A binding of one variable is evaluated once per
value in a block of rows; if it depends only on the datatype and language tag, once per distinct pair of
these. Invariant: the rows equal those of `Compiler.stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparqlive.live import extend, scan
from sparqlive.plan import operators as op
from sparqlive.rdf.dictionary import UNDEF
from sparqlive.sparql.algebra import Constant
from sparqlive.sparql.column_tests import TermTexts, reads_shape_alone
from sparqlive.sparql.expressions import compile_expression
from sparqlive.zset.blocks import Block
from sparqlive.zset.run import Column

if TYPE_CHECKING:
    from sparqlive.live.compiler import Compiler, Node


def is_columnar(node: Node) -> bool:
    """Returns whether the rows of an operator can be read as columns."""
    operator = node.operator
    match operator:
        case op.Scan():
            # Without these variables, solutions are counted instead of listed.
            own = bool(scan.wholly_read(operator) & node.needed)
        case op.Extend():
            reads = extend.item_of(operator).reads
            is_single = len(reads) == 1 and reads <= operator.source.always
            own = is_single or isinstance(operator.expression, Constant)
        case _:
            own = isinstance(operator, op.Project | op.Union | op.Table)
    return own and all(map(is_columnar, node.children))


def blocks(compiler: Compiler, node: Node) -> Iterator[Block]:
    """Yields all rows of a columnar operator, as columns of its variables."""
    operator, variables = node.operator, node.operator.variables
    id_of = compiler.terms.dictionary.id_of
    if isinstance(operator, op.Scan):
        for columns in scan.pieces(compiler, operator):
            yield Block(tuple(columns), np.ones(len(columns[0]), np.int64))
    elif isinstance(operator, op.Extend):
        bind = _binding(compiler, operator)
        for block in blocks(compiler, node.children[0]):
            yield Block((*block.columns, bind(block)), block.weights)
        return
    elif isinstance(operator, op.Table):
        rows = [[UNDEF if term is None else id_of(term) for term in row] for row in operator.rows]
        table = np.array(rows, np.int64).reshape(len(rows), len(variables))
        yield Block(tuple(table.T), np.ones(len(rows), np.int64))
    for child in node.children:
        names = child.operator.variables
        for block in blocks(compiler, child):
            own = dict(zip(names, block.columns, strict=True))
            unbound = np.full(len(block.weights), UNDEF)
            yield Block(tuple([own.get(v, unbound) for v in variables]), block.weights)


def _binding(compiler: Compiler, operator: op.Extend) -> Callable[[Block], Column]:
    """Returns a function that computes the column of a binding of at most one variable in a block."""
    expression, dictionary = operator.expression, compiler.terms.dictionary
    if isinstance(expression, Constant):
        constant = dictionary.id_of(expression.term)
        return lambda block: np.full(len(block.weights), constant)
    (variable,) = extend.item_of(operator).reads
    place = operator.source.variables.index(variable)
    if expression == variable:
        return lambda block: block.columns[place]
    one = compiler.terms.binding(expression, compile_expression(expression, [variable]))
    by_shape = reads_shape_alone(expression, variable)

    def bind(block: Block) -> Column:
        values, places = np.unique(block.columns[place], return_inverse=True)
        if by_shape and len(values):
            shapes, firsts = TermTexts(dictionary.column(values)).shapes()
            values, places = values[firsts], shapes[places]
        return np.fromiter(map(one, values.tolist()), np.int64, len(values))[places]

    return bind
