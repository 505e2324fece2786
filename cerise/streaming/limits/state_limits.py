"""Limits on the state of a bucket: how much it may keep, and what to do when it would keep more (S11.4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from cerise.errors import PlanError

ON_LIMIT = ("error", "evict")
UNITS = {
    "": 1, "b": 1, "byte": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
SHOWN_UNITS = ("bytes", "kB", "MB", "GB", "TB")
TOLD_PARTITIONS = 32  # partitions of a query whose evictions are counted one by one


@dataclass(frozen=True)
class StateLimits:
    """How much each bucket of a stream may keep after a batch; None: any amount.

    Args:
        state: the bytes of held events, runs, and the events and rows kept for them: a number, or "1 GB".
        held: how many events may wait for the watermark. They are never evicted: more are an error.
        runs: how many runs all queries of the bucket may keep. A query whose engine keeps events in place of
            runs counts those, and SQL counts the rows from the undecided start of each partition on.
        runs_per_partition: how many of them a query may keep for one partition.
        on_limit: "error" ends the batch, and the state before it is untouched. "evict" drops the oldest runs,
            events or rows until the limit holds, and counts them: no match begins with them any more.

    Example:
        >>> StateLimits(state="1 GB", runs=100_000, on_limit="evict").state_bytes
        1000000000
    """

    state: str | int | None = None
    held: int | None = None
    runs: int | None = None
    runs_per_partition: int | None = None
    on_limit: str = "error"

    def __post_init__(self) -> None:
        for name in ("held", "runs", "runs_per_partition"):
            value = getattr(self, name)
            whole = value is None or (isinstance(value, int) and not isinstance(value, bool))
            if not whole or (value is not None and value < 1):
                raise PlanError(f"{name} is {value!r}", hint="it is a number, at least 1; or None: no limit")
        if self.on_limit not in ON_LIMIT:
            raise PlanError(f"on_limit is {self.on_limit!r}", hint=f"it is one of {', '.join(ON_LIMIT)}")
        if self.state_bytes is not None and self.state_bytes < 1:
            raise PlanError(f"state is {self.state!r}", hint="it is at least 1 byte")

    @cached_property
    def state_bytes(self) -> int | None:
        """The most bytes."""
        return None if self.state is None else parse_size(self.state)

    @property
    def evicts(self) -> bool:
        """Whether the oldest runs go where there are too many."""
        return self.on_limit == "evict" and self.counts_runs

    @property
    def counts_runs(self) -> bool:
        """Whether the limits depend on more than held events."""
        return not (self.state is None and self.runs is None and self.runs_per_partition is None)

    def to_plain(self) -> dict[str, Any]:
        """Return the limits as plain values, for saved state."""
        return asdict(self)


UNLIMITED = StateLimits()


def parse_size(value: Any) -> int:
    """Return a number of bytes.

    >>> parse_size("1.5 MB"), parse_size("2 KiB"), parse_size(10)
    (1500000, 2048, 10)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = (
        re.fullmatch(r"\s*(\d[\d_,]*(?:\.\d+)?)\s*([A-Za-z]*)\s*", value) if isinstance(value, str) else None
    )
    if found is None or found[2].lower() not in UNITS:
        raise PlanError(f"state is {value!r}, not a size", hint='write a number of bytes, or "1 GB"')
    return int(float(re.sub("[_,]", "", found[1])) * UNITS[found[2].lower()])


def show_size(number: int) -> str:
    """Return a number of bytes in the unit that suits it: `12.3 MB`."""
    value, unit = float(number), 0
    while value >= 1000 and unit < len(SHOWN_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {SHOWN_UNITS[unit]}" if unit else f"{number} bytes"


@dataclass(slots=True)
class Evictions:
    """How many runs, events or rows were evicted since the stream began.

    Attributes:
        totals: by query.
        partitions: by query and partition, for the partitions that lost most.
    """

    totals: Counter[str] = field(default_factory=Counter)
    partitions: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, query: str, counts: Mapping[str, int]) -> None:
        """Count what a query lost, by partition."""
        self._add(query, sum(counts.values()), counts)

    def merge(self, other: Evictions) -> None:
        """Add the counts of another bucket."""
        for query, total in other.totals.items():
            self._add(query, total, other.partitions.get(query, {}))

    def _add(self, query: str, total: int, counts: Mapping[str, int]) -> None:
        self.totals[query] += total
        kept = self.partitions.setdefault(query, Counter())
        kept.update(counts)
        if len(kept) > TOLD_PARTITIONS:
            most = sorted(kept.items(), key=lambda each: (-each[1], each[0]))[:TOLD_PARTITIONS]
            self.partitions[query] = Counter(dict(most))

    def forget(self, query: str) -> None:
        """Drop the counts of a query that is gone."""
        self.totals.pop(query, None)
        self.partitions.pop(query, None)

    def to_plain(self) -> dict[str, Any]:
        """Return the counts by name, as plain values."""
        partitions = {name: dict(sorted(each.items())) for name, each in sorted(self.partitions.items())}
        return {"evicted": dict(sorted(self.totals.items())), "evicted_partitions": partitions}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Evictions:
        """Return the counts that `to_plain` returned, among other values."""
        partitions = plain.get("evicted_partitions", {})
        return cls(
            Counter(plain.get("evicted", {})), {name: Counter(each) for name, each in partitions.items()}
        )
