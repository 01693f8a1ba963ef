SELECT DISTINCT a.s, c.o FROM {link} a JOIN {link} b ON b.s = a.o JOIN {link} c ON c.s = b.o
