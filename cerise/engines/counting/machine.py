"""The memory in which chains are counted, and the loop that enlarges it when numbers outgrow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cerise.engines.base import Progress
from cerise.engines.counting.bigint import Objects, limb_bits, to_ints
from cerise.engines.counting.counters import Lanes
from cerise.engines.counting.kernels import count_sections
from cerise.engines.counting.model import OPS, Ints
from cerise.engines.counting.program import ChainProgram
from cerise.engines.counting.records import DONE, FULL, LANES, LONGER, PAUSED, CountMemory, Head
from cerise.engines.counting.trees import split_lanes
from cerise.kernels.records import number

MOST_WORDS = 1 << 25  # of the trees of lanes side by side
MOST_LIMBS = 1 << 24  # in the output, unless one pass writes more


@dataclass(frozen=True, slots=True)
class Room:
    """The sizes with which counting begins; results do not depend on them.

    Args:
        words: how many words a number has, or the numbers of eight lanes together; a multiple of 8.
        widest: the most words for which eight lanes are counted side by side, unless trees get too large.
        bits: how many bits a limb has, or the nearest possible.
        limbs: how many limbs the kernel writes at a time.
        budget: how many places one call of the kernel counts, so that the user can interrupt it.
        lanes: how many lanes are laid out at a time.
        shown: how many places of all lanes have their numbers in memory at a time.
    """

    words: int = 8
    widest: int = 504
    bits: int = 64
    limbs: int = 1 << 18
    budget: int = 1 << 26
    lanes: int = 1 << 20
    shown: int = 1 << 20


ROOM = Room()


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The numbers that are not 0: of readings (their place is -1), or of lanes and places."""

    who: Ints
    place: Ints
    number: Objects


class CountingMachine:
    """Counts chains in a batch of lanes."""

    def __init__(
        self, program: ChainProgram, lanes: Lanes, room: Room, *, shown: tuple[int, ...] = ()
    ) -> None:
        self.words = np.zeros(CountMemory.WORDS, np.int64)
        self.m = CountMemory(self.words.ctypes.data)
        self._kept: dict[object, Ints] = {}
        sizes = self._lay_lanes(program, lanes)
        self._lay_program(program, keeps=bool(shown) or len(program.links) > 0)
        links = len(program.links) + len(program.signs)
        self.m.bits = self.bits = limb_bits(int(sizes[2]) * links + 2, room.bits)
        self.m.shown = sum(1 << each for each in shown)
        side_by_side = MOST_WORDS // max(1, int(sizes[2]) * (len(program.signs) + 1))
        self.m.widest, self.m.budget = min(room.widest, side_by_side), room.budget
        self._lay_trees(len(program.signs), int(sizes[2]))
        self._lay_numbers(room.words)
        self._lay_output(room.limbs)

    def run(self) -> Iterator[Numbers]:
        """Count; yield the numbers in batches."""
        m, words, why, progress = self.m, self.words, PAUSED, Progress()
        while why != DONE:
            why = count_sections(words.ctypes.data, self._kept[CountMemory.keys])
            progress.check((why, words.tobytes()))
            if why == LONGER:
                self._lay_numbers(2 * m.words + 8)
            if why in (FULL, DONE):
                found = self._take()
                if why == FULL and (m.limbs_room < MOST_LIMBS or not len(found.who)):
                    self._lay_output(2 * m.limbs_room)
                yield found

    def _lay(self, field: object, array: Ints) -> None:
        """Keep an array, and write its address for the kernels."""
        self._kept[field] = array = np.ascontiguousarray(array, np.int64)
        self.words[number(field)] = array.ctypes.data

    def _lay_lanes(self, program: ChainProgram, lanes: Lanes) -> Ints:
        """Lay out lanes; return how many blocks and sections there are, and the most places of a section."""
        count = len(lanes.first)
        blocks, sections, sizes = (
            np.zeros(count + 1, np.int64),
            np.zeros(count + 1, np.int64),
            np.zeros(3, np.int64),
        )
        split_lanes(lanes.first, lanes.last, blocks, sections, sizes)
        self.m.lane_count, self.m.section_count = count, sizes[1]
        rights = [lanes.ranks_of(each) for each in program.gates]
        tables: dict[object, Ints] = {
            CountMemory.first: lanes.first, CountMemory.last: lanes.last, CountMemory.reads: lanes.reads,
            CountMemory.stops: lanes.stop,
            CountMemory.triggers: lanes.reader + len(program.places.events), CountMemory.blocks: blocks,
            CountMemory.sections: sections, CountMemory.gate_right: np.array(rights, np.int64),
        }  # fmt: skip
        for field, table in tables.items():
            self._lay(field, table)
        return sizes

    def _lay_program(self, program: ChainProgram, *, keeps: bool) -> None:
        places, way = program.places, -1 if program.mirrored else 1
        layer = places.layer[::way]
        gates = [(each.layer, OPS[each.op], each.opening) for each in program.gates]
        tables: dict[object, Ints] = {
            CountMemory.event_of: places.events[::way], CountMemory.layer_of: layer,
            CountMemory.opens: program.opens,
            CountMemory.before: _before(layer, len(places.of)), CountMemory.signs: program.signs,
            CountMemory.spans: program.spans,
            CountMemory.puts: program.puts, CountMemory.lows: program.lows, CountMemory.highs: program.highs,
            CountMemory.gates: np.array(gates, np.int64), CountMemory.gate_left: program.gate_lefts,
            CountMemory.links: program.links, CountMemory.tests: program.tests,
            CountMemory.test_left: program.test_lefts, CountMemory.test_right: program.test_rights,
            CountMemory.newest: np.zeros(len(places.of), np.int64),
            CountMemory.next_read: np.zeros(LANES, np.int64),
        }  # fmt: skip
        for field, table in tables.items():
            self._lay(field, table)
        m = self.m
        m.columns, m.layers = program.puts.shape[1], len(places.of)
        m.terms, m.gate_count = len(program.signs), len(program.gates)
        m.link_count, m.keeps = len(program.links), keeps

    def _lay_trees(self, terms: int, room: int) -> None:
        """Make room for the positions in trees of a section's places."""
        self.m.room = room
        for field in (
            CountMemory.put_at,
            CountMemory.put_i,
            CountMemory.put_size,
            CountMemory.ask_at,
            CountMemory.ask_i,
            CountMemory.keys,
        ):
            self._lay(field, np.zeros(terms * room, np.int64))
        for field, size in (
            (CountMemory.starts, room), (CountMemory.sizes, room), (CountMemory.key_count, terms),
            (CountMemory.trees, terms),
        ):  # fmt: skip
            self._lay(field, np.zeros(size, np.int64))

    def _lay_numbers(self, each: int) -> None:
        """Make room for numbers of `each` words."""
        m = self.m
        room = m.room
        nodes, rows = m.terms * room, room if m.keeps else m.layers
        m.words = each
        for field, size in (
            (CountMemory.nodes, nodes * each),
            (CountMemory.held, nodes),
            (CountMemory.rows, rows * each),
        ):
            self._kept.pop(field, None)
            self._lay(field, np.empty(size, np.int64))
        self._lay(CountMemory.filled, np.zeros(rows, np.int64))
        self._lay(CountMemory.spare, np.zeros(each, np.int64))

    def _lay_output(self, limbs: int) -> None:
        self.m.limbs_room, self.m.heads_room = limbs, limbs
        self._lay(CountMemory.limbs, np.zeros(limbs, np.int64))
        self._lay(CountMemory.heads, np.zeros(limbs * Head.WORDS, np.int64))

    def _take(self) -> Numbers:
        """Return the numbers written so far, and empty the output."""
        count, limbs = self.m.head_count, self.m.limb_count
        heads = self._kept[CountMemory.heads].reshape(-1, Head.WORDS)[:count].copy()
        starts = np.append(heads[:, Head.limbs], limbs)
        self.m.head_count = self.m.limb_count = 0
        numbers = to_ints(self._kept[CountMemory.limbs], starts, self.bits)
        return Numbers(heads[:, Head.who], heads[:, Head.place], numbers)


def _before(layer: Ints, layers: int) -> Ints:
    """Return the previous place in the same layer for each place, -1 for none."""
    before = np.full(len(layer), -1, np.int64)
    for each in range(layers):
        places = np.flatnonzero(layer == each)
        before[places[1:]] = places[:-1]
    return before
