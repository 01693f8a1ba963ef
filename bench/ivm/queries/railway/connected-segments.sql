WITH seg AS (SELECT m.s, m.o FROM {monitoredBy} m JOIN {type} t ON t.s = m.s WHERE t.o = '<http://ivm.example/Segment>'),
  step AS (SELECT a.o AS sensor, a.s AS s, c.o AS o FROM seg a JOIN {connectsTo} c ON c.s = a.s JOIN seg b ON b.s = c.o AND b.o = a.o)
SELECT a.sensor, a.s, b.s, c.s, d.s, e.s, e.o
FROM step a JOIN step b ON b.s = a.o AND b.sensor = a.sensor JOIN step c ON c.s = b.o AND c.sensor = a.sensor
  JOIN step d ON d.s = c.o AND d.sensor = a.sensor JOIN step e ON e.s = d.o AND e.sensor = a.sensor
  JOIN {type} t ON t.s = a.sensor WHERE t.o = '<http://ivm.example/Sensor>'
