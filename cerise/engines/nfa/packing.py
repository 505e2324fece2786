"""Keeps the matches of a stream as the shared buffer that holds them, instead of spelling them (S7.5)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from cerise.engines.automaton.layout import JOIN
from cerise.engines.automaton.program import Program
from cerise.engines.automaton.records import Match, Node
from cerise.engines.base import Matches, Options
from cerise.engines.nfa.compressed import Buffer, Compressed, reachable
from cerise.engines.nfa.matcher import NfaMatcher
from cerise.events import EventBatch


class PackingMatcher(NfaMatcher):
    """Packs matches where another matcher writes them out."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self._buffers: list[Buffer] = []
        self._tables: list[pa.Table] = []

    def compress(self, events: EventBatch) -> Compressed:
        """Return all matches of a stream without spelling them."""
        for _ in chain(self.feed(events), self.flush()):
            pass
        return Compressed(pa.concat_tables([events.table.slice(0, 0), *self._tables]), tuple(self._buffers))

    def _write_matches(self) -> Iterator[Matches]:
        buffer, table = self._pack(sum(map(len, self._tables)))
        if len(buffer.matches):
            self._buffers.append(buffer)
            self._tables.append(table)
        return iter(())

    def _pack(self, first_row: int) -> tuple[Buffer, pa.Table]:
        """Return the matches recorded so far, with the nodes and the events that they use."""
        self._read_registers()
        m = self._memory.m
        count = self._apply_limit()
        matches = self._memory.matches[:count].copy()
        nodes, moved = reachable(self._memory.nodes[: m.node_count], matches[:, Match.node])
        inside = matches[:, Match.node] >= 0
        matches[inside, Match.node] = moved[matches[inside, Match.node]]
        named = np.concatenate(
            [nodes[nodes[:, Node.var] != JOIN, Node.seq], matches[matches[:, Match.seq] >= 0, Match.seq]]
        )
        numbers = np.unique(named)
        m.match_count = 0
        names = tuple(var.name for var in self.program.bound.variables)
        return Buffer(names, nodes, matches, numbers, first_row), self._retained.take(numbers).table
