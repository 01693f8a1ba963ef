"""The reference evaluation: SPARQL by its definitions, to which the engine's results are compared.

It shares the algebra and the functions with the engine, but nothing of `plan/`: no translation, no rewrites,
no operators. So a bug there is not a bug here.
"""

from sparqlive.sparql.reference.evaluation import Reference as Reference
