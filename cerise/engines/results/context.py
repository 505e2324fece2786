"""What generated code is told besides its arguments: where columns, nulls and the codes of strings lie."""

from __future__ import annotations

from cerise.engines.automaton.formulas import words
from cerise.kernels.records import Record


class Context(Record):
    """What generated code is told; the addresses of the columns follow."""

    nulls: int  # where a word for each row says which columns are null
    texts: int  # where the codes of the strings of the conditions lie
    faults: int  # how often a value could not be computed
    low: int  # the first row of the partition
    high: int  # the row after its last
    number: int  # of the match
    positions: int  # where the rows of each set of labels lie
    stride: int  # how many rows each set has room for
    classes: int  # where the labels of the rows of the match lie, as codes
    step: int  # bytes from the nulls of a row to those of the next


COLUMNS = Context.WORDS  # where the addresses of columns begin
FAULTS = words("cols", Context.faults)
HEAD = f"""\
def count_fault(cols) -> None:
    store({FAULTS}, load({FAULTS}) + 1)


def edge(k, r, d, e, cols, nodes):
"""
# what does not change while rows are judged is read before
SCAN_NAMES = {
    Context.nulls: "nulls",
    Context.step: "step",
    Context.texts: "texts",
    Context.low: "low",
    Context.high: "high",
}


def column_name(number: int) -> str:
    """Return the name of the address of a column, while rows are judged."""
    return f"c{number}"


def text_name(number: int) -> str:
    """Return the name of the code of a string of the conditions, while rows are judged."""
    return f"t{number}"
