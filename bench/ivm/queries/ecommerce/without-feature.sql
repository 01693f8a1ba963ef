SELECT l.s, l.o FROM {label} l JOIN {feature} f ON f.s = l.s JOIN {size} z ON z.s = l.s
WHERE f.o = '<http://ivm.example/feature/3>' AND z.n < 1500
  AND NOT EXISTS (FROM {feature} g WHERE g.s = l.s AND g.o = '<http://ivm.example/feature/4>')
