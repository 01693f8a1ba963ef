"""RDF: terms and their ids, reading documents and change streams."""
