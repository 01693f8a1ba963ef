"""The order in which a join looks things up."""

from __future__ import annotations

import re

import sparqlive

QUERY = """
PREFIX : <http://x/>
SELECT * { ?a :p ?b . ?b :p ?c . ?c a :Class . ?c :q ?a }
"""


def test_what_ties_two_variables_is_tested_before_a_class() -> None:
    """The first fails for nearly all solutions, the second for hardly any."""
    with sparqlive.open() as session:
        session.view("cycles", QUERY)
        session.apply(insert="<http://x/1> <http://x/p> <http://x/2> .")
        (compiled,) = session._writer.views.registry._single
        both = [re.findall(r"has_\w+\((.*)\)", source) for source in compiled.sources]
    tests = next(found for found in both if len(found) == 2)
    assert re.fullmatch(r"v_\d+, v_\d+", tests[0])
    assert re.fullmatch(r"v_\d+, c\d+", tests[1])
