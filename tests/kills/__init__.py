"""Kills of workers and drivers in loads and epochs. Run by `make test-kills`, not by `make test`."""
