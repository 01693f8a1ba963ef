SELECT f.o, term(max(v.n)) FROM {of} f JOIN {value} v ON v.s = f.s GROUP BY f.o
