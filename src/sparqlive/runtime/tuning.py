"""The thresholds of the program: numbers that choose between two ways, or trade speed against memory.

A session takes one `Tuning` and hands it to the parts that it makes. Results never depend on these numbers.
Limits that protect the program, and constants of formats and algorithms, are where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Tuning:
    # Sorted runs and what is on top of them

    column_rows: int = 500
    """From this many rows on, rows are handled by columns: a batch of changes, the content of a group, a
    window or a delta, rows to decode, filter or sort. A step by columns costs 10 to 50 µs whatever its size,
    a row by itself 0.1 to 1 µs. Both ways are within a factor of 2 from 100 to 2,000 rows
    (`bench.batches`, `bench.explore`)."""
    smallest_merge_rows: int = 4_096
    """An overlay of fewer rows is not merged into its run: a merge copies the run (`bench.pauses`)."""
    run_to_overlay: int = 64
    """A larger overlay is merged when it has one row for this many of its run, so that merging costs a few
    microseconds per change, and an overlay takes little memory beside its run (`bench.pauses`)."""
    first_piece_rows: int = 16
    """Rows that become Python objects at first, when a long range is read: the first ones may be enough. Each
    piece is four times as large as the one before (`bench.explore`, its queries with LIMIT and ASK)."""
    largest_piece_rows: int = 1 << 16
    """The largest of these pieces: 65,536 rows take 5 MB as Python objects (`bench.explore`)."""
    block_rows: int = 4_096
    """The largest block of a result: what a slow reader of a stream has in memory (`bench.http_results`)."""

    # Reading changes

    column_bytes: int = 200_000
    """Files, texts and batches of files of changes of more bytes than this are read by columns
    (`bench.batches`, `bench.bulk`)."""
    text_quads: int = 4_000
    """From this many quads in lists on, they are written as text, which is read by columns: a third of the
    time of encoding them one by one (`bench.bulk`)."""
    worker_bytes: int = 20_000_000
    """More bytes than this are read by other processes, which take a second to start (`bench.ingest`)."""
    spark_batch_bytes: int = 2_000_000
    """The same for batches where Spark's workers read them, which are running already
    (`bench.local_spark`)."""

    # Strategies

    small_batch: int = 256
    """A batch of at most this many changed quads is carried live without a choice: it takes milliseconds."""
    live_rows: int = 20_000
    """Live carries up to this many changed rows of a view, and DuckDB or a rebuild more (`bench.regret`)."""
    looked_up_rows: int = 8_000
    """The same for views that look up stored rows for each change, with DISTINCT, MIN or MAX
    (`bench.regret`)."""
    quads_to_live_row: int = 100
    """Live also carries one changed row for this many quads that a view matches: DuckDB scans all of them
    (`bench.regret`, its 1,000,000 orders)."""
    spark_rows: int = 200_000
    """With bulk="spark", Spark carries more changed rows of a view than this, and live all others. It takes
    about two to six times as long as live there, extrapolated from 40,000 rows, and less memory of this
    process (`bench.choice`)."""
    spark_quads: int = 2_000_000
    """Where Spark is running, it computes new views over more quads than this (`bench.bulk`)."""

    # What operators keep

    groups_kept: int = 50_000
    """Groups that have accumulators in memory (500 bytes each) if their rows are in a run, from which a group
    can be read again (`bench.aggregates`)."""
    rows_to_large_changes: int = 4
    """Groups take in large changes one by one when they next change, until these are a fourth of all rows.
    Then reading a group again takes no longer (`bench.aggregates`)."""
    spare_rows: int = 4_096
    """A sorted window keeps so many rows more than it shows (700 kB). A deletion from it that finds none left
    sorts all rows again (`bench.window`)."""
    rows_to_spare: int = 64
    """Or one in so many of all rows, if that is more, so that sorting them again costs each of the deletions
    before it little (`bench.window`)."""
    sorting_rows: int = 1 << 18
    """Rows that are sorted, counted or summed together while more come: 262,144 rows take 2 MB per column.
    Pieces of 65,536 to 1,000,000 rows take the same time (`bench.explore`, its ORDER BY and GROUP BY)."""
    family_views: int = 8
    """From this many views that differ only in constants on, one plan serves them all. Fewer are faster
    apart, because a constant is the best key (`bench.many_views`)."""
    batch_pairs: int = 64
    """A batch of more changed edges of a path than this, and than an eighth of its edges, computes the pairs
    from scratch (`bench.closures`)."""

    # One-off queries

    bulk_groups: int = 50_000
    """More rows than this that only ids group are grouped by DuckDB, if they are also more than a fortieth of
    the quads. DuckDB takes 12 to 30 ms whatever the size (`bench.explore`)."""
    quads_to_bulk_groups: int = 40
    """The fortieth: DuckDB reads all quads of the predicates first (`bench.explore`)."""
    gathered_rows: int = 4_000_000
    """More rows of a join than this are grouped one by one: as columns they would take 32 MB per variable
    (`bench.limited`)."""

    # Quads

    few_predicates: int = 16
    """A lookup without a predicate visits this many predicates. If there are more, all quads are kept in an
    order for it, which takes 32 bytes per quad (`bench.wide`)."""
    few_graphs: int = 256
    """A lookup in one graph searches all quads if they are in this many graphs at most. If there are more, it
    reads them in an order with the graph first (`bench.wide`)."""
    filtered_rows: int = 64
    """More rows of a subject or object than this per graph are not searched for those of a graph; they are
    looked up in an order with the graph first (`bench.wide`)."""
    graph_part: int = 8
    """The quads of a graph are read from an order with the graph first if they are an eighth of the quads at
    most that would be searched otherwise (`bench.wide`)."""
    smallest_run_rows: int = 8
    """Fewer rows of a predicate in a batch are staged one by one: a row takes 200 bytes, a run 600
    (`bench.wide`)."""
    copied_to_staged_rows: int = 128
    """Copying this many rows of a run takes as long as staging one row by itself (`bench.batches`)."""


DEFAULT: Final = Tuning()
