"""Weighted collections: zsets, sorted runs, overlays and relations, independent of RDF."""
