"""Sources of changes: watches them, and turns their reports into epochs."""
