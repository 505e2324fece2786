"""The memory in which chains are counted, and the loop that gives it more where numbers outgrow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cerise.engines.chains import layout as at
from cerise.engines.chains.kernels import count_sections
from cerise.engines.chains.lanes import Lanes
from cerise.engines.chains.model import OPS, Ints
from cerise.engines.chains.numbers import Objects, limb_bits, to_ints
from cerise.engines.chains.program import Program
from cerise.engines.chains.trees import cut
from cerise.engines.limits import Progress

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
        self.words = np.zeros(at.WORDS, np.int64)
        self._kept: dict[int, Ints] = {}
        sizes = self._lay_lanes(program, lanes)
        self._lay_program(program, keeps=bool(shown) or len(program.links) > 0)
        links = len(program.links) + len(program.signs)
        self.words[at.H_BITS] = self.bits = limb_bits(int(sizes[2]) * links + 2, room.bits)
        self.words[at.H_SHOWN] = sum(1 << each for each in shown)
        side_by_side = MOST_WORDS // max(1, int(sizes[2]) * (len(program.signs) + 1))
        self.words[at.H_WIDEST], self.words[at.H_BUDGET] = min(room.widest, side_by_side), room.budget
        self._lay_trees(len(program.signs), int(sizes[2]))
        self._lay_numbers(room.words)
        self._lay_output(room.limbs)

    def run(self) -> Iterator[Found]:
        """Count; yield what is found, some at a time."""
        words, why, progress = self.words, at.PAUSED, Progress()
        while why != at.DONE:
            why = count_sections(words.ctypes.data, self._kept[at.A_KEYS])
            progress.check((why, words.tobytes()))
            if why == at.LONGER:
                self._lay_numbers(2 * int(words[at.H_WORDS]) + 8)
            if why in (at.FULL, at.DONE):
                found = self._taken()
                if why == at.FULL and (words[at.H_LIMBS_ROOM] < MOST_LIMBS or not len(found.who)):
                    self._lay_output(2 * int(words[at.H_LIMBS_ROOM]))
                yield found

    def _lay(self, word: int, array: Ints) -> None:
        """Keep an array, and tell kernels where it is."""
        self._kept[word] = array = np.ascontiguousarray(array, np.int64)
        self.words[word] = array.ctypes.data

    def _lay_lanes(self, program: Program, lanes: Lanes) -> Ints:
        """Lay out lanes; return how many blocks and sections there are, and the most places of a section."""
        count = len(lanes.first)
        blocks, sections, sizes = (
            np.zeros(count + 1, np.int64),
            np.zeros(count + 1, np.int64),
            np.zeros(3, np.int64),
        )
        cut(lanes.first, lanes.last, blocks, sections, sizes)
        self.words[at.H_LANES], self.words[at.H_SECTIONS] = count, sizes[1]
        rights = [lanes.asked(each) for each in program.gates]
        tables = {
            at.A_FIRST: lanes.first, at.A_LAST: lanes.last, at.A_READS: lanes.reads, at.A_STOP: lanes.stop,
            at.A_TRIGGER: lanes.reader + len(program.places.events), at.A_BLOCKS: blocks,
            at.A_SECTIONS: sections, at.A_GATE_RIGHT: np.array(rights, np.int64),
        }  # fmt: skip
        for word, table in tables.items():
            self._lay(word, table)
        return sizes

    def _lay_program(self, program: Program, *, keeps: bool) -> None:
        places, way = program.places, -1 if program.mirrored else 1
        layer = places.layer[::way]
        gates = [(each.layer, OPS[each.op], each.opening) for each in program.gates]
        tables = {
            at.A_EVENT: places.events[::way], at.A_LAYER: layer, at.A_OPEN: program.opens,
            at.A_BEFORE: _before(layer, len(places.of)), at.A_SIGN: program.signs, at.A_SPAN: program.spans,
            at.A_PUT: program.puts, at.A_FROM: program.lows, at.A_TO: program.highs,
            at.A_GATE: np.array(gates, np.int64), at.A_GATE_LEFT: program.gate_lefts,
            at.A_LINK: program.links, at.A_TEST: program.tests,
            at.A_TEST_LEFT: program.test_lefts, at.A_TEST_RIGHT: program.test_rights,
            at.A_NEWEST: np.zeros(len(places.of), np.int64),
            at.A_NEXT_READ: np.zeros(at.LANES, np.int64),
        }  # fmt: skip
        for word, table in tables.items():
            self._lay(word, table)
        words = self.words
        words[at.H_COLUMNS], words[at.H_LAYERS] = program.puts.shape[1], len(places.of)
        words[at.H_TERMS], words[at.H_GATES] = len(program.signs), len(program.gates)
        words[at.H_LINKS], words[at.H_KEEPS] = len(program.links), keeps

    def _lay_trees(self, terms: int, room: int) -> None:
        """Make room for where in the trees the places of a section are."""
        self.words[at.H_ROOM] = room
        for word in (at.A_PUT_AT, at.A_PUT_I, at.A_PUT_SIZE, at.A_ASK_AT, at.A_ASK_I, at.A_KEYS):
            self._lay(word, np.zeros(terms * room, np.int64))
        for word, size in (
            (at.A_STARTS, room),
            (at.A_SIZES, room),
            (at.A_KEY_COUNT, terms),
            (at.A_TREE, terms),
        ):
            self._lay(word, np.zeros(size, np.int64))

    def _lay_numbers(self, each: int) -> None:
        """Make room for numbers of so many words."""
        words = self.words
        room = int(words[at.H_ROOM])
        nodes, rows = int(words[at.H_TERMS]) * room, room if words[at.H_KEEPS] else int(words[at.H_LAYERS])
        words[at.H_WORDS] = each
        for word, size in ((at.A_NODES, nodes * each), (at.A_HELD, nodes), (at.A_ROWS, rows * each)):
            self._kept.pop(word, None)
            self._lay(word, np.empty(size, np.int64))
        self._lay(at.A_FILLED, np.zeros(rows, np.int64))
        self._lay(at.A_SPARE, np.zeros(each, np.int64))

    def _lay_output(self, limbs: int) -> None:
        self.words[at.H_LIMBS_ROOM], self.words[at.H_HEADS_ROOM] = limbs, limbs
        self._lay(at.A_LIMBS, np.zeros(limbs, np.int64))
        self._lay(at.A_HEADS, np.zeros(limbs * at.HEAD_WORDS, np.int64))

    def _taken(self) -> Found:
        """Return what has been written, and make room for more."""
        count, limbs = int(self.words[at.G_HEADS]), int(self.words[at.G_LIMBS])
        heads = self._kept[at.A_HEADS].reshape(-1, at.HEAD_WORDS)[:count].copy()
        starts = np.append(heads[:, at.E_LIMBS], limbs)
        self.words[at.G_HEADS] = self.words[at.G_LIMBS] = 0
        numbers = to_ints(self._kept[at.A_LIMBS], starts, self.bits)
        return Found(heads[:, at.E_WHO], heads[:, at.E_PLACE], numbers)


def _before(layer: Ints, layers: int) -> Ints:
    """Return the place before each in its layer, -1 where there is none."""
    before = np.full(len(layer), -1, np.int64)
    for number in range(layers):
        places = np.flatnonzero(layer == number)
        before[places[1:]] = places[:-1]
    return before
