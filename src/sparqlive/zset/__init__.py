"""Weighted collections: zsets, sorted runs, overlays and relations. Knows no RDF."""
