SELECT c.o, term(count(l.s)) FROM {creator} c LEFT JOIN {likes} l ON l.o = c.s GROUP BY c.o
