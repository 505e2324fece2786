"""Recomputation in pieces: small rooms, batches, and saved states change nothing about the matches."""

from __future__ import annotations

import gc
from collections import Counter
from itertools import chain, pairwise

import pytest

from cerise.engines.automaton.program import program_of
from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.errors import DataError, StateLayoutError
from cerise.kernels import formulas
from tests.engines.test_rcep import ANY, KLEENE, answer, bound_of, events, found, start, stream
from tests.support.cases.runners import whole as run
from tests.tiers import mostly_nightly

QUERIES = {
    "rising": f"{KLEENE} WHERE b[i].x >= b[i-1].x AND a.x < b.x WITHIN 9",
    "keyed": f"{KLEENE} PARTITION BY k WHERE c.y < FIRST(b.y) WITHIN 16",
    "last": f"PATTERN SEQ(A a, B{{2,4}} b[]) {ANY} PARTITION BY k WHERE b[i].x > b[i-1].x WITHIN 25",
    "two": f"PATTERN SEQ(A+ a[], B+ b[], C c) {ANY} WHERE LAST(a.x) < FIRST(b.x) AND [k] WITHIN 14",
    "and": f"PATTERN AND(A a, B+ b[]) {ANY} PARTITION BY k WHERE a.x < b.x WITHIN 12",
    "or": f"PATTERN SEQ(A a, OR(B+ b[], SEQ(C c, D? d))) {ANY} WHERE a.x < c.x AND b.y > a.y WITHIN 7",
    "equal": f"{KLEENE} WHERE a.x = c.x AND b.s = a.s WITHIN 25",
    "words": f"{KLEENE} WHERE a.s < b.s AND c.s != a.s WITHIN 7",
    "not between": f"PATTERN SEQ(A a, B+ b[], ~(D n), C c) {ANY} WHERE n.x > a.x WITHIN 8",
    "not before": f"PATTERN SEQ(~(D n), B+ b[], C c) {ANY} WHERE n.x = c.x WITHIN 8",
    "not after": f"PATTERN SEQ(A a, B+ b[], ~(D n)) {ANY} WHERE n.x > a.x WITHIN 6",
    "not in and": f"PATTERN AND(A a, B+ b[], ~(D n)) {ANY} WHERE n.x = a.x WITHIN 5",
    "count window": f"{KLEENE} PARTITION BY k WHERE b.x > a.x WITHIN 8 EVENTS",
    "slide": f"{KLEENE} WHERE b.x > a.x WITHIN 9 SLIDE 4",
    "slide of events": f"{KLEENE} WHERE [k] AND b.x > a.x WITHIN 8 EVENTS SLIDE 3 EVENTS",
    "one by one": f"{KLEENE} WHERE [k] AND b[i].x > b[i-1].x WITHIN 20 OUTPUT NON_OVERLAPPING",
    "limit": f"{KLEENE} WHERE b.x > a.x WITHIN 9 LIMIT 3 PER EVENT",
    "count": f"{KLEENE} WHERE b.x > a.x WITHIN 9 RETURN COUNT(*)",
}
SOURCES = [program_of(bound_of(text), merging=False).source for text in list(QUERIES.values())[:6]]
SMALL = {"joined_events": 1, "matches": 2}
ROOMS = (Limits(**SMALL), *map(Limits.all, (1, 2, 3)))
CUTS = (0, 1, 2, 17, 18, 60, 61, 100, 140)
names = pytest.mark.parametrize("name", QUERIES)


# ---- small rooms


@names
@pytest.mark.parametrize("limits", mostly_nightly(ROOMS, ROOMS[:2]))
def test_small_rooms_change_nothing(name: str, limits: Limits) -> None:
    """As many new events as are kept are read at a time, and no more than two matches are written."""
    bound, batch = bound_of(QUERIES[name]), stream(1, CUTS[-1])
    expected = answer(bound, batch)
    assert expected.total() > 5
    assert answer(bound, batch, "rcep", limits) == expected


@pytest.mark.parametrize(
    "name", ["keyed", "last", "two", "and", "one by one", "count keyed", "not before keyed"]
)
def test_small_batches_look_at_the_partitions_of_their_last_events(name: str) -> None:
    """Many more events are kept than come; old ones stay until they are a quarter of all."""
    more = {
        "count keyed": f"{KLEENE} WHERE [k] AND b.x > a.x WITHIN 9 RETURN COUNT(*)",
        "not before keyed": f"PATTERN SEQ(~(D n), B+ b[], C c) {ANY} WHERE [k] AND n.x = c.x WITHIN 12",
    }
    bound, batch = bound_of({**QUERIES, **more}[name]), stream(5, 140)
    matcher, given = start(bound, small_rows=1), Counter[int]()
    chosen: list[int | None] = []
    select = matcher._select
    matcher._select = lambda fresh: chosen.append(rows := select(fresh)) or rows  # type: ignore[method-assign]
    for first in range(0, 140, 2):
        given += found(matcher.feed(batch.slice(first, first + 2)), bound)
    assert given + found(matcher.flush(), bound) == answer(bound, batch)
    assert sum(each is not None for each in chosen) > 5


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_matches_leave_in_bounded_chunks(rows: int) -> None:
    """One event completes 2^7 - 1 matches for each of two a's: the walk is resumed where it stopped."""
    bound, batch = bound_of(KLEENE), events("AA" + 7 * "B" + "C")
    sizes: list[int] = []
    taken: list[int] = []
    names: Counter[int] = Counter()
    for each in start(bound, matches=rows).feed(batch):
        sizes.append(len(each))
        taken.append(len(each.rows["b"].flatten()))
        names += found([each], bound)
    assert sum(sizes) == len(names) == 2 * 127
    assert max(sizes) <= rows
    assert max(taken) <= max(rows, len(batch) + 2)


def test_a_match_of_five_hundred_events() -> None:
    """Deeper than there is room for at first, several times over."""
    bound = bound_of(f"{KLEENE} WHERE b[i].x = b[i-1].x + 1 AND FIRST(b.x) = 1 AND LAST(b.x) = 500")
    matcher = start(bound)
    (each,) = matcher.feed(events("A" + 500 * "B" + "C", x=[0, *range(1, 501), 0]))
    assert each.rows["b"].to_pylist() == [list(range(1, 501))]
    assert matcher.report.most_runs == 501


def test_long_matches_in_small_rooms() -> None:
    """Growing deeper and running full take turns."""
    bound = bound_of(f"PATTERN SEQ(A a, B+ b[]) {ANY} WHERE b[i].x = b[i-1].x + 1 AND FIRST(b.x) = 1")
    batch = events("A" + 200 * "B", x=range(201))
    lengths = [
        len(bound_b)
        for each in start(bound, **SMALL).feed(batch)
        for bound_b in each.rows["b"].to_pylist()
    ]  # fmt: skip
    assert lengths == list(range(1, 201))


@pytest.mark.parametrize("query", [QUERIES["count window"], QUERIES["slide of events"]])
def test_partitions_that_hold_nothing_are_forgotten(query: str) -> None:
    """Unless a slide counts on them; keys come, go, and come again."""
    bound, kept, got = bound_of(query), [], Counter[int]()
    current, expected = start(bound, pool_rows=2), ENGINES["reference"].start(bound, Options())
    for number in range(60):
        key = number % 25
        batch = events("ABBC" + 9 * "D", 13 * number, k=[key] * 13, x=[key % 3, 2, 1, *[0] * 10])
        got += found(current.feed(batch), bound)
        list(expected.feed(batch))
        kept.append(len(current._window._partitions))
    assert got == found(expected.flush(), bound)
    assert got
    assert (max(kept) < 10) == ("SLIDE" not in query)


# ---- matches, once given


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
def test_matches_stay_as_they_were_when_more_are_found(engine: str) -> None:
    bound, batch = bound_of(KLEENE + " WITHIN 9"), events("ABBBCABBBC" * 2)
    expected = answer(bound, batch)
    late = ENGINES[engine].start(bound, Options(limits=Limits(matches=4)))
    held = [each for begin in (0, 10) for each in late.feed(batch.slice(begin, begin + 10))]
    assert found(held, bound) == expected


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
def test_threads_that_find_many_matches_keep_them_all(engine: str) -> None:
    limits = Limits(joined_events=16, matches=8)
    bound = bound_of(
        f"{KLEENE} WHERE b.x > a.x WITHIN 9 RETURN a.t AS a, FIRST(b.t) AS b, c.t AS c, sum(b.x) AS n"
    )
    table = stream(5, 200).table
    one, two = (
        Counter(map(str, run(bound, table, Options(engine=each, threads=count, limits=limits)).to_pylist()))
        for each, count in (("reference", 1), (engine, 2))
    )
    assert one.total() > 100
    assert two == one


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
def test_a_matcher_holds_its_code_when_the_cache_lets_it_go(engine: str) -> None:
    bound, batch = bound_of(QUERIES["equal"]), stream(3, 120)
    expected = answer(bound, batch)
    matcher = ENGINES[engine].start(bound, Options())
    formulas._load.cache_clear()
    formulas._compile_columns.cache_clear()
    gc.collect()
    others = [formulas.load(f"{text}\n# other") for text in SOURCES]  # may lie where the code was
    assert found(chain(matcher.feed(batch), matcher.flush()), bound) == expected
    assert others


# ---- going on


@names
def test_a_loaded_matcher_goes_on_exactly(name: str) -> None:
    """Batch by batch: not only are the matches the same in the end, they also come as early."""
    bound, batch = bound_of(QUERIES[name]), stream(2, CUTS[-1])
    always, current = start(bound), start(bound)
    total: Counter[int] = Counter()
    for begin, end in pairwise(CUTS):
        later = start(bound)
        later.load(current.save())
        current = later
        here = found(current.feed(batch.slice(begin, end)), bound)
        assert here == found(always.feed(batch.slice(begin, end)), bound)
        total += here
    later = start(bound)
    later.load(current.save())
    last = found(later.flush(), bound)
    assert last == found(always.flush(), bound)
    assert total + last == answer(bound, batch)


@pytest.mark.parametrize(
    ("after", "left"), [("XXXXXX", 3), ("XXX", 3), ("CXXX", 0), ("XXC", 0), ("XXXC", 3), ("", 3), ("BCBX", 8)]
)
def test_what_waits_for_the_end_of_a_window_is_saved(after: str, left: int) -> None:
    """A match is given when nothing can forbid it any more: a window has passed since its first event."""
    bound = bound_of(f"PATTERN SEQ(A a, B+ b[], ~(C c)) {ANY} WITHIN 5")
    matcher, later = start(bound), start(bound)
    assert found(matcher.feed(events("ABB")), bound).total() == 0
    later.load(matcher.save())
    early = found(later.feed(events(after, 3)), bound)
    last = start(bound)
    last.load(later.save())
    assert (early + found(last.flush(), bound)).total() == left
    assert early.total() == (left if len(after) >= 4 else 0)


def test_to_flush_is_to_forget() -> None:
    bound, batch = bound_of(QUERIES["not after"]), stream(3, 80)
    matcher = start(bound)
    once = found(chain(matcher.feed(batch), matcher.flush()), bound)
    assert once == found(chain(matcher.feed(batch), matcher.flush()), bound) == answer(bound, batch)
    assert len(matcher._window) == 0


# ---- what is refused


@pytest.mark.parametrize(
    ("engine", "problem"), [("nfa", "another engine or release"), ("reference", "not a saved state of this")]
)
def test_a_state_of_another_engine_is_refused(engine: str, problem: str) -> None:
    bound = bound_of(QUERIES["rising"])
    other, mine = ENGINES[engine].start(bound, Options()), start(bound)
    for _ in chain(other.feed(stream(4, 50)), mine.feed(stream(4, 50))):
        pass
    with pytest.raises(StateLayoutError, match=problem) as caught:
        start(bound).load(other.save())
    assert "run the query again" in str(caught.value.hint)
    with pytest.raises(DataError):
        other.load(mine.save())


@pytest.mark.parametrize(
    "other",
    [
        QUERIES["rising"].replace("WITHIN 9", "WITHIN 8"),
        QUERIES["rising"].replace("a.x < b.x", "a.x <= b.x"),
        QUERIES["rising"] + " LIMIT 1 PER EVENT",
        QUERIES["count"],
    ],
)
def test_a_state_of_another_query_is_refused(other: str) -> None:
    matcher = start(bound_of(QUERIES["rising"]))
    with pytest.raises(DataError, match="of another query"):
        start(bound_of(other)).load(matcher.save())


@pytest.mark.parametrize("junk", [b"", b"rcep", b"\0" * 200])
def test_bytes_that_are_no_state_are_refused_and_change_nothing(junk: bytes) -> None:
    bound, batch = bound_of(QUERIES["rising"]), stream(4, 60)
    matcher = start(bound)
    before = found(matcher.feed(batch.slice(0, 30)), bound)
    with pytest.raises(DataError, match="not a saved state"):
        matcher.load(junk)
    after = found(chain(matcher.feed(batch.slice(30, 60)), matcher.flush()), bound)
    assert before + after == answer(bound, batch)
