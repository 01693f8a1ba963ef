"""Evaluates plans and their delta rules on Spark: bulk loads, large batches, large graphs."""
