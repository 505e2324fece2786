"""The records of counting: the settings, tables and state of its kernels."""

from __future__ import annotations

from cerise.kernels.records import Record, Rows, Words

DONE, LONGER, FULL, PAUSED = range(4)
LESS, LESS_EQUAL, MORE, MORE_EQUAL, EQUAL, UNEQUAL = range(6)
TRIGGER = -1  # the target of a link to triggers
LANES = 8  # are counted side by side, while their numbers are short
FEW = 3  # fewer lanes are not counted side by side


class GateRecord(Record):
    """A test between the events of a layer and a lane."""

    layer: int
    op: int
    opening: int


class Link(Record):
    """A step between two layers with tests that no tree can decide."""

    source: int
    target: int
    tests: int
    tests_end: int


class Head(Record):
    """A number in the output: its reading or lane, its place, and the start of its limbs."""

    who: int
    place: int
    limbs: int


class CountMemory(Record):
    """The memory of the kernels. A table by place has a column for each place, then one for each trigger."""

    columns: int
    layers: int
    terms: int
    gate_count: int
    link_count: int
    keeps: int
    shown: int
    bits: int
    room: int
    section_count: int
    budget: int
    # by place: its event, its layer, whether it opens a chain, the place before it in its layer
    event_of: Words
    layer_of: Words
    opens: Words
    before: Words
    # by term and place: the key under which a number is stored, and the range of keys that are summed
    signs: Words
    spans: Words
    puts: Words
    lows: Words
    highs: Words
    # gates: a test between the events of a layer (by gate and place) and a lane (by gate and lane)
    gates: Rows[GateRecord]
    gate_left: Words
    gate_right: Words
    # links: steps with tests (by test and place) that no tree can decide
    links: Rows[Link]
    tests: Words
    test_left: Words
    test_right: Words
    # by lane: its places, its readings; by reading: the place before which it takes the sum, its trigger
    lane_count: int
    first: Words
    last: Words
    reads: Words
    stops: Words
    triggers: Words
    blocks: Words
    sections: Words
    # by term and place of a section: the tree and the position where its number is stored, or a sum read
    put_at: Words
    put_i: Words
    put_size: Words
    ask_at: Words
    ask_i: Words
    starts: Words
    sizes: Words
    keys: Words
    key_count: Words
    trees: Words
    # numbers: the words of each, the most words for lanes side by side; the nodes of trees and the rows of
    # places, with how many words of each are in use; a spare row
    words: int
    widest: int
    nodes: Words
    held: Words
    rows: Words
    filled: Words
    spare: Words
    newest: Words
    next_read: Words
    # output: heads (who, place, the start of its limbs) and limbs
    heads: Rows[Head]
    heads_room: int
    limbs: Words
    limbs_room: int
    # the state between calls
    section: int
    ready: int
    block: int
    lane: int
    narrow: int
    node_count: int
    head_count: int
    limb_count: int
    # a pass: its lanes, how many numbers lie side by side, its places, the first place of the section
    low: int
    high: int
    lanes: int
    pass_first: int
    pass_last: int
    start: int
