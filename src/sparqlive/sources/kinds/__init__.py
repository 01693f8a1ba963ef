"""The kinds of sources, one file per kind; the table of kinds is in `sources/watcher.py`."""
