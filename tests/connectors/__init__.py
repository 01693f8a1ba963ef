"""Connectors against real servers. Run by `make test-connectors`, not by `make test`."""
