"""Thresholds for the sessions of a test."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sparqlive


def tune(patch: pytest.MonkeyPatch, **thresholds: int) -> None:
    """Gives these thresholds to the sessions that a test opens without a `Tuning` of its own."""
    defaults = sparqlive.Session.__init__.__kwdefaults__
    patch.setitem(defaults, "tuning", replace(defaults["tuning"], **thresholds))
