SELECT v.s, r.o, v.o FROM {value} v JOIN {of} f ON f.s = v.s JOIN {room} r ON r.s = f.o WHERE v.n > 450
