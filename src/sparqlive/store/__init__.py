"""The store: a directory that keeps quads, terms, views and their deltas between runs of the program."""
