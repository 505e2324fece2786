"""Compressed matches (S7.5): the shared buffer that holds them, which counts and spells them on demand.

Exponentially many matches of a Kleene variable share a buffer that grows only with their events
[SASE08 §4.2]. 004 labels pointers with Dewey numbers so that runs can share a stack of events; here a node
has one pointer and a join two, so every path is a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.layout import JOIN, MERGED_NODE_WORDS, NODE_WORDS
from cerise.engines.automaton.records import Join, Match, Node

Ints = npt.NDArray[np.int64]
Binding = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A buffer of matches: its nodes, the nodes in which matches end, and the rows of the nodes' events."""

    variables: tuple[str, ...]
    nodes: Ints
    matches: Ints
    numbers: Ints
    first_row: int

    def count(self) -> int:
        """Return how many matches there are, without spelling any."""
        total, least = self._totals()
        return sum(
            self._paths(int(match[Match.node]), int(match[Match.point]), total, least)
            for match in self.matches
        )

    def bindings(self) -> Iterator[Binding]:
        """Yield each match: for each variable the rows of its events."""
        for match in self.matches:
            end = [(int(match[Match.var]), int(match[Match.seq]))] if match[Match.seq] >= 0 else []
            stack = [(int(match[Match.node]), end)]
            while stack:
                node, path = stack.pop()
                if node < 0:
                    yield self._bind(path)
                elif self.nodes[node, Node.var] == JOIN:
                    stack += [
                        (child, path)
                        for child in self._sides(node)
                        if self._alive(child, int(match[Match.point]))
                    ]
                else:
                    step = (int(self.nodes[node, Node.var]), int(self.nodes[node, Node.seq]))
                    stack.append((int(self.nodes[node, Node.prev]), [*path, step]))

    def _sides(self, node: int) -> list[int]:
        both = [int(self.nodes[node, Node.prev])]
        if self.nodes[node, Node.var] == JOIN:
            both.append(int(self.nodes[node, Join.right]))
        return [each for each in both if each >= 0]

    def _alive(self, node: int, now: int) -> bool:
        return self.nodes.shape[1] < MERGED_NODE_WORDS or bool(self.nodes[node, Node.most] >= now)

    def _totals(self) -> tuple[list[int], list[float]]:
        """Return for each node how many paths lead to it, and when the first of these paths expires."""
        total: list[int] = []
        least: list[float] = []
        for node in range(len(self.nodes)):
            sides = self._sides(node)
            total.append(sum(total[each] for each in sides) if sides else 1)
            own = float("inf") if self.nodes.shape[1] <= NODE_WORDS else float(self.nodes[node, Node.most])
            least.append(min((least[each] for each in sides), default=own))
        return total, least

    def _paths(self, node: int, now: int, total: list[int], least: list[float]) -> int:
        """Return how many paths to a node have a live start."""
        if node < 0:
            return 1
        known: dict[int, int] = {}
        stack = [node]
        while stack:
            here = stack[-1]
            if not self._alive(here, now) or least[here] >= now:
                known[here] = total[here] if self._alive(here, now) else 0
                stack.pop()
            elif missing := [each for each in self._sides(here) if each not in known]:
                stack += missing
            else:
                known[here] = sum(known[each] for each in self._sides(here))
                stack.pop()
        return known[node]

    def _bind(self, path: list[tuple[int, int]]) -> Binding:
        rows: dict[str, list[int]] = {}
        for var, number in reversed(path):
            row = int(np.searchsorted(self.numbers, number)) + self.first_row
            rows.setdefault(self.variables[var], []).append(row)
        return {name: tuple(taken) for name, taken in rows.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """All matches of a query in compressed form; it pickles.

    Attributes:
        events: the events that matches bind.
        buffers: the buffers that hold the matches.
    """

    events: pa.Table
    buffers: tuple[Buffer, ...]

    def count(self) -> int:
        """Return how many matches there are, however many, without spelling any."""
        return sum(buffer.count() for buffer in self.buffers)

    def __iter__(self) -> Iterator[Binding]:
        """Yield each match: for each variable that is bound, the rows of `events` that it binds."""
        for buffer in self.buffers:
            yield from buffer.bindings()

    @property
    def nodes(self) -> int:
        """How many nodes hold the matches."""
        return sum(len(buffer.nodes) for buffer in self.buffers)


def reachable(nodes: Ints, roots: Ints) -> tuple[Ints, Ints]:
    """Return the nodes reachable from the roots, compacted, and the new number of each node (-1: dropped)."""
    seen = np.zeros(len(nodes), bool)
    seen[roots[roots >= 0]] = True
    for node in range(len(nodes) - 1, -1, -1):
        if seen[node]:
            for side in (Node.prev, Join.right) if nodes[node, Node.var] == JOIN else (Node.prev,):
                if nodes[node, side] >= 0:
                    seen[nodes[node, side]] = True
    moved = np.where(seen, np.cumsum(seen) - 1, -1)
    kept = nodes[seen].copy()
    for side in (Node.prev, Join.right):
        rows = kept[:, Node.var] == JOIN if side == Join.right else np.ones(len(kept), bool)
        rows &= kept[:, side] >= 0
        kept[rows, side] = moved[kept[rows, side]]
    return kept, moved
