"""The context of generated code: the addresses of columns, nulls and the codes of strings."""

from __future__ import annotations

from cerise.engines.automaton.formulas import words
from cerise.kernels.records import Record


class Context(Record):
    """The words that generated code reads; the addresses of the columns follow."""

    nulls: int  # the address of a word for each row, with a bit for each null column
    texts: int  # the address of the codes of the conditions' strings
    faults: int  # how many values could not be computed
    low: int  # the first row of the partition
    high: int  # the row after its last
    number: int  # the number of the match
    positions: int  # the address of the rows of each set of labels
    stride: int  # how many rows each set has room for
    classes: int  # the address of the labels of the match's rows, as codes
    step: int  # bytes between the nulls of two rows


COLUMNS = Context.WORDS  # the word of the first column's address
FAULTS = words("cols", Context.faults)
HEAD = f"""\
def count_fault(cols) -> None:
    store({FAULTS}, load({FAULTS}) + 1)


def edge(k, r, d, e, cols, nodes):
"""
# words that stay the same for all rows are loaded before the loop
SCAN_NAMES = {
    Context.nulls: "nulls",
    Context.step: "step",
    Context.texts: "texts",
    Context.low: "low",
    Context.high: "high",
}


def column_name(number: int) -> str:
    """Return the name, in generated code, of the address of a column."""
    return f"c{number}"


def text_name(number: int) -> str:
    """Return the name, in generated code, of the code of a string."""
    return f"t{number}"
