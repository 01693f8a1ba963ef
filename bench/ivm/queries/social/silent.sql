SELECT s, o FROM {name} n WHERE NOT EXISTS (FROM {creator} c WHERE c.o = n.s)
