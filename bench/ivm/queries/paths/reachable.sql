WITH RECURSIVE found(o) AS (
  SELECT o FROM {link} WHERE s = '<http://ivm.example/a/1>'
  UNION SELECT l.o FROM found f JOIN {link} l ON l.s = f.o)
SELECT o FROM found
