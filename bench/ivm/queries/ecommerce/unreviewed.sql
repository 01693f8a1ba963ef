SELECT s FROM {label} l WHERE NOT EXISTS (FROM {about} a WHERE a.o = l.s)
