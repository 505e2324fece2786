"""Saving and loading: a matcher goes on exactly where another stopped, and refuses what is not its own."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.automaton import state
from cerise.engines.base import Matcher, Matches, Options
from cerise.engines.choose import ENGINES
from cerise.engines.match_ids import match_ids
from cerise.engines.meaning import meaning_of
from cerise.errors import DataError, StateLayoutError
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from tests.engines.test_nfa_streams import NFA, QUERIES, SCHEMA, stream

KLEENE = QUERIES["any kleene"]
VERSION_AT = len(state.MAGIC)
pytestmark = pytest.mark.xdist_group("nfa queries")  # those of the streams
engines = pytest.mark.parametrize("engine", NFA)


def bound_of(query: str, schema: Schema = SCHEMA, **params: Any) -> Bound:
    return bind(parse(query), schema, params)


def start(engine: str, bound: Bound) -> Matcher:
    return ENGINES[engine].start(bound, Options())


def found(matches: Iterable[Matches], bound: Bound) -> Counter[int]:
    return Counter(chain.from_iterable(match_ids(each, bound).to_pylist() for each in matches))


def saved(engine: str, bound: Bound, size: int = 300) -> bytes:
    matcher = start(engine, bound)
    for _ in matcher.feed(EventBatch.of(stream(1, size), bound.schema)):
        pass
    return matcher.save()


def loaded(engine: str, bound: Bound, state: bytes) -> Matcher:
    matcher = start(engine, bound)
    matcher.load(state)
    return matcher


# ---- what is refused


@engines
@pytest.mark.parametrize(
    "junk", [b"", b"x", b"cerise.nfa", b"\0" * 500, b"cerise.reference.1\n" + b"\0" * 99]
)
def test_bytes_that_are_no_state_are_refused(engine: str, junk: bytes) -> None:
    with pytest.raises(DataError, match="not a saved state of this engine") as caught:
        loaded(engine, bound_of(KLEENE), junk)
    assert caught.value.hint


@engines
def test_a_state_of_another_engine_is_refused(engine: str) -> None:
    with pytest.raises(DataError, match="not a saved state of this engine"):
        loaded(engine, bound_of(KLEENE), saved("reference", bound_of(KLEENE)))


@engines
def test_a_damaged_byte_is_noticed_wherever_it_is(engine: str) -> None:
    bound = bound_of(KLEENE)
    good = saved(engine, bound)
    matcher = start(engine, bound)
    for place in chain(range(state.HEAD.size), range(state.HEAD.size, len(good), 997), [len(good) - 1]):
        bad = bytearray(good)
        bad[place] ^= 0x10
        with pytest.raises(DataError) as caught:
            matcher.load(bytes(bad))
        if place >= state.HEAD.size:
            assert "damaged" in str(caught.value)
    matcher.load(good)


@engines
@pytest.mark.parametrize("left", [0.0, 0.01, 0.5, 0.999])
def test_a_state_that_was_cut_off_is_refused(engine: str, left: float) -> None:
    bound = bound_of(KLEENE)
    good = saved(engine, bound)
    with pytest.raises(DataError, match=r"damaged|not a saved state"):
        loaded(engine, bound, good[: int(left * len(good))])
    with pytest.raises(DataError, match="damaged"):
        loaded(engine, bound, good[:-1])
    with pytest.raises(DataError, match="damaged"):
        loaded(engine, bound, good + b"\0")


@engines
def test_a_state_of_a_newer_version_says_so(engine: str) -> None:
    bound = bound_of(KLEENE)
    bad = bytearray(saved(engine, bound))
    struct.pack_into("<I", bad, VERSION_AT, state.VERSION + 6)
    with pytest.raises(
        DataError, match=f"format version {state.VERSION + 6}.*version {state.VERSION}"
    ) as caught:
        loaded(engine, bound, bytes(bad))
    assert "version of Cerise that saved it" in str(caught.value.hint)


@engines
@pytest.mark.parametrize(
    "other",
    [
        QUERIES["p2"],
        KLEENE.replace("WITHIN 24", "WITHIN 25"),
        KLEENE.replace("a.x < b.x", "a.x <= b.x"),
        KLEENE.replace("skip_till_any_match", "skip_till_next_match"),
        KLEENE.replace("PARTITION BY k ", ""),
        KLEENE + " RETURN COUNT(*)",
    ],
)
def test_a_state_of_another_query_is_refused(engine: str, other: str) -> None:
    with pytest.raises(DataError, match="of another query"):
        loaded(engine, bound_of(other), saved(engine, bound_of(KLEENE)))


@engines
@pytest.mark.parametrize(
    ("query", "one", "other"),
    [
        ("PATTERN SEQ(A a, B b, C c) WHERE a.x < :value WITHIN 9", 5, 6),
        ("PATTERN SEQ(A a, B b, C c) WITHIN :value", 9, 90),
        ("PATTERN SEQ(A a, B b, C c) WITHIN :value EVENTS", 9, 90),
        ("PATTERN SEQ(A a, B b, C c) WITHIN 9 SLIDE :value", 2, 4),
        ("PATTERN SEQ(A a, B b, C c) WHERE b.s = :value WITHIN 9", "w1", "w2"),
    ],
)
def test_a_state_of_other_parameters_is_refused(engine: str, query: str, one: Any, other: Any) -> None:
    with pytest.raises(DataError, match="of another query"):
        loaded(engine, bound_of(query, value=other), saved(engine, bound_of(query, value=one)))


@engines
@pytest.mark.parametrize(
    "schema",
    [
        replace(SCHEMA, columns=SCHEMA.columns.append(pa.field("more", pa.int64()))),
        replace(SCHEMA, columns=SCHEMA.columns.set(4, pa.field("x", pa.int32()))),
        replace(SCHEMA, order=("id",)),
    ],
    ids=["another column", "another type", "another order"],
)
def test_a_state_of_another_schema_is_refused(engine: str, schema: Schema) -> None:
    with pytest.raises(DataError, match="other columns"):
        loaded(engine, bound_of(KLEENE, schema), saved(engine, bound_of(KLEENE)))


@engines
def test_a_state_of_this_query_in_another_layout_is_told_apart(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later release writes other code for the same query: its events can be run again."""
    bound = bound_of(KLEENE)
    good = saved(engine, bound)
    newer = bytearray(good)
    struct.pack_into("<I", newer, VERSION_AT, state.VERSION + 1)
    recomputed = saved("rcep", bound)
    other = bound_of(KLEENE.replace("WITHIN 24", "WITHIN 25"))
    for bytes_ in (bytes(newer), recomputed, saved("reference", bound), b"nfa\n" + good, b"\n17", b"\n"):
        with pytest.raises(StateLayoutError) as caught:
            loaded(engine, bound, bytes_)
        assert "run the query again" in str(caught.value.hint)
    for bytes_ in (bytes(newer), recomputed):
        with pytest.raises(DataError, match="of another query") as refused:
            loaded(engine, other, bytes_)
        assert not isinstance(refused.value, StateLayoutError)
    monkeypatch.setattr(state, "_layout", lambda *_: b"0" * 16)
    with pytest.raises(StateLayoutError, match="another engine or release"):
        loaded(engine, bound, good)


def test_a_meaning_is_of_the_query_its_parameters_and_its_events() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.x < :most WITHIN 9"
    same = [
        bound_of(text, most=5),
        bound_of(text.replace("WHERE", "\n where  "), most=5),
        bound_of(text, most=np.int64(5)),
    ]
    assert len({meaning_of(each) for each in same}) == 1
    others = [
        bound_of(text, most=6),
        bound_of(text, most=5.0),
        bound_of(text + "0", most=5),
        bound_of(text, replace(SCHEMA, order=("id",)), most=5),
        bound_of(text, replace(SCHEMA, columns=SCHEMA.columns.set(4, pa.field("x", pa.int32()))), most=5),
    ]
    assert len({meaning_of(each) for each in [*same, *others]}) == 1 + len(others)


@engines
def test_a_matcher_that_refused_a_state_is_as_before(engine: str) -> None:
    bound = bound_of(KLEENE)
    events = EventBatch.of(stream(2, 400), SCHEMA)
    matcher = start(engine, bound)
    before = found(matcher.feed(events.slice(0, 200)), bound)
    with pytest.raises(DataError):
        matcher.load(saved(engine, bound_of(QUERIES["p2"])))
    after = found(chain(matcher.feed(events.slice(200, 400)), matcher.flush()), bound)
    whole = start(engine, bound)
    assert before + after == found(chain(whole.feed(events), whole.flush()), bound)


# ---- going on


@engines
@pytest.mark.parametrize("name", QUERIES)
def test_a_loaded_matcher_goes_on_exactly(engine: str, name: str) -> None:
    """Batch by batch: not only are the matches the same in the end, they also come as early."""
    bound = bound_of(QUERIES[name])
    events = EventBatch.of(stream(3, 500), SCHEMA)
    always, current = start(engine, bound), start(engine, bound)
    total: Counter[int] = Counter()
    for begin, end in pairwise((0, 1, 90, 91, 250, 251, 400, 500)):
        part = events.slice(begin, end)
        current = loaded(engine, bound, current.save())
        here = found(current.feed(part), bound)
        assert here == found(always.feed(part), bound)
        total += here
    current = loaded(engine, bound, current.save())
    last = found(current.flush(), bound)
    assert last == found(always.flush(), bound)
    assert (total + last).total() > 0


@engines
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_saved_does_not_depend_on_the_batches_before(engine: str, name: str) -> None:
    bound = bound_of(QUERIES[name])
    events = EventBatch.of(stream(4, 180), SCHEMA)
    answers = []
    for size in (1, 7, 40, 80):
        matcher = start(engine, bound)
        for begin in range(0, 80, size):
            for _ in matcher.feed(events.slice(begin, min(begin + size, 80))):
                pass
        later = loaded(engine, bound, matcher.save())
        answers.append(found(chain(later.feed(events.slice(80, 180)), later.flush()), bound))
    assert answers.count(answers[0]) == len(answers)


@engines
def test_a_state_can_be_saved_and_loaded_any_number_of_times(engine: str) -> None:
    bound = bound_of(QUERIES["words"])
    events = EventBatch.of(stream(5, 4_000), SCHEMA)
    first = start(engine, bound)
    for _ in first.feed(events.slice(0, 2_000)):
        pass
    state = first.save()
    answers = []
    for times in (0, 1, 4):
        matcher = loaded(engine, bound, state)
        for _ in range(times):
            matcher.load(matcher.save())
        answers.append(found(matcher.feed(events.slice(2_000, 4_000)), bound))
    assert answers == [found(first.feed(events.slice(2_000, 4_000)), bound)] * 3
    assert answers[0]


@engines
def test_a_loaded_matcher_still_refuses_to_go_back_in_time(engine: str) -> None:
    bound = bound_of(KLEENE)
    matcher = loaded(engine, bound, saved(engine, bound))
    with pytest.raises(DataError, match="back in time"):
        list(matcher.feed(EventBatch.of(stream(1, 10), SCHEMA)))


@engines
def test_a_state_holds_no_more_than_the_window_does(engine: str) -> None:
    bound = bound_of(QUERIES["words"])  # its words keep being new
    matcher = start(engine, bound)
    events = EventBatch.of(stream(6), SCHEMA)
    sizes = []
    for begin in range(0, len(events), 1_000):
        for _ in matcher.feed(events.slice(begin, begin + 1_000)):
            pass
        sizes.append(len(matcher.save()))
    assert max(sizes) < 2 * min(sizes)


@pytest.mark.parametrize("name", ["next", "any kleene", "not between", "one by one", "limit", "words"])
def test_basic_and_backtracking_can_go_on_for_each_other_or_refuse(name: str) -> None:
    bound = bound_of(QUERIES[name])
    events = EventBatch.of(stream(8, 600), SCHEMA)
    expected = start("nfa", bound)
    whole = found(chain(expected.feed(events), expected.flush()), bound)
    for one, other in (("nfa", "nfa-backtrack"), ("nfa-backtrack", "nfa")):
        first, second = start(one, bound), start(other, bound)
        before = found(first.feed(events.slice(0, 300)), bound)
        try:
            second.load(first.save())
        except DataError:
            continue
        assert before + found(chain(second.feed(events.slice(300, 600)), second.flush()), bound) == whole


@pytest.mark.parametrize("engine", [*NFA, "reference"])
def test_which_events_may_start_a_match_is_saved(engine: str) -> None:
    """A slice with a halo is saved, and loaded into a matcher that has seen later events."""
    bound = bound_of("PATTERN SEQ(A a, B b) WITHIN 100")
    given = {SCHEMA.time: [1, 2, 3, 4, 5], SCHEMA.type: list("ABAAB")}
    columns = [pa.array(given.get(each.name, [None] * 5), each.type) for each in SCHEMA.columns]
    table = pa.table(columns, schema=SCHEMA.columns)
    whole = EventBatch.in_order(table, SCHEMA)
    opens = np.array([False, False, True, False, False])
    parts = [replace(whole.slice(low, high), opens=opens[low:high]) for low, high in ((0, 3), (3, 5))]
    matcher = start(engine, bound)
    first = found(matcher.feed(parts[0]), bound)
    saved = matcher.save()
    other = start(engine, bound)
    found(other.feed(whole), bound)
    other.load(saved)
    ids = first + found(other.feed(parts[1]), bound) + found(other.flush(), bound)
    alone = start("reference", bound)
    expected = found(alone.feed(replace(whole, opens=opens)), bound) + found(alone.flush(), bound)
    assert ids == expected
    assert ids.total() == 1
    found(other.feed(whole), bound)  # after a flush the stream begins anew
