"""What an agent answers: one file per topic, each with its table of operations."""
