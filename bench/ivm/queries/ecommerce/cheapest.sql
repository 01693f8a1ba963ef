SELECT p.o, term(min(c.n)) FROM {product} p JOIN {price} c ON c.s = p.s GROUP BY p.o
