"""SPARQL: query text to algebra; expressions, functions and result formats."""
