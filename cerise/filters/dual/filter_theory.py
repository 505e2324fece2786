"""The theory of the two filters [DFS §V]: shares of false answers, and how large the filters must be.

All shares are of all time, as the paper counts them: the share of the time outside of the intervals that is
taken for covered is larger. Events arrive as a Poisson process.
"""

from __future__ import annotations

from math import ceil, exp, log, log2

from cerise.filters.dual.tick_runs import TAG_BITS, MatchPart

PLACES = 4  # entries of a bucket, d in the paper
MOST_LOAD = 0.955  # of a cuckoo table with four places in a bucket, α_d
ENTRY_BITS = 32
FALSE_SHARE = 0.02  # ε* [DFS §VI-A3]


def limit_time_share(
    rate: float,
    window: float,
    load: float,
    role: MatchPart,
    fingerprint_bits: int = ENTRY_BITS - TAG_BITS,
) -> float:
    """Return Eq. 5: at most this share of all time is covered by mistake by a fresh filter [Theorem 1].

    Args:
        rate: the events of the first variable per unit of time, λ.
        window: the window, w.
        load: the share of entries in use, α.
        role: the role of the variable; both ends are alike.
        fingerprint_bits: l_f; the rest of an entry is its slice tag.
    """
    kappa, tag_bits = exp(-rate * window), ENTRY_BITS - fingerprint_bits
    spans = _spans(role)
    power = kappa**spans
    inner = (tag_bits * (1 - kappa) + power * rate * window) / (tag_bits * (1 - power * kappa))
    return power * kappa * _collisions(load, fingerprint_bits) * inner + power * rate * window / tag_bits


def expect_time_share(
    rate: float,
    window: float,
    load: float,
    role: MatchPart,
    fingerprint_bits: int = ENTRY_BITS - TAG_BITS,
) -> float:
    """Return the share of all time that a fresh filter is expected to cover by mistake.

    This is Theorem 1 without its simplifications: a gap shorter than a tick loses no more than itself, around
    events of a middle variable 1 − κ² of all time is covered, and an entry of another window can be taken for
    one of a window that is covered in part. The arguments are those of the theorem.
    """
    kappa, tag_bits = exp(-rate * window), ENTRY_BITS - fingerprint_bits
    outside = kappa ** _spans(role)
    longer = outside * (1 - exp(-rate * window / tag_bits))
    empty = outside * kappa  # the share of windows that no interval touches
    return outside * _collisions(load, fingerprint_bits) * (1 - outside + longer) / (1 - empty) + longer


def _spans(role: MatchPart) -> int:
    return 2 if role is MatchPart.BETWEEN else 1


def _collisions(load: float, fingerprint_bits: int) -> float:
    """Return how many entries of other windows a look-up is expected to take for its own."""
    return 2 * PLACES * load / float(1 << fingerprint_bits)


def false_pair_share(bits: int, pairs: int) -> float:
    """Return how often a window join filter finds a value that is in neither of two windows [Eq. 6]."""
    one: float = 2.0 ** (-bits / pairs * log(2))
    return one + (1 - one) * one


def buckets_for(entries: int) -> int:
    """Return how many buckets a table needs for some entries, a power of two [DFS §V-A2]."""
    return 1 << max(0, ceil(log2(max(entries, 1) / (PLACES * MOST_LOAD))))


def bits_for(pairs: int, false_share: float = FALSE_SHARE) -> int:
    """Return how many bits a window join filter needs [DFS §V-B2]."""
    return max(1, ceil(pairs / log(2) ** 2 * (log(2) - log(false_share))))


def hashes_for(bits: int, pairs: int) -> int:
    """Return how many bits each pair sets, at least one [DFS §V-B1]."""
    return max(1, round(bits / max(pairs, 1) * log(2)))


def window_bytes(entries: int) -> int:
    """Return the bytes of a shrinking window filter, without refresh tags [DFS §V-A2]."""
    return buckets_for(entries) * PLACES * ENTRY_BITS // 8
