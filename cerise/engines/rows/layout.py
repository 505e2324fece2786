"""What lies where in the memory of a search: words that it is told, tables, and what generated code reads."""

from __future__ import annotations

# what the search is told, where its tables lie, and where it stands between calls
(
    G_COLS, G_REGS, G_REGISTERS, G_FIRST, G_SECOND, G_NEEDS, G_NULLABLE, G_DEPENDENT, G_UPDATES, G_LABELS,
    G_SKIP, G_SKIP_TO, G_WITHIN, G_NO_TIME, G_TIMEOUTS, G_HEAVY, G_ALARM, G_PATIENCE, G_SHARES, G_KEYS,
    G_STRIDE, G_WIDE, G_START, G_STOP, G_PARTITIONS,
    T_CODE, T_OFFSETS, T_TIMES, T_PLACES, T_KEYS, T_STACK, T_STACK_SIZE, T_MEMORY, T_MEMORY_SIZE, T_MASKS,
    T_LABELS, T_CUT, T_OUT, T_OUT_SIZE, T_OUT_LABELS, T_OUT_LABELS_SIZE,
    G_PARTITION, G_ROW, G_LAST, G_NUMBER, G_EPOCH, G_REMEMBERED, G_MATCHES, G_LABELLED, G_CUT, G_TOUCHED,
    G_PC, G_AT, G_PROGRESS, G_DEPTH, G_STEPS, G_LEFT, G_UNTIL, G_WALKED,
    G_WORDS,
) = range(60)  # fmt: skip
# what generated code is told, besides columns
(
    C_NULLS, C_TEXTS, C_FAULTS, C_LOW, C_HIGH, C_NUMBER, C_PLACES, C_STRIDE, C_CLASSES, C_STEP, COLUMNS,
) = range(11)  # fmt: skip
FITS = -1  # asks generated code which labels the rows from d to e could have; r: where to write that
BYTE = 8  # so many labels have room in a byte; masks of more are words
ANYTHING = -1  # as the labels of a second row: a match may have one row only
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = range(4)
DONE, FULL, DEEP, FORGETFUL, PAUSED, UNMAPPED, ENDLESS = range(7)
NO_MATCH = -1  # of an attempt; -2 and below: it stopped, for the reason of that number
NEVER = 1 << 62  # as a number of steps
ANY_TIME = -2  # as a window; -1 takes no second row
HIDDEN = 1 << 14  # in a label: the row is not shown
# a match
O_START, O_LENGTH, O_NUMBER, O_PARTITION, O_TIMEOUT, O_WORDS = range(6)
# an entry of the stack: where to go on, at which row, which iterations have mapped a row, the registers
S_PC, S_ROW, S_PROGRESS, S_REGISTERS = range(4)
# what is remembered: when, an instruction, a row, iterations, and the values of keys
R_EPOCH, R_PC, R_ROW, R_PROGRESS, R_KEYS = range(5)
# a key: a register, or the n-th place of a set from its end or its beginning
K_KIND, K_SET, K_N, K_WORDS = range(4)
REGISTER, FROM_END, FROM_START = range(3)
