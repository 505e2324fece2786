"""Rounds between an asker and sites: the paper's example, the hull property, and how many trips they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerise.errors import PlanError
from cerise.events import EventBatch
from cerise.filters.dual.tick_runs import MatchPart, TickRuns
from cerise.filters.equalities import JoinEdge
from cerise.filters.rounds.asker import CoverForm, DualSettings, Pulled, pull_dual
from cerise.filters.rounds.candidates import find_candidates
from cerise.filters.rounds.dual_query import DualBranch, DualQuery, DualVariable, Inside, describe_query
from cerise.filters.rounds.partial_matches import find_tuples, pull_partial_matches
from cerise.filters.rounds.pulls import PULLS, pull
from cerise.filters.rounds.site import EdgeKeys, SiteEvents
from tests.support.strategies.pairs import Pair, pairs
from tests.test_agreement import GOES, bindings, bound_of, examples, uncounted

# ---- Table I and Q_1: e1 is row 0

HOURS = "18:45 18:50 18:50 18:53 19:00 20:15 20:43 21:43 21:50 22:00"
MINUTES = np.array([60 * int(each[:2]) + int(each[3:]) for each in HOURS.split()])
TYPES = np.array(list("RBMAMRBRBM"))
DISTRICTS = np.array([10, 19, 14, 6, 19, 15, 7, 24, 14, 8])
DISTRICT = JoinEdge("B", "M", -1, frozenset("BM"), ())


def crimes_of(rows: Sequence[int]) -> list[SiteEvents]:
    fits = {name: TYPES[rows] == name for name in "RBM"}
    keys = EdgeKeys(DISTRICTS[rows], np.ones(len(rows), bool))
    return [SiteEvents(MINUTES[rows], fits, {(0, "B"): keys, (0, "M"): keys})]


def q_1(inside: Inside) -> DualQuery:
    parts = zip("RBM", (MatchPart.FIRST, MatchPart.BETWEEN, MatchPart.LAST), strict=True)
    return DualQuery(30, inside, (DualBranch(tuple(DualVariable(*each) for each in parts), (DISTRICT,)),))


DEALT = ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
TWO_SITES = [crimes_of(each) for each in DEALT]


def events_of(found: Pulled) -> set[int]:
    """The numbers of the events, as the paper counts them."""
    return {site[row] + 1 for site, rows in zip(DEALT, found.rows, strict=True) for row in rows.tolist()}


def hours_of(covered: object) -> list[tuple[str, str]]:
    assert isinstance(covered, TickRuns)
    spans = zip(covered.firsts.tolist(), covered.lasts.tolist(), strict=True)
    return [(f"{a // 60}:{a % 60:02}", f"{b // 60}:{b % 60:02}") for a, b in spans]


@pytest.mark.parametrize(("inside", "dual"), [(Inside.JOINING, {1, 2, 5}), (Inside.FITTING, {1, 2, 3, 5})])
@pytest.mark.parametrize("form", CoverForm)
def test_the_example_of_the_paper_travels_as_it_says(inside: Inside, dual: set[int], form: CoverForm) -> None:
    """Push-down 9 events, push-pull 7; dual 3 for any and rows that skip, 4 for next."""
    query, settings = q_1(inside), DualSettings(form=form, order="RBM", skips="B")
    assert events_of(pull("push-down", query, TWO_SITES)) == {1, 2, 3, 5, 6, 7, 8, 9, 10}
    assert events_of(pull("push-pull", query, TWO_SITES)) == {1, 2, 5, 6, 7, 8, 9}
    assert pull("pull-all", query, TWO_SITES).events == 10
    found = pull("dual", query, TWO_SITES, settings)
    assert events_of(found) == dual
    assert found.events == len(dual)
    assert [(each.what, each.variable) for each in found.trips] == [
        ("cover", "R"), ("keys", "B"), ("verify", "M"), ("pull", "")
    ]  # fmt: skip


def test_covered_time_after_each_round_is_that_of_fig_5() -> None:
    found = pull_dual(
        q_1(Inside.JOINING), TWO_SITES, DualSettings(form=CoverForm.EXACT, order="RBM", skips="B")
    )
    initial = [("18:45", "19:15"), ("20:15", "20:45"), ("21:43", "22:13")]
    final = [("18:45", "19:00")]
    assert [hours_of(each.covered) for each in found.trips] == [initial, initial, final, final]


@pytest.mark.parametrize("form", CoverForm)
def test_an_order_of_its_own_keeps_the_same_events(form: CoverForm) -> None:
    """All variables are verified: the match is found whatever the order."""
    found = pull_dual(q_1(Inside.JOINING), TWO_SITES, DualSettings(form=form))
    assert events_of(found) >= {1, 2, 5}
    assert found.events <= 4
    assert len(found.trips) <= 7


def test_contiguity_gets_every_event_inside() -> None:
    query = q_1(Inside.ALL)
    found = pull_dual(query, TWO_SITES, DualSettings(form=CoverForm.EXACT))
    assert events_of(found) == {1, 2, 3, 4, 5}
    for strategy in ("push-down", "push-pull"):
        with pytest.raises(PlanError):
            pull(strategy, query, TWO_SITES)
    with pytest.raises(PlanError, match="'duel' is unknown"):
        pull("duel", query, TWO_SITES)


# ---- any query: brute force

NAMES = "abcd"


def draw_query(rng: np.random.Generator) -> DualQuery:
    branches = tuple(_draw_branch(rng) for _ in range(rng.integers(1, 3)))
    return DualQuery(
        int(rng.choice([0, 1, 7, 20, 100])), rng.choice(list(Inside)), branches, bool(rng.integers(0, 2))
    )


def _draw_branch(rng: np.random.Generator) -> DualBranch:
    """In half of them the order of variables is unknown, as in AND."""
    names = NAMES[: rng.integers(2, 5)]
    ordered = bool(rng.integers(0, 2))
    ends = {names[0]: MatchPart.FIRST, names[-1]: MatchPart.LAST} if ordered else {}
    variables = tuple(DualVariable(name, ends.get(name, MatchPart.BETWEEN)) for name in names)
    edges = []
    for left, right in pairwise(names):
        if rng.integers(0, 2):
            judges = frozenset(rng.choice([left, right, left + right]))
            edges.append(JoinEdge(left, right, -1 if ordered else 0, judges, ()))
    return DualBranch(variables, tuple(edges), (), bool(rng.integers(0, 2)))


def draw_sites(rng: np.random.Generator, query: DualQuery) -> list[list[SiteEvents]]:
    """Up to three sites; one may be empty, an event may fit two variables, and a key may be null."""
    count = int(rng.integers(0, 26))
    times = np.sort(rng.integers(-60, 400, count)) + int(rng.choice([0, -(2**40)]))
    partitions = rng.integers(0, 2, count) if query.keyed else None
    whole = []
    for branch in query.branches:
        fits = {name: rng.random(count) < rng.choice([0.1, 0.4]) for name in branch.names}
        keys = {
            (at, name): EdgeKeys(rng.integers(0, 3, count), rng.random(count) < 0.9)
            for at, edge in enumerate(branch.edges)
            for name in (edge.left, edge.right)
        }
        whole.append(SiteEvents(times, fits, keys, partitions))
    where = rng.integers(0, 3, count)
    return [[_part(each, np.flatnonzero(where == site)) for each in whole] for site in range(3)]


def _part(events: SiteEvents, rows: np.ndarray) -> SiteEvents:
    return SiteEvents(
        events.times[rows],
        {name: fits[rows] for name, fits in events.fits.items()},
        {known: EdgeKeys(keys.values[rows], keys.valid[rows]) for known, keys in events.keys.items()},
        None if events.partitions is None else events.partitions[rows],
    )


Event = tuple[int, int]  # site, row


def tuples_of(query: DualQuery, number: int, sites: list[list[SiteEvents]]) -> Iterator[dict[str, Event]]:
    """Yield all choices of an event for each variable that a match might be."""
    branch, events = query.branches[number], [each[number] for each in sites]
    rows = {
        name: [
            (at, row) for at, each in enumerate(events) for row in np.flatnonzero(each.fits[name]).tolist()
        ]
        for name in branch.names
    }
    for chosen in product(*rows.values()):
        at = dict(zip(rows, chosen, strict=True))
        times = [int(events[site].times[row]) for site, row in chosen]
        ordered = branch.variables[0].part is not MatchPart.FIRST or times == sorted(times)
        if max(times) - min(times) <= query.window and ordered and _agree(query, branch, events, at):
            yield at


def _agree(query: DualQuery, branch: DualBranch, events: list[SiteEvents], at: dict[str, Event]) -> bool:
    if query.keyed and len({int(events[site].partitions[row]) for site, row in at.values()}) > 1:  # type: ignore[index]
        return False
    for number, edge in enumerate(branch.edges):
        values = []
        for name in (edge.left, edge.right):
            site, row = at[name]
            keys = events[site].keys[number, name]
            values.append(int(keys.values[row]) if keys.valid[row] else None)
        if None in values or values[0] != values[1]:
            return False
    return True


@pytest.mark.parametrize("seed", range(400))
def test_no_round_loses_a_time_between_events_that_may_be_a_match(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = draw_query(rng)
    sites = draw_sites(rng, query)
    settings = DualSettings(
        form=list(CoverForm)[seed % 4],
        false_share=float(rng.choice([0.02, 0.5])),
        joins=bool(rng.integers(0, 4)),
        skips=rng.choice(list(NAMES), 1).tolist() if rng.integers(0, 2) else (),
        guess=str(rng.choice(list(NAMES[:2]))),
    )
    found = pull_dual(query, sites, settings)
    assert len(found.trips) <= sum(2 * len(each.variables) for each in query.branches) + 1
    arrived = {(site, row) for site, rows in enumerate(found.rows) for row in rows.tolist()}
    trips = iter(found.trips)
    for number in range(len(query.branches)):
        matches = list(tuples_of(query, number, sites))
        own = [trip for trip in trips if trip.what != "pull"] if len(query.branches) == 1 else []
        for match, trip in product(matches, own):
            _check_hull(match, trip.covered, query, number, sites)
        for match in matches:
            assert set(match.values()) <= arrived
            if query.inside is Inside.ALL:
                assert _between(match, query, number, sites) <= arrived


def _check_hull(
    match: dict[str, Event], covered: object, query: DualQuery, number: int, sites: list[list[SiteEvents]]
) -> None:
    times = [int(sites[site][number].times[row]) for site, row in match.values()]
    asked = np.arange(min(times), max(times) + 1)
    site, row = next(iter(match.values()))
    partitions = sites[site][number].partitions
    keys = None if partitions is None else np.full(len(asked), partitions[row])
    assert covered.holds(asked, keys).all()  # type: ignore[attr-defined]


def _between(
    match: dict[str, Event], query: DualQuery, number: int, sites: list[list[SiteEvents]]
) -> set[Event]:
    """All events from the first to the last of a match, of its partition."""
    times = [int(sites[site][number].times[row]) for site, row in match.values()]
    first_site, first_row = next(iter(match.values()))
    found = set()
    for at, each in enumerate(sites):
        events = each[number]
        inside = (events.times >= min(times)) & (events.times <= max(times))
        if query.keyed:
            assert events.partitions is not None
            inside &= events.partitions == sites[first_site][number].partitions[first_row]  # type: ignore[index]
        found |= {(at, row) for row in np.flatnonzero(inside).tolist()}
    return found


@pytest.mark.parametrize("seed", range(120))
def test_push_pull_pulls_what_extends_partial_matches(seed: int) -> None:
    """By brute force, for sequences; ties count as in order."""
    rng = np.random.default_rng(seed)
    names = NAMES[: rng.integers(2, 4)]
    ends = {names[0]: MatchPart.FIRST, names[-1]: MatchPart.LAST}
    variables = tuple(DualVariable(name, ends.get(name, MatchPart.BETWEEN)) for name in names)
    pairs = pairwise(names)
    edges = tuple(JoinEdge(*pair, -1, frozenset(pair), ()) for pair in pairs if rng.integers(0, 3))
    query = DualQuery(40, Inside.JOINING, (DualBranch(variables, edges),))
    sites = draw_sites(rng, query)
    found = pull("push-pull", query, sites)
    arrived = {(site, row) for site, rows in enumerate(found.rows) for row in rows.tolist()}
    matched = [match for match in tuples_of(query, 0, sites) if len(set(match.values())) == len(names)]
    assert {each for match in matched for each in match.values()} <= arrived
    tuples = find_tuples(query, sites)
    assert len(tuples[names[0]]) == len(matched)
    last = found.trips[-1].variable
    rest = {each for match in matched for name, each in match.items() if name == last}
    assert found.trips[-1].events <= len(rest)
    assert found.events <= pull("push-down", query, sites).events
    none = pull_partial_matches(
        query, sites, 1, [(frozenset(names), lambda rows: np.zeros(len(rows["a"]), bool))]
    )
    assert none.trips[-1].events == 0


def test_an_event_that_fits_two_variables_travels_for_either() -> None:
    """Event 1 is the b of event 0, and the a of event 2."""
    fits = {"a": np.array([True, True, False]), "b": np.array([False, True, True])}
    variables = (DualVariable("a", MatchPart.FIRST), DualVariable("b", MatchPart.LAST))
    query = DualQuery(5, Inside.JOINING, (DualBranch(variables),))
    sites = [[SiteEvents(np.array([0, 5, 10]), fits)]]
    assert pull_dual(query, sites).rows[0].tolist() == [0, 1, 2]


def test_a_variable_without_events_ends_the_rounds() -> None:
    found = pull_dual(q_1(Inside.JOINING), [crimes_of([0, 5, 7])])
    assert found.events == 0
    assert [each.what for each in found.trips] == ["cover", "pull"]


def test_a_site_knows_partitions_if_the_query_has_them() -> None:
    query = DualQuery(5, Inside.JOINING, q_1(Inside.JOINING).branches, keyed=True)
    with pytest.raises(PlanError, match="by partition"):
        pull_dual(query, TWO_SITES)
    assert set(PULLS) == {"pull-all", "push-down", "push-pull", "dual"}


# ---- with queries: finding in what is pulled is finding in all


@pytest.mark.parametrize("go", GOES)
def test_what_is_pulled_has_the_same_matches(go: int) -> None:
    @examples(45, go=go)
    @given(pairs(), st.integers(0, 2**32 - 1))
    def agrees(pair: Pair, seed: int) -> None:
        pair = uncounted(pair)
        bound = bound_of(pair)
        query = describe_query(bound)
        if isinstance(query, str):
            return
        rng = np.random.default_rng(seed)
        table = EventBatch.of(pair.table, bound.schema, reads=bound.ties).table
        where = rng.integers(0, 3, len(table))
        dealt = [np.flatnonzero(where == site) for site in range(3)]
        sites = [find_candidates(table.take(rows), bound, query) for rows in dealt]
        found = pull_dual(query, sites, DualSettings(form=list(CoverForm)[seed % 4]))
        kept = [rows[chosen] for rows, chosen in zip(dealt, found.rows, strict=True)]
        assert bindings(bound, table.take(np.sort(np.concatenate(kept)))) == bindings(bound, table)

    agrees()
