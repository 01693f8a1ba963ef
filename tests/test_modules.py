"""Each module has a test file of its own name, or an entry here: the suites that cover it by behaviour."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "sparqlive"
OPERATORS = {file.stem for file in (SOURCE / "plan" / "operators").glob("*.py")}

# A file of one of these folders is one case of the suite, which goes through all of them.
FOLDERS = {
    "agent/routes": "agent/test_openapi.py agent/test_access.py",
    "bulk/backends/spark": "bulk/test_spark_w3c.py bulk/backends/spark/test_in_store.py",
    "cli": "cli/test_cli.py cli/test_remote.py",
    "pipeline/sinks": "pipeline/test_sinks.py",
    "plan/operators": "plan/test_operators.py",
    "plan/rewrites": "plan/test_rewrites.py plan/test_explain.py",
    "sparql/functions": "sparql/test_expressions.py bulk/test_native.py",
    "sparql/reference": "sparql/test_reference.py",
    "sparql/syntax": "sparql/test_syntax.py sparql/test_leniency.py",
}

MODULES = {
    "__main__": "cli/test_cli.py",
    "agent/agent": "agent/test_waiting_for_others.py",
    "agent/answers": "agent/test_streaming.py",
    "agent/app": "agent/test_running.py agent/test_bodies.py",
    "agent/audit": "agent/test_access.py",
    "agent/channel": "agent/routes/test_subscriptions.py",
    "agent/codings": "agent/test_streaming.py",
    "agent/epoch_log": "agent/routes/test_epochs.py",
    "agent/events": "agent/routes/test_subscriptions.py agent/test_follow.py",
    "agent/hub": "agent/routes/test_subscriptions.py",
    "agent/logs": "agent/test_running.py",
    "agent/metrics": "agent/test_running.py",
    "agent/multipart": "agent/test_bodies.py",
    "agent/operations": "agent/test_openapi.py",
    "agent/problems": "agent/test_robustness.py",
    "agent/settings": "agent/test_negotiation.py test_numbers.py",
    "agent/tokens": "agent/test_access.py",
    "agent/url_encoded": "agent/test_bodies.py",
    "bulk/aggregate": "bulk/test_native.py engine/test_bulk_aggregates.py",
    "bulk/arithmetic": "bulk/test_native.py",
    "bulk/backend": "bulk/test_evaluate.py",
    "bulk/backends/duckdb": "bulk/test_duckdb.py",
    "bulk/comparison": "bulk/test_native.py",
    "bulk/definition": "bulk/test_evaluate.py",
    "bulk/dialect": "bulk/test_native.py bulk/test_native_spark.py",
    "bulk/frame": "bulk/test_evaluate.py",
    "bulk/in_store": "engine/test_file_views.py engine/test_by_workers.py",
    "bulk/ingest/documents": "bulk/ingest/test_job.py",
    "bulk/ingest/effective": "engine/test_by_workers.py",
    "bulk/ingest/lines": "engine/test_by_workers.py",
    "bulk/ingest/parts": "bulk/ingest/test_job.py",
    "bulk/ingest/workers": "bulk/ingest/test_job.py",
    "bulk/lookup": "engine/test_lookups.py",
    "bulk/moments": "bulk/test_native.py",
    "bulk/new_terms": "engine/test_by_workers.py engine/test_file_views.py",
    "bulk/operand": "bulk/test_native.py",
    "bulk/operators": "plan/test_operators.py",
    "bulk/order": "bulk/test_native.py",
    "bulk/sets": "engine/test_by_workers.py",
    "bulk/solutions": "bulk/test_duckdb.py bulk/test_native.py",
    "bulk/stored_rows": "engine/test_lookups.py",
    "bulk/stored_totals": "engine/test_by_workers.py engine/test_totals.py",
    "bulk/strings": "bulk/test_native.py",
    "bulk/terms": "bulk/test_native.py",
    "bulk/typed": "bulk/test_native.py",
    "engine/batches": "engine/test_columns.py engine/test_sweeping.py",
    "engine/budget": "engine/test_file_views.py",
    "engine/changes": "engine/test_columns.py",
    "engine/deferred": "engine/test_refresh.py",
    "engine/epoch": "test_session.py",
    "engine/export": "engine/test_from_files.py",
    "engine/frames": "rdf/test_frames.py engine/test_by_workers.py",
    "engine/graphs": "agent/routes/test_graph_store.py engine/test_sweeping.py",
    "engine/history": "test_session.py store/test_history.py",
    "engine/incoming": "engine/test_by_workers.py",
    "engine/ingest": "engine/test_by_workers.py",
    "engine/live_table": "engine/test_notebook.py",
    "engine/net_changes": "engine/test_beside_epochs.py engine/test_limits.py",
    "engine/older_assertions": "store/test_assertions.py",
    "engine/persistence": "store/test_store.py store/test_machine.py",
    "engine/pins": "store/test_readers.py engine/test_beside_epochs.py",
    "engine/planning": "engine/test_asked_again.py",
    "engine/register": "engine/test_opening_views.py engine/test_beside_epochs.py",
    "engine/rows": "engine/test_streaming_answers.py",
    "engine/stored_data": "engine/test_by_workers.py engine/test_lookups.py",
    "engine/stored_names": "engine/test_opening_views.py",
    "engine/streams": "spark/test_follow.py",
    "engine/temporary": "engine/test_limits.py",
    "engine/to_spark": "spark/test_frames.py",
    "engine/updates": "engine/test_update.py test_w3c_update.py",
    "engine/view": "test_session.py store/test_history.py",
    "engine/view_state": "test_session.py engine/test_check.py",
    "engine/views": "engine/test_view_graphs.py test_session.py",
    "engine/writer": "test_session.py engine/test_beside_epochs.py store/test_machine.py",
    "errors": "runtime/test_deadline.py sparql/test_expressions.py",
    "live/closure_pairs": "live/test_closure.py",
    "live/closure_tree": "live/test_closure.py",
    "live/code": "live/test_many_parts.py test_fixtures.py",
    "live/column_rows": "engine/test_streaming_answers.py",
    "live/compiler": "test_fixtures.py test_laws.py",
    "live/materialization": "live/test_products.py",
    "live/description": "test_fixtures.py",
    "live/filtered": "sparql/test_searches.py engine/test_streaming_answers.py",
    "live/plan_registry": "live/test_sharing.py live/test_dispatch.py",
    "live/lazy": "engine/test_asked_again.py engine/test_streaming_answers.py",
    "live/limit": "engine/test_limits.py",
    "live/compiled_plan": "test_fixtures.py test_laws.py",
    "live/once": "engine/test_once.py engine/test_asked_again.py",
    "live/operators": "plan/test_operators.py",
    "live/prepared": "engine/test_beside_epochs.py",
    "live/total_columns": "live/test_totals.py engine/test_columns.py",
    "live/window_columns": "live/test_window.py",
    "opening": "cli/test_opening.py",
    "pipeline/folder": "pipeline/test_stream.py",
    "pipeline/job": "pipeline/test_stream.py sources/test_store.py",
    "plan/checks": "test_fixtures.py test_w3c.py",
    "plan/delta": "plan/test_delta_rules.py plan/test_theorems.py",
    "plan/description": "test_fixtures.py",
    "plan/expressions": "plan/test_translation.py",
    "plan/modifiers": "plan/test_translation.py test_fixtures.py",
    "plan/naming": "plan/test_explain.py plan/test_operators.py",
    "plan/once": "engine/test_asked_again.py",
    "plan/parts": "plan/test_rewrites.py live/test_products.py",
    "plan/paths": "plan/test_translation.py",
    "plan/renaming": "plan/test_rewrites.py test_fixtures.py",
    "plan/scope": "plan/test_translation.py",
    "plan/services": "engine/test_services.py",
    "plan/shapes": "live/test_sharing.py",
    "plan/normal_form": "agent/routes/test_protocol.py engine/test_empty.py",
    "plan/substitution": "plan/test_translation.py plan/test_exists_paths.py",
    "plan/totals": "live/test_totals.py engine/test_totals.py",
    "plan/translate": "plan/test_translation.py",
    "plan/unfold": "engine/test_view_graphs.py",
    "plan/wording": "plan/test_explain.py",
    "quads/base": "quads/test_mapped.py quads/test_snapshot.py",
    "quads/columns": "quads/test_mapped.py engine/test_columns.py",
    "quads/leaves": "quads/test_current.py quads/test_mapped.py",
    "quads/lookup": "quads/test_snapshot.py quads/test_mapped.py",
    "quads/merged": "quads/test_mapped.py",
    "quads/parts": "quads/test_mapped.py quads/test_current.py",
    "quads/reader": "quads/test_current.py quads/test_snapshot.py",
    "quads/scope": "quads/test_current.py",
    "rdf/columns": "bulk/ingest/test_job.py rdf/test_change_columns.py",
    "rdf/files": "rdf/test_read.py",
    "rdf/leaving": "engine/test_sweeping.py",
    "rdf/rdflib_terms": "test_rdflib_store.py",
    "rdf/reserved": "engine/test_view_graphs.py sources/links/test_follow.py",
    "rdf/table_mapping": "rdf/test_frames.py",
    "rdf/term_columns": "rdf/test_dictionary.py store/test_term_maps.py",
    "runtime/memory": "engine/test_limits.py",
    "runtime/tuning": "engine/test_columns.py bulk/test_states.py",
    "sources/background": "sources/test_from_views.py sources/links/test_follow.py",
    "sources/hints": "sources/test_noticing.py",
    "sources/kinds/agent": "agent/test_agent_source.py",
    "sources/kinds/solid_channels": "sources/kinds/test_solid.py",
    "sources/kinds/solid_login": "sources/kinds/test_solid.py",
    "sources/kinds/stream_batches": "sources/kinds/test_stream.py",
    "sources/kinds/stream_web": "sources/kinds/test_stream.py",
    "sources/links/traversal": "sources/links/test_follow.py",
    "sources/listing": "sources/test_noticing.py",
    "sources/paths": "sources/kinds/test_file.py",
    "sources/polling": "sources/kinds/test_web.py",
    "sources/services": "engine/test_services.py",
    "sources/watcher": "sources/test_store.py test_numbers.py",
    "sources/manager": "sources/test_store.py sources/test_ending.py",
    "spark/options": "spark/test_sources.py",
    "spark/reporting": "spark/test_sources.py",
    "spark/sink": "spark/test_sources.py",
    "sparql/algebra": "sparql/test_syntax.py",
    "sparql/expression_checks": "sparql/test_expressions.py",
    "sparql/html": "engine/test_notebook.py",
    "sparql/moments": "sparql/test_expressions.py bulk/test_native.py",
    "sparql/ordering": "bulk/test_native.py live/test_window.py",
    "sparql/results": "engine/test_results.py agent/test_streaming.py",
    "sparql/values": "sparql/test_expressions.py",
    "store/catalog": "store/test_store.py store/test_damage.py",
    "store/commits": "store/test_files.py",
    "store/compactor": "store/test_compaction.py store/test_readers.py",
    "store/connections": "store/test_readers.py store/test_two_threads.py",
    "store/deltas": "store/test_history.py",
    "store/head": "store/test_detection.py store/test_crash.py",
    "store/layout": "engine/test_lookups.py",
    "store/locks": "store/test_two_writers.py store/test_readers.py",
    "store/map_directory": "store/test_maps.py",
    "store/map_folder": "store/test_maps.py",
    "store/names": "store/test_hostile.py",
    "store/quad_map_building": "store/test_quad_map_files.py store/test_quad_maps.py",
    "store/quad_runs": "store/test_on_disk.py engine/test_by_workers.py",
    "store/ranges": "store/test_compaction.py",
    "store/runs": "store/test_failures.py store/test_files.py",
    "store/saving": "engine/test_from_files.py engine/test_file_views.py",
    "store/seals": "store/test_damage.py",
    "store/seeking": "store/test_bounds.py engine/test_lookups.py",
    "store/tables": "store/test_store.py store/test_files.py",
    "store/term_runs": "store/test_term_maps.py store/test_compaction.py",
    "store/typed_maps": "store/test_term_maps.py",
    "web/agent_client": "cli/test_remote.py",
    "web/answers": "sources/kinds/test_web.py",
    "web/document": "sources/kinds/test_web.py",
    "web/endpoint": "engine/test_services.py agent/test_services.py",
    "web/event_stream": "agent/test_follow.py",
    "web/headers": "agent/test_negotiation.py",
    "web/hosts": "sources/links/test_follow.py",
    "web/retry": "sources/kinds/test_web.py",
    "web/sockets": "sources/kinds/test_solid.py",
    "zset/columns": "quads/test_current.py engine/test_columns.py",
    "zset/kept": "bulk/test_states.py",
    "zset/keyed_relation": "zset/test_relation.py",
}


def modules() -> list[Path]:
    """All modules, relative to the package, without those that mark folders."""
    files = (file.relative_to(SOURCE) for file in SOURCE.rglob("*.py"))
    return sorted(file.with_suffix("") for file in files if file.name != "__init__.py")


def has_own_tests(module: Path) -> bool:
    return (ROOT / "tests" / module.parent / f"test_{module.name}.py").is_file()


def is_an_operator(module: Path) -> bool:
    """Whether the module is an operator's part of an executor: `tests/plan/test_operators.py` runs each."""
    return str(module.parent) in ("live", "bulk") and module.name in OPERATORS


def test_each_module_is_covered() -> None:
    """Fails for a new module without a test file of its name: write one, or add an entry above."""
    by_name = [m for m in modules() if not has_own_tests(m) and not is_an_operator(m)]
    assert [str(m) for m in by_name if str(m.parent) not in FOLDERS and str(m) not in MODULES] == []


def test_the_tables_have_no_entry_too_many() -> None:
    known = modules()
    assert FOLDERS.keys() <= {str(module.parent) for module in known}
    needed = {
        str(m) for m in known if not (has_own_tests(m) or is_an_operator(m) or str(m.parent) in FOLDERS)
    }
    assert MODULES.keys() - needed == set()


def test_the_suites_exist() -> None:
    suites = {suite for named in (*FOLDERS.values(), *MODULES.values()) for suite in named.split()}
    assert [suite for suite in sorted(suites) if not (ROOT / "tests" / suite).is_file()] == []
