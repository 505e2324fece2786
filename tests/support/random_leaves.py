"""Random comparisons with constants and random events, and a slow twin that tests each value by itself."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cerise.kinds import Kind
from cerise.plan.pushdown import Comparison

Leaves = Sequence[tuple[Comparison, ...]]
ORDERS = ("=", "!=", "<", "<=", ">", ">=", "in")
NULLS = ("is null", "is not null")
TEXTS = [
    "", "a", "a\0", "\0", "b", "é", "ÿ", "aé", "\U0001f600", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi",
    "abcdefghj", "abcdefgh" * 3, "abcdefgh" * 2 + "abcdefgX", "zz", "https://a/1", "https://a/2", "￿",
]  # fmt: skip
WHOLES = [0, 1, -1, 2, 3, 7, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 1.5, 2.0, 5e-324, -5e-324, 1e308, 2.0**53, 2.0**53 + 2, math.inf, -math.inf,
    math.nan,
]  # fmt: skip
# ---- the twin


def holds(test: Comparison, value: Any) -> bool:
    """Whether a value fits, in the words of S4.6."""
    if test.op in NULLS:
        return (value is None) == (test.op == "is null")
    if value is None:
        return False
    if test.op == "in":
        return any(rank(test, value) == rank(test, each) for each in test.values)
    one, other = rank(test, value), rank(test, test.values[0])
    found: bool = {
        "=": one == other, "!=": one != other, "<": one < other, "<=": one <= other, ">": one > other,
        ">=": one >= other,
    }[test.op]  # fmt: skip
    return found


def rank(test: Comparison, value: Any) -> Any:
    """Return a value as it compares: integers as doubles beside doubles, NaN above all."""
    if test.kind is not Kind.FLOAT:
        return value
    return (math.isnan(float(value)), 0.0 if math.isnan(float(value)) else float(value))


def value_at(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = row
    for name in path:
        found = None if found is None else found[name]
    return found


def judge(leaves: Leaves, table: pa.Table) -> list[list[int]]:
    """Return the rows of each leaf."""
    rows = table.to_pylist()
    return [
        [i for i, row in enumerate(rows) if all(holds(test, value_at(row, test.path)) for test in leaf)]
        for leaf in leaves
    ]


# ---- random events and leaves


def random_table(rng: random.Random) -> pa.Table:
    """Return columns of all forms, in chunks and slices of their own."""
    rows = rng.choice((0, 1, 7, 60))
    share = rng.choice((0.0, 0.2, 1.0))

    def draw(values: list[Any]) -> list[Any]:
        return [None if rng.random() < share else rng.choice(values) for _ in range(rows)]

    texts, wholes, doubles, flags = draw(TEXTS), draw(WHOLES), draw(DOUBLES), draw([True, False])
    inner = pa.struct([("x", pa.int64()), ("kind", pa.string())])
    nested = [
        None if rng.random() < share else {"x": a, "kind": b} for a, b in zip(wholes, texts, strict=True)
    ]
    columns = {
        "kind": pa.array(texts, pa.string()), "coded": code(draw(TEXTS), rng),
        "x": pa.array(wholes, pa.int64()), "y": pa.array(doubles, pa.float64()),
        "flag": pa.array(flags, pa.bool_()),
        "small": pa.array(draw([0, 1, -1, 100]), pa.int16()), "s": pa.array(nested, inner),
        "large": pa.array(draw(TEXTS), pa.large_string()),
    }  # fmt: skip
    return pa.table({name: cut(column, rng) for name, column in columns.items()})


def code(texts: list[str | None], rng: random.Random) -> pa.DictionaryArray:
    """Return strings as codes, among words that are there twice, are a null, or are not used."""
    words: list[str | None] = [*TEXTS, None, *TEXTS[:4]]
    rng.shuffle(words)
    places: dict[str | None, list[int]] = {}
    for i, word in enumerate(words):
        places.setdefault(word, []).append(i)
    indices = [rng.choice([*places[text], *([None] if text is None else [])]) for text in texts]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(words, pa.string()))


def cut(column: pa.Array, rng: random.Random) -> pa.ChunkedArray:
    """Return a column in chunks that are slices of longer arrays."""
    ends = sorted(rng.randrange(len(column) + 1) for _ in range(rng.randrange(3)))
    chunks = [
        pa.concat_arrays([column[:1], column[start:stop], column[:1]]).slice(len(column[:1]), stop - start)
        for start, stop in zip([0, *ends], [*ends, len(column)], strict=True)
    ]
    return pa.chunked_array(chunks, column.type)


DRAWN: list[tuple[tuple[str, ...], Kind, list[Any]]] = [
    (("kind",), Kind.STRING, TEXTS), (("coded",), Kind.STRING, TEXTS), (("large",), Kind.STRING, TEXTS),
    (("x",), Kind.INT, WHOLES), (("x",), Kind.FLOAT, DOUBLES), (("small",), Kind.INT, [0, 1, 5, -1]),
    (("y",), Kind.FLOAT, DOUBLES), (("flag",), Kind.BOOL, [True, False]), (("s", "x"), Kind.INT, WHOLES),
    (("s", "kind"), Kind.STRING, TEXTS),
]  # fmt: skip


def random_test(rng: random.Random, columns: list[tuple[tuple[str, ...], Kind, list[Any]]]) -> Comparison:
    path, kind, values = rng.choice(columns)
    op = rng.choice((*ORDERS, *NULLS) if rng.random() < 0.2 else ORDERS)
    if op in NULLS:
        return Comparison(path, kind, op, ())
    count = rng.randrange(1, 6) if op == "in" else 1
    return Comparison(path, kind, op, tuple(rng.choice(values) for _ in range(count)))


def random_leaves(rng: random.Random) -> Leaves:
    columns = rng.sample(DRAWN, rng.randrange(1, len(DRAWN)))
    sizes = rng.choice(((1,), (1, 2), (0, 1, 2, 3), (2, 3, 4)))
    count = rng.choice((0, 1, 2, 5, 30))
    return [tuple(random_test(rng, columns) for _ in range(rng.choice(sizes))) for _ in range(count)]
