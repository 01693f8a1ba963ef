"""Parses and plans the queries of views, and one-off queries.

Owns the plans of one-off queries, which are kept for the next time. Rejects queries that cannot
be planned. Invariant: a plan that is kept depends on the text alone, not on views, endpoints or the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from threading import Lock

from sparqlive.engine.limits import QUERY_CHARACTERS
from sparqlive.engine.services import Services
from sparqlive.engine.views import Views
from sparqlive.errors import Error, TooLarge
from sparqlive.live.once import Runnable, reads_of, runnable
from sparqlive.live.terms import Terms
from sparqlive.plan.checks import check_functions
from sparqlive.plan.explain import Explained, explain_plan
from sparqlive.plan.normal_form import Spelling, spelling_of
from sparqlive.plan.once import fixed
from sparqlive.plan.operators import GraphChoice, Operator, kept_of
from sparqlive.plan.rewrites import rewrite
from sparqlive.plan.rewrites.store_unreachable import store_unreachable
from sparqlive.plan.services import services_in, with_unknown_tables
from sparqlive.plan.translate import translate
from sparqlive.plan.unfold import unfold, views_read
from sparqlive.quads.snapshot import Snapshot
from sparqlive.runtime.tuning import Tuning
from sparqlive.sparql.algebra import Dataset, Query, Term
from sparqlive.sparql.syntax import parse_query, plain_text


@dataclass(frozen=True)
class PlannedQuery:
    """A one-off query, its plan, and the part of the plan whose rows are computed.

    If it asks endpoints, the plan has placeholder tables instead of their solutions.
    """

    query: Query
    plan: Operator
    kept: Operator
    graph_of: Callable[[str], Operator]
    """Gives the graphs of views as they were when the query was planned."""

    @cached_property
    def asks_endpoints(self) -> bool:
        return any(services_in(self.query))

    @cached_property
    def spelling(self) -> Spelling:
        return spelling_of(self.plan)

    @cached_property
    def reads(self) -> frozenset[tuple[GraphChoice, Term | None]]:
        """The graphs and predicates that it reads."""
        return reads_of(self.kept)

    @cached_property
    def runnable(self) -> Runnable:
        """The plan as it is evaluated; volatile functions have to be evaluated first, if it has any."""
        return runnable(self.kept)


class Planning:
    """Plans of queries. `union`: whether a query's default graph is the union of all graphs."""

    def __init__(self, views: Views, union: bool, tuning: Tuning) -> None:
        self._views = views
        self._tuning = tuning
        self._union = union
        self._planned: dict[tuple[str, str | None, Dataset | None], PlannedQuery] = {}
        self._guard = Lock()

    def plan(self, text: str, base: str | None, name: str | None = None) -> tuple[Query, Operator]:
        """Parses and plans a query, for the view `name` if given."""
        parsed = self._parsed(text, base, volatile=False)
        if name is not None:
            self._views.check_no_cycle(name, views_read(parsed))
        return parsed, self.translated(parsed)

    def _parsed(self, text: str, base: str | None, volatile: bool, dataset: Dataset | None = None) -> Query:
        """Parses and checks a query; `dataset` replaces the query's own."""
        if isinstance(text, str) and len(text) > QUERY_CHARACTERS:
            raise TooLarge(
                f"The query has {len(text):,} characters; the limit is {QUERY_CHARACTERS:,}. Put long lists "
                f"of values into the data."
            )
        parsed = parse_query(text, base)
        if dataset is not None:
            parsed = replace(parsed, dataset=dataset)
        check_functions(parsed, volatile)
        return fixed(parsed) if volatile else parsed

    def planned_before(self, text: str, base: str | None, dataset: Dataset | None) -> PlannedQuery | None:
        """What `plan_once` has kept for the same query, if anything."""
        return self._planned.get((text, base, dataset))

    def plan_once(self, text: str, base: str | None, dataset: Dataset | None) -> PlannedQuery:
        """Plans a one-off query. Plans that depend on the text alone are kept for a while."""
        parsed = self._parsed(text, base, volatile=True, dataset=dataset)
        graph_of = cache(self._views.graph_of)
        plan = self.translated(with_unknown_tables(parsed), graph_of)
        planned = PlannedQuery(parsed, plan, kept_of(plan), graph_of)
        asks_for_time = "now" in plain_text(text).lower()
        is_fixed = not asks_for_time and not views_read(parsed) and not planned.asks_endpoints
        if len(text) <= self._tuning.kept_characters and is_fixed:
            with self._guard:
                while len(self._planned) >= self._tuning.kept_plans:
                    del self._planned[next(iter(self._planned))]
                self._planned[(text, base, dataset)] = planned
        return planned

    def translated(self, query: Query, graph_of: Callable[[str], Operator] | None = None) -> Operator:
        """Plans a query; `graph_of` gives the graphs of views, by default the current ones."""
        plan = translate(query, self._union)
        return unfold(plan, graph_of or self._views.graph_of) if views_read(query) else plan

    def answered(
        self,
        planned: PlannedQuery,
        quads: Snapshot,
        terms: Terms,
        allow_private: bool,
        refusal: Error | None,
    ) -> PlannedQuery:
        """Asks the endpoints of a query, on its snapshot of the quads."""

        def plan_of(query: Query) -> Operator:
            return self.translated(query, planned.graph_of)

        query = Services(planned.query, plan_of, quads, terms, allow_private, refusal).answered()
        plan = plan_of(query)
        return PlannedQuery(query, plan, kept_of(plan), planned.graph_of)

    def explained(self, text: str, base: str | None) -> Explained:
        """The plan that a view of the query would have; see `Session.explained`."""
        _, plan = self.plan(text, base)
        return explain_plan(store_unreachable(rewrite(kept_of(plan))), {})
