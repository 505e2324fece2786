"""Chains are counted as they are when all of them are made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.engines.counting.bigint import limb_bits, to_ints
from cerise.engines.counting.counters import anchors_of, gates_of, share_lanes, views_of
from cerise.engines.counting.counts import count, standings, work
from cerise.engines.counting.machine import Room
from cerise.engines.counting.model import OPS, AnchorTest, Chains, ChainStep, Compare, End, Ints, Layer
from cerise.engines.counting.program import place_events
from cerise.errors import PlanError
from cerise.kernels import jit
from tests.tiers import mostly_nightly

ROOT = Path(__file__).parents[2]
SMALL = {  # rooms that are outgrown at once
    "as it comes": Room(),
    "small": Room(words=8, widest=8, bits=1, limbs=70, budget=1),
    "side by side": Room(words=8, widest=64, bits=1, limbs=128, budget=5),
}
Chain = tuple[tuple[int, int], ...]


# ---- all chains, made one by one


def holds(compare: Compare, left: int, right: int) -> bool:
    a, b = int(compare.left[left]), int(compare.right[right])
    if a < 0 or b < 0:
        return False
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b, "!=": a != b}[compare.op]


def made(chains: Chains, trigger: int) -> Iterator[Chain]:
    """Yield every chain that a trigger completes, as layers and numbers of events in them."""
    usable = [
        [
            n
            for n, event in enumerate(layer.events)
            if chains.low[trigger] <= event < chains.at[trigger]
            and all(holds(each, n, trigger) for each in layer.tests)
        ]
        for layer in chains.layers
    ]

    def grown(chain: Chain) -> Iterator[Chain]:
        layer, last = chain[-1]
        for end in chains.ends:
            if end.layer == layer and all(holds(each, last, trigger) for each in end.compares):
                yield chain
        for step in chains.steps:
            if step.source == layer:
                for n in usable[step.target]:
                    later = chains.layers[step.target].events[n] > chains.layers[layer].events[last]
                    if later and all(holds(each, last, n) for each in step.compares):
                        yield from grown((*chain, (step.target, n)))

    for number, layer in enumerate(chains.layers):
        for n in usable[number]:
            if layer.opens is not None and layer.opens[n]:
                yield from (each for each in grown(((number, n),)) if anchored(chains, each))


def anchored(chains: Chains, chain: Chain) -> bool:
    standing = {layer: n for layer, n in chain if layer in chains.anchors}
    return all(
        holds(test.compare, n, standing[test.anchor])
        for test in chains.anchor_tests
        for layer, n in chain
        if layer == test.layer
    )


def agree(chains: Chains, room: Room) -> None:
    """Check counts and standings against those of all chains."""
    everything = [list(made(chains, trigger)) for trigger in range(len(chains.at))]
    assert count(chains, room) == [len(each) for each in everything]
    layers = [n for n in range(len(chains.layers)) if n != 1]
    expected = Counter(
        (trigger, layer, n)
        for trigger, each in enumerate(everything)
        for chain in each
        for layer, n in chain
        if layer in layers
    )
    assert stands(chains, layers, room) == expected


def stands(chains: Chains, layers: list[int], room: Room) -> dict[tuple[int, int, int], int]:
    found = {}
    for some in standings(chains, layers, room):
        for *where, number in zip(some.trigger, some.layer, some.event, some.chains, strict=True):
            key = tuple(int(each) for each in where)
            assert key not in found
            found[key] = number
    return found


# ---- random chains


class Source:
    """Random chains over a few events."""

    def __init__(self, seed: int, events: int = 6) -> None:
        self.rng = np.random.default_rng(seed)
        self.most = events

    def below(self, high: int) -> int:
        return int(self.rng.integers(high))

    def ranks(self, size: int, ranks: int = 4) -> Ints:
        return self.rng.integers(-1 if self.below(3) == 0 else 0, ranks, size)

    def compares(self, left: int, right: int, most: int) -> tuple[Compare, ...]:
        ops = [list(OPS)[self.below(6)] for _ in range(self.below(most + 1))]
        return tuple(Compare(op, self.ranks(left), self.ranks(right)) for op in ops)

    def triggers(self) -> tuple[int, Ints, Ints]:
        """Return how many events there are, and the triggers in partitions of these."""
        at, low, start = [], [], 0
        for _ in range(1 + self.below(3)):
            size = self.below(self.most + 1)
            if size:
                for _ in range(self.below(7)):
                    at.append(start + self.below(size + 1))
                    low.append(start + self.below(at[-1] - start + 1) if self.below(2) else start)
            start += size
        order = self.rng.permutation(len(at)) if self.below(4) == 0 else np.arange(len(at))
        return start, np.array(at, np.int64)[order], np.array(low, np.int64)[order]

    def layer(self, events: int, triggers: int, opens: bool) -> Layer:
        chosen = np.flatnonzero(self.rng.random(events) < self.rng.choice([0.0, 0.5, 0.8, 1.0, 1.0]))
        marks = self.rng.random(len(chosen)) < self.rng.choice([0.5, 1.0])
        tests = self.compares(len(chosen), triggers, 1) if self.below(4) == 0 else ()
        return Layer(chosen, marks if opens else None, tests)

    def chains(self) -> Chains:
        """Return layers with any steps between them."""
        events, at, low = self.triggers()
        number = 1 + self.below(4)
        layers = tuple(self.layer(events, len(at), n == 0 or self.below(4) == 0) for n in range(number))
        sizes = [len(each.events) for each in layers]
        pairs = [
            (a, b)
            for a in range(number)
            for b in range(number)
            if self.below(5) < (3 if b - a in (0, 1) else 1)
        ]
        steps = [ChainStep(a, b, self.compares(sizes[a], sizes[b], 3)) for a, b in pairs]
        steps = [self.like_another(steps, each) for each in steps]
        ends = [n for n in range(number) if n == number - 1 or self.below(4) == 0]
        ending = tuple(End(n, self.compares(sizes[n], len(at), 3)) for n in ends)
        return Chains(layers, tuple(steps), ending, at, low)

    def like_another(self, steps: list[ChainStep], step: ChainStep) -> ChainStep:
        """Let a step sometimes ask for the same as another to its layer, so that they share sums."""
        other = next(each for each in steps if each.target == step.target)
        if other is step or self.below(2):
            return step
        size = len(step.compares[0].left) if step.compares else None
        if size is None:
            return step
        return replace(step, compares=tuple(replace(each, left=self.ranks(size)) for each in other.compares))

    def anchored(self) -> Chains:
        """Return a sequence of layers, some of which are anchors."""
        events, at, low = self.triggers()
        number = 1 + self.below(4)
        layers = tuple(self.layer(events, len(at), n == 0) for n in range(number))
        sizes = [len(each.events) for each in layers]
        anchors = tuple(int(each) for each in self.rng.permutation(number)[: 1 + self.below(2)])
        pairs = [(n, n + 1) for n in range(number - 1)]
        pairs += [(n, n) for n in range(number) if n not in anchors]
        steps = tuple(ChainStep(a, b, self.compares(sizes[a], sizes[b], 2)) for a, b in pairs)
        tests = tuple(
            AnchorTest(layer, anchor, each)
            for anchor in anchors
            for layer in range(number)
            if layer != anchor and self.below(2)
            for each in self.compares(sizes[layer], sizes[anchor], 2)
        )
        end = End(number - 1, self.compares(sizes[-1], len(at), 2))
        return Chains(layers, steps, (end,), at, low, anchors, tests)


@pytest.mark.parametrize("room", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("kind", [Source.chains, Source.anchored])
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_counts_and_standings_are_those_of_all_chains(kind, room, seed):
    agree(kind(Source(seed)), room)


def answers() -> list[list[int]]:
    kinds = (Source.chains, Source.anchored)
    return [count(kind(Source(seed)), SMALL["small"]) for seed in range(40) for kind in kinds]


def test_compiled_and_plain_kernels_count_the_same():
    script = "import json; from tests.engines.test_chains import answers; print(json.dumps(answers()))"
    env = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1" if jit.COMPILED else "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == answers()


# ---- large numbers, against sums of Python integers over all pairs


def summed(chains: Chains, trigger: int) -> int:
    """Count the chains of one layer before a trigger."""
    (layer,), (step,), (end,) = chains.layers, chains.steps, chains.ends
    numbers: dict[int, int] = {}
    for n, event in enumerate(layer.events):
        if chains.low[trigger] <= event < chains.at[trigger] and all(
            holds(it, n, trigger) for it in layer.tests
        ):
            before = (numbers[p] for p in numbers if all(holds(it, p, n) for it in step.compares))
            numbers[n] = sum(before) + int(layer.opens is None or layer.opens[n])
    return sum(number for n, number in numbers.items() if all(holds(it, n, trigger) for it in end.compares))


def kleene(ops: tuple[str, ...], seed: int, size: int, triggers: int, tests: int = 0) -> Chains:
    """Return chains of one layer, with as many triggers, each of which begins elsewhere."""
    rng = np.random.default_rng(seed)
    ranks = rng.integers(0, size, size) if seed % 2 else np.arange(size)
    others = rng.integers(0, size // 4, size)
    columns = [ranks, others, ranks]
    compares = tuple(Compare(op, column, column) for op, column in zip(ops, columns, strict=False))
    asked = tuple(Compare(">=", others, rng.integers(0, size // 9, triggers)) for _ in range(tests))
    layer = Layer(np.arange(size), np.ones(size, bool), asked)
    low = np.sort(rng.integers(0, size // 2, triggers))
    return Chains((layer,), (ChainStep(0, 0, compares),), (End(0),), low + size // 2, low)


@pytest.mark.parametrize("room", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize(
    "ops",
    [
        (),
        ("<",),
        ("<=",),
        ("!=",),
        ("=",),
        ("!=", "!="),
        ("<=", "!="),
        ("<", "="),
        ("<=", ">="),
        ("<", "<=", "!="),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("seed", mostly_nightly((0, 1), (0,)))
def test_large_numbers_are_exact(ops, seed, room):
    size, triggers = (200, 11) if jit.COMPILED else (40, 5)
    for tests in (0, 1):
        chains = kleene(ops, seed, size, triggers, tests)
        assert count(chains, room) == [summed(chains, each) for each in range(triggers)]


@pytest.mark.parametrize("ops", [(), ("<",)], ids=" ".join)
def test_ten_thousand_bits(ops):
    size = 10_000 if jit.COMPILED else 100
    chains = kleene(ops, 0, size, 1)
    chains = replace(chains, at=np.array([size, size, size - 7, 9]), low=np.array([0, 9, 0, 0]))
    assert count(chains) == [2**size - 1, 2 ** (size - 9) - 1, 2 ** (size - 7) - 1, 2**9 - 1]


def test_standings_are_exact_where_numbers_are_long():
    size = 300 if jit.COMPILED else 90
    chains = kleene(("<",), 0, size, 1)
    chains = replace(chains, at=np.array([size, size - 1]), low=np.array([0, 1]))
    found = stands(chains, [0], Room(words=8, widest=8, bits=1, limbs=100))
    assert found == {(0, 0, n): 2 ** (size - 1) for n in range(size)} | {
        (1, 0, n): 2 ** (size - 3) for n in range(1, size - 1)
    }


# ---- what is shared


def test_triggers_that_begin_together_share_a_lane():
    chains = kleene(("<",), 1, 60, 9)
    places = place_events(chains)
    together = replace(chains, low=np.zeros(9, np.int64))
    (apart,), (joint,) = (list(views_of(each, places, (), most=99)) for each in (chains, together))
    assert len(share_lanes(joint, (), ()).first) == 1
    assert len(share_lanes(apart, (), ()).first) == len(set(chains.low.tolist()))
    assert work(together) < work(chains)
    assert count(together) == [summed(together, each) for each in range(9)]


def test_lanes_of_an_anchor_that_opens_chains_are_shared_by_windows():
    rng, size = np.random.default_rng(5), 40
    first, rest = Layer(np.arange(0, size, 2), np.ones(size // 2, bool)), Layer(np.arange(1, size, 2))
    test = AnchorTest(1, 0, Compare(">", rng.integers(0, 9, size // 2), rng.integers(0, 9, size // 2)))
    steps, at = (ChainStep(0, 1), ChainStep(1, 1)), np.arange(10, size)
    chains = Chains((first, rest), steps, (End(1),), at, at - 10, (0,), (test,))
    places = place_events(chains)
    anchors = anchors_of(chains, places)
    (views,) = views_of(chains, places, anchors, most=999)
    lanes = share_lanes(views, anchors, gates_of(chains, anchors))
    assert len(lanes.first) == len(first.events) < len(views.trigger) == len(lanes.stop)
    agree(chains, Room())


def test_events_that_no_test_tells_apart_share_a_lane():
    size = 12
    layers = (Layer(np.arange(size), np.ones(size, bool)), Layer(np.arange(size)))
    test = AnchorTest(0, 1, Compare("<", np.arange(size) % 3, np.arange(size) % 2))
    chains = Chains(
        layers, (ChainStep(0, 0), ChainStep(0, 1)), (End(1),), np.array([size]), np.array([0]), (1,), (test,)
    )
    places = place_events(chains)
    anchors = anchors_of(chains, places)
    (views,) = views_of(chains, places, anchors, most=999)
    assert len(views.trigger) == 2
    agree(chains, Room())


@pytest.mark.parametrize("kind", [Source.chains, Source.anchored])
def test_some_triggers_at_a_time_are_as_good_as_all(kind):
    for seed in range(20):
        agree(kind(Source(seed)), Room(lanes=3, shown=7))


def test_work_grows_with_what_is_to_be_counted():
    many = kleene(("<",), 1, 80, 20)
    assert work(kleene(("<",), 1, 80, 5)) < work(many) < work(kleene(("<", "<"), 1, 80, 20))
    first = Layer(np.arange(40), np.ones(40, bool))
    test = AnchorTest(1, 0, Compare("<", np.arange(40), np.arange(40)))
    steps, at, low = (ChainStep(0, 1), ChainStep(1, 1)), np.arange(20, 40), np.arange(20)
    opening = Chains((first, Layer(np.arange(40))), steps, (End(1),), at, low, (0,), (test,))
    tests = (Compare("<", np.arange(40), np.arange(20)),)
    told_apart = replace(opening, layers=(first, Layer(np.arange(40), None, tests)))
    assert work(replace(opening, anchors=(), anchor_tests=())) < work(opening) < work(told_apart)


# ---- edges


def test_nothing_is_counted_where_there_is_nothing():
    none = np.zeros(0, np.int64)
    empty = Layer(none, np.zeros(0, bool))
    some = Layer(np.arange(3), np.ones(3, bool))
    assert count(Chains((some,), (ChainStep(0, 0),), (End(0),), none, none)) == []
    assert count(Chains((empty,), (ChainStep(0, 0),), (End(0),), np.array([4, 5]), np.array([0, 5]))) == [
        0,
        0,
    ]
    assert count(Chains((), (), (), np.array([4]), np.array([0]))) == [0]
    assert count(Chains((some,), (), (End(0),), np.array([0, 3]), np.array([0, 1]))) == [0, 2]
    assert list(standings(Chains((empty,), (), (End(0),), np.array([4]), np.array([0])), [0])) == []
    assert work(Chains((empty,), (), (End(0),), none, none)) == 0


def test_large_ranks_are_right():
    ranks = np.array([5, 1 << 40, 7, 1 << 41, -1])
    layer = Layer(np.arange(5), np.ones(5, bool))
    for op in OPS:
        compares = (Compare(op, ranks, ranks), Compare("!=", ranks, ranks))
        agree(Chains((layer,), (ChainStep(0, 0, compares),), (End(0),), np.array([5]), np.array([0])), Room())


LAYER = Layer(np.arange(3), np.ones(3, bool))
ONE = np.array([3])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Chains((LAYER,), (), (), ONE, ONE + 1), "lies before"),
        (lambda: Chains((Layer(np.array([1, 1])),), (), (), ONE, ONE), "not ascending"),
        (lambda: Chains((Layer(np.arange(3), np.ones(2, bool)),), (), (), ONE, ONE), "another length"),
        (lambda: Chains((LAYER,), (ChainStep(0, 0), ChainStep(0, 0)), (), ONE, ONE), "two steps"),
        (lambda: Chains((LAYER,), (), (End(0), End(0)), ONE, ONE), "two ends"),
        (lambda: Chains((LAYER,), (), (End(0, (Compare("~", ONE, ONE),)),), ONE, ONE), "unknown comparison"),
        (lambda: Chains((LAYER,), (), (End(0, (Compare("<", ONE, ONE),)),), ONE, ONE), "not 3 and 1"),
        (lambda: Chains((LAYER,), (ChainStep(0, 0),), (End(0),), ONE, ONE, (0,)), "exactly once"),
        (
            lambda: Chains((LAYER, LAYER), (ChainStep(0, 1),), (End(0), End(1)), ONE, ONE, (1,)),
            "exactly once",
        ),
        (
            lambda: Chains(
                (LAYER, LAYER),
                (ChainStep(0, 1),),
                (End(1),),
                ONE,
                ONE,
                (),
                (AnchorTest(0, 1, Compare("<", np.arange(3), np.arange(3))),),
            ),
            "not an anchor",
        ),
        (lambda: limb_bits(1 << 31), "too many to add"),
    ],
)
def test_what_cannot_be_counted_is_said(wrong, says):
    with pytest.raises(PlanError, match=says) as told:
        wrong()
    assert told.value.hint


def test_limbs_are_put_together():
    limbs = np.array([3, 1, 7, 0, 0, 2])
    assert to_ints(limbs, np.array([0, 2, 2, 3, 6]), 4).tolist() == [19, 0, 7, 2 << 8]
    assert limb_bits(5) == 58
    assert limb_bits(5, 1) == 4
    assert limb_bits(5, 20) == 20
