"""The workloads of 002 §6.1: patterns over `ticks`, drawn with a seed by the rules of its authors' generator.

A workload is drawn in four steps, as the authors' public generator does and the paper says:

1. Types: a pattern takes ordered parts of earlier patterns, merged at random, until it shares two types with
   30 of them (all, while there are fewer), and then other types at random. This is the least degree of the
   multi-pattern graph; degrees come out higher. Where a density is wanted, as in App. D, a pattern takes
   parts until it shares two types with that share of the earlier ones, and is drawn anew if with many more.
   Types come from one, two or all three classes of activity (the sensitivity).
2. Operators: half of the patterns are sequences, half conjunctions; one in ten has a negated type, one in ten
   a Kleene closure, on a type of which no window has more than eight events (else negated, too).
3. Predicates: a pattern without any gets one on a pair of its types, and so does every pattern that has both:
   about half as many as types. Half of them compare two differences, half of them are shifted so that the
   selectivity is 0.003 to 0.92.
4. `alerts` alone: a pattern is kept if a window has at most 5 % as many matches as the trivial plan has rows.

Nothing else is filtered, and nothing depends on a measurement.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from math import ceil, exp, inf, log
from statistics import NormalDist
from typing import Any

from cerise.data.ticks import describe_tickers
from mcep.expected import RARE, Facts, count_matches, count_rows
from mcep.shapes import Pattern, Predicate, Window

DEGREE = 30  # earlier patterns that a new one shares two types with, at least
SLACK, TRIES = 1.2, 200  # of a wanted density: the most that is taken, and how often that is tried
NEGATED, REPEATED = 0.1, 0.1  # shares of the patterns
MOST_REPEATED = 8  # events of a Kleene variable's type in any window
PLAIN = 0.5  # of the predicates: differences are compared as they are
SELECTIVE = (0.003, 0.92)  # the selectivities of the others, from the least to the most
CLASSES = {"low": (1,), "medium": (0, 1), "high": (0, 1, 2)}  # thirds of the rates, the most active first
ROOM = 4  # candidates of `alerts` for each pattern, at first
DATA: dict[str, dict[str, Any]] = {  # the options of `ticks` that each kind of workload is drawn for
    "authors": {},
    "alerts": {},
    "light": {"tickers": 2_000, "least": 0.3, "most": 15.0, "law": "zipf"},
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A workload to draw; the defaults are those of 002, but for the classes: all, and not the upper two.

    Attributes:
        kind: "authors", "alerts" or "light".
        patterns: how many.
        least: the fewest types of a pattern.
        most: the most types of a pattern; all numbers between them are as likely.
        window: minutes; or events, where `counted`.
        counted: whether the window is a number of events.
        density: the share of all other patterns that a pattern shares two types with, on average; 0: the
            least degree alone.
        sensitivity: the classes of activity that types come from: "low" (one class), "medium", "high" (all).
        seed: the seed.
    """

    kind: str
    patterns: int = 100
    least: int = 4
    most: int = 6
    window: int = 15
    counted: bool = False
    density: float = 0.0
    sensitivity: str = "high"
    seed: int = 0


def draw(wanted: Wanted) -> list[Pattern]:
    """Return the patterns of a workload, the same for the same seed."""
    facts = facts_of(wanted.kind)
    if wanted.kind != "alerts":
        return _draw_all(wanted, wanted.patterns, facts)
    room = ROOM
    while True:
        drawn = _draw_all(wanted, room * wanted.patterns, facts)
        rare = [each for each in drawn if count_matches(each, facts) <= RARE * count_rows(each, facts)]
        if len(rare) >= wanted.patterns:
            return rare[: wanted.patterns]
        room *= 2


@cache
def facts_of(kind: str) -> Facts:
    """Return the true rates and spreads of the types that a kind of workload is drawn for."""
    known = describe_tickers(**DATA[kind])
    rates = dict(zip(known.names, known.rates.tolist(), strict=True))
    return Facts(rates, dict(zip(known.names, known.spreads.tolist(), strict=True)))


def _draw_all(wanted: Wanted, many: int, facts: Facts) -> list[Pattern]:
    rng = random.Random(f"{wanted.kind} {wanted.sensitivity} {wanted.density} {wanted.seed} {many}")
    types = list(_draw_types(wanted, many, _candidates(wanted, facts), rng))
    window = Window(wanted.window, wanted.counted)
    bare = [_draw_shape(each, window, facts, rng) for each in types]
    return _add_predicates(bare, facts, rng)


def _candidates(wanted: Wanted, facts: Facts) -> list[str]:
    """Return the types of the wanted classes: thirds of the range of rates, in their logarithm."""
    high, low = log(max(facts.rates.values())), log(min(facts.rates.values()))

    def class_of(name: str) -> int:
        return min(int(3 * (high - log(facts.rates[name])) / (high - low)), 2)

    return [name for name in facts.rates if class_of(name) in CLASSES[wanted.sensitivity]]


# ---- types


@dataclass(slots=True)
class _Drawn:
    """The patterns so far: their types, and for each type the patterns that have it, as a bit mask."""

    types: list[tuple[str, ...]] = field(default_factory=list)
    known: set[tuple[str, ...]] = field(default_factory=set)
    holders: dict[str, int] = field(default_factory=dict)

    def add(self, types: tuple[str, ...]) -> None:
        for name in types:
            self.holders[name] = self.holders.get(name, 0) | 1 << len(self.types)
        self.types.append(types)
        self.known.add(types)

    def count_neighbours(self, types: Iterable[str]) -> int:
        """Return how many patterns have two or more of these types."""
        once = twice = 0
        for name in types:
            twice |= once & self.holders.get(name, 0)
            once |= self.holders.get(name, 0)
        return twice.bit_count()


def _draw_types(
    wanted: Wanted, many: int, candidates: Sequence[str], rng: random.Random
) -> Iterator[tuple[str, ...]]:
    """Yield the types of patterns, in their order; no two patterns have the same."""
    drawn = _Drawn()
    while len(drawn.types) < many:
        size = rng.randint(wanted.least, wanted.most)
        taken = _take_parts(drawn, size, _degrees(wanted, len(drawn.types)), rng) if drawn.types else []
        others = [name for name in rng.sample(candidates, 2 * wanted.most) if name not in taken]
        types = tuple(_merge(taken, others[: size - len(taken)], rng))
        if types not in drawn.known:
            drawn.add(types)
            yield types


def _degrees(wanted: Wanted, earlier: int) -> tuple[float, float]:
    """Return with how many earlier patterns a new one shares two types: at least, and at most."""
    if not wanted.density:
        return min(DEGREE, earlier), inf
    return int(wanted.density * earlier), ceil(SLACK * wanted.density * earlier) + 1


def _take_parts(drawn: _Drawn, size: int, degrees: tuple[float, float], rng: random.Random) -> list[str]:
    """Return types of earlier patterns, in their order there, with as many neighbours as wanted.

    Where that is tried in vain, those that come closest.
    """
    least, most = degrees
    tried: list[tuple[float, list[str]]] = []
    while True:
        taken = _take_enough(drawn, size, least, rng)
        above = drawn.count_neighbours(taken) - most
        tried.append((above, taken))
        if above <= 0 or len(tried) == TRIES:
            return min(tried, key=lambda each: each[0])[1] if above > 0 else taken


def _take_enough(drawn: _Drawn, size: int, least: float, rng: random.Random) -> list[str]:
    """Return merged parts of earlier patterns with enough neighbours; start anew where they are too long."""
    taken: list[str] = []
    while drawn.count_neighbours(taken) < least:
        if len(taken) == size:
            taken = []
        free = [name for name in rng.choice(drawn.types) if name not in taken]
        room = size - len(taken)
        if len(free) >= room:
            chosen = set(rng.sample(free, rng.randint(1, room)))
            free = [name for name in free if name in chosen]
        taken = _merge(taken, free, rng)
    return taken


def _merge(one: Sequence[str], other: Sequence[str], rng: random.Random) -> list[str]:
    """Merge two lists at random; each keeps its order."""
    places = set(rng.sample(range(len(one) + len(other)), len(one)))
    first, second = iter(one), iter(other)
    return [next(first) if place in places else next(second) for place in range(len(one) + len(other))]


# ---- operators


def _draw_shape(types: tuple[str, ...], window: Window, facts: Facts, rng: random.Random) -> Pattern:
    """Return a pattern without predicates."""
    plain = Pattern(rng.choice(["SEQ", "AND"]), types, window)
    chance, place, which = rng.random(), rng.randrange(1, len(types) - 1), rng.random()
    few = [name for name in types if facts.in_window(name, window) + 2 <= MOST_REPEATED]
    if chance < REPEATED and few:
        return replace(plain, repeated=few[int(which * len(few))])
    if chance < NEGATED + REPEATED:
        return replace(plain, negated=types[place])
    return plain


# ---- predicates


def _add_predicates(bare: Sequence[Pattern], facts: Facts, rng: random.Random) -> list[Pattern]:
    """Give each pattern a predicate, and all patterns those of their pairs of types."""
    book: dict[frozenset[str], Predicate] = {}
    for pattern in bare:
        pairs = list(combinations(pattern.types, 2))
        if not any(frozenset(pair) in book for pair in pairs):
            one, other = sorted(rng.choice(pairs))
            book[frozenset((one, other))] = _draw_predicate(one, other, facts, rng)
    return [replace(pattern, predicates=_known(pattern, book)) for pattern in bare]


def _known(pattern: Pattern, book: dict[frozenset[str], Predicate]) -> tuple[Predicate, ...]:
    pairs = (frozenset(pair) for pair in combinations(pattern.types, 2))
    return tuple(book[pair] for pair in pairs if pair in book)


def _draw_predicate(one: str, other: str, facts: Facts, rng: random.Random) -> Predicate:
    """Return a comparison of the differences of two types, as they are or shifted by whole cents."""
    op = rng.choice("<>")
    if rng.random() < PLAIN:
        return Predicate(one, op, other, 0.0, 0.5)
    least, most = SELECTIVE
    selectivity = least * exp(rng.random() * log(most / least))
    apart = NormalDist(0, (facts.spreads[one] ** 2 + facts.spreads[other] ** 2) ** 0.5)
    shift = round(apart.inv_cdf(selectivity), 2)  # of one - other: below it as often as above its negative
    return Predicate(one, op, other, shift if op == "<" else -shift, apart.cdf(shift))
