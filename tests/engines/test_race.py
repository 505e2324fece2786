"""Engines tried on the first events: which one is taken, and that the trial leaves no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Engine, Matches, Options
from cerise.engines.choose import ENGINES, TRIED, choose
from cerise.engines.limits import Limits
from cerise.engines.race import Trial, TrialMatcher
from cerise.errors import DataError, PlanError, StateLayoutError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from tests.engines.test_rcep import ANY, KLEENE, SCHEMA, answer, bound_of, found, stream

RISING = f"{KLEENE} WHERE b[i].x >= b[i-1].x AND a.x < b.x WITHIN 9"


def start(bound: Bound, **options: Any) -> TrialMatcher:
    matcher = choose(bound, Options(**options)).start(bound, Options(**options))
    assert isinstance(matcher, TrialMatcher)
    return matcher


def events(types: str, size: int) -> EventBatch:
    """Some events, of some types first and then others; no two sets of the first forty have equal sums."""
    columns = {"t": np.arange(size), "type": [*types, *"X" * (size - len(types))]}
    columns["x"] = [2 ** min(i, 40) for i in range(size)]
    arrays = [pa.array(columns.get(each.name, [None] * size), each.type) for each in SCHEMA.columns]
    return EventBatch.of(pa.table(arrays, schema=SCHEMA.columns), SCHEMA)


# few events are worth a trial, and they are fed to it in small steps
SOON = Limits(raced_events=40, first_race=4)


TRY = TrialMatcher._race


def favour(winner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all engines be tried, and one win."""

    def tried(matcher: TrialMatcher, engine: Engine, batch: EventBatch, _: Sequence[float]) -> list[float]:
        assert TRY(matcher, engine, batch, [])
        return [float(engine.name != winner)]

    monkeypatch.setattr(TrialMatcher, "_race", tried)


# ---- which queries


@pytest.mark.parametrize(
    ("query", "tried"),
    [
        (KLEENE, True),
        (f"PATTERN SEQ(A a, ~C c, B+ b[]) {ANY} WITHIN 5", True),
        (f"PATTERN SEQ(A a, B+ b[], ~C c) {ANY} WITHIN 5", True),
        (f"{RISING} RETURN COUNT(*)", False),  # estimated
        (f"PATTERN SEQ(A a, B b, C c) {ANY}", False),
        ("PATTERN SEQ(A a, B+ b[], C c)", False),
        (f"PATTERN AND(A a, B+ b[]) {ANY} LIMIT 1 PER EVENT", False),
    ],
)
def test_what_recomputation_may_gain_from_is_tried(query: str, tried: bool) -> None:
    engine = choose(bound_of(query), Options())
    assert (type(engine) is Trial) is tried
    if type(engine) is Trial:
        joins = ("tree",) if ENGINES["tree"].why_not(bound_of(query)) is None else ()
        counts = "COUNT" in query  # without making matches: by merged runs, or by layers
        assert engine.name == " or ".join(TRIED[1:] if counts else (*joins, *TRIED))
        assert engine.why_not(bound_of(query)) is None


def test_who_names_an_engine_gets_it_untried() -> None:
    assert choose(bound_of(KLEENE), Options(engine="rcep")) is ENGINES["rcep"]


def test_explain_says_that_engines_are_tried_and_how_each_would_run() -> None:
    said = str(cerise.explain(stream(1, 9).table, KLEENE, time="t", type="type"))
    assert "tried on the first events" in said
    for name in ("tree", "automaton"):
        assert name in said


def test_what_cannot_be_run_says_why() -> None:
    engine = Trial((ENGINES["nfa"], ENGINES["rcep"]))
    reason = engine.why_not(bound_of("PATTERN SEQ(A a, B+ b[])"))
    assert reason is not None
    assert "skip_till_next_match" in reason


# ---- which engine


def test_few_events_are_recomputed() -> None:
    matcher = start(bound_of(RISING))
    list(matcher.feed(stream(1, 100)))
    assert matcher.chosen == "rcep"


def test_where_runs_explode_events_are_recomputed() -> None:
    """40 b's make 2^40 runs, and no c ever comes."""
    bound = bound_of(f"{KLEENE} WHERE b[i].x != sum(b[..i-1].x) WITHIN 100")
    matcher = start(bound)
    assert list(matcher.feed(events("A" + 40 * "B", Limits().raced_events))) == []
    assert matcher.chosen == "rcep"


def test_where_every_engine_is_slow_that_is_taken_which_does_not_give_up() -> None:
    """Each of sixty c's completes 2^13 - 1 matches, for which a trial has no time; 2^14 runs are too many."""
    bound = bound_of(f"{KLEENE} WHERE b[i].x != sum(b[..i-1].x) AND LAST(b.x) <= {2**13} WITHIN 100")
    matcher = start(bound, max_runs=10_000)
    batch = events("A" + 14 * "B" + 60 * "C", Limits().raced_events)
    assert sum(map(len, matcher.feed(batch))) == 60 * (2**13 - 1)
    assert matcher.chosen == "rcep"


def test_where_runs_are_few_and_triggers_many_runs_are_kept() -> None:
    """One run, which waits for a b that never comes; every other event looks back over the window."""
    bound = bound_of(f"{KLEENE} WHERE a.x + b.x < 0 WITHIN 50000")
    matcher = start(bound)
    list(matcher.feed(events("A" + 5_000 * "BC", Limits().raced_events + 1)))
    assert matcher.chosen in ("nfa", "nfa-merge")


def test_an_engine_that_gives_up_loses() -> None:
    """Its error is not the caller's, whatever the caller's own budget."""
    bound = bound_of(f"{KLEENE} WHERE b[i].x != sum(b[..i-1].x) WITHIN 50")
    batch = events("A" + 20 * "B", 100)
    for budget in (500, 1_000_000):
        matcher = start(bound, max_runs=budget, limits=Limits(raced_events=100))
        assert list(matcher.feed(batch)) == []
        assert matcher.chosen == "rcep"
    with pytest.raises(PlanError, match="more than 500"):
        list(ENGINES["nfa"].start(bound, Options(max_runs=500)).feed(batch))


def test_a_budget_for_trials_does_not_bind_the_run() -> None:
    """Where it is the only one, an engine that lost has all the runs that the caller allows."""
    bound, batch = bound_of(f"{KLEENE} WITHIN 50"), events("A" + 10 * "B" + "C", 100)
    options = Options(limits=Limits(raced_events=100, raced_runs=50))
    matcher = Trial((ENGINES["nfa"],)).start(bound, options)
    assert sum(map(len, matcher.feed(batch))) == 1023


# ---- no trace


@pytest.mark.parametrize(
    "query",
    [
        RISING,
        RISING.replace("WITHIN", "AND avg(b.x) > 1 WITHIN") + " RETURN COUNT(*)",
        f"{RISING} OUTPUT NON_OVERLAPPING",
        f"{RISING} LIMIT 2 PER EVENT",
        f"PATTERN SEQ(A a, ~(D n), B+ b[]) {ANY} WHERE n.x > a.x WITHIN 6",
        f"{KLEENE} PARTITION BY k WHERE b.x > a.x WITHIN 8 EVENTS SLIDE 3 EVENTS",
    ],
)
def test_a_trial_leaves_no_trace(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever engine wins: each event is seen once, by an engine that has seen none before."""
    bound, batch = bound_of(query), stream(2, 120)
    expected = answer(bound, batch)
    assert expected.total() > 5
    for winner in TRIED:
        favour(winner, monkeypatch)
        matcher = start(bound, limits=SOON)
        assert found(all_of(matcher, batch, 60), bound) == expected
        assert matcher.chosen == winner
        assert matcher.report.events == len(batch)
        assert matcher.report.matches == expected.total()


def all_of(matcher: TrialMatcher, batch: EventBatch, size: int) -> Iterator[Matches]:
    """The matches of a stream in batches, one after another."""
    for begin in range(0, len(batch), size):
        yield from matcher.feed(batch.slice(begin, begin + size))
    yield from matcher.flush()


def test_events_that_may_not_open_a_run_do_not() -> None:
    """They are tried as all others are, but that is not how they are run."""
    bound, batch = bound_of(RISING), stream(3, 100)
    opens = np.arange(len(batch)) >= 50
    expected = ENGINES["nfa"].start(bound, Options())
    wanted = found(chain(expected.feed(replace(batch, opens=opens)), expected.flush()), bound)
    matcher = start(bound, limits=SOON)
    assert found(chain(matcher.feed(replace(batch, opens=opens)), matcher.flush()), bound) == wanted
    assert Counter() < wanted < answer(bound, batch)


def test_no_events_choose_nothing() -> None:
    bound = bound_of(RISING)
    matcher = start(bound)
    assert list(matcher.feed(stream(1, 9).slice(0, 0))) == []
    assert matcher.chosen is None
    assert list(matcher.flush()) == []
    counting = bound_of(RISING.replace("WITHIN", "AND avg(b.x) > 1 WITHIN") + " RETURN COUNT(*)")
    assert sum(map(len, start(counting).flush())) == 0


# ---- saved


def test_saved_before_its_first_event_it_still_has_the_choice() -> None:
    bound, batch = bound_of(RISING), stream(4, 100)
    matcher, later = start(bound), start(bound)
    list(later.feed(batch))
    later.load(matcher.save())
    assert later.chosen is None
    assert found(chain(later.feed(batch), later.flush()), bound) == answer(bound, batch)


@pytest.mark.parametrize("winner", TRIED)
def test_saved_after_the_choice_it_goes_on_with_the_same_engine(
    winner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    favour(winner, monkeypatch)
    bound, batch = bound_of(RISING), stream(4, 120)
    matcher, later = start(bound, limits=SOON), start(bound, limits=SOON)
    names = found(matcher.feed(batch.slice(0, 60)), bound)
    later.load(matcher.save())
    assert later.chosen == matcher.chosen == winner
    names += found(chain(later.feed(batch.slice(60, 120)), later.flush()), bound)
    assert names == answer(bound, batch)
    assert later.report.events == 60


@pytest.mark.parametrize("state", [b"", b"x", b"reference\n", b"cerise.nfa\n" + b"\0" * 99, b"rcep\n"])
def test_bytes_that_are_no_state_are_refused(state: bytes) -> None:
    with pytest.raises(DataError, match="not a saved state") as caught:
        start(bound_of(RISING)).load(state)
    assert str(caught.value.hint).endswith("afresh")
    assert isinstance(caught.value, StateLayoutError) == (state[:7] == b"cerise.")


def test_a_state_of_another_query_is_refused() -> None:
    matcher = start(bound_of(RISING))
    list(matcher.feed(stream(4, 50)))
    with pytest.raises(DataError, match="another query"):
        start(bound_of(RISING.replace("WITHIN 9", "WITHIN 8"))).load(matcher.save())
