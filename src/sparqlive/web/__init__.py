"""The only way to the network: fetching within limits, documents, JSON-LD contexts, event streams."""
