"""Tests of what is released: packages, image, list of components. `make test-release` runs them."""
