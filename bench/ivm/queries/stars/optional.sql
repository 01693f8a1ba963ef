SELECT c.s, c.o, n.o FROM {colour} c LEFT JOIN {note} n ON n.s = c.s
