"""SPARQL: the parser, the algebra, expressions, functions and result formats."""
