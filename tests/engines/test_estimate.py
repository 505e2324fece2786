"""The choice between an automaton and joins, for a single any-match query."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.choose import choose, reasons
from cerise.engines.estimate import EstimateMatcher, estimate
from cerise.engines.limits import Limits
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.sources import count_query

KINDS = (["A"] * 8 + ["B"] * 6 + ["C"] * 5) * 1_000
KINDS[9_000:9_004] = KINDS[15_000:15_002] = ["R"] * 4
KINDS = KINDS[:19_000]
EVENTS = pa.table({"t": range(len(KINDS)), "kind": KINDS, "x": [i * 7919 % 1000 for i in range(len(KINDS))]})
ROLES = {"time": "t", "type": "kind"}


def bound_to(text: str) -> Bound:
    return bind(parse(text), Schema(EVENTS.schema, "t", "kind"))


def start(text: str) -> EstimateMatcher:
    bound, options = bound_to(text), Options(limits=Limits(estimated_events=10_000))
    matcher = choose(bound, options).start(bound, options)
    assert isinstance(matcher, EstimateMatcher)
    return matcher


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("SEQ(A a, B b, C c, R r) USE skip_till_any_match WHERE b.x > a.x AND c.x > b.x WITHIN 60", "tree"),
        ("SEQ(R r, A a, B b) USE skip_till_any_match WHERE a.x > r.x + 900 WITHIN 10", "nfa-merge"),
    ],
)
def test_rare_events_late_in_a_pattern_are_joined_first(pattern: str, chosen: str) -> None:
    matcher = start(f"PATTERN {pattern}")
    found = sum(len(each) for each in matcher.feed(EventBatch.of(EVENTS, matcher.bound.schema)))
    found += sum(len(each) for each in matcher.flush())
    assert matcher.chosen == chosen
    assert found == len(cerise.find(EVENTS, f"PATTERN {pattern}", **ROLES, options=Options(engine="nfa")))


def test_few_events_are_not_worth_an_estimate() -> None:
    matcher = start("PATTERN SEQ(A a, R r) USE skip_till_any_match WITHIN 30")
    list(matcher.feed(EventBatch.of(EVENTS.slice(0, 1_000), matcher.bound.schema)))
    assert matcher.chosen == matcher.engines.__iter__().__next__()


def test_an_estimate_counts_windows_of_events() -> None:
    bound = bound_to("PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE b.x > a.x WITHIN 50 EVENTS")
    like = bound_to("PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE b.x > a.x WITHIN 49")
    events = EventBatch.of(EVENTS, bound.schema)
    one, other = (estimate(each, events, ("nfa", "tree")) for each in (bound, like))
    assert one["nfa"] == pytest.approx(other["nfa"], rel=0.1)
    assert one["tree"] == pytest.approx(other["tree"], rel=0.1)


COUNTED = "USE skip_till_any_match WHERE b.x < NEXT(b.x) WITHIN 30"


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        (f"SEQ(R r, A+ b[], B c) {COUNTED}", ("nfa-merge",)),
        (f"SEQ(A a, B+ b[], C c, R r) {COUNTED}", ("tree",)),
        (f"SEQ(A a, B+ b[], R r) {COUNTED.replace('30', '3000')}", ("nfa-merge", "rcep")),
    ],
)
def test_counted_chains_of_short_windows_need_no_race(
    pattern: str, chosen: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of long windows they do: there may be more chains than a word counts."""
    races: list[str] = []
    monkeypatch.setattr(
        EstimateMatcher, "_race", lambda self, engine, *rest: races.append(engine.name) or [1.0, 1.0]
    )
    bound = bind(count_query(f"PATTERN {pattern}"), Schema(EVENTS.schema, "t", "kind"))
    options = Options(limits=Limits(estimated_events=10_000))
    matcher = choose(bound, options).start(bound, options)
    assert isinstance(matcher, EstimateMatcher)
    repeated = pa.table({"t": range(4 * len(KINDS)), "kind": 4 * KINDS, "x": 4 * EVENTS["x"].to_pylist()})
    assert matcher._find_fastest(EventBatch.of(repeated, bound.schema)) in chosen
    assert bool(races) == (len(chosen) > 1)


def test_queries_that_are_equal_keep_parts_of_their_own() -> None:
    """1 and 1.0 are equal in Python, and 5 / 2 and 5.0 / 2 are not."""
    events = EVENTS.slice(0, 500)
    for half in ("2", "2.0"):
        text = f"PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE b.x / {half} = a.x WITHIN 99"
        counts = [
            cerise.count(events, text, **ROLES, options=Options(engine=each)) for each in ("tree", "nfa")
        ]
        assert counts[0] == counts[1]


def test_a_choice_is_saved_with_the_state() -> None:
    text = "PATTERN SEQ(A a, B b, C c, R r) USE skip_till_any_match WHERE b.x > a.x WITHIN 300"
    matcher, later = start(text), start(text)
    events = EventBatch.of(EVENTS, matcher.bound.schema)
    found = sum(len(each) for each in matcher.feed(events.slice(0, 12_000)))
    later.load(matcher.save())
    assert later.chosen == matcher.chosen == "tree"
    found += sum(len(each) for each in later.feed(events.slice(12_000, len(events))))
    found += sum(len(each) for each in later.flush())
    assert found == cerise.count(EVENTS, text, **ROLES)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 5", "nfa"),
        ("PATTERN SEQ(A a, B b) USE skip_till_any_match WITHIN 5 LIMIT 2 PER EVENT", "nfa-merge"),
        ("PATTERN SEQ(A a, B b) USE skip_till_any_match WITHIN 5 OUTPUT NON_OVERLAPPING", "nfa-merge"),
        ("PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WITHIN 5", "tree or nfa or nfa-merge or rcep"),
        ("PATTERN SEQ(A a, B b) USE skip_till_any_match WITHIN 5", "nfa-merge or tree"),
        (
            "PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WITHIN 5 RETURN COUNT(*)",
            "nfa-merge or tree or rcep",
        ),
    ],
)
def test_engines_that_compete(text: str, names: str) -> None:
    assert choose(bound_to(text), Options()).name in (names, names.replace("nfa-merge", "nfa"))


def test_the_reason_says_how_it_is_decided() -> None:
    text = "PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE a.x < b.x WITHIN 5"
    assert reasons(bound_to(text), Options()).startswith("by an estimate over the first events: ")
