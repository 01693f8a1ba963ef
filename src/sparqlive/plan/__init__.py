"""Plans of queries: operators, rewrites, delta rules, costs and explanations."""
