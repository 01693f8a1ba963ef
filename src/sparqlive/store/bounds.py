"""How much of a store's files a process keeps in memory, whatever their number and size.

Every cache of what was read from files has its bound here: columns of row groups have 2,000,000 values of
8 bytes. Beside that a process has what it reads at once: at most the columns of one file while it looks rows
up, and a row group of the base and of each later delta while it reads a relation. Two rules keep this true.
What the footer of a file says is freed when the file is closed, without the garbage collector, which rests
during an epoch: an epoch that looks up 10,000 keys opens hundreds of files. And files are decoded in the
thread that reads them: memory that Arrow's own threads have used stays with them, out of the reach of
`give_back`.
"""

GROUP_ROWS = 2_000_000
"""Values of row groups that cannot be mapped, so that they are read in full."""
MAPPED_FILES = 4096
"""Files that stay mapped; what of them is in memory is the operating system's choice."""
SORT_BYTES = 64 << 20
"""Of rows that are sorted to create a map. Sorting more at a time is not faster."""
