"""The Solid server that the tests of sources use, too."""

from tests.sources.conftest import pods

__all__ = ["pods"]
