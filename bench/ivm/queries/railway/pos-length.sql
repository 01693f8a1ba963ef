SELECT t.s, l.o FROM {type} t JOIN {length} l ON l.s = t.s WHERE t.o = '<http://ivm.example/Segment>' AND l.n <= 0
