"""The order of rows, by whatever way it is found, is that of a plain sort; and so are codes of strings."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.limits import Limits
from cerise.engines.results import value_codes
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows import order as row_order
from cerise.engines.rows import passes
from cerise.engines.rows.order import PartitionFilter, sort_rows
from cerise.engines.rows.prepare import prepare
from cerise.engines.threads import ALONE, Threads, start_threads
from cerise.pattern.row_pattern import BoundRows, Label, Order, Shown
from tests.support.strategies.row_clauses import clause

THREADS = [1, 3]


FEW = Limits(shared_rows=4, block_rows=8, code_rows=1)  # few rows are many


def rows_of(rng: Random, size: int, disorder: int) -> pa.Table:
    """Rows whose times go back by so much at most, with ties and nulls."""
    times = [max(0, i // 2 + rng.randrange(disorder + 1)) for i in range(size)]
    return pa.table(
        {
            "k": pa.array([rng.choice(("b", "a", None, "ab", "")) for _ in range(size)], pa.string()),
            "j": pa.array([rng.choice((1, 2, None, 2**60)) for _ in range(size)], pa.int64()),
            "t": pa.array([None if rng.random() < 0.03 else time for time in times], pa.int64()),
            "u": pa.array([rng.randrange(3) for _ in range(size)], pa.int64()),
            "row": range(size),
        }
    )


def bound_of(table: pa.Table, partition: tuple[str, ...], order: tuple[Order, ...]) -> BoundRows:
    shown = tuple(Shown(name, False) for name in partition)
    return clause(Label("A"), table, partition=partition, order=order, output=shown)


def plain(table: pa.Table, partition: tuple[str, ...], order: tuple[Order, ...]) -> list[int]:
    """The rows, sorted by Python."""
    zero = {"k": "", "j": 0}

    def key(row: dict[str, Any]) -> list[Any]:
        keys: list[Any] = [(row[name] is not None, row[name] or zero[name]) for name in partition]
        for each in order:
            value, sign = row[each.column], -1 if each.descending else 1
            keys.append(((value is None) != each.nulls_first, sign * (value or 0)))
        return keys

    return [row["row"] for row in sorted(table.to_pylist(), key=key)]


ORDERS = [
    ((), (Order("t"),)),
    ((), (Order("t"), Order("u"))),
    ((), (Order("t", descending=True, nulls_first=False), Order("u", descending=True))),
    ((), ()),
    (("k",), (Order("t"), Order("u"))),
    (("k", "j"), (Order("t", nulls_first=False),)),
    (("j",), ()),
]


@pytest.mark.parametrize(("partition", "order"), ORDERS)
@pytest.mark.parametrize("disorder", [0, 1, 4, 1000])
def test_rows_come_in_order(partition: tuple[str, ...], order: tuple[Order, ...], disorder: int) -> None:
    """In order already, nearly, or not at all; pieces of one column, and in one."""
    for seed, size in enumerate((0, 1, 2, 17, 100, 3000)):
        table = rows_of(Random(seed), size, disorder)
        bound, expected = bound_of(table, partition, order), plain(table, partition, order)
        pieces = pa.concat_tables([table[: size // 3], table[size // 3 :]])
        for count in THREADS:
            with start_threads(count, limits=FEW) as threads:
                found = sort_rows(bound, pieces, threads)
            places = np.arange(size) if found.order is None else found.order
            assert places.tolist() == expected
            prepared = prepare(bound, table)
            assert found.offsets.tolist() == partitions(bound, prepared).tolist()
            for name, values in found.keys.items():
                assert values.to_pylist() == prepared[name].take(pa.array(found.offsets[:-1])).to_pylist()


@pytest.mark.parametrize("count", THREADS)
def test_rows_that_are_not_nearly_in_order_are_given_up_soon(count: int) -> None:
    keys = [np.arange(100_000)[::-1].copy(), np.zeros(100_000, np.int64)]
    addresses = np.array([each.ctypes.data for each in keys], np.int64)
    order = np.arange(100_000)
    assert passes.settle(addresses.ctypes.data, 2, order, 0, len(order)) == 1
    with start_threads(count, limits=FEW) as threads:
        assert (row_order._by_keys(keys, threads) == np.arange(100_000)[::-1]).all()


@pytest.mark.parametrize("count", THREADS)
def test_only_partitions_that_have_what_a_match_needs_stay(count: int) -> None:
    rng = np.random.default_rng(1)
    for rows in (0, 1, 9, 500):
        code, masks = rng.integers(0, 40, rows), rng.integers(0, 8, rows).astype(np.uint8)
        present = {int(c): int(np.bitwise_or.reduce(masks[code == c])) for c in set(code.tolist())}
        expected = [row for row in range(rows) if present[int(code[row])] & 5 == 5]
        with start_threads(count, limits=FEW) as threads:
            found = PartitionFilter(masks, 5).rows(code.astype(np.int64), 40, threads)
        assert (list(range(rows)) if found is None else found.tolist()) == expected


def test_partitions_by_two_columns_of_many_values() -> None:
    """Codes of pairs are too far apart for a table of them."""
    rng = np.random.default_rng(3)
    rows = 30_000
    table = pa.table({"k": rng.integers(0, 4 * rows, rows), "j": rng.integers(0, 4 * rows, rows)})
    table = table.append_column("t", pa.array(range(rows)))
    masks = rng.integers(0, 2, rows).astype(np.uint8)
    found = sort_rows(bound_of(table, ("k", "j"), (Order("t"),)), table, ALONE, PartitionFilter(masks, 1))
    keys = list(zip(*(table.column(name).to_pylist() for name in ("k", "j")), strict=True))
    assert found.order is not None
    expected = sorted((row for row in range(rows) if masks[row]), key=lambda row: keys[row])
    assert found.order.tolist() == expected


# ---- strings


def strings_of(rng: Random, size: int, distinct: int) -> list[str | None]:
    """Strings short and long, that begin and end alike, and some that are missing."""
    words = [
        rng.choice(("", "x" * rng.randrange(30), "same beginning ", "é", "\0"))
        + str(rng.randrange(distinct))
        + rng.choice(("", " and the same end", "\0"))
        for _ in range(distinct)
    ]
    return [None if rng.random() < 0.05 else rng.choice(words) for _ in range(size)]


def chunked(rng: Random, values: list[str | None], type_: pa.DataType) -> pa.ChunkedArray:
    """The values in pieces, each of them a part of something larger."""
    cuts = sorted(rng.randrange(len(values) + 1) for _ in range(4))
    pieces = [values[a:b] for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    return pa.chunked_array([pa.array(["before", *each, "after"], type_)[1:-1] for each in pieces], type_)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("count", THREADS)
@pytest.mark.parametrize("most", [2, 32, 1 << 17])
def test_codes_of_strings(type_: pa.DataType, count: int, most: int) -> None:
    """With a table that grows, and one that may not grow enough."""
    limits = replace(FEW, first_strings=2, most_strings=most)
    for seed in range(12):
        rng = Random(seed)
        values = strings_of(rng, rng.choice((0, 1, 5, 300)), rng.choice((1, 4, 200)))
        with start_threads(count, limits=limits) as threads:
            codes, bound = value_codes.codes(chunked(rng, values, type_), "s", threads)
        known = sorted({each for each in values if each is not None}, key=str.encode)
        assert codes.tolist() == [0 if each is None else known.index(each) + 1 for each in values]
        assert bound > max(codes, default=0)


def test_codes_of_numbers_at_the_ends() -> None:
    for values in ([-(2**63), -(2**63) + 1], [2**63 - 1, 2**63 - 2], [-(2**63), 2**63 - 1], [5, None, 3]):
        for threads in (ALONE, Threads(limits=FEW)):
            codes, bound = value_codes.codes(pa.array(values, pa.int64()), "x", threads)
            known = sorted(each for each in values if each is not None)
            ranked = np.argsort(np.argsort(codes)).tolist()
            assert ranked == [0 if each is None else known.index(each) + (None in values) for each in values]
            assert bound > codes.max()
