"""Equal events are numbered alike over batches of a stream, and where one column tells events apart."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.match_ids import Ties
from cerise.events import EventBatch, Schema
from cerise.pattern.bind import bind
from cerise.pattern.query import Query
from cerise.sources import parse

KINDS = {"int": pa.int64(), "code": pa.dictionary(pa.int32(), pa.string()), "text": pa.string()}


def events_of(rng: Random, size: int, names: int, kind: str) -> pa.Table:
    times = sorted(rng.randrange(1 + size // 8) for _ in range(size))
    keys = [rng.randrange(names) for _ in range(size)]
    values = pa.array(keys if kind == "int" else [f"k{key}" for key in keys]).cast(KINDS[kind])
    return pa.table({"t": times, "k": values, "x": [rng.randrange(2) for _ in range(size)]})


def counted(table: pa.Table) -> list[int]:
    """How many equal events are before each event."""
    seen: Counter[tuple[object, ...]] = Counter()
    numbers = []
    for row in zip(*(table.column(name).to_pylist() for name in ("t", "k", "x")), strict=True):
        numbers.append(seen[row])
        seen[row] += 1
    return numbers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [1, 3, 40, 1000])
def test_equal_events_are_numbered_over_batches(kind: str, names: int) -> None:
    rng = Random(names)
    for size in (1, 7, 60, 300, *([30_000] if names == 1000 else [])):
        table = events_of(rng, size, names, kind)
        query = parse("PATTERN SEQ(a, b) WHERE a.k = b.k AND a.x = b.x")
        assert isinstance(query, Query)
        bound = bind(query, Schema(table.schema, time="t"))
        whole, expected, ties = EventBatch.of(table, bound.schema), counted(table), Ties(bound)
        borders = sorted({0, size, *(rng.randrange(size + 1) for _ in range(rng.randrange(6)))})
        for low, high in pairwise(borders):
            rows = np.array([row for row in range(high - low) if rng.random() < 0.8], np.int64)
            batch = whole.slice(low, high)
            assert ties.numbers(batch, rows).tolist() == [expected[low + row] for row in rows]
            ties.follow(batch)
