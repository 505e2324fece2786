"""The figures of a stream for people: the sums over all buckets, times and sizes as readable text."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cerise.kinds import INT64_MAX, INT64_MIN, MOMENTS, Kind
from cerise.pattern.show import show_duration
from cerise.streaming.limits.state_limits import show_size

Moment = dt.datetime | int | None
WIDTH = 10
TOLD = 3  # partitions that a line of text names


@dataclass(frozen=True)
class StreamFigures:
    """The figures of all buckets of a stream.

    Attributes:
        buckets: the figures of each bucket, as `Bucket.figures` or `Bucket.facts` returns them.
        present: the time by the clock on the wall, in microseconds since 1970.
    """

    buckets: Sequence[Mapping[str, Any]]
    present: int

    @property
    def kind(self) -> Kind:
        """The kind of the time column."""
        return Kind[self.buckets[0]["kind"]]

    @property
    def watermark_number(self) -> int | None:
        """The least watermark of all buckets, as a number; None: no source has had an event."""
        least = min(int(each["watermark"]) for each in self.buckets)
        return None if least == INT64_MIN else least

    @property
    def watermark(self) -> Moment:
        """The least watermark: a datetime where the time column holds moments."""
        return read_moment(self.watermark_number, self.kind)

    @property
    def tops(self) -> dict[str, int]:
        """The latest time that each source has seen."""
        tops: dict[str, int] = {}
        for each in self.buckets:
            for source, top in each["tops"].items():
                tops[source] = max(top, tops.get(source, top))
        return tops

    @property
    def lag(self) -> dt.timedelta | None:
        """How far the watermark is behind the present; None: the time column holds integers."""
        if self.watermark_number is None or self.kind not in MOMENTS:
            return None
        return _to_timedelta(self.present - self.watermark_number)

    @property
    def behind(self) -> dt.timedelta | int | None:
        """How far the watermark is behind the newest event."""
        if self.watermark_number is None or not self.tops:
            return None
        gap = max(self.tops.values()) - self.watermark_number
        return _to_timedelta(gap) if self.kind in MOMENTS else gap

    @property
    def slowest(self) -> str | None:
        """The source that holds the watermark back; None: all sources are idle."""
        slowest: str | None = self._latest["slowest"]
        return slowest

    @property
    def idle(self) -> list[str]:
        """The sources for which the others no longer wait."""
        return list(self._latest["idle"])

    @property
    def _latest(self) -> Mapping[str, Any]:
        """The bucket that has taken the newest batch."""
        return max(self.buckets, key=lambda each: (each["now"] or 0, each["watermark"]))

    @property
    def matches(self) -> dict[str, int]:
        """The matches of each query."""
        return _add(each["matches"] for each in self.buckets)

    @property
    def nulls(self) -> dict[str, int]:
        """The values of RETURN and MEASURES of each query that could not be computed, and are null."""
        return _add(each.get("nulls", {}) for each in self.buckets)

    @property
    def aside(self) -> dict[str, dict[str, int]]:
        """The events that were set aside: for each source, how many for which reason."""
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for name, count in sorted(_add(each["aside"] for each in self.buckets).items()):
            source, _, reason = name.rpartition(": ")
            found[source][reason] = count
        return dict(found)

    @property
    def evicted(self) -> dict[str, int]:
        """The runs, events or rows that each query lost by a limit."""
        return _add(each.get("evicted", {}) for each in self.buckets)

    @property
    def evicted_partitions(self) -> dict[str, dict[str, int]]:
        """For each query the partitions that lost most by a limit, the worst first."""
        found: dict[str, dict[str, int]] = {}
        for name in sorted(self.evicted):
            counts = _add(each.get("evicted_partitions", {}).get(name, {}) for each in self.buckets)
            found[name] = dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
        return found

    @property
    def alive(self) -> dict[str, dict[str, int]]:
        """The runs, events or rows that each query keeps."""
        names = {name for each in self.buckets for name in each.get("alive", {})}
        return {
            name: _add(each.get("alive", {}).get(name, {}) for each in self.buckets) for name in sorted(names)
        }

    @property
    def figures(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "watermark": self.watermark, "lag": self.lag, "behind": self.behind, "slowest": self.slowest,
            "idle": self.idle, "events": self._sum("events"), "held": self._sum("held"),
            "held_bytes": self._sum("held_bytes"), "state_bytes": self._sum("state_bytes"),
            "alive": self.alive, "aside": self.aside, "matches": self.matches, "evicted": self.evicted,
            "evicted_partitions": self.evicted_partitions,
            "nulls": self.nulls, "buckets": [dict(each) for each in self.buckets],
        }  # fmt: skip

    def _sum(self, name: str) -> int:
        return sum(int(each.get(name) or 0) for each in self.buckets)

    # ---- text

    def lines(self) -> Iterator[str]:
        """Yield the figures as lines of text; each begins with a word of ten letters."""
        yield from fact_lines(
            [
                ("watermark", self._show_watermark()),
                ("waits for", self._show_sources()),
                ("events", f"{self._sum('events'):,} accepted, {self._sum('held'):,} held for the watermark"),
                ("set aside", [*self._show_aside()] or "none"),
                ("state", self._show_state()),
                ("evicted", [*self.list_evictions()]),
                ("matches", [f"{count:,} of query {name}" for name, count in self.matches.items()]),
                *([("nulls", [*self._show_nulls()])] if self.nulls else []),
                ("buckets", [*self._show_buckets()]),
            ]
        )

    def _show_watermark(self) -> str:
        if self.watermark_number is None:
            return "none yet: a source has had no event"
        ends = self.watermark_number == INT64_MAX
        parts = ["the end of time" if ends else show_moment(self.watermark)]
        parts += [] if self.lag is None or ends else [f"{show_gap(self.lag)} behind the present"]
        parts += [] if self.behind is None or ends else [f"{show_gap(self.behind)} behind the newest event"]
        return ", ".join(parts)

    def _show_sources(self) -> str:
        idle = f"idle: {', '.join(self.idle)}" if self.idle else ""
        return "; ".join(filter(None, [self.slowest or "no source: all are idle", idle]))

    def _show_aside(self) -> Iterator[str]:
        for source, reasons in self.aside.items():
            yield f"{source}: {', '.join(f'{count:,} {reason}' for reason, count in reasons.items())}"

    def list_evictions(self) -> Iterator[str]:
        """Yield for each query how much a limit has evicted, and from which partitions most of it."""
        for name, count in self.evicted.items():
            worst = [
                f"{lost:,} of {key}" for key, lost in self.evicted_partitions[name].items() if key
            ][:TOLD]  # fmt: skip
            yield f"{count:,} of the oldest runs of query {name}{': ' if worst else ''}{', '.join(worst)}"

    def _show_state(self) -> str:
        kept = _add(self.alive.values())
        alive = ", ".join(f"{count:,} {name}" for name, count in kept.items())
        return ", ".join(filter(None, [show_size(self._sum("state_bytes")), alive]))

    def _show_nulls(self) -> Iterator[str]:
        for name, count in self.nulls.items():
            yield f"{say_count(count, 'value')} of query {name} could not be computed"

    def _show_buckets(self) -> Iterator[str]:
        for number, each in enumerate(self.buckets):
            kept = f", {show_size(each['state_bytes'])}" if "state_bytes" in each else ""
            found = sum(each["matches"].values())
            yield (
                f"{each.get('bucket', number)}: {say_count(each['events'], 'event')}, {each['held']:,} held, "
                f"{say_count(found, 'match')}{kept}"
            )


def _add(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def fact_lines(facts: Iterable[tuple[str, str | Sequence[str]]]) -> Iterator[str]:
    """Yield named facts as lines; a fact of several lines has its name at the first."""
    for name, fact in facts:
        for number, line in enumerate([fact] if isinstance(fact, str) else fact):
            yield f"{'' if number else name:<{WIDTH}} {line}"


def read_moment(value: int | None, kind: Kind) -> Moment:
    """Return a time of a stream as a datetime; a number where the time column holds integers.

    >>> read_moment(1_500_000, Kind.LOCAL)
    datetime.datetime(1970, 1, 1, 0, 0, 1, 500000)
    """
    if value is None or kind not in MOMENTS:
        return value
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if kind is Kind.INSTANT else None)
    try:
        return start + dt.timedelta(microseconds=value)
    except OverflowError:  # before the year 1, or after 9999
        return value


def show_moment(moment: Moment) -> str:
    """Return a time as text."""
    if isinstance(moment, dt.datetime):
        text = moment.isoformat(" ", timespec="microseconds" if moment.microsecond else "seconds")
        return text.replace("+00:00", " UTC")
    return "none" if moment is None else f"{moment:,}"


def show_gap(gap: dt.timedelta | int) -> str:
    """Return a distance of time as text, without parts of a second.

    >>> show_gap(dt.timedelta(seconds=90.25))
    '1 minute 30 seconds'
    """
    if not isinstance(gap, dt.timedelta):
        return f"{gap:,}"
    if abs(gap) < dt.timedelta(seconds=1):
        return show_duration(gap // dt.timedelta(microseconds=1))
    seconds = abs(gap) // dt.timedelta(seconds=1)
    parts = []
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        parts += [f"{count:,} {name}{'' if count == 1 else 's'}"] if count else []
    return ("-" if gap < dt.timedelta(0) else "") + " ".join(parts[:2])


def say_count(number: int, what: str) -> str:
    """Return a number of things: `1 match`, `2 matches`."""
    many = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{'' if number == 1 else many}"


def _to_timedelta(gap_us: int) -> dt.timedelta | None:
    try:
        return dt.timedelta(microseconds=gap_us)
    except OverflowError:
        return None
