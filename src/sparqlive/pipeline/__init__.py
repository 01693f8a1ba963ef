"""Pipelines (`sparqlive run`): sources, views and sinks of a `pipeline.toml`, as one job."""
