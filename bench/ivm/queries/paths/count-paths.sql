SELECT a.s, term(count(*)) FROM {link} a JOIN {link} b ON b.s = a.o JOIN {link} c ON c.s = b.o GROUP BY a.s
