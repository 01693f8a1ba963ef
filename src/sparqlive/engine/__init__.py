"""The engine of a session: one writer of epochs, views, strategies, persistence, updates and checks."""
