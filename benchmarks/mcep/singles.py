"""Sixty queries of skip_till_any_match, each run alone: thirty suit the engine `tree`, thirty do not.

They ask for events of `ranked` with exponent 1.7: T1 is half of them, T2 15 %, T3 8 %, T4 5 %, T5 3 %, and
the rare T50 0.06 %. What suits `tree`: a rare event that the order of the pattern meets late. What does not:
nothing rare and all combinations asked for; windows of few events; Kleene variables whose chains need not be
made; numbers of matches of runs that merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FREQUENT = ("T2", "T3", "T4", "T5", "T6")
RAREST = "T50"
NAMES = "abcdef"
SIZES = (3, 4, 5, 6)
TESTS = {"tight": "{1}.x > {0}.x + 700", "loose": "{1}.x > {0}.x"}  # of neighbours: 4.5 % and half pass
WINDOWS = {3: 1_000, 4: 500, 5: 300, 6: 200}  # by size, so that runs stay within a million


@dataclass(frozen=True, slots=True)
class Single:
    """A query.

    Attributes:
        name: says where its rare event is, how many variables it has, and what is asked.
        text: the query.
        suits: whether `tree` should be the fastest.
        counts: whether only the number of matches is asked for.
    """

    name: str
    text: str
    suits: bool
    counts: bool = False


def headline() -> list[Single]:
    """Return the queries that reordering is made for: a rare event in the middle or at the end."""
    loose, frequent = "b.x > a.x AND e.x > d.x", "a.x > b.x + 800 AND c.x > b.x + 800"
    asked = {
        "rare middle of five": ("T2 T3 T50 T4 T5", loose, 300),
        "rare last of four": ("T2 T3 T4 T50", "b.x > a.x AND c.x > b.x", 500),
        "rare middle of three, frequent trigger": ("T2 T50 T1", frequent, 1_000),
    }
    return [
        Single(name, _text(tuple(types.split()), [test], window), suits=True)
        for name, (types, test, window) in asked.items()
    ]


def matrix() -> list[Single]:
    """Return the sixty queries."""
    return [*_rare(), *_counted(), *_dense(), *_tiny(), *_chains(), *_merging()]


def _rare() -> Iterator[Single]:
    """Yield 24 queries with a rare event at the first, a middle or the last place."""
    for place in ("first", "middle", "last"):
        for size in SIZES:
            types = _place_rare(place, size)
            for test in TESTS:
                text = _text(types, _neighbours(types, test), WINDOWS[size])
                yield Single(f"rare {place} of {size}, {test}", text, suits=True)


def _counted() -> Iterator[Single]:
    """Yield 6 queries with a rare event that only count."""
    for place in ("middle", "last"):
        for size in (4, 5, 6):
            types = _place_rare(place, size)
            text = _text(types, _neighbours(types, "loose"), WINDOWS[size])
            yield Single(f"rare {place} of {size}, counted", text, suits=True, counts=True)


def _dense() -> Iterator[Single]:
    """Yield 8 queries without a rare event: most of the time goes into writing matches."""
    for size in SIZES:
        for test, window in (("loose", 150), ("tight", 300)):
            types = (*FREQUENT[: size - 1], "T7")
            yield Single(
                f"dense of {size}, {test}", _text(types, _neighbours(types, test)[:1], window), False
            )


def _tiny() -> Iterator[Single]:
    """Yield 8 queries whose windows have 8 events."""
    for place in ("first", "last"):
        for size in SIZES:
            types = ("T1", *FREQUENT[: size - 1]) if place == "first" else (*FREQUENT[: size - 1], "T1")
            yield Single(
                f"tiny window, {place} of {size}", _text(types, _neighbours(types, "loose"), 8), False
            )


def _chains() -> Iterator[Single]:
    """Yield 8 queries with rising series of a Kleene variable, which are counted without being made."""
    for place in ("first", "last"):
        for size in SIZES:
            types = _place_rare(place, size)
            items = [f"{name} {variable}" for name, variable in zip(types, NAMES, strict=False)]
            items[1] = f"{types[1]}+ {NAMES[1]}[]"
            text = _query(items, [f"{NAMES[1]}.x < NEXT({NAMES[1]}.x)"], 60)
            yield Single(f"chains, rare {place} of {size}", text, suits=False, counts=True)


def _merging() -> Iterator[Single]:
    """Yield 6 queries without predicates of two events: runs that have come as far are the same."""
    for size in (3, 4, 5):
        for first in (0, 1):
            types = (*FREQUENT[first : first + size - 1], "T1")
            yield Single(
                f"merging from {types[0]}, of {size}", _text(types, [], 60), suits=False, counts=True
            )


def _place_rare(place: str, size: int) -> tuple[str, ...]:
    types = list(FREQUENT[: size - 1])
    types.insert({"first": 0, "middle": size // 2, "last": size - 1}[place], RAREST)
    return tuple(types)


def _neighbours(types: tuple[str, ...], test: str) -> list[str]:
    """Return a test of every second pair of neighbours."""
    return [TESTS[test].format(NAMES[at], NAMES[at + 1]) for at in range(0, len(types) - 1, 2)]


def _text(types: tuple[str, ...], tests: list[str], window: int) -> str:
    return _query([f"{name} {variable}" for name, variable in zip(types, NAMES, strict=False)], tests, window)


def _query(items: list[str], tests: list[str], window: int) -> str:
    where = f"\nWHERE {' AND '.join(tests)}" if tests else ""
    return f"PATTERN SEQ({', '.join(items)})\nUSE skip_till_any_match{where}\nWITHIN {window}"
