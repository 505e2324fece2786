"""The window join filter [DFS §IV-B2]: which values occur in which windows of time, in a few bits each.

Two events of a match lie at most a window apart, so the same value lies in the same window or in the next.
The filter has no false negatives: a value that is there is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from cerise.errors import DataError, PlanError
from cerise.filters.dual.filter_theory import FALSE_SHARE, bits_for, hashes_for
from cerise.filters.dual.sealing import HINT, seal, unseal
from cerise.filters.dual.tick_runs import NOTHING, Bools
from cerise.plan.intervals import Ints

Words = npt.NDArray[np.uint32]
JOIN, PAIRS = 4, 5  # kinds of messages
WORD_BITS = 32
MOST_BITS = 1 << 31
HEAD_WORDS = 3


class Near(Enum):
    """Where the recorded events lie, as seen from the event that asks: how many windows back and ahead."""

    EARLIER = (1, 0)
    LATER = (0, 1)
    EITHER = (1, 1)


def pairs_of(keys: Ints, times: Ints, window: int) -> Ints:
    """Return the distinct pairs of value and window of some events, each as a number, in ascending order.

    Args:
        keys: a hash of the value of each event; an event whose value is null must not be among them.
        times: the time of each event.
        window: how much time a match spans at most.
    """
    from cerise.filters.dual.window_kernels import hash_pairs

    pairs = np.empty(len(keys), np.int64)
    hash_pairs(np.ascontiguousarray(keys), np.ascontiguousarray(times), max(window, 1), pairs)
    return np.unique(pairs)


def unite_pairs(parts: Sequence[Ints]) -> Ints:
    """Return the pairs of several tasks or sites."""
    return np.unique(np.concatenate([NOTHING, *parts]))


def pairs_to_bytes(pairs: Ints) -> bytes:
    """Return pairs as a message."""
    return seal(PAIRS, pairs.astype("<i8").tobytes())


def pairs_from_bytes(message: bytes) -> Ints:
    """Return the pairs of a message.

    Raises:
        DataError: the message is cut, changed, of another version, or of another kind.
    """
    return np.frombuffer(unseal(PAIRS, message), "<i8").astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class WindowJoin:
    """Bits of pairs of value and window.

    Attributes:
        words: the bits, 32 to a word.
        bits: how many there are.
        hashes: how many a pair sets.
        window: the length of a window.
    """

    words: Words
    bits: int
    hashes: int
    window: int

    @classmethod
    def of(cls, pairs: Ints, *, window: int, false_share: float = FALSE_SHARE) -> WindowJoin:
        """Return a filter of pairs that finds about this share of absent values; see `pairs_of`."""
        bits = bits_for(len(pairs), false_share)
        return cls.of_size(pairs, window=window, bits=bits, hashes=hashes_for(bits, len(pairs)))

    @classmethod
    def of_size(cls, pairs: Ints, *, window: int, bits: int, hashes: int) -> WindowJoin:
        """Return a filter of pairs of a given size: filters of several sites are merged if they have one.

        Raises:
            PlanError: a filter cannot be that large.
        """
        from cerise.filters.dual.window_kernels import set_bits

        if not 0 < bits < MOST_BITS or hashes < 1:
            raise PlanError(
                f"a window join filter of {bits} bits", hint="drop the edge: a filter is optional"
            )
        words = np.zeros(-(-bits // WORD_BITS), np.uint32)
        set_bits(np.ascontiguousarray(pairs), words, bits, hashes)
        return cls(words, bits, hashes, max(window, 1))

    def holds(self, keys: Ints, times: Ints, near: Near) -> Bools:
        """Return for each event whether its value may lie in its window, or in one beside it.

        Args:
            keys: a hash of the value of each event.
            times: the time of each event.
            near: where the recorded events lie.
        """
        from cerise.filters.dual.window_kernels import ask_pairs

        found = np.zeros(len(keys), bool)
        flat = np.ascontiguousarray(keys), np.ascontiguousarray(times)
        ask_pairs(*flat, self.window, *near.value, self.words, self.bits, self.hashes, found.view(np.uint8))
        return found

    def to_bytes(self) -> bytes:
        head = np.array([self.bits, self.hashes, self.window], "<i8")
        return seal(JOIN, head.tobytes() + self.words.astype("<u4").tobytes())

    @classmethod
    def from_bytes(cls, message: bytes) -> WindowJoin:
        """Return the filter of a message.

        Raises:
            DataError: the message is cut, changed, of another version, or of another kind.
        """
        body = unseal(JOIN, message)
        if len(body) < 8 * HEAD_WORDS:
            raise DataError("a window join filter arrived without its head", hint=HINT)
        bits, hashes, window = np.frombuffer(body, "<i8", HEAD_WORDS).tolist()
        right = 0 < bits < MOST_BITS and hashes > 0 and window > 0
        if not right or len(body) != 8 * HEAD_WORDS + 4 * -(-bits // WORD_BITS):
            raise DataError("a window join filter arrived with a wrong head", hint=HINT)
        words = np.frombuffer(body, "<u4", offset=8 * HEAD_WORDS).astype(np.uint32)
        return cls(words, bits, hashes, window)


def merge_joins(parts: Sequence[WindowJoin]) -> WindowJoin:
    """Return a filter of the pairs of several filters, which have one size [DFS §V-B2]."""
    first = parts[0]
    if any((e.bits, e.hashes, e.window) != (first.bits, first.hashes, first.window) for e in parts):
        raise PlanError("window join filters of different sizes cannot be merged")
    words = np.bitwise_or.reduce([each.words for each in parts])
    return WindowJoin(words, first.bits, first.hashes, first.window)
