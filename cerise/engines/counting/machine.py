"""The memory in which chains are counted, and the loop that gives it more where numbers outgrow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cerise.engines.base import Progress
from cerise.engines.counting.bigint import Objects, limb_bits, to_ints
from cerise.engines.counting.counters import Lanes
from cerise.engines.counting.kernels import count_sections
from cerise.engines.counting.model import OPS, Ints
from cerise.engines.counting.program import Program
from cerise.engines.counting.records import DONE, FULL, LANES, LONGER, PAUSED, Counts, Head
from cerise.engines.counting.trees import cut
from cerise.kernels.records import number

MOST_WORDS = 1 << 25  # for the trees of lanes side by side
MOST_LIMBS = 1 << 24  # written at a time, unless one pass writes more


@dataclass(frozen=True, slots=True)
class Room:
    """How much memory counting begins with; results do not depend on it.

    Args:
        words: for a number, or for those of eight lanes; a multiple of 8.
        widest: words up to which numbers of eight lanes lie side by side, unless trees get too large.
        bits: of a limb, or the nearest to it that can be.
        limbs: written at a time.
        budget: places counted in one call of the kernel, so that it can be interrupted.
        lanes: laid out at a time.
        shown: places of all lanes whose numbers are held at a time.
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
class Found:
    """Numbers that are not 0: of readings (whose place is -1), or of lanes and places."""

    who: Ints
    place: Ints
    number: Objects


class Machine:
    """Counts in some lanes."""

    def __init__(self, program: Program, lanes: Lanes, room: Room, *, shown: tuple[int, ...] = ()) -> None:
        self.words = np.zeros(Counts.WORDS, np.int64)
        self.m = Counts(self.words.ctypes.data)
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

    def run(self) -> Iterator[Found]:
        """Count; yield what is found, some at a time."""
        m, words, why, progress = self.m, self.words, PAUSED, Progress()
        while why != DONE:
            why = count_sections(words.ctypes.data, self._kept[Counts.keys])
            progress.check((why, words.tobytes()))
            if why == LONGER:
                self._lay_numbers(2 * m.words + 8)
            if why in (FULL, DONE):
                found = self._taken()
                if why == FULL and (m.limbs_room < MOST_LIMBS or not len(found.who)):
                    self._lay_output(2 * m.limbs_room)
                yield found

    def _lay(self, field: object, array: Ints) -> None:
        """Keep an array, and tell kernels where it is."""
        self._kept[field] = array = np.ascontiguousarray(array, np.int64)
        self.words[number(field)] = array.ctypes.data

    def _lay_lanes(self, program: Program, lanes: Lanes) -> Ints:
        """Lay out lanes; return how many blocks and sections there are, and the most places of a section."""
        count = len(lanes.first)
        blocks, sections, sizes = (
            np.zeros(count + 1, np.int64),
            np.zeros(count + 1, np.int64),
            np.zeros(3, np.int64),
        )
        cut(lanes.first, lanes.last, blocks, sections, sizes)
        self.m.lane_count, self.m.section_count = count, sizes[1]
        rights = [lanes.asked(each) for each in program.gates]
        tables: dict[object, Ints] = {
            Counts.first: lanes.first, Counts.last: lanes.last, Counts.reads: lanes.reads,
            Counts.stops: lanes.stop,
            Counts.triggers: lanes.reader + len(program.places.events), Counts.blocks: blocks,
            Counts.sections: sections, Counts.gate_right: np.array(rights, np.int64),
        }  # fmt: skip
        for field, table in tables.items():
            self._lay(field, table)
        return sizes

    def _lay_program(self, program: Program, *, keeps: bool) -> None:
        places, way = program.places, -1 if program.mirrored else 1
        layer = places.layer[::way]
        gates = [(each.layer, OPS[each.op], each.opening) for each in program.gates]
        tables: dict[object, Ints] = {
            Counts.event_of: places.events[::way], Counts.layer_of: layer, Counts.opens: program.opens,
            Counts.before: _before(layer, len(places.of)), Counts.signs: program.signs,
            Counts.spans: program.spans,
            Counts.puts: program.puts, Counts.lows: program.lows, Counts.highs: program.highs,
            Counts.gates: np.array(gates, np.int64), Counts.gate_left: program.gate_lefts,
            Counts.links: program.links, Counts.tests: program.tests,
            Counts.test_left: program.test_lefts, Counts.test_right: program.test_rights,
            Counts.newest: np.zeros(len(places.of), np.int64),
            Counts.next_read: np.zeros(LANES, np.int64),
        }  # fmt: skip
        for field, table in tables.items():
            self._lay(field, table)
        m = self.m
        m.columns, m.layers = program.puts.shape[1], len(places.of)
        m.terms, m.gate_count = len(program.signs), len(program.gates)
        m.link_count, m.keeps = len(program.links), keeps

    def _lay_trees(self, terms: int, room: int) -> None:
        """Make room for where in the trees the places of a section are."""
        self.m.room = room
        for field in (Counts.put_at, Counts.put_i, Counts.put_size, Counts.ask_at, Counts.ask_i, Counts.keys):
            self._lay(field, np.zeros(terms * room, np.int64))
        for field, size in (
            (Counts.starts, room), (Counts.sizes, room), (Counts.key_count, terms), (Counts.trees, terms),
        ):  # fmt: skip
            self._lay(field, np.zeros(size, np.int64))

    def _lay_numbers(self, each: int) -> None:
        """Make room for numbers of so many words."""
        m = self.m
        room = m.room
        nodes, rows = m.terms * room, room if m.keeps else m.layers
        m.words = each
        for field, size in ((Counts.nodes, nodes * each), (Counts.held, nodes), (Counts.rows, rows * each)):
            self._kept.pop(field, None)
            self._lay(field, np.empty(size, np.int64))
        self._lay(Counts.filled, np.zeros(rows, np.int64))
        self._lay(Counts.spare, np.zeros(each, np.int64))

    def _lay_output(self, limbs: int) -> None:
        self.m.limbs_room, self.m.heads_room = limbs, limbs
        self._lay(Counts.limbs, np.zeros(limbs, np.int64))
        self._lay(Counts.heads, np.zeros(limbs * Head.WORDS, np.int64))

    def _taken(self) -> Found:
        """Return what has been written, and make room for more."""
        count, limbs = self.m.head_count, self.m.limb_count
        heads = self._kept[Counts.heads].reshape(-1, Head.WORDS)[:count].copy()
        starts = np.append(heads[:, Head.limbs], limbs)
        self.m.head_count = self.m.limb_count = 0
        numbers = to_ints(self._kept[Counts.limbs], starts, self.bits)
        return Found(heads[:, Head.who], heads[:, Head.place], numbers)


def _before(layer: Ints, layers: int) -> Ints:
    """Return the place before each in its layer, -1 where there is none."""
    before = np.full(len(layer), -1, np.int64)
    for each in range(layers):
        places = np.flatnonzero(layer == each)
        before[places[1:]] = places[:-1]
    return before
