"""How queries run on Spark: decided before anything runs, shown by `explain`, then carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cerise.plan.filters import Needed
from cerise.plan.overlap import Halo, Slice, Targets


@dataclass(frozen=True, slots=True)
class Exchange:
    """Events are cut by target and brought together once.

    Attributes:
        targets: where they go.
        why: why not otherwise.
        reads: for files, the row groups that each reading task reads.
    """

    targets: Targets
    why: str
    reads: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Slices:
    """Each task reads and matches one stretch of time.

    Attributes:
        slices: the stretches, with the row groups that each reads.
        needs: what each reads beyond its own time.
        why: why there are not more.
        chained: whether they find candidates only, of which one task chooses those that do not overlap.
    """

    slices: tuple[tuple[Slice, tuple[Any, ...]], ...]
    needs: Halo
    why: str | None = None
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """How large a DataFrame is thought to be: in bytes and rows; None where Spark does not say."""

    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class FramePlan:
    """A query over a DataFrame: Catalyst prunes and filters, then rows are handed over and exchanged.

    Attributes:
        exchange: how rows come together.
        needed: which rows are needed; None: all.
        why_all: why all are.
        scan: why Spark reads files, where it does.
        rows: how many rows there are, as far as Spark tells.
    """

    exchange: Exchange
    needed: Needed | None
    why_all: str | None
    scan: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class LakePlan:
    """A query over files that tasks read themselves.

    Attributes:
        columns: the columns of the files.
        reading: how events are read: a `store.scan.Reading`.
        way: how events come together.
        needed: which events are needed; None: all.
        why_all: why all are needed.
        known: events and row groups: all there are, and those left after pruning by statistics.
    """

    columns: pa.Schema
    reading: Any
    way: Slices | Exchange
    needed: Needed | None
    why_all: str | None
    known: dict[str, int]


Plan = FramePlan | LakePlan
