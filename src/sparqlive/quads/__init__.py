"""The quads of a session, in whole sorted orders: the current state, and snapshots of it."""
