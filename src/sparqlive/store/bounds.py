"""Bounds on the memory for a store's files, whatever their number and size.

Every cache of file content has its bound here: columns of row groups have 2,000,000 values of 8 bytes. On top
comes what a process is reading: the columns of one file while it looks up rows; a row group of the base and
of each later delta while it reads a relation. Two rules keep this true. Closing a file frees its footer
without the garbage collector, which is paused during an epoch: an epoch that looks up 10,000 keys opens
hundreds of files. And the reading thread decodes the files: memory used by Arrow's own threads stays with
them, where `give_back` cannot free it.
"""

GROUP_ROWS = 2_000_000
"""Cached values of row groups that cannot be mapped and are read in full."""
MAPPED_FILES = 4096
"""Files that stay mapped. The operating system decides which of their pages are in memory."""
SORT_BYTES = 64 << 20
"""Memory for sorting rows to create a map. More would not be faster."""
