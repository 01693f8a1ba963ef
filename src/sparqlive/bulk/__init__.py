"""Evaluates plans and delta rules on whole columns, as SQL that a backend runs; one file per operator."""
