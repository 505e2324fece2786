"""What lies where in the memory of the counting of chains: words that it is told, tables, where it stands."""

from __future__ import annotations

# what it is told once: sizes; a table by place has a column for each place, then one for each trigger
(
    H_COLUMNS, H_LAYERS, H_TERMS, H_GATES, H_LINKS, H_KEEPS, H_SHOWN, H_BITS, H_ROOM, H_SECTIONS, H_BUDGET,
    # by place: its event, its layer, whether it opens a chain, the place before it in its layer
    A_EVENT, A_LAYER, A_OPEN, A_BEFORE,
    # by term and place: the key under which a number is kept, and the keys that are asked for
    A_SIGN, A_SPAN, A_PUT, A_FROM, A_TO,
    # gates: a test between the events of a layer (by gate and place) and a lane (by gate and lane)
    A_GATE, A_GATE_LEFT, A_GATE_RIGHT,
    # links: steps with tests (by test and place) that no tree can answer
    A_LINK, A_TEST, A_TEST_LEFT, A_TEST_RIGHT,
    # by lane: its places, its readings; by reading: the place before which it is done, the trigger
    H_LANES, A_FIRST, A_LAST, A_READS, A_STOP, A_TRIGGER, A_BLOCKS, A_SECTIONS,
    # by term and place of a section: where in which tree a number is put, where one is asked for
    A_PUT_AT, A_PUT_I, A_PUT_SIZE, A_ASK_AT, A_ASK_I, A_STARTS, A_SIZES, A_KEYS, A_KEY_COUNT, A_TREE,
    # numbers: words for each, how many of them the lanes of a block may use; the nodes of trees and the rows
    # of places, with how many words of each are held; a spare one
    H_WORDS, H_WIDEST, A_NODES, A_HELD, A_ROWS, A_FILLED, A_SPARE, A_NEWEST, A_NEXT_READ,
    # what is written: heads (who, place, where its limbs begin) and limbs
    A_HEADS, H_HEADS_ROOM, A_LIMBS, H_LIMBS_ROOM,
    # where it stands between calls
    G_SECTION, G_READY, G_BLOCK, G_LANE, G_NARROW, G_NODES, G_HEADS, G_LIMBS,
    # a pass: its lanes, how many numbers lie side by side, its places, the first place of the section
    P_LOW, P_HIGH, P_LANES, P_FIRST, P_LAST, P_START, WORDS,
) = range(73)  # fmt: skip
DONE, LONGER, FULL, PAUSED = range(4)
LESS, LESS_EQUAL, MORE, MORE_EQUAL, EQUAL, UNEQUAL = range(6)
TRIGGER = -1  # as the target of a link
LANES = 8  # counted side by side, while their numbers are short
FEW = 3  # lanes, below which none go side by side
# a gate, a link, a head
T_LAYER, T_OP, T_OPENING, GATE_WORDS = range(4)
L_SOURCE, L_TARGET, L_FROM, L_TO, LINK_WORDS = range(5)
E_WHO, E_PLACE, E_LIMBS, HEAD_WORDS = range(4)
