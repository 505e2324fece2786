"""The records of the counting of chains: what its kernels are told, tables, and where they stand."""

from __future__ import annotations

from cerise.kernels.records import Record, Rows, Words

DONE, LONGER, FULL, PAUSED = range(4)
LESS, LESS_EQUAL, MORE, MORE_EQUAL, EQUAL, UNEQUAL = range(6)
TRIGGER = -1  # as the target of a link
LANES = 8  # counted side by side, while their numbers are short
FEW = 3  # lanes, below which none go side by side


class Gate(Record):
    """A test between the events of a layer and a lane."""

    layer: int
    op: int
    opening: int


class Link(Record):
    """A step between two layers with tests that no tree can answer."""

    source: int
    target: int
    tests: int
    tests_end: int


class Head(Record):
    """A number that was found: whose it is, of which place, and where its limbs begin."""

    who: int
    place: int
    limbs: int


class Counts(Record):
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
    # by term and place: the key under which a number is kept, and the keys that are asked for
    signs: Words
    spans: Words
    puts: Words
    lows: Words
    highs: Words
    # gates: a test between the events of a layer (by gate and place) and a lane (by gate and lane)
    gates: Rows[Gate]
    gate_left: Words
    gate_right: Words
    # links: steps with tests (by test and place) that no tree can answer
    links: Rows[Link]
    tests: Words
    test_left: Words
    test_right: Words
    # by lane: its places, its readings; by reading: the place before which it is done, the trigger
    lane_count: int
    first: Words
    last: Words
    reads: Words
    stops: Words
    triggers: Words
    blocks: Words
    sections: Words
    # by term and place of a section: where in which tree a number is put, where one is asked for
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
    # numbers: words for each, how many of them the lanes of a block may use; the nodes of trees and the rows
    # of places, with how many words of each are held; a spare one
    words: int
    widest: int
    nodes: Words
    held: Words
    rows: Words
    filled: Words
    spare: Words
    newest: Words
    next_read: Words
    # what is written: heads (who, place, where its limbs begin) and limbs
    heads: Rows[Head]
    heads_room: int
    limbs: Words
    limbs_room: int
    # where it stands between calls
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
