"""B+trees in LMDB over the events of a Parquet file: one for the type, one for each attribute.

An entry is value → (time, row). Keys keep the order of values: the leading bits of a value are the key, and
its other bits lead the entry, so that LMDB hands over many entries in one call. The rows themselves lie in
pages, in the order of time: with the first time of each page in memory, as the upper nodes of a tree would
be, they are the index of time as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from acer.answers import Roles

BUCKETS = 1 << 13  # distinct keys of a tree, at most
PAGE_BYTES = 4_080  # what fills a page of LMDB
PAGE_NS, GROUP_NS = 1_500, 1_200_000  # to fetch a page; a column of a row group
MAP_BYTES = 1 << 36
SIGN = np.uint64(1 << 63)

Ints = npt.NDArray[np.int64]


class Entries(NamedTuple):
    """Events that an index has found, in no order: their times, and their rows."""

    times: Ints
    rows: Ints


@dataclass(frozen=True, slots=True)
class Cut:
    """How the values of an attribute become keys: what is above `base`, without its last bits."""

    base: int
    shift: int

    def key(self, code: Any) -> Any:
        """Return the key of a code."""
        return (code - np.uint64(self.base)) >> np.uint64(self.shift)


def codes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return 64-bit words that sort as numbers do."""
    if values.dtype.kind == "f":
        bits = (values.astype(np.float64) + 0.0).view(np.uint64)
        return np.where(bits & SIGN, ~bits, bits | SIGN)
    return values.astype(np.int64).view(np.uint64) ^ SIGN


def layout_of(roles: Roles) -> np.dtype[Any]:
    """Return how a row lies in a page; types are codes, times microseconds."""
    kinds = {roles.type: np.dtype("<u2"), roles.time: np.dtype("<i8")}
    return np.dtype(
        [(each.name, kinds.get(each.name) or each.type.to_pandas_dtype()) for each in roles.columns]
    )


def entry_of(cut: Cut) -> np.dtype[Any]:
    """Return what an entry holds."""
    head = [("code", ">u8")] if cut.shift else []
    return np.dtype([*head, ("time", ">i8"), ("row", ">u4")])


def sizes(folder: Path) -> dict[str, int]:
    """Return how many bytes each tree takes, and the pages of the rows."""
    found: dict[str, int] = json.loads((folder / "known.json").read_text(encoding="utf-8"))["bytes"]
    return found


class Trees:
    """The trees that `build` has made, opened to be read."""

    def __init__(self, folder: Path, source: Path, roles: Roles, *, page_ns: int = PAGE_NS) -> None:
        import lmdb

        known = json.loads((folder / "known.json").read_text(encoding="utf-8"))
        arrays = np.load(folder / "known.npz")
        self.roles, self.folder, self.source, self._page_ns = roles, folder, source, page_ns
        self.rows: int = known["rows"]
        self.types: list[str] = known["types"]
        self.sample = {name: arrays[f"sample_{name}"] for name in (roles.type, *roles.indexed)}
        self.firsts: Ints = arrays["firsts"]
        self._cuts = {name: Cut(*each) for name, each in known["cuts"].items()}
        self._layout = layout_of(roles)
        self.per_page = PAGE_BYTES // self._layout.itemsize
        self._env = lmdb.open(str(folder), map_size=MAP_BYTES, max_dbs=32, readonly=True, lock=False)
        names = (roles.type, *roles.indexed)
        self._trees = {name: self._env.open_db(name.encode(), create=False) for name in names}
        self._pages = self._env.open_db(b"rows", create=False)
        self._file = pq.ParquetFile(source)

    def of_type(self, name: str) -> Entries:
        """Return the events of a type."""
        if name not in self.types:
            return Entries(np.zeros(0, np.int64), np.zeros(0, np.int64))
        code = self.types.index(name)
        found = self._read(self.roles.type, Cut(0, 0), code, code)
        return Entries(found["time"].astype(np.int64), found["row"].astype(np.int64))

    def between(self, attribute: str, least: float, most: float) -> Entries:
        """Return the events whose attribute lies between two numbers."""
        cut = self._cuts[attribute]
        kind = self._layout[attribute]
        low, high = codes(np.array([least, most]).astype(kind))
        base = np.uint64(cut.base)
        last = min(int(cut.key(high)), BUCKETS - 1) if high >= base else -1
        found = self._read(attribute, cut, int(cut.key(max(low, base))), last)
        if cut.shift:
            exact = found["code"].astype(np.uint64)
            found = found[(exact >= low) & (exact <= high)]
        return Entries(found["time"].astype(np.int64), found["row"].astype(np.int64))

    def fetch_within(self, starts: Ints, ends: Ints, columns: Sequence[str]) -> pa.Table:
        """Return the columns of all events in intervals, which are in order and disjoint."""
        first = np.maximum(np.searchsorted(self.firsts, starts, "left") - 1, 0)
        last = np.searchsorted(self.firsts, ends, "right")
        first[1:] = np.maximum(first[1:], last[:-1])  # one page may be of two intervals
        rows = spread(first * self.per_page, np.minimum(last * self.per_page, self.rows))
        table = self.fetch(rows, columns)
        times = table.column(self.roles.time).cast(pa.int64()).to_numpy()
        place = np.searchsorted(starts, times, "right") - 1
        inside = (place >= 0) & (times <= ends[place])
        return table.filter(pa.array(inside))

    def fetch(self, rows: Ints, columns: Sequence[str]) -> pa.Table:
        """Return the columns of some rows, in order, from pages or from Parquet, whichever is quicker."""
        pages = distinct(rows // self.per_page)
        group = self._file.metadata.row_group(0).num_rows if self._file.num_row_groups else 1
        groups = distinct(rows // group)
        if len(pages) * self._page_ns > len(groups) * len(columns) * GROUP_NS:
            return self._from_parquet(rows, groups, group, columns)
        return self._from_pages(rows, pages, columns)

    def files(self) -> list[Path]:
        """Return the files that may be read."""
        return [self.folder / "data.mdb", self.source]

    def close(self) -> None:
        """Let go of the files."""
        self._env.close()
        self._file.close()

    def _read(self, tree: str, cut: Cut, first: int, last: int) -> npt.NDArray[Any]:
        """Return the entries of all keys from the first to the last."""
        entry = entry_of(cut)
        packed = np.arange(first, last + 1, dtype=">u4").tobytes()
        keys = [packed[at : at + 4] for at in range(0, len(packed), 4)]
        with self._env.begin(buffers=True) as look:
            held = look.cursor(self._trees[tree]).getmulti(
                keys, dupdata=True, dupfixed_bytes=entry.itemsize, keyfixed=True
            )
            return np.frombuffer(held, np.dtype([("key", ">u4"), *_fields(entry)])).copy()

    def _from_pages(self, rows: Ints, pages: Ints, columns: Sequence[str]) -> pa.Table:
        keys = pages.astype(">u4").tobytes()
        with self._env.begin(db=self._pages, buffers=True) as look:
            held = b"".join([look.get(keys[at : at + 4]) for at in range(0, len(keys), 4)])
        every = np.frombuffer(held, self._layout)
        place = np.searchsorted(pages, rows // self.per_page) * self.per_page + rows % self.per_page
        return pa.table({name: self._column(name, every[name][place]) for name in columns})

    def _from_parquet(self, rows: Ints, groups: Ints, size: int, columns: Sequence[str]) -> pa.Table:
        table = self._file.read_row_groups(groups.tolist(), columns=list(columns))
        place = np.searchsorted(groups, rows // size) * size + rows % size
        return table.take(pa.array(place))

    def _column(self, name: str, values: npt.NDArray[Any]) -> pa.Array:
        if name == self.roles.type:
            return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32)), pa.array(self.types))
        column = pa.array(np.ascontiguousarray(values))
        return column.cast(self.roles.columns.field(name).type)


def distinct(numbers: Ints) -> Ints:
    """Return the distinct ones of numbers that are in order."""
    return numbers[np.append(True, numbers[1:] != numbers[:-1])] if len(numbers) else numbers


def spread(firsts: Ints, ends: Ints) -> Ints:
    """Return all whole numbers from each first one up to its end."""
    many = np.maximum(ends - firsts, 0)
    before = np.cumsum(many) - many
    return np.repeat(firsts - before, many) + np.arange(many.sum())


def _fields(kind: np.dtype[Any]) -> list[tuple[str, Any]]:
    return [(name, kind[name]) for name in kind.names or ()]
