"""Reads the values of rows from the pages of a Parquet column, and finds the rows of wanted codes.

A page holds definition levels, which tell the nulls, and values: plain, as codes of a dictionary, or as
packed differences. Levels and codes come in runs: one number many times, or numbers of a few bits each, whose
places are known. So the value of a row costs one load, wherever it lies.
"""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import peek
from cerise.kernels.jit import Ints, Marks, Table, boolean, int64, kernel
from cerise.kernels.pages import headers as h
from cerise.kernels.pages.differences import add_up
from cerise.kernels.pages.headers import byte_at, read_varint

PLAIN, OLD_CODES, PACKED, CODES = 0, 2, 5, 8  # encodings
WIDEST = 32  # bits of a code
LOW = 0xFFFF_FFFF
ROWS, PLACES, SLOTS = range(3)  # of the scratch memory: rows of values, wanted values, and their rows


@kernel()
def word_at(address: int, end: int) -> int:
    """Return the bytes at an address as a word, without reading beyond `end`, with 8 bytes before it."""
    behind = max(0, address + 8 - end)
    return peek(address - behind) >> (8 * behind)


@kernel()
def find_values(page: Any, optional: bool, rows: Any) -> tuple[int, int]:
    """Return where the values of a page begin, and how many they are; write the row of each, if it has nulls.

    Args:
        page: the page.
        optional: whether the column may hold nulls, so that the page has definition levels.
        rows: room for as many rows as the page has.

    Returns:
        0, 0 for a damaged page.
    """
    at, end, values = page[h.P_BODY], page[h.P_END], page[h.P_VALUES]
    if not optional:
        return at, values
    if page[h.P_KIND] == h.DATA_V2:
        levels = page[h.P_LEVELS]
        stop = last = levels + page[h.P_DEFINED]
    else:
        levels, last = at + 4, end
        stop = levels + (word_at(at, end) & LOW)
        at = stop
    if stop > last:
        return 0, 0
    found, done = 0, 0
    while done < values:
        head, levels = read_varint(levels, last)
        if levels == 0 or levels >= stop or head < 2:
            return 0, 0
        if head & 1:
            many = min((head >> 1) * 8, values - done)
            if levels + ((many + 7) >> 3) > stop:
                return 0, 0
            for i in range(many):
                rows[found] = done + i
                found += (byte_at(levels + (i >> 3), last) >> (i & 7)) & 1
            levels += head >> 1
        else:
            many = min(head >> 1, values - done)
            if byte_at(levels, last) & 1:
                if many == values:
                    return at, values
                for i in range(many):
                    rows[found + i] = done + i
                found += many
            levels += 1
        done += many
    return at, found


# ---- rows of wanted codes


@kernel()
def keep_page(at: int, end: int, values: int, states: Any, first: int, rows: Any, found: int) -> int:
    """Write the rows of values whose codes have a state; return how many rows there are then, -1: damaged."""
    size, done = len(states) - 1, 0  # the last state is that of codes which are too large
    if at >= end or not values:
        return -1 if values else found
    width, at = byte_at(at, end), at + 1
    if width > WIDEST:
        return -1
    mask = (1 << width) - 1
    while done < values:
        head, at = read_varint(at, end)
        if at == 0 or head < 2:
            return -1
        many = min((head >> 1) * (8 if head & 1 else 1), values - done)
        if head & 1:
            if at + ((many * width + 7) >> 3) > end:
                return -1
            row, quick = first + done, 0
            if width and end - at >= 8:
                quick = min(many, ((end - at - 7) * 8) // width)  # one readable word holds each number
            for i in range(quick):
                code = (peek(at + ((i * width) >> 3)) >> ((i * width) & 7)) & mask
                rows[found] = row + i
                found += states[min(code, size)] != 0
            for i in range(quick, many):
                code = (word_at(at + ((i * width) >> 3), end) >> ((i * width) & 7)) & mask
                rows[found] = row + i
                found += states[min(code, size)] != 0
            at += (head >> 1) * width
        else:
            if at + ((width + 7) >> 3) > end:
                return -1
            code = word_at(at, end) & mask if width else 0
            if states[min(code, size)]:
                for i in range(many):
                    rows[found + i] = first + done + i
                found += many
            at += (width + 7) >> 3
        done += many
    return found


@kernel(int64(Table, boolean, Marks, Ints, Ints))
def keep_codes(pages: Any, optional: bool, states: Any, scratch: Any, rows: Any) -> int:
    """Write the rows of a column whose codes have a state; return how many, or -1 if a page is damaged.

    Args:
        pages: the pages of codes.
        optional: whether the column may hold nulls; they have no state.
        states: 0 or more for each code of the dictionary, and a last one for codes that it lacks.
        scratch: room for the rows of a page.
        rows: room for all rows, and one more.
    """
    first, found = 0, 0
    for p in range(len(pages)):
        at, values = find_values(pages[p], optional, scratch)
        if at == 0:
            return -1
        some, whole = found, values == pages[p, h.P_VALUES]
        found = keep_page(at, pages[p, h.P_END], values, states, first if whole else 0, rows, found)
        if found < 0:
            return -1
        if not whole:
            for n in range(some, found):
                rows[n] = first + scratch[rows[n]]
        first += pages[p, h.P_VALUES]
    return found


# ---- values of rows


@kernel()
def choose_values(values: int, first: int, wanted: Any, scratch: Any, places: Any, slots: Any) -> int:
    """Write which values of a page with nulls belong to wanted rows, and to which; return how many.

    Args:
        values: how many values the page has.
        first: its first row.
        wanted: the wanted rows that lie in it, ascending.
        scratch: the row of each value.
        places: room for the numbers of values.
        slots: room for the numbers of wanted rows.
    """
    found, place = 0, 0
    for n in range(len(wanted)):
        row = wanted[n] - first
        while place < values and scratch[place] < row:
            place += 1
        if place < values and scratch[place] == row:
            places[found], slots[found] = place, n
            found += 1
    return found


@kernel()
def take_codes(at: int, end: int, places: Any, first: int, words: int, size: int, item: int, out: Any) -> int:
    """Write the values, or the codes, at places of a page of codes; return 1 if it is damaged.

    Args:
        at: the address of the codes.
        end: their end.
        places: which values are wanted, ascending.
        first: the place of the first value of the page.
        words: the address of the dictionary; 0: the codes are wanted.
        size: how many values the dictionary has.
        item: how many bytes such a value has.
        out: room for the values.
    """
    count = len(places)
    if at >= end:
        return int(count > 0)
    width, at = byte_at(at, end), at + 1
    n = 0
    if width > WIDEST:
        return 1
    mask, safe = (1 << width) - 1, end - 8
    while n < count:
        head, at = read_varint(at, end)
        if at == 0 or head < 2:
            return 1
        last = first + (head >> 1) * (8 if head & 1 else 1)
        begun = n
        if head & 1:
            while n < count and places[n] < last:
                bit = (places[n] - first) * width
                start = at + (bit >> 3)
                word = peek(start) if start <= safe else word_at(start, end)
                out[n] = (word >> (bit & 7)) & mask
                n += 1
            if n > begun and at + (((places[n - 1] - first + 1) * width + 7) >> 3) > end:
                return 1
            at += (head >> 1) * width
        else:
            if at + ((width + 7) >> 3) > end:
                return 1
            code = word_at(at, end) & mask if width else 0
            while n < count and places[n] < last:
                out[n] = code
                n += 1
            at += (width + 7) >> 3
        first = last
    return look_up(words, size, item, out[:count])


@kernel()
def look_up(words: int, size: int, item: int, out: Any) -> int:
    """Replace codes by the values of a dictionary, if it has an address; return 1 if a code is too large."""
    most = 0
    for n in range(len(out)):
        most = max(most, out[n])
    if len(out) and most >= size:
        return 1
    if words and item == 8:
        for n in range(len(out)):
            out[n] = peek(words + 8 * out[n])
    elif words:
        for n in range(len(out)):
            out[n] = peek(words + 4 * out[n]) & LOW
    return 0


@kernel()
def take_plain(at: int, end: int, places: Any, first: int, item: int, out: Any) -> int:
    """Write the values at places of a page of plain values; return 1 if it is damaged."""
    if len(places) and at + item * (places[-1] - first + 1) > end:
        return 1
    for n in range(len(places)):
        start = at + item * (places[n] - first)
        out[n] = peek(start) if item == 8 else word_at(start, end) & LOW
    return 0


@kernel()
def spread_values(count: int, slots: Any, out: Any, valid: Any) -> None:
    """Move values to their slots, from the last on; the other slots are nulls."""
    valid[:] = 0
    for n in range(count - 1, -1, -1):
        out[slots[n]] = out[n]
        valid[slots[n]] = 1


@kernel(int64(Table, boolean, int64, int64, int64, Ints, Table, Ints, Marks))
def take_values(
    pages: Any, optional: bool, words: int, size: int, item: int, wanted: Any,
    scratch: Any, out: Any, valid: Any,
) -> int:  # fmt: skip
    """Write the values of wanted rows; return 0, or 1 if Arrow must read them.

    Args:
        pages: the data pages; those without a wanted row need not be unpacked.
        optional: whether the column may hold nulls.
        words: the address of the dictionary; 0: codes are wanted, or the column has none.
        size: how many values the dictionary has.
        item: how many bytes a value has; 0: only codes can be read.
        wanted: the wanted rows, ascending.
        scratch: three rows as long as the largest page, if it may have nulls.
        out: room for the values.
        valid: room for a mark for each value, 0 for a null; all are 1.
    """
    first, n = 0, 0
    for p in range(len(pages)):
        last, until = first + pages[p, h.P_VALUES], n
        while until < len(wanted) and wanted[until] < last:
            until += 1
        if until > n:
            at, values = find_values(pages[p], optional, scratch[ROWS])
            if at == 0:
                return 1
            end, way, before = pages[p, h.P_END], pages[p, h.P_ENCODING], first
            places, count = wanted[n:until], until - n
            whole = values == pages[p, h.P_VALUES]
            if not whole:
                count = choose_values(values, first, places, scratch[ROWS], scratch[PLACES], scratch[SLOTS])
                places, before = scratch[PLACES, :count], 0
            if way in (CODES, OLD_CODES):
                failed = take_codes(at, end, places, before, words, size, item, out[n:until])
            elif way == PLAIN and item:
                failed = take_plain(at, end, places, before, item, out[n:until])
            elif way == PACKED and item == 8 and whole:
                failed = add_up(at, end - at, values, before, places, out[n:until])
            else:
                failed = 1
            if failed:
                return 1
            if not whole:
                spread_values(count, scratch[SLOTS], out[n:until], valid[n:until])
        first, n = last, until
    return int(n < len(wanted))


# ---- dictionaries of strings


@kernel(int64(int64, int64, Ints, Marks))
def list_strings(at: int, end: int, offsets: Any, text: Any) -> int:
    """Write where each string of a dictionary ends, and all their bytes; return 1 if it is damaged.

    Args:
        at: the address of the dictionary: each string after its length.
        end: its end.
        offsets: room for an offset for each string, and one more.
        text: room for the bytes of all strings.
    """
    total = 0
    offsets[0] = 0
    for n in range(1, len(offsets)):
        if at + 4 > end:
            return 1
        size = word_at(at, end) & LOW
        at += 4
        if size > end - at or total + size > len(text):
            return 1
        for i in range(size):
            text[total + i] = byte_at(at + i, end)
        at += size
        total += size
        offsets[n] = total
    return 0
