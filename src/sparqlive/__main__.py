"""`python -m sparqlive` is the command line."""

from sparqlive.cli.main import main

main()
