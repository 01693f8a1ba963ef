SELECT r.s, m.o, f.o, t.o
FROM {type} r JOIN {follows} f ON f.s = r.s JOIN {type} sp ON sp.s = f.o JOIN {target} t ON t.s = f.o
  JOIN {type} w ON w.s = t.o JOIN {monitoredBy} m ON m.s = t.o JOIN {type} e ON e.s = m.o
WHERE r.o = '<http://ivm.example/Route>' AND sp.o = '<http://ivm.example/SwitchPosition>'
  AND w.o = '<http://ivm.example/Switch>' AND e.o = '<http://ivm.example/Sensor>'
  AND NOT EXISTS (FROM {requires} q WHERE q.s = r.s AND q.o = m.o)
