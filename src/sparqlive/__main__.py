"""`python -m sparqlive` is the command line."""

from sparqlive.cli import main

main()
