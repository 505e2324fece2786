"""Lists the pages of a Parquet column: their headers, in Thrift's compact protocol."""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import peek
from cerise.kernels.jit import Table, int64, kernel

DATA, DICTIONARY, DATA_V2 = 0, 2, 3  # kinds of pages

# Columns of a list of pages: what their headers say, and where their content lies once it is unpacked.
P_START, P_SIZE, P_WHOLE, P_KIND, P_VALUES, P_ENCODING, P_DEFINED, P_REPEATED = range(8)
P_PACKED, P_SUM, P_SUMMED, P_LEVELS, P_BODY, P_END, P_WORDS = range(8, 15)

# The types and fields of page headers, by the numbers that Thrift and Parquet give them.
STOP, TRUE, FALSE, BYTE, I64, BINARY, STRUCT = 0, 1, 2, 3, 6, 8, 12
FORMS = (1, 2, 3, 4, 5, 6, 8, 12)  # the types above, with the other integers
KIND, WHOLE, SIZE, SUM = 1, 2, 3, 4
DATA_HEADER, DICTIONARY_HEADER, V2_HEADER = 5, 7, 8


@kernel()
def read_varint(address: int, end: int) -> tuple[int, int]:
    """Read a number of 7 bits a byte; return it and the address after it, or 0, 0 if `end` comes first."""
    number, shift = 0, 0
    while address < end and shift < 64:
        byte = byte_at(address, end)
        number |= (byte & 127) << shift
        address += 1
        if byte < 128:
            return number, address
        shift += 7
    return 0, 0


@kernel()
def byte_at(address: int, end: int) -> int:
    """Return a byte without reading beyond `end`; at least 8 bytes lie before `end`."""
    behind = max(0, address + 8 - end)
    return (peek(address - behind) >> (8 * behind)) & 255


@kernel()
def undo_zigzag(number: int) -> int:
    """Undo the zigzag encoding of a signed number."""
    return ((number >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(number & 1)


@kernel()
def note_field(page: Any, outer: int, middle: int, number: int) -> None:
    """Write a field of the header of a data or dictionary page."""
    if middle == 1 and outer in (DATA_HEADER, DICTIONARY_HEADER, V2_HEADER):
        page[P_VALUES] = number
    elif outer == V2_HEADER:
        if middle == 4:
            page[P_ENCODING] = number
        elif middle == 5:
            page[P_DEFINED] = number
        elif middle == 6:
            page[P_REPEATED] = number
    elif middle == 2 and outer in (DATA_HEADER, DICTIONARY_HEADER):
        page[P_ENCODING] = number


@kernel()
def read_header(at: int, end: int, page: Any) -> int:
    """Write what the header of a page says; return the end of the header, 0: not readable."""
    depth, outer, middle = 0, 0, 0  # `outer` and `middle` number the last field at depth 0 and 1
    page[:] = 0
    page[P_KIND], page[P_SIZE], page[P_WHOLE], page[P_VALUES], page[P_PACKED] = -1, -1, -1, -1, 1
    while depth >= 0:
        if at >= end:
            return 0
        head = byte_at(at, end)
        form, at = head & 15, at + 1
        if form == STOP:
            depth -= 1
            continue
        if depth == 0:
            outer, middle = outer + (head >> 4), 0
        elif depth == 1:
            middle += head >> 4
        if head >> 4 == 0 or form not in FORMS:  # field numbers in these headers never jump far
            return 0
        if form == STRUCT:
            depth += 1
        elif form == FALSE and depth == 1 and outer == V2_HEADER and middle == 7:
            page[P_PACKED] = 0
        elif form >= BYTE:
            number, at = read_varint(at, end)
            if at == 0 or (form == BINARY and not 0 <= number <= end - at):
                return 0
            if form == BINARY:
                at += number
            elif depth == 1:
                note_field(page, outer, middle, undo_zigzag(number))
            elif depth == 0 and outer == KIND:
                page[P_KIND] = undo_zigzag(number)
            elif depth == 0 and outer == WHOLE:
                page[P_WHOLE] = undo_zigzag(number)
            elif depth == 0 and outer == SIZE:
                page[P_SIZE] = undo_zigzag(number)
            elif depth == 0 and outer == SUM:
                page[P_SUM], page[P_SUMMED] = undo_zigzag(number), 1
    return at


@kernel(int64(int64, int64, Table))
def read_headers(address: int, size: int, pages: Any) -> int:
    """List the pages of a column; return how many, or -1 if the bytes are not those of pages.

    Args:
        address: the address of the pages.
        size: how many bytes the pages take.
        pages: room for what the header of each page says.
    """
    at, end, count = address, address + size, 0
    if size < 8:
        return -1
    while at < end:
        if count >= len(pages):
            return -1
        at = read_header(at, end, pages[count])
        if at == 0 or not 0 <= pages[count, P_SIZE] <= end - at:
            return -1
        pages[count, P_START] = at - address
        at += pages[count, P_SIZE]
        count += 1
    return count
