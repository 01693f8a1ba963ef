"""Reads RDF documents straight into a store's files, by columns, on the cores of this machine or on Spark."""
