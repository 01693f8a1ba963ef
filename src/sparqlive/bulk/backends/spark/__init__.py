"""Spark as a backend: starting a session, running queries, and reading large files on its workers."""
