"""A benchmark for incremental SPARQL engines. README.md says how to run it on another engine."""
