"""A test over a whole column at once, which pays where few tests are made of most rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.plan.routes.key_columns import BatchKeys, KeyValues
from cerise.plan.routes.key_ranges import INFINITY, LEAST, MOST, Ranges, double_of

Truth = npt.NDArray[np.bool_]


class _Part(NamedTuple):
    """One range as values: above one and up to another; None: without a bound."""

    above: float | None
    most: float | None
    equal: bool  # the range has one value, and that is `most`

    def holds(self, keys: KeyValues) -> Truth:
        values = keys.values
        if self.equal:
            return _truth(values == self.most)
        if self.above is None:
            return np.ones(len(values), np.bool_) if self.most is None else _truth(values <= self.most)
        if self.most is not None:
            return _truth((values > self.above) & (values <= self.most))
        if keys.double:  # NaN is above all
            return np.logical_not(values <= self.above)
        return _truth(values > self.above)


def _truth(found: Any) -> Truth:
    truth: Truth = found
    return truth


class ColumnTest:
    """Ranges of one column.

    Args:
        column: its number.
        ranges: the keys that fit.
        double: whether the values are doubles.
        most: how many ranges are tested one after another; of more, each value is searched.
    """

    def __init__(self, column: int, ranges: Ranges, *, double: bool, most: int) -> None:
        self.column = column
        self.is_shared = False  # by several leaves
        self._inverse = len(ranges) > 1 and ranges[0][0] == LEAST and ranges[-1][1] == MOST
        if self._inverse:
            ranges = tuple((a[1] + 1, b[0] - 1) for a, b in pairwise(ranges))
        self._parts = [_part(low, high, double=double) for low, high in ranges] if len(ranges) <= most else []
        self._bounds = None if len(ranges) <= most else write_ends(ranges)

    def read(self, batch: BatchKeys) -> Truth:
        """Return for each row of a batch whether its value fits, from memory if another leaf has asked."""
        if not self.is_shared:
            return self.holds(batch)
        if id(self) not in batch.known:
            batch.known[id(self)] = self.holds(batch)
        return batch.known[id(self)]

    def holds(self, batch: BatchKeys) -> Truth:
        """Return for each row of a batch whether its value fits."""
        keys = batch.read(self.column)
        found = self._join(keys) if self._bounds is None else _search(keys, self._bounds)
        if self._inverse:
            np.logical_not(found, out=found)
        if keys.valid is not None:
            found &= keys.valid
        return found

    def _join(self, keys: KeyValues) -> Truth:
        found = self._parts[0].holds(keys)
        for part in self._parts[1:]:
            found |= part.holds(keys)
        return found


class TextTest(ColumnTest):
    """Ranges of a column of strings: two comparisons with words are faster than the rank of each string.

    Args:
        column: its number.
        ranges: the ranks that fit.
        words: the words that strings are ranked among.
    """

    def __init__(self, column: int, ranges: Ranges, words: Sequence[str]) -> None:
        super().__init__(column, ranges, double=False, most=len(ranges))
        self._ends = [list(_list_comparisons(low, high, words)) for low, high in ranges]

    def holds(self, batch: BatchKeys) -> Truth:
        strings = batch.list_strings(self.column)
        if strings is None:
            return super().holds(batch)
        total: Truth | None = None
        for ends in self._ends:
            found: Truth | None = None
            for name, word in ends:
                some = pc.call_function(name, [strings, word]).fill_null(False)
                truth: Truth = some.to_numpy(zero_copy_only=False)
                found = truth if found is None else found & truth
            if found is None:
                found = np.asarray(strings.is_valid())
            total = found if total is None else total | found
        assert total is not None
        return total


def _list_comparisons(low: int, high: int, words: Sequence[str]) -> Iterator[tuple[str, pa.Scalar]]:
    """Yield the comparisons that hold for a range of ranks: 2k + 1 is word k, even numbers lie between."""
    if low == high and low % 2:
        yield "equal", pa.scalar(words[low // 2])
        return
    if low > 0:
        yield "greater_equal" if low % 2 else "greater", pa.scalar(words[(low - 1) // 2])
    if high < 2 * len(words):
        yield "less_equal" if high % 2 else "less", pa.scalar(words[high // 2])


def write_ends(ranges: Ranges) -> npt.NDArray[np.int64]:
    """Return the bounds of ranges as words for kernels: where each starts, and in turn where it has ended."""
    from cerise.kernels.routing import write_bounds  # imports numba

    return np.array(write_bounds(list_ends(ranges)), np.int64)


def list_ends(ranges: Ranges) -> Sequence[int]:
    """Return where each range starts, and in turn the first key after it, if there is one.

    >>> list_ends(((1, 1), (3, 8)))
    [1, 2, 3, 9]
    """
    return [end for end in chain.from_iterable((low, high + 1) for low, high in ranges) if end <= MOST]


def _search(keys: KeyValues, bounds: npt.NDArray[np.int64]) -> Truth:
    from cerise.kernels.routing import keep_among  # imports numba

    marks = np.ones(len(keys.values), np.uint8)
    keep_among(keys.words.ctypes.data, keys.double, bounds.ctypes.data, marks)
    return marks.view(np.bool_)


def _part(low: int, high: int, *, double: bool) -> _Part:
    if double:
        above, most = min(low - 1, INFINITY), min(high, INFINITY)
        return _Part(
            None if above < -INFINITY else double_of(above), None if high == MOST else double_of(most),
            equal=low == high <= INFINITY,
        )  # fmt: skip
    if low == high:
        return _Part(None, high, equal=True)
    return _Part(None if low == LEAST else low - 1, None if high == MOST else high, equal=False)
