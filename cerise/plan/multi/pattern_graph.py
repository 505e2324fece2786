"""The multi-pattern graph [002 §4.1, App. A]: which sub-patterns do patterns have in common?

Two hash tables stand for its edges: maximal common sub-pattern → patterns, and pattern → its maximal common
sub-patterns with its peers. All other common sub-patterns are parts of these. The graph is for explanations
and for patterns that come and go; searches work on the table of `subpatterns`, which has all parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from cerise.pattern.expr import FLIPPED
from cerise.plan.joins import JoinPattern, Key, bits, key_of

Name = Hashable
Pair = tuple[int, int]  # a slot of one pattern, and one with the same leaf of another


def find_common(one: JoinPattern, other: JoinPattern) -> dict[Key, int]:
    """Return the maximal common sub-patterns of two patterns, with their slots in the first, as masks.

    They are the maximal cliques of a graph: its vertices are pairs of slots with the same leaf, two of them
    are joined if order and tests between their slots are the same in both patterns. If no leaf comes twice,
    it has at most m vertices.

    >>> abc = JoinPattern((1, 2, 3), (0, 0b001, 0b011))  # SEQ(A, B, C)
    >>> acb = JoinPattern((1, 3, 2), (0, 0b001, 0b011))  # SEQ(A, C, B)
    >>> sorted(find_common(abc, acb).values())  # SEQ(A, B) and SEQ(A, C)
    [3, 5]
    """
    if one.scope != other.scope:
        return {}
    pairs = [
        (i, j) for i, leaf in enumerate(one.leaves) for j, twin in enumerate(other.leaves) if leaf == twin
    ]
    friends: dict[Pair, set[Pair]] = {pair: set() for pair in pairs}
    for pair, twin in combinations(pairs, 2):
        apart = pair[0] != twin[0] and pair[1] != twin[1]
        if apart and _relate(one, pair[0], twin[0]) == _relate(other, pair[1], twin[1]):
            friends[pair].add(twin)
            friends[twin].add(pair)
    masks = {sum(1 << i for i, _ in clique) for clique in _find_cliques(friends, set(), set(pairs), set())}
    found = {key_of(one, mask)[0]: mask for mask in sorted(masks) if mask}
    return {key: mask for key, mask in found.items() if not _is_part_of_another(one, key, mask, found)}


def _relate(pattern: JoinPattern, slot: int, other: int) -> object:
    """Return order and tests between two slots."""
    tests = set()
    for test in pattern.tests:
        if (test.left, test.right) == (slot, other):
            tests.add((test.op, test.left_side, test.right_side))
        elif (test.left, test.right) == (other, slot):
            tests.add((FLIPPED[test.op], test.right_side, test.left_side))
    return pattern.before[slot] >> other & 1, pattern.before[other] >> slot & 1, tests


def _find_cliques(
    friends: dict[Pair, set[Pair]], taken: set[Pair], open_: set[Pair], tried: set[Pair]
) -> Iterator[set[Pair]]:
    """Yield the maximal cliques that hold `taken` [Bron and Kerbosch 1973]."""
    if not open_ and not tried:
        yield taken
        return
    pivot = max(open_ | tried, key=lambda pair: len(friends[pair] & open_))
    for pair in sorted(open_ - friends[pivot]):
        yield from _find_cliques(friends, taken | {pair}, open_ & friends[pair], tried & friends[pair])
        open_ = open_ - {pair}
        tried = tried | {pair}


def _is_part_of_another(pattern: JoinPattern, key: Key, mask: int, found: dict[Key, int]) -> bool:
    larger = (other for other in found.values() if other.bit_count() > mask.bit_count())
    return any(find_part(pattern, key, other) for other in larger)


def find_part(pattern: JoinPattern, key: Key, mask: int) -> int:
    """Return which of some slots of a pattern are a sub-pattern, as a mask; 0: none.

    >>> abc = JoinPattern((1, 2, 3), (0, 0b001, 0b011))
    >>> find_part(abc, key_of(abc, 0b100)[0], abc.all)
    4
    """
    assert isinstance(key, tuple)
    leaves = sorted(key[0])
    slots = [slot for slot in bits(mask) if pattern.leaves[slot] in leaves]
    for chosen in combinations(slots, len(leaves)):
        part = sum(1 << slot for slot in chosen)
        same = sorted(pattern.leaves[slot] for slot in chosen) == leaves
        if same and key_of(pattern, part)[0] == key:
            return part
    return 0


@dataclass(slots=True)
class PatternGraph:
    """Patterns, and their maximal common sub-patterns.

    Attributes:
        patterns: the patterns, by their names.
        holders: maximal common sub-pattern → patterns, each with the number of peers that it has it with.
        shared: pattern → its maximal common sub-patterns with its peers, with their slots in it, as masks.
    """

    patterns: dict[Name, JoinPattern] = field(default_factory=dict)
    holders: dict[Key, Counter[Name]] = field(default_factory=dict)
    shared: dict[Name, dict[Key, int]] = field(default_factory=dict)

    def add(self, name: Name, pattern: JoinPattern) -> None:
        """Add a pattern: it is compared with each of the others.

        >>> graph = PatternGraph()
        >>> graph.add("P1", JoinPattern((1, 2, 3), (0, 0b001, 0b011)))
        >>> graph.add("P2", JoinPattern((1, 3), (0, 0b01)))
        >>> list(graph.shared["P1"].values())
        [5]
        """
        self.patterns[name], self.shared[name] = pattern, {}
        for peer, other in self.patterns.items():
            for key, mask in find_common(pattern, other).items() if peer != name else ():
                self.shared[name][key] = mask
                if key not in self.shared[peer]:
                    self.shared[peer][key] = find_part(other, key, other.all)
                self.holders.setdefault(key, Counter()).update([name, peer])

    def remove(self, name: Name) -> None:
        """Remove a pattern, and the sub-patterns that were maximal with it alone."""
        for peer in self.find_peers(name):
            for key in self.find_common(name, peer):
                self._forget(key, peer)
                self._forget(key, name)
        del self.patterns[name], self.shared[name]

    def _forget(self, key: Key, name: Name) -> None:
        """Count down the peers that a pattern has a sub-pattern with."""
        self.holders[key][name] -= 1
        if not self.holders[key][name]:
            del self.holders[key][name], self.shared[name][key]
        if not self.holders[key]:
            del self.holders[key]

    def find_peers(self, name: Name) -> list[Name]:
        """Return the patterns that have a sub-pattern in common with a pattern: its neighbours."""
        peers = {peer: None for key in self.shared[name] for peer in self.holders[key]}
        return [peer for peer in peers if peer != name]

    def find_common(self, one: Name, other: Name) -> dict[Key, int]:
        """Return the maximal common sub-patterns of two patterns, with their slots in the first."""
        both = {key: mask for key, mask in self.shared[one].items() if key in self.shared[other]}
        pattern = self.patterns[one]
        return {key: mask for key, mask in both.items() if not _is_part_of_another(pattern, key, mask, both)}

    def split_into_components(self) -> list[list[Name]]:
        """Return the connected components: plans of different ones have nothing to do with each other."""
        found, seen = [], set[Name]()
        for name in self.patterns:
            if name not in seen:
                component = [name]
                seen.add(name)
                for each in component:
                    new = [peer for peer in self.find_peers(each) if peer not in seen]
                    component += new  # the list grows while it is read
                    seen.update(new)
                found.append(component)
        return found
