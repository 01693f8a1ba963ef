"""A Spark Declarative Pipeline that reads a view of one store, and writes a graph to another."""
