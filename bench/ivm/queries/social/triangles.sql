SELECT a.s, b.s, c.s FROM {knows} a JOIN {knows} b ON b.s = a.o JOIN {knows} c ON c.s = b.o AND c.o = a.s
