"""Reads the values of single rows from Parquet pages in DELTA_BINARY_PACKED encoding."""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import peek
from cerise.kernels.jit import Ints, Table, boolean, int64, kernel

DATA_PAGE, PACKED = 0, 5  # a kind of page, an encoding
LONGEST = 1 << 20  # block of differences

P_START, P_SIZE, P_VALUES, P_WORDS = 0, 1, 2, 3  # columns of a page: its start, its bytes, its values

# The types and fields of page headers, by the numbers that Thrift and Parquet give them.
STOP, BYTE, I64, BINARY, STRUCT = 0, 3, 6, 8, 12
FORMS = (1, 2, 3, 4, 5, 6, 8, 12)  # the types above, with true, false and the other integers
KIND, SIZE, PACKED_SIZE, DATA_HEADER = 1, 2, 3, 5
VALUES, ENCODING = 1, 2


# ---- headers of pages, in Thrift's compact protocol


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
def read_header(at: int, end: int, page: Any) -> int:
    """Write the size and the number of values of a page; return the end of its header, 0: not readable."""
    kind, encoding, whole = -1, -1, -1
    depth, outer, middle = 0, 0, 0  # `outer` and `middle` number the last field at depth 0 and 1
    page[P_SIZE], page[P_VALUES] = -1, -1
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
        if form == STRUCT:
            depth += 1
        elif BYTE <= form <= I64 or form == BINARY:
            number, at = read_varint(at, end)
            if at == 0 or (form == BINARY and not 0 <= number <= end - at):
                return 0
            if form == BINARY:
                at += number
            elif depth == 0 and outer == KIND:
                kind = undo_zigzag(number)
            elif depth == 0 and outer == SIZE:
                whole = undo_zigzag(number)
            elif depth == 0 and outer == PACKED_SIZE:
                page[P_SIZE] = undo_zigzag(number)
            elif depth == 1 and outer == DATA_HEADER and middle == VALUES:
                page[P_VALUES] = undo_zigzag(number)
            elif depth == 1 and outer == DATA_HEADER and middle == ENCODING:
                encoding = undo_zigzag(number)
        if head >> 4 == 0 or form not in FORMS:  # field numbers in these headers never jump far
            return 0
    good = kind == DATA_PAGE and encoding == PACKED and whole == page[P_SIZE] and page[P_VALUES] > 0
    return at if good else 0


@kernel(int64(int64, int64, Table))
def read_headers(address: int, size: int, pages: Any) -> int:
    """List the pages of a column; return how many, or -1 if one is not a page of packed differences.

    Args:
        address: the address of the pages.
        size: how many bytes the pages take.
        pages: room for the start, size and number of values of each page.
    """
    at, end, count = address, address + size, 0
    if size < 8:
        return -1
    while at < end:
        if count >= len(pages):
            return -1
        at = read_header(at, end, pages[count])
        if at == 0 or not 0 < pages[count, P_SIZE] <= end - at:
            return -1
        pages[count, P_START] = at - address
        at += pages[count, P_SIZE]
        count += 1
    return count


# ---- packed differences


@kernel()
def difference(address: int, end: int, width: int, i: int) -> int:
    """Return the i-th number of a list of numbers of `width` bits, at most 64; byte by byte."""
    number, got, bit = 0, 0, i * width
    while got < width:
        byte, skip = byte_at(address + (bit >> 3), end), bit & 7
        take = min(8 - skip, width - got)
        number |= ((byte >> skip) & ((1 << take) - 1)) << got
        got += take
        bit += take
    return number


@kernel()
def add_up(address: int, size: int, values: int, before: int, wanted: Any, out: Any) -> int:
    """Add up the packed differences of a page, and write the values of wanted rows; return 1 if damaged.

    Args:
        address: the address of the packed differences.
        size: how many bytes they take.
        values: how many values the page must have.
        before: how many rows come before the page.
        wanted: the wanted rows, ascending.
        out: room for the values of the wanted rows.
    """
    end = address + size
    if size < 8:
        return 1
    block, address = read_varint(address, end)
    lists, address = read_varint(address, end) if address else (0, 0)
    count, address = read_varint(address, end) if address else (0, 0)
    first, address = read_varint(address, end) if address else (0, 0)
    if address == 0 or not (0 < lists <= block <= LONGEST) or block % (32 * lists) or count != values:
        return 1
    each, value = block // lists, undo_zigzag(first)
    n, done, count = 0, before + 1, before + count
    while n < len(wanted) and wanted[n] == before:
        out[n] = value
        n += 1
    while n < len(wanted):
        least, address = read_varint(address, end)
        if address == 0 or done >= count or address + lists > end:
            return 1
        least, widths = undo_zigzag(least), address
        address += lists
        for k in range(lists):
            some = min(each, count - done)
            if some <= 0 or n >= len(wanted):
                break
            width = byte_at(widths + k, end)
            stride = (each * width) >> 3
            if width > 64 or address + stride > end:
                return 1
            quick = width <= 56 and address + stride + 8 <= end  # one readable word holds each number
            mask = (1 << width) - 1
            if quick and wanted[n] >= done + some:
                total = some * least
                for i in range(some):
                    total += (peek(address + ((i * width) >> 3)) >> ((i * width) & 7)) & mask
                value += total
            else:
                for i in range(some):
                    if quick:
                        value += least + ((peek(address + ((i * width) >> 3)) >> ((i * width) & 7)) & mask)
                    else:
                        value += least + difference(address, end, width, i)
                    while n < len(wanted) and wanted[n] == done + i:
                        out[n] = value
                        n += 1
            done += some
            address += stride
    return 0


@kernel(int64(int64, Table, boolean, Ints, Ints))
def read_pages(address: int, pages: Any, levels: bool, rows: Any, out: Any) -> int:
    """Write the values of wanted rows; return 0, or 1 if a page is damaged.

    Args:
        address: the address of the pages.
        pages: the start, size and number of values of each page, from `read_headers`.
        levels: whether each page begins with definition levels; no value is null.
        rows: the wanted rows, ascending; a row may come twice.
        out: room for the values of the wanted rows.
    """
    first, n = 0, 0
    for p in range(len(pages)):
        last, until = first + pages[p, P_VALUES], n
        while until < len(rows) and rows[until] < last:
            until += 1
        if until > n:
            at, size = address + pages[p, P_START], pages[p, P_SIZE]
            if size < 8:
                return 1
            skip = 4 + (peek(at) & 0xFFFF_FFFF) if levels else 0
            if add_up(at + skip, size - skip, pages[p, P_VALUES], first, rows[n:until], out[n:until]):
                return 1
        first, n = last, until
    return int(n < len(rows))
