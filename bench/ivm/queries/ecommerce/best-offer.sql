SELECT p.o, p.s, c.o FROM {product} p JOIN {price} c ON c.s = p.s
JOIN (SELECT q.o, min(d.n) AS least FROM {product} q JOIN {price} d ON d.s = q.s GROUP BY q.o) m ON m.o = p.o AND m.least = c.n
