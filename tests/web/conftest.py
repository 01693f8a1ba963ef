"""The site that the tests of sources use, too."""

from tests.sources.conftest import site

__all__ = ["site"]
