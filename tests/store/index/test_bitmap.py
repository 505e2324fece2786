"""Range bitmaps and packed lists, compiled and as plain Python, against plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.kernels.bits import lowest, ones, peek, poke, without_lowest
from cerise.kernels.jit import COMPILED, Ints, Marks, boolean, int64, kernel, void
from cerise.store.index.bitmap import between, code_at, write_slices
from cerise.store.index.packed import at, bits, frames, pack, sizes

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)
FIGURE_5 = [7, 1, 5, 0, 4, 5, 2, 1]  # 000 Fig. 5


@kernel(void(Marks, int64, int64, int64, int64, Ints))
def judged(data: Any, count: int, width: int, low: int, high: int, out: Any) -> None:
    stride = (count + 7) >> 3
    for word in range((count + 63) >> 6):
        left = count - 64 * word
        live = -1 if left >= 64 else (1 << left) - 1
        out[word] = between(data.ctypes.data + 8 * word, stride, width, low, high, live)


@kernel(void(Marks, int64, int64, Ints))
def codes(data: Any, count: int, width: int, out: Any) -> None:
    for i in range(count):
        out[i] = code_at(data.ctypes.data, (count + 7) >> 3, width, i)


@kernel(void(Marks, int64, boolean, Ints))
def unpacked(data: Any, width: int, _: bool, out: Any) -> None:
    for i in range(len(out)):
        out[i] = at(data.ctypes.data, width, i)


def slices_of(values: list[int], width: int) -> np.ndarray[Any, Any]:
    stride = (len(values) + 7) // 8
    out = np.zeros(stride * width + 64, np.uint8)
    numbers = np.array(values, np.uint64).view(np.int64)
    starts, one = np.array([0, len(values)]), np.ones(1, np.int64)
    write_slices(numbers, starts, one * width, one * 0, out)
    return out


def found(values: list[int], width: int, low: int, high: int) -> list[int]:
    out = np.zeros((len(values) + 63) // 64, np.int64)
    ends = np.array([low, high], np.uint64).view(np.int64).tolist()
    judged(slices_of(values, width), len(values), width, *ends, out)
    marks = np.unpackbits(out.view(np.uint8), bitorder="little")
    return np.flatnonzero(marks).tolist()


def test_figure_5_of_000() -> None:
    slices = slices_of(FIGURE_5, 3)[:3]
    shown = [np.unpackbits(each, bitorder="little").tolist() for each in slices[:, None]]
    assert shown == [[0, 0, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1, 0, 1], [0, 1, 0, 1, 0, 0, 1, 1]]
    assert [FIGURE_5[i] for i in found(FIGURE_5, 3, 0, 4)] == [1, 0, 4, 2, 1]


def of_width(width: int) -> st.SearchStrategy[tuple[int, list[int], int, int]]:
    codes = st.integers(0, 2**width - 1)
    return st.tuples(st.just(width), st.lists(codes, max_size=150), codes, codes)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 64).flatmap(of_width))
def test_ranges_and_codes(case: tuple[int, list[int], int, int]) -> None:
    width, values, one, two = case
    low, high = sorted((one, two))
    assert found(values, width, low, high) == [i for i, v in enumerate(values) if low <= v <= high]
    out = np.zeros(len(values), np.int64)
    codes(slices_of(values, width), len(values), width, out)
    assert out.view(np.uint64).tolist() == values


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(NUMBERS, min_size=1), max_size=4), st.booleans())
def test_packed_lists(lists: list[list[int]], compress: bool) -> None:
    values = np.array([v for each in lists for v in each], np.int64)
    least, most = (np.array([f(each) for each in lists], np.int64) for f in (min, max))
    counts = np.array([len(each) for each in lists], np.int64)
    frame = frames(least, most, 1, compress=compress)
    ends = np.cumsum(sizes(counts, frame.width))
    out = np.zeros(int(sum(sizes(counts, frame.width))) + 8, np.uint8)
    places = ends - sizes(counts, frame.width)
    starts = np.append(0, np.cumsum(counts)).astype(np.int64)
    pack(values - np.repeat(frame.base, counts), starts, frame.width, places, out)
    for n, each in enumerate(lists):
        got = np.zeros(len(each), np.int64)
        unpacked(out[places[n] :].copy(), int(frame.width[n]), True, got)
        assert (got + frame.base[n]).tolist() == each
        assert frame.width[n] == 64 if not compress else frame.width[n] <= 56 or frame.width[n] == 64


def test_bits_of_numbers_without_sign() -> None:
    numbers = np.array([0, 1, 2, 3, 255, 256, 2**62, -1, -(2**63)], np.int64)
    assert bits(numbers).tolist() == [0, 1, 2, 2, 8, 9, 63, 64, 64]


@pytest.mark.skipif(COMPILED, reason="compiled, they can be called by kernels only")
def test_words_of_memory_as_plain_python() -> None:
    room = np.zeros(16, np.uint8)
    poke(room.ctypes.data + 3, -2)
    assert peek(room.ctypes.data + 3) == -2
    assert [without_lowest(12), without_lowest(-1), without_lowest(-(2**63))] == [8, -2, 0]
    assert [ones(-1), ones(5), ones(-(2**63)), lowest(8), lowest(-(2**63))] == [64, 2, 1, 3, 63]
