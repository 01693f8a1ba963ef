SELECT c.s, w.o FROM {colour} c JOIN {weight} w ON w.s = c.s JOIN {maker} m ON m.s = c.s
WHERE c.o = '<http://ivm.example/colour/3>' AND w.n >= 250
