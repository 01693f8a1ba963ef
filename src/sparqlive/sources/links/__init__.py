"""Following links: views that bring in the documents that their solutions mention."""
