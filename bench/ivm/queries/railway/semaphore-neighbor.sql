SELECT x.o, r.s, r2.s, q.o, m2.o, m.s, c.o
FROM {type} r JOIN {exit} x ON x.s = r.s JOIN {type} se ON se.s = x.o JOIN {requires} q ON q.s = r.s
  JOIN {type} s1 ON s1.s = q.o JOIN {monitoredBy} m ON m.o = q.o JOIN {connectsTo} c ON c.s = m.s
  JOIN {monitoredBy} m2 ON m2.s = c.o JOIN {type} s2 ON s2.s = m2.o JOIN {requires} r2 ON r2.o = m2.o
WHERE r.o = '<http://ivm.example/Route>' AND se.o = '<http://ivm.example/Semaphore>' AND s1.o = '<http://ivm.example/Sensor>'
  AND s2.o = '<http://ivm.example/Sensor>' AND r.s <> r2.s
  AND NOT EXISTS (FROM {entry} e WHERE e.s = r2.s AND e.o = x.o)
