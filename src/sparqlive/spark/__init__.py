"""Spark's own interfaces on top of a session: streams of files to follow."""
