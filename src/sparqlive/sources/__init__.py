"""Sources: where changes come from, how they are watched, and what becomes of their reports."""
