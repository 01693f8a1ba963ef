"""Reads RDF documents directly into the files of a store, by columns, on the local cores or on Spark."""
