"""A shop's catalogue of any size, the views of the counting paper over it, and a stream of changes."""
