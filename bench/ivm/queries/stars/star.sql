SELECT c.s, c.o, w.o, m.o FROM {colour} c JOIN {weight} w ON w.s = c.s JOIN {maker} m ON m.s = c.s
