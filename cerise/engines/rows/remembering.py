"""What a search has tried in vain: an instruction, a row, and all that its future depends on."""

from __future__ import annotations

from cerise.engines.rows.layout import (
    FROM_END,
    G_EPOCH,
    G_KEYS,
    G_REGS,
    G_REMEMBERED,
    G_STRIDE,
    K_KIND,
    K_N,
    K_SET,
    K_WORDS,
    R_EPOCH,
    R_KEYS,
    R_PC,
    R_PROGRESS,
    R_ROW,
    REGISTER,
    T_KEYS,
    T_MEMORY,
    T_MEMORY_SIZE,
    T_PLACES,
)
from cerise.kernels.jit import get, kernel, put


@kernel()
def key_of(m: int, i: int) -> int:
    """Return the i-th value on which the future of a search depends."""
    key = get(m, T_KEYS) + 8 * K_WORDS * i
    which, n = get(key, K_SET), get(key, K_N)
    count = get(get(m, G_REGS), which)
    if get(key, K_KIND) == REGISTER:
        return count
    at = count - 1 - n if get(key, K_KIND) == FROM_END else n
    if at < 0 or at >= count:
        return -1
    return get(get(m, T_PLACES), which * get(m, G_STRIDE) + at)


@kernel()
def remembers(m: int, pc: int, row: int, progress: int) -> int:
    """Note that a search goes on from here; return 1 where one has before, -1 where there is no room."""
    size, keys, epoch = get(m, T_MEMORY_SIZE), get(m, G_KEYS), get(m, G_EPOCH)
    width = 8 * (R_KEYS + keys)
    hashed = (pc * 0x9E3779B1 + row * 0x85EBCA77 + progress * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    for i in range(keys):
        hashed = ((hashed ^ (key_of(m, i) & 0xFFFFFFFF)) * 0x9E3779B1) & 0x7FFFFFFFFFFF
    at = (hashed ^ (hashed >> 17)) & (size - 1)
    entry = get(m, T_MEMORY) + width * at
    while get(entry, R_EPOCH) == epoch:
        same = get(entry, R_PC) == pc and get(entry, R_ROW) == row and get(entry, R_PROGRESS) == progress
        i = 0
        while same and i < keys:
            same = get(entry, R_KEYS + i) == key_of(m, i)
            i += 1
        if same:
            return 1
        at = (at + 1) & (size - 1)
        entry = get(m, T_MEMORY) + width * at
    if 2 * get(m, G_REMEMBERED) >= size:
        return -1
    put(m, G_REMEMBERED, get(m, G_REMEMBERED) + 1)
    put(entry, R_EPOCH, epoch)
    put(entry, R_PC, pc)
    put(entry, R_ROW, row)
    put(entry, R_PROGRESS, progress)
    for i in range(keys):
        put(entry, R_KEYS + i, key_of(m, i))
    return 0


@kernel()
def forgets(m: int) -> None:
    """Let nothing that was remembered hold any longer."""
    put(m, G_EPOCH, get(m, G_EPOCH) + 1)
    put(m, G_REMEMBERED, 0)
