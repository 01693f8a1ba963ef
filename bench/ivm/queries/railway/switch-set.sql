SELECT en.o, r.s, f.o, t.o, c.o, p.o
FROM {type} r JOIN {entry} en ON en.s = r.s JOIN {active} a ON a.s = r.s JOIN {follows} f ON f.s = r.s
  JOIN {type} se ON se.s = en.o JOIN {signal} g ON g.s = en.o JOIN {type} sp ON sp.s = f.o JOIN {target} t ON t.s = f.o
  JOIN {position} p ON p.s = f.o JOIN {type} w ON w.s = t.o JOIN {currentPosition} c ON c.s = t.o
WHERE r.o = '<http://ivm.example/Route>' AND a.o = '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'
  AND se.o = '<http://ivm.example/Semaphore>' AND g.o = '<http://ivm.example/go>'
  AND sp.o = '<http://ivm.example/SwitchPosition>' AND w.o = '<http://ivm.example/Switch>' AND c.o <> p.o
