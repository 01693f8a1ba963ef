"""How much of a store's files a process keeps in memory, whatever their number and size.

Every cache of what was read from files has its bound here. A session with `memory=0` keeps these bytes at
most, about 50 MB:

- pairs of subject and object: 32 MB, with what belongs to each run of them
- columns of row groups: 2,000,000 values of 8 bytes

Beside that it has what it reads at once: at most the columns of one file while it looks rows up, and a row
group of the base and of each later delta while it reads a relation. Two rules keep this true. What the
footer of a file says is freed when the file is closed, without the garbage collector, which rests during an
epoch: an epoch that looks up 10,000 keys opens hundreds of files. And files are decoded in the thread that
reads them: memory that Arrow's own threads have used stays with them, out of the reach of `give_back`.
"""

MOST_BYTES = 1 << 40
"""Without a limit on memory."""
PAIR_BYTES = 32_000_000
"""Of pairs of subject and object; a session that may use more memory has an eighth of it for them."""
GROUP_ROWS = 2_000_000
"""Values of row groups that cannot be mapped, so that they are read in full."""
MAPPED_FILES = 4096
"""Files that stay mapped; what of them is in memory is the operating system's choice."""
SORT_BYTES = 64 << 20
"""Of rows that are sorted to create a map. Sorting more at a time is not faster."""
