SELECT m.o, term(count(DISTINCT c.o)) FROM {maker} m JOIN {colour} c ON c.s = m.s GROUP BY m.o
