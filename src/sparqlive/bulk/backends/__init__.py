"""What runs the SQL of the bulk executor."""
