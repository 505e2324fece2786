"""Strings coded among those of a query: what is equal has its code, and nothing else has one."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from cerise.kernels.strings import Literals

ALIKE = [
    "",
    "a",
    "a\0",
    "\0",
    "abcdefgh",
    "abcdefghi",
    "abcdefghj",
    "abcdefgh" * 3,
    "abcdefgh" * 2 + "abcdefgX",
]


def codes(literals: list[str], column: pa.Array, start: int = 0) -> list[int]:
    found = Literals([each.encode() for each in literals])
    assert found.found
    out = np.full(len(column) - start, -7, np.int64)
    found.codes(column, start, np.arange(10, 10 + len(literals)), out)
    return out.tolist()


def expected(literals: list[str], strings: list[str]) -> list[int]:
    return [10 + literals.index(each) if each in literals else -1 for each in strings]


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("literals", [[], ALIKE[:1], ALIKE[4:6], ALIKE], ids=len)
def test_strings_that_are_nearly_equal_are_told_apart(literals: list[str], start: int) -> None:
    strings = [*ALIKE, "b", "abcdefgX", "é", "abcdefghéé"]
    assert codes(literals, pa.array(strings), start) == expected(literals, strings[start:])


def test_the_last_bytes_of_a_column_are_read_and_no_more() -> None:
    for strings in (["a"], [""], ["", ""], ["ab", "a"], ["xabcdefg", "abc"], ["abcdefghi", "a", ""]):
        assert codes(["a", "abc", ""], pa.array(strings)) == expected(["a", "abc", ""], strings)


def test_a_slice_of_a_column_is_read_where_it_is() -> None:
    column = pa.array(["a", "b", "c", "d", "e"]).slice(2, 2)
    assert codes(["c", "d", "e"], column) == [10, 11]
    assert codes(["c", "d", "e"], column, start=1) == [11]


def test_hundreds_of_random_strings() -> None:
    rng = random.Random(1)
    pool = sorted({"".join(rng.choices("ab\0é", k=rng.randrange(14))) for _ in range(900)})
    rng.shuffle(pool)  # by its own seed: which literals have a hash without collisions must not vary
    strings = rng.choices(pool, k=5_000)
    literals = pool[:300]
    assert codes(literals, pa.array(strings)) == expected(literals, strings)
