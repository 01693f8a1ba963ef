SELECT f.o FROM {producer} a JOIN {producer} b ON b.o = a.o JOIN {feature} f ON f.s = b.s WHERE a.s <> b.s
