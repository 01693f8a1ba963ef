"""The tests of sparqlive."""
