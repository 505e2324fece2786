"""The sizes of an engine's batches, pools and buffers, and its thresholds."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cerise.errors import PlanError


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that decide how a query runs, and never its result.

    The defaults are measured. Tests set all of them to 1, 2 or 3, so that small streams cross every border.

    Args:
        read_events: events whose columns an automaton reads at a time.
        chunk_events: events that one call of an automaton's kernel moves over.
        joined_events: new events that recomputation looks at together, unless its window holds more.
        pool_rows: runs, nodes or candidates below which an automaton does not tidy up within a batch.
        small_rows: runs and nodes, or kept events, up to which an engine tidies up after every batch, and not
            only if many are new.
        idle_partitions: partitions from which on those without events are forgotten.
        first_rows: rows of the tables of runs, nodes and frames at the start; they grow by need.
        matches: matches, or events of one variable, that an engine writes at a time.
        sampled_events: events on which a plan of joins is final; with fewer, it is made again as events come.
        piece_rows: rows that a piece of events adds to joins before it is cut in two.
        tested_events: events that recomputation tests before it returns to its caller.
        compiled_rows: matches, or rows of a result, from which on expressions over them are compiled.
        skipped_events: length of a list from which on recomputation skips events that fail an inequality.
        counted_places: positions of chains that one call of the counting kernel goes through.
        limbs: words of counts that the counting kernel writes at a time, at the start.
        lanes: lanes of chains that are counted at a time.
        shown_places: positions of lanes whose counts are held at a time.
        window_pairs: pairs of a match and a window, or weights, that totals look at together.
        spare_groups: rows of totals that may repeat a group before they are joined.
        few_searches: queries of a list that all take each batch of events; more run one after another.
        held_events: events of a slice up to which they do.
        routed_rows: events of all queries together that one pass of their router gives, about.
        routed_sample: events that tell how many events each query has.
        small_pairs: pairs of events of one window in which the reference searches for a sequence under
            skip_till_next_match, because that takes less time than to make machine code for it.
        small_forked: events in which it searches for any other query.
        thread_events: events that are worth a thread.
        filtered_events: events from which on an event that fits no variable is dropped before sorting.
        scanned_events: events that are read from files and matched together, where row groups are smaller.
        kept_share: all events of a store are read if more than one in this number fits the rarest variable.
        stretch_events: events of a stretch of time in which all variables are looked up in an index.
        anchor_events: events of the variable looked up first from which on intervals around them that run
            into one another are not narrowed down.
        interval_events: of these events, those in one interval, on average, where intervals do so.
        patience: steps of one row search after which it remembers the positions that failed.
        pause_steps: steps of row searches after which they return to their caller.
        stack_rows: entries of the stack of a row search, and of its memory, at the start; they grow by need.
        memo_bytes: bytes of that memory at most; where it is full, it is cleared.
        row_steps: steps that each row searched from adds to those that all row searches may take.
        open_rows: rows of an open partition of a stream above which its search is kept, not started over.
        row_matches: row matches that are written at a time.
        match_rows: rows of row matches that are written at a time, unless one match has more.
        candidate_rows: rows that candidates of a slice have when no further search begins, and as many for
            each 2^15 rows of the slice.
        shared_rows: rows from which on threads share the work on a table of rows.
        block_rows: rows that a thread works on together.
        code_rows: rows of a code, on average and rounded up, from which on each thread counts its own.
        spread_rows: rows are taken before strings become codes where at most one in this number is asked for.
        first_strings: distinct strings that a table of strings has room for at the start.
        most_strings: distinct strings that it has room for at most; of more, Arrow makes codes.
        judged_rows: rows whose labels are judged together.
        filtered_rows: rows from which on a row that no match can hold is dropped before sorting.
        thread_rows: rows that are worth a thread.
        task_events: events that one Spark task takes alone, rather than exchange them.
        gathered_percent: of the memory of a machine; rows for a row pattern that fit into it are searched by
            one task with all cores of a local Spark session, rather than exchanged.
        exchanged_events: events that are exchanged to one Spark task.
        cut_events: events that a Spark task cuts for other tasks together.
        blob_events: events that travel from task to task in one piece.
        output_rows: rows that a Spark task hands back at a time.
        clock_events: one in this number of a stream's events that fit no query crosses to Python, to tell the
            time; 1: all do, so that the watermark is exact, and a slow stream does not lag.
        snapshot_bytes: bytes of a stream's journal that a snapshot of its state is always worth.
        entry_bytes: bytes that an entry of that journal counts as at least: to repeat it takes time.
        replayed_events: events of that journal that are matched together when they are repeated.
        raced_events: events from which on engines race for a query.
        estimated_events: events from which on an estimate chooses between an automaton and joins.
        first_race: events of the first lap of a race.
        raced_runs: runs that an engine may keep at a time before it loses a race.
    """

    read_events: int = 1 << 17
    chunk_events: int = 1 << 15
    joined_events: int = 1 << 16
    pool_rows: int = 1 << 16
    small_rows: int = 1 << 12
    idle_partitions: int = 1 << 10
    first_rows: int = 256
    matches: int = 1 << 17
    sampled_events: int = 1 << 16
    piece_rows: int = 1 << 20
    tested_events: int = 1 << 22
    compiled_rows: int = 2_000
    skipped_events: int = 32
    counted_places: int = 1 << 26
    limbs: int = 1 << 18
    lanes: int = 1 << 20
    shown_places: int = 1 << 20
    window_pairs: int = 1 << 18
    spare_groups: int = 1 << 16
    few_searches: int = 16
    held_events: int = 1 << 20
    routed_rows: int = 1 << 23
    routed_sample: int = 1 << 14
    small_pairs: int = 1 << 12
    small_forked: int = 8
    thread_events: int = 500_000
    filtered_events: int = 100_000
    scanned_events: int = 1 << 18
    kept_share: int = 4
    stretch_events: int = 1 << 23
    anchor_events: int = 50_000
    interval_events: int = 16
    patience: int = 128
    pause_steps: int = 1 << 17
    stack_rows: int = 1 << 8
    memo_bytes: int = 1 << 28
    row_steps: int = 10_000
    open_rows: int = 1 << 11
    row_matches: int = 1 << 16
    match_rows: int = 1 << 20
    candidate_rows: int = 1 << 16
    shared_rows: int = 100_000
    block_rows: int = 1 << 16
    code_rows: int = 5
    spread_rows: int = 2
    first_strings: int = 1 << 11
    most_strings: int = 1 << 17
    judged_rows: int = 1 << 17
    filtered_rows: int = 10_000
    thread_rows: int = 200_000
    task_events: int = 2_000_000
    gathered_percent: int = 25
    exchanged_events: int = 1_500_000
    cut_events: int = 1 << 20
    blob_events: int = 1 << 18
    output_rows: int = 1 << 16
    clock_events: int = 16
    snapshot_bytes: int = 1 << 20
    entry_bytes: int = 10_000
    replayed_events: int = 1 << 20
    raced_events: int = 10_000
    estimated_events: int = 50_000
    first_race: int = 1 << 8
    raced_runs: int = 20_000

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or value < 1:
                raise PlanError(
                    f"the limit {each.name} is {value!r}", hint="it must be a whole number from 1 on"
                )

    @classmethod
    def all(cls, size: int) -> Limits:
        """Return limits that are all of one size.

        >>> Limits.all(3).matches
        3
        """
        return cls(*(size for _ in fields(cls)))


DEFAULT = Limits()
