"""Tests of Spark's own interfaces on top of a session."""
