"""The experiments of the counting paper (Staquet, Buelens, Van den Bussche, 2026; §5.2, §5.3), run again."""
