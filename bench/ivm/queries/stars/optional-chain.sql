SELECT m.s, n.o, f.o FROM {maker} m LEFT JOIN {note} n ON n.s = m.s LEFT JOIN {flag} f ON f.s = m.s
WHERE m.o = '<http://ivm.example/maker/7>'
