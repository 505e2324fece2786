"""Records, compiled and as plain Python: both read and write the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from cerise.kernels import jit
from cerise.kernels.jit import int64, kernel
from cerise.kernels.records import Record, Rows, Table, Words, number

ROOT = Path(__file__).parents[2]


class Edge(Record):
    target: int
    test: int
    costs: Words


class Run(Record):  # values without a name follow
    deadline: int
    node: int


class Merged(Run):
    total: int


class Machine(Record):
    live: int
    edges: Rows[Edge]
    runs: Table[Run]
    masks: Words
    best: Run
    last: int


class Named:
    class Run(Record):  # another module may have a Run of its own
        node: int
        deadline: int


Swapped = Named.Run


@kernel(int64(int64, int64, int64))
def absorb(machine: int, q: int, r: int) -> int:
    m = Machine(machine)
    one, other = m.runs[q], m.runs[r]
    one.deadline = max(one.deadline, other.deadline)
    one[3] += other[2]
    m.live -= 1
    return m.runs.room + one.deadline


@kernel(int64(int64, int64))
def cost_of(machine: int, count: int) -> int:
    m = Machine(machine)
    edges, total = m.edges, 0
    for j in range(count):
        edge = edges[j]
        if edge.test >= 0:
            total += edge.costs[m.masks[edge.target]]
    m.last = total
    return total


@kernel()
def sum_of(words: Words, count: int) -> int:
    total = 0
    for i in range(count):
        total += words[i]
    return total


@kernel(int64(int64, int64))
def rest(machine: int, first: int) -> int:
    m = Machine(machine)
    later = m.edges[first:]
    return sum_of(m.masks[first:], 2) + 1000 * later[1].target


@kernel(int64(int64))
def choose_best(machine: int) -> int:
    m = Machine(machine)
    m.best = m.runs[1]
    m.best.node = m.best.deadline > 5
    swapped = Swapped(m.best)
    return swapped.node * 100 + swapped.deadline + Merged(m.best).total * 1000


@kernel(int64(int64))
def address_of_edges(machine: int) -> int:
    m = Machine(machine)
    return int(m.edges) if int(m.masks) else int(m)


class Memory:
    """A machine with three edges and two runs of four words."""

    def __init__(self) -> None:
        self.costs = np.arange(10, 40, dtype=np.int64).reshape(3, 10)
        self.edges = np.array([[2, 0, 0], [1, -1, 0], [0, 7, 0]], np.int64)
        self.edges[:, number(Edge.costs)] = [row.ctypes.data for row in self.costs]
        self.runs = np.array([[5, 1, 20, 3], [9, 2, 40, 4]], np.int64)
        self.masks = np.array([4, 5, 6, 7], np.int64)
        self.words = np.zeros(Machine.WORDS, np.int64)
        self.m = Machine(self.words.ctypes.data)
        self.m.live = 2
        self.words[number(Machine.edges)] = self.edges.ctypes.data
        self.m.masks = Words(self.masks.ctypes.data)
        runs = self.m.runs
        runs.start, runs.width, runs.room = self.runs.ctypes.data, self.runs.strides[0], len(self.runs)

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)


def test_a_name_is_the_number_of_its_word() -> None:
    assert (Machine.live, Machine.edges, Machine.runs, Machine.masks, Machine.last) == (0, 1, 2, 5, 7)
    assert (Machine.WORDS, Edge.WORDS, Merged.WORDS, Merged.total, Words.WORDS) == (8, 3, 3, 2, 0)


def test_python_reads_and_writes_what_kernels_do() -> None:
    memory = Memory()
    m = memory.m
    assert m.runs[1].deadline == 9
    assert m.runs[1][2] == 40
    assert m.edges[2].test == 7
    assert m.edges[1:][1].costs[3] == 33
    assert m.masks[1:][2] == 7
    assert m.runs.room == 2
    m.runs[0].node = np.int64(12)
    m.edges[1].costs[0] = -3
    assert memory.runs[0, Run.node] == 12
    assert memory.costs[1, 0] == -3
    assert int(m.runs) == memory.address + 16
    assert int(m.masks) == memory.masks.ctypes.data


def test_tables_whose_width_depends_on_the_query() -> None:
    memory = Memory()
    assert absorb(memory.address, 0, 1) == 2 + 9
    assert memory.runs.tolist() == [[9, 1, 20, 43], [9, 2, 40, 4]]
    assert memory.m.live == 1


def test_rows_within_rows_and_words_by_number() -> None:
    memory = Memory()
    assert cost_of(memory.address, 3) == 16 + 34 == memory.m.last


def test_the_rows_from_one_on() -> None:
    assert rest(Memory().address, 1) == 5 + 6 + 0
    assert rest(Memory().address, 0) == 4 + 5 + 1000


def test_records_over_the_same_words() -> None:
    memory = Memory()
    assert choose_best(memory.address) == 9 * 100 + 1 + 40 * 1000
    assert int(memory.m.best) == memory.runs[1].ctypes.data


def test_addresses() -> None:
    memory = Memory()
    assert address_of_edges(memory.address) == memory.edges.ctypes.data
    memory.words[number(Machine.masks)] = 0
    assert address_of_edges(memory.address) == memory.address


def test_values_wrap_as_words_do() -> None:
    memory = Memory()
    memory.m.live = 1 << 63
    assert memory.m.live == -(1 << 63)


@pytest.mark.skipif(not jit.COMPILED, reason="asks numba")
def test_a_wrong_name_does_not_compile() -> None:
    def misspelt(machine: int) -> int:
        return Machine(machine).lives  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(numba.TypingError, match="lives"):
        kernel(int64(int64))(misspelt)


def test_fields_that_cannot_be() -> None:
    with pytest.raises(TypeError, match="cannot be called WORDS"):
        type("Bad", (Record,), {"__annotations__": {"WORDS": int}})
    with pytest.raises(TypeError, match="cannot be"):
        type("Bad", (Record,), {"__annotations__": {"one": list[int]}})


def test_a_declaration_needs_no_numba() -> None:
    command = "import sys, cerise.kernels.records; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True)


def test_the_same_with_and_without_the_jit(request: Any) -> None:
    if os.environ.get("CERISE_OTHER_JIT"):
        return
    env = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1" if jit.COMPILED else "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__))]
    done = subprocess.run(
        command, cwd=ROOT, env=env | {"CERISE_OTHER_JIT": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
