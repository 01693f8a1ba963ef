SELECT s, term(n * 2 + 1) FROM {weight}
