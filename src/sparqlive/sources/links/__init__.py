"""Following links: views that fetch the documents that their solutions mention."""
