SELECT DISTINCT a.s, b.o FROM {knows} a JOIN {knows} b ON b.s = a.o WHERE a.s <> b.o
