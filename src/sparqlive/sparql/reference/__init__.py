"""SPARQL by its definitions: what the engine's results are compared with.

Shares the algebra and the functions with the engine, and nothing of `plan/`: no translation, no rewrite, no
operator. So a fault there is no fault here.
"""

from sparqlive.sparql.reference.evaluation import Reference as Reference
