"""Spark as a backend: starting a session, running, and reading large files on its workers."""
