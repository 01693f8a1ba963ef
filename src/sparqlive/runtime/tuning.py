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
    a row by itself 0.1 to 1 µs. Of 25 kinds of batches and queries, none took twice as long or half as long
    with 128 or 2,000 (`bench.batches`, `bench.explore`)."""
    column_texts: int = 128
    """From this many texts of terms on, they are decoded by columns, which keeps none of them. Those that are
    decoded one by one are kept, up to 50,000: streams of 256 rows at a time would fill 8 MB with them."""
    smallest_merge_rows: int = 4_096
    """An overlay of fewer rows is not merged into its run: a merge copies the run (`bench.pauses`)."""
    run_to_overlay: int = 64
    """A larger overlay is merged when it has one row for this many of its run, so that merging costs a few
    microseconds per change, and an overlay takes little memory beside its run (`bench.pauses`)."""
    first_piece_rows: int = 16
    """Rows that become Python objects at first, when a long range is read: the first ones may be enough. Each
    piece is four times as large as the one before (`bench.explore`, its queries with LIMIT and ASK)."""
    largest_piece_rows: int = 1 << 16
    """The largest of these pieces, which bounds the memory of Python objects (`bench.explore`)."""
    block_rows: int = 4_096
    """The largest block of a result: what a slow reader of a stream has in memory (`bench.http_results`)."""

    # Reading changes

    column_bytes: int = 200_000
    """Files, texts and batches of files of changes of more bytes than this are read by columns: 1 MB in 13 ms
    instead of 44, 50 kB in 1.4 ms instead of 3.6; 5 kB would take twice as long (`bench.bulk`)."""
    text_quads: int = 4_000
    """From this many quads in lists on, they are written as text, which is read by columns: 20,000 new ones
    in 21 ms instead of 65, 4,000 in 6 ms instead of 10 (`bench.bulk`)."""
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

    # Views and what they leave

    bulk_quads: int = 50_000
    """A new view whose patterns match this many quads is computed by columns, on DuckDB (`bench.bulk`)."""
    reference_quads: int = 100_000
    """Up to this many quads, `Session.check` recomputes views by the reference evaluator, which shares no
    code with them; a few simple views take ten seconds. Above, by another backend (`bench.growth`)."""
    retained_deltas: int = 4_000
    """Deltas of a view in memory: 1.2 MB and their rows. A store has more (`bench.memory`)."""
    retained_delta_rows: int = 1_000_000
    """Rows of these deltas: 150 MB (`bench.memory`)."""
    swept_terms: int = 10_000
    """Unused terms are given back after so many new ones, or as many as are in use: a sweep visits
    every id in the session (`bench.memory`)."""
    exported_changes: int = 100_000
    """Changes after the files that a session in memory has written for bulk backends. After more than these,
    and than its quads, the files are written again when needed (`bench.bulk`)."""
    frame_rows: int = 10_000
    """A larger table becomes a DataFrame of Spark through a file; a smaller one is sent to it
    (`bench.frames`)."""

    # Compaction

    compacted_rows: int = 200_000
    """A compaction starts when more changed rows than this wait for one: they are read again when a store
    opens (`bench.durability`)."""
    compacted_epochs: int = 10_000
    """Or when more epochs wait, whose rows in the catalog cost each commit a little (`bench.durability`)."""
    rewritten_part: int = 8
    """A compaction rewrites a relation when its changes are more than an eighth of it, so that a row is
    written about nine times in its life (`bench.durability`)."""
    waiting_bytes: int = 1_000
    """Or when its changes would fill `memory=` at this many bytes each, because those after the files are in
    memory: 500 bytes per changed quad with two views, half as much again while they are read when a store
    opens (190,000 changes after 1.6 million quads)."""

    # Stores

    catalog_rows: int = 10_000
    """Contents, deltas and lists of terms of at most this many rows are handed over as rows, and stored in
    the catalog; larger ones are written to files. A commit of 1,000 changes takes 3 ms of processor time in
    the catalog and 10 in files, one of 10,000 5 and 13 ms, one of 100,000 56 and 46 ms."""
    file_rows: int = 1_000_000
    """Rows in a file of a relation. The process that writes a file has them in memory: 8 MB per column."""
    range_rows: int = 1_000_000
    """Relations with more rows than this are folded by ranges of about as many, each in the memory for these
    (`bench.beyond_memory`)."""
    fold_here_rows: int = 50_000
    """Where there are workers, they fold relations with more rows than this, which this process then does not
    read."""
    term_files: int = 8
    """Files of terms are searched one after the other, so from this many on, compaction merges the small
    ones."""
    forgotten_epochs: int = 250
    """Epochs of history that are deleted while the lock is held once: commits wait for it."""
    rows_per_search: int = 256
    """Searching for a row in a file takes as long as reading this many in order: for 4,000 of 1,000,000 quads
    either takes 9 ms, for 100 a search takes 0.4 ms, for 64,000 86 ms and reading 13."""
    scanned_rows: int = 1_000_000
    """In fewer rows than this, single ones are looked up, however many are wanted, instead of having a
    backend open and scan the files. No more are taken in."""

    # What backends compute on files

    few_changes: int = 50_000
    """Up to this many changes, or rows that they lead to, are computed ahead. What they join is restricted
    to their keys, and looked up if these are few."""
    broadcast_rows: int = 500_000
    """Spark broadcasts up to this many rows of a few ids each; more are shuffled, and spill."""
    partition_rows: int = 1_000
    """Up to this many rows of a partition of Spark come back as rows, of more the names of files."""
    partition_quads: int = 4_000_000
    """Spark gets more partitions for more quads than this in each: one of its tasks has several sorts and
    sums in memory at once."""
    repeated_characters: int = 4_000
    """Spark computes a frame with a longer text once for all its readers: for a shorter one, that takes
    longer than to analyse the text again."""
    repeated_tables: int = 12
    """Also one that reads more tables than this: each reading of a reading would double them."""

    # What operators keep

    groups_kept: int = 50_000
    """Groups that have accumulators in memory (500 bytes each) if their rows are in a run, from which a group
    can be read again (`bench.aggregates`)."""
    rows_to_large_changes: int = 4
    """Groups take in large changes one by one when they next change, until these are a fourth of all rows.
    Then reading a group again takes no longer (`bench.aggregates`)."""
    spare_rows: int = 4_096
    """A sorted window keeps so many rows more than it shows, also while it is computed. A deletion from it
    that finds none left sorts all rows again (`bench.window`)."""
    rows_to_spare: int = 64
    """Or one in so many of all rows, if that is more, so that sorting them again costs each of the deletions
    before it little (`bench.window`)."""
    sorting_rows: int = 1 << 18
    """Rows that are sorted, counted or summed together while more come: 262,144 rows take 2 MB per column
    (`bench.explore`, its ORDER BY and GROUP BY)."""
    family_views: int = 8
    """From this many views that differ only in constants on, one plan serves them all. Fewer are faster
    apart, because a constant is the best key (`bench.many_views`)."""
    batch_pairs: int = 64
    """A batch of more changed edges of a path than this, and than an eighth of its edges, computes the pairs
    from scratch (`bench.closures`)."""

    # Code, plans and terms that are kept

    written_characters: int = 200_000
    """Generated code beyond this many characters is written lazily, when an operator first changes. A join of
    n patterns has n delta functions of n - 1 loops each: those of 33 patterns are written ahead."""
    kept_plans: int = 256
    """Plans of one-off queries: answering one again takes 0.1 ms instead of 1.2."""
    kept_characters: int = 10_000
    """Plans of longer texts are not kept, which bounds their memory."""
    kept_operators: int = 64
    """The functions of larger plans are written again for each query, to bound the memory of those kept."""
    cached_terms: int = 10_000
    """Terms with their ids, as objects of pyoxigraph."""
    cached_values: int = 50_000
    """Values, ranks and texts of terms that expressions and sorting have computed."""

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
    reads them in an order with the graph first: of 200,000 quads, those of one of 1,024 graphs in 0.3 ms
    instead of 1.0, those of one of 20,000 in 0.07 ms instead of 0.43 (`bench.wide`)."""
    filtered_rows: int = 64
    """More rows of a subject or object than this per graph are not searched for those of a graph; they are
    looked up in an order with the graph first (`bench.wide`)."""
    graph_part: int = 8
    """The quads of a graph are read together, from an order with the graph first, if they are at most this
    part of the quads that would be searched otherwise: an eighth. If some of them have changed, that copies
    them, and a large graph would take much memory; it saves 10 % of the time (`bench.wide`)."""
    smallest_run_rows: int = 8
    """Fewer rows of a predicate in a batch are staged one by one: 20,000 quads of 20,000 predicates take
    0.2 s, as runs 0.4 s (`bench.wide`)."""
    copied_to_staged_rows: int = 128
    """Copying this many rows of a run takes as long as staging one row by itself. A batch of 600 into
    200,000 quads takes 3.8 ms, as columns 6.0; one of 5,000 takes 27 ms, row by row 33 (`bench.batches`)."""


DEFAULT: Final = Tuning()
