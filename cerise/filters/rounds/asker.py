"""The asker: it asks sites, variable by variable, and shrinks the time that matches may cover [DFS §III-B].

It begins with the rarest variable. Each further variable is verified at the sites by covered time, and by the
values of variables that it must equal; its events that are left shrink covered time. A query of η variables
takes at most 2η + 1 round-trips: one or two to begin, one or two for each further variable, one to pull.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from math import log

import numpy as np
import numpy.typing as npt

from cerise.filters.dual.covered_time import choose_form, read_cover
from cerise.filters.dual.filter_theory import bits_for, hashes_for
from cerise.filters.dual.sealing import kind_of_message
from cerise.filters.dual.shrinking_window import (
    MOST_ENTRIES,
    TAGS,
    RefreshTags,
    ShrinkingWindow,
    entries_of,
    merge_tags,
)
from cerise.filters.dual.tick_runs import TickRuns, tick_of, unite
from cerise.filters.dual.window_join import WindowJoin, merge_joins
from cerise.filters.rounds.dual_query import DualBranch, DualQuery, Inside
from cerise.filters.rounds.site import JoinSize, Site, SiteEvents

EDGE_COUNTS = 0.5  # the interval around an event of an edge is half as long
EVENT_BYTES = 76  # of a crime report, as the paper counts
LEAST_SHARE, MOST_SHARE = 1e-4, 0.1  # of values that a filter finds by mistake
MORE_PAIRS = 1.3  # than expected if events arrive evenly
FEWEST_PAIRS = 64  # that a filter has room for
QUESTION = 64  # bytes of a question or a count, beside filters


class CoverForm(Enum):
    """How covered time travels."""

    EXACT = "exact"  # runs with ticks of one unit of time
    RUNS = "runs"
    WINDOWS = "windows"  # shrinking window filters, as in the paper
    SMALLER = "smaller"  # runs or a filter, by their bytes


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One round-trip between the asker and all sites.

    Attributes:
        what: `count`, `cover`, `keys`, `verify` or `pull`.
        variable: the variable that it is about.
        down: bytes to all sites.
        up: bytes from all sites, without events.
        events: events that the asker receives.
        covered: the covered time after it, as the asker knows it; None before there is any.
    """

    what: str
    variable: str
    down: int
    up: int
    events: int = 0
    covered: TickRuns | ShrinkingWindow | None = None


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull strategy brings to the asker: the rows of each site, and the round-trips that it took."""

    rows: tuple[npt.NDArray[np.int64], ...]
    trips: tuple[RoundTrip, ...]

    @property
    def events(self) -> int:
        return sum(each.events for each in self.trips)

    def count_bytes(self, event_bytes: int) -> int:
        """Return the bytes of all round-trips, if each event takes this many."""
        return sum(each.down + each.up + each.events * event_bytes for each in self.trips)


@dataclass(frozen=True, slots=True)
class DualSettings:
    """How the asker goes about it.

    Args:
        form: how covered time travels.
        false_share: of the filters of values, 0.02 in [DFS §VI-A3]; None: by the bytes that it saves.
        joins: whether values are filtered at all.
        guess: the variable that is likely the rarest; its covered time comes with the counts.
        order: the variables in the order to process; None: by how many events fit.
        skips: variables that are not verified, because that would not pay.
        event_bytes: the bytes of an event, to weigh filters against events.
    """

    form: CoverForm = CoverForm.SMALLER
    false_share: float | None = None
    joins: bool = True
    guess: str | None = None
    order: Sequence[str] | None = None
    skips: Collection[str] = ()
    event_bytes: int = EVENT_BYTES


DEFAULT = DualSettings()


def pull_dual(
    query: DualQuery, events: Sequence[Sequence[SiteEvents]], settings: DualSettings = DEFAULT
) -> Pulled:
    """Return the events that dual filtering pulls.

    Args:
        query: the query.
        events: the events of each site, as each branch sees them.
        settings: how to go about it.
    """
    tick = 1 if settings.form is CoverForm.EXACT else tick_of(query.window)
    sites = [Site(query, each, tick) for each in events]
    trips: list[RoundTrip] = []
    asked = []
    for number, branch in enumerate(query.branches):
        rounds = _Rounds(query, branch, number, sites, settings)
        rounds.run()
        trips += rounds.trips
        asked.append(rounds)
    covers = [each.message for each in asked]
    joins = [{edge: join.to_bytes() for edge, join in each.joins.items()} for each in asked]
    rows = tuple(site.pull(covers, joins) for site in sites)
    down = sum(map(len, covers)) + sum(
        len(joins[number][edge])
        for number, each in enumerate(asked)
        for edge in each.joins.keys() - each.sent
    )
    found, covered = sum(map(len, rows)), asked[-1].covered
    trips.append(RoundTrip("pull", "", len(sites) * (down + QUESTION), 0, found, covered))
    return Pulled(rows, tuple(trips))


class _Rounds:
    """The rounds for one branch, up to the pull."""

    def __init__(
        self, query: DualQuery, branch: DualBranch, number: int, sites: Sequence[Site], settings: DualSettings
    ) -> None:
        self._query, self._branch, self._number = query, branch, number
        self._sites, self._settings = sites, settings
        self.trips: list[RoundTrip] = []
        self.joins: dict[tuple[int, str], WindowJoin] = {}
        self.sent: set[tuple[int, str]] = set()  # what sites have and keep
        self.covered: TickRuns | ShrinkingWindow = TickRuns.never(1, keyed=query.keyed)
        self.message = b""

    def run(self) -> None:
        number, counts = self._number, [site.count(self._number) for site in self._sites]
        self._pairs = [site.count_pairs(number) for site in self._sites]
        total = {name: sum(each[name] for each in counts) for name in self._branch.names}
        first, *rest = self._settings.order or self._sort(total)
        replies = [site.cover(number, first) for site in self._sites]
        self._left, spans = total, [site.span() for site in self._sites]
        self._span = max(max(last for _, last in spans) - min(first for first, _ in spans), 1)
        self._done, self._seen = {first}, {first}
        self._cover(unite([TickRuns.from_bytes(each) for each in replies]))
        up = sum(map(len, replies))
        guessed = self._settings.guess in (None, first)
        if not guessed:
            self._note("count", str(self._settings.guess), QUESTION, 0)
        self._note("cover", first, QUESTION, up)
        for name in rest:
            if self._is_empty():
                return
            if name not in self._settings.skips:
                self._shrink(name)
            self._seen.add(name)
        self._ask_back()

    def _sort(self, total: dict[str, int]) -> list[str]:
        """Return the variables, the rarest first; those at the ends of matches count half."""
        halves = {
            name: count * (EDGE_COUNTS if self._branch.is_edge(name) else 1.0)
            for name, count in total.items()
        }
        return sorted(total, key=lambda name: halves[name])

    def _shrink(self, name: str) -> None:
        """Verify a variable at the sites, by covered time and by values, and shrink covered time."""
        asked = [each for each in self._judges(name) if each[1] in self._seen]
        self._record([(each, self._left[name]) for each in asked if each not in self.joins])
        joins = {edge: self.joins[edge].to_bytes() for edge in asked}
        self.sent.update(asked)
        down = QUESTION + len(self.message) + sum(map(len, joins.values()))
        tags = isinstance(self.covered, ShrinkingWindow)
        replies = [site.verify(self._number, name, self.message, joins, tags=tags) for site in self._sites]
        self._left[name] = sum(site.count_left(self._number, name) for site in self._sites)
        self._done.add(name)
        self._merge(replies)
        self._note("verify", name, down, sum(map(len, replies)))

    def _ask_back(self) -> None:
        """Ask for values that judge variables verified before these were known; the pull sends them on."""
        missing = []
        for name in sorted(self._done):
            for at, other in self._judges(name):
                if (at, other) not in self.joins and other in self._done:
                    size = self._size(at, other, self._left[name])
                    travels = size.bits // 8 * 2 * len(self._sites)
                    if travels < self._left[name] * self._settings.event_bytes:
                        missing.append(((at, other), self._left[name]))
        if self._query.inside is Inside.JOINING and len(self.trips) < 2 * len(self._branch.variables):
            self._record(missing)

    def _judges(self, name: str) -> list[tuple[int, str]]:
        """Return the edges that judge a variable, each with the variable whose values it needs."""
        edges = self._branch.edges_on(name) if self._settings.joins else ()
        return [(at, self._branch.edges[at].other(name)) for at in edges]

    def _size(self, at: int, name: str, judged: int) -> JoinSize:
        """Return the size of a filter of values; its false share costs about as many bytes as it saves.

        A bit more in a filter travels twice for each site; an event that passes by mistake travels once.
        """
        pairs, known = self._expect_pairs(at, name), self._settings.false_share
        if known is None:
            per_event = 8 * log(2) ** 2 * max(judged, 1) * self._settings.event_bytes
            known = min(max(2 * len(self._sites) * pairs / per_event, LEAST_SHARE), MOST_SHARE)
        bits = bits_for(pairs, known)
        return JoinSize(at, bits, hashes_for(bits, pairs))

    def _record(self, asked: Sequence[tuple[tuple[int, str], int]]) -> None:
        """Ask the sites for the values of variables, in one round-trip; filters of one size are merged.

        Args:
            asked: edge and variable, with how many events its filter will judge.
        """
        if not asked:
            return
        up = 0
        for (at, name), judged in asked:
            size = self._size(at, name, judged)
            replies = [site.record(self._number, name, size, self.message) for site in self._sites]
            self.joins[at, name] = merge_joins([WindowJoin.from_bytes(each) for each in replies])
            up += sum(map(len, replies))
        names = ", ".join(dict.fromkeys(name for (_, name), _ in asked))
        self._note("keys", names, QUESTION + len(self.message), up)

    def _expect_pairs(self, at: int, name: str) -> int:
        """Return about how many pairs a filter has: as many as at first, as far as their time is covered."""
        pairs = sum(each[at, name] for each in self._pairs)
        if name in self._done:
            return max(FEWEST_PAIRS, min(pairs, self._left[name]))
        expected = MORE_PAIRS * pairs * self._sum_cover() / self._span
        return max(FEWEST_PAIRS, min(pairs, int(expected)))

    def _sum_cover(self) -> int:
        if isinstance(self.covered, TickRuns):
            return self.covered.covered
        table = self.covered
        tags = np.bitwise_count(table.entries & np.uint32((1 << table.tag_bits) - 1))
        return int(tags.sum()) * table.tick

    def _merge(self, replies: Sequence[bytes]) -> None:
        """Shrink covered time by what sites have left of it."""
        if isinstance(self.covered, TickRuns):
            self._cover(self.covered.shrink(unite([TickRuns.from_bytes(each) for each in replies])))
            return
        table = self.covered
        tags = [
            RefreshTags.from_bytes(each, table)
            if kind_of_message(each) == TAGS
            else table.refresh(TickRuns.from_bytes(each))
            for each in replies
        ]
        self._keep(table.shrunk(merge_tags(tags)))

    def _cover(self, runs: TickRuns) -> None:
        windows = self._settings.form is CoverForm.WINDOWS and entries_of(runs) <= MOST_ENTRIES
        self._keep(ShrinkingWindow.of(runs) if windows else runs)

    def _keep(self, covered: TickRuns | ShrinkingWindow) -> None:
        self.covered = covered
        runs = isinstance(covered, TickRuns) and self._settings.form is CoverForm.SMALLER
        self.message = (choose_form(covered) if runs else covered).to_bytes()  # type: ignore[arg-type]

    def _is_empty(self) -> bool:
        covered = read_cover(self.message)
        return not (len(covered) if isinstance(covered, TickRuns) else covered.used.any())

    def _note(self, what: str, name: str, down: int, up: int) -> None:
        sites = len(self._sites)
        self.trips.append(RoundTrip(what, name, sites * down, up + QUESTION * sites, 0, self.covered))
