"""A plan that is evaluated once: its result on the quads as they are, and no trace of it afterwards."""

from __future__ import annotations

from sparqlive.live.maintained import Maintained
from sparqlive.live.quads import Quads
from sparqlive.live.terms import Terms
from sparqlive.plan.operators import Operator
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.zset.relation import Row


def compute_once(plan: Operator, quads: Quads, terms: Terms) -> dict[Row, int]:
    with quads.temporary():
        return Maintained(store_unreachable(rewrite(plan)), quads, terms).compute()
