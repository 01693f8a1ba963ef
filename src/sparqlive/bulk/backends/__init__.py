"""The backends that run the SQL of the bulk executor."""
