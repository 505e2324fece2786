"""What a search has tried in vain: an instruction, a row, and all that its future depends on."""

from __future__ import annotations

from cerise.engines.rows.records import FROM_END, KEYS, REGISTER, Workspace
from cerise.kernels.jit import kernel


@kernel()
def key_of(m: Workspace, i: int) -> int:
    """Return the i-th value on which the future of a search depends."""
    key = m.keys[i]
    which, n = key.set, key.n
    count = m.registers[which]
    if key.source == REGISTER:
        return count
    at = count - 1 - n if key.source == FROM_END else n
    if at < 0 or at >= count:
        return -1
    return m.positions[which * m.stride + at]


@kernel()
def remember(m: Workspace, pc: int, row: int, progress: int) -> int:
    """Note that a search goes on from here; return 1 where one has before, -1 where there is no room."""
    size, keys, epoch = m.memo.room, m.key_count, m.epoch
    hashed = (pc * 0x9E3779B1 + row * 0x85EBCA77 + progress * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    for i in range(keys):
        hashed = ((hashed ^ (key_of(m, i) & 0xFFFFFFFF)) * 0x9E3779B1) & 0x7FFFFFFFFFFF
    at = (hashed ^ (hashed >> 17)) & (size - 1)
    entry = m.memo[at]
    while entry.epoch == epoch:
        same = entry.pc == pc and entry.row == row and entry.progress == progress
        i = 0
        while same and i < keys:
            same = entry[KEYS + i] == key_of(m, i)
            i += 1
        if same:
            return 1
        at = (at + 1) & (size - 1)
        entry = m.memo[at]
    if 2 * m.remembered >= size:
        return -1
    m.remembered += 1
    entry.epoch = epoch
    entry.pc = pc
    entry.row = row
    entry.progress = progress
    for i in range(keys):
        entry[KEYS + i] = key_of(m, i)
    return 0


@kernel()
def forget(m: Workspace) -> None:
    """Let nothing that was remembered hold any longer."""
    m.epoch += 1
    m.remembered = 0
