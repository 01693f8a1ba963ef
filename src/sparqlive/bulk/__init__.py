"""Evaluates plans and delta rules by columns, as SQL that a backend runs; one file per operator."""
