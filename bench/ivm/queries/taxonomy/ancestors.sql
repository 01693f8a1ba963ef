WITH RECURSIVE found(s, o) AS (
  SELECT s, o FROM {broader}
  UNION SELECT f.s, b.o FROM found f JOIN {broader} b ON b.s = f.o)
SELECT s, o FROM found
