SELECT c.o, term(max(w.n)) FROM {colour} c JOIN {weight} w ON w.s = c.s GROUP BY c.o
