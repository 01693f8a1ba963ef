SELECT t.s FROM {type} t WHERE t.o = '<http://ivm.example/Switch>' AND NOT EXISTS (FROM {monitoredBy} m WHERE m.s = t.s)
