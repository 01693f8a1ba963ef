SELECT l.s, l.o FROM {label} l JOIN {type} t ON t.s = l.s JOIN {feature} f ON f.s = l.s JOIN {size} z ON z.s = l.s
WHERE t.o = '<http://ivm.example/type/1>' AND f.o = '<http://ivm.example/feature/3>' AND z.n > 500
