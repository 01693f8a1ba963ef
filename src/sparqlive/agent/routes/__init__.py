"""The HTTP operations of an agent: one file per topic, each with its table of operations."""
