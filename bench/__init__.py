"""Benchmarks: what a change costs, against evaluating the query again. `python -m bench` runs them."""
