"""The kinds of sources, one file per kind; `sources/watcher.py` has the table of them."""
