"""Pipelines (`sparqlive run`): the sources, views and sinks of a `pipeline.toml` as one job."""
