"""Adds up packed differences (DELTA_BINARY_PACKED), for the values of single rows."""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import peek
from cerise.kernels.jit import kernel
from cerise.kernels.pages.headers import byte_at, read_varint, undo_zigzag

LONGEST = 1 << 20  # block of differences


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
