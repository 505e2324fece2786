"""Inserts events into the B+trees of `btrees`, pool by pool, in the order of their arrival."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from acer.answers import Roles
from acer.btrees import BUCKETS, MAP_BYTES, PAGE_BYTES, Cut, Ints, codes, entry_of, layout_of

POOL = 65_536  # events that are sorted and inserted at once, as many as the store seals at once
SAMPLE = 10_000  # events to estimate selectivities from


def build(source: Path, folder: Path, roles: Roles) -> None:
    """Insert the events of a file in the order of their arrival."""
    import lmdb

    folder.mkdir(parents=True)
    file = pq.ParquetFile(source)
    cuts = {name: _cut(file, name) for name in roles.indexed}
    layout = layout_of(roles)
    with lmdb.open(str(folder), map_size=MAP_BYTES, max_dbs=32, sync=False, writemap=True) as env:
        writer = _Writer(env, roles, cuts, layout, SAMPLE / max(file.metadata.num_rows, 1))
        for batch in file.iter_batches(batch_size=POOL):
            writer.insert(batch)
        taken = writer.finish()
        env.sync(True)
        used = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    os.truncate(folder / "data.mdb", used)  # it was as large as the map, with a hole
    firsts = np.concatenate(writer.firsts)
    sample = {name: np.concatenate(each) for name, each in writer.sample.items()}
    np.savez(folder / "known.npz", firsts=firsts, **{f"sample_{name}": each for name, each in sample.items()})
    known = {
        "rows": writer.rows,
        "types": writer.types,
        "cuts": {name: [each.base, each.shift] for name, each in cuts.items()},
        "bytes": taken,
    }
    (folder / "known.json").write_text(json.dumps(known), encoding="utf-8")


def _cut(file: pq.ParquetFile, name: str) -> Cut:
    """Choose the keys of an attribute by the least and the greatest value, as the footer has them."""
    index = file.schema_arrow.names.index(name)
    found = [file.metadata.row_group(i).column(index).statistics for i in range(file.num_row_groups)]
    ends = codes(np.array([min(each.min for each in found), max(each.max for each in found)]))
    low, high = (int(each) for each in ends)
    return Cut(low, max(0, (high - low).bit_length() - (BUCKETS - 1).bit_length()))


class _Writer:
    """Fills the trees, pool by pool."""

    def __init__(
        self, env: Any, roles: Roles, cuts: Mapping[str, Cut], layout: np.dtype[Any], sampled: float
    ) -> None:
        self._env, self._roles, self._cuts, self._layout = env, roles, cuts, layout
        self._sampled = sampled
        names = (roles.type, *roles.indexed)
        self._trees = {name: env.open_db(name.encode(), dupsort=True, dupfixed=True) for name in names}
        self._pages = env.open_db(b"rows")
        self._per_page = PAGE_BYTES // layout.itemsize
        self._rest = np.zeros(0, layout)  # rows that do not fill a page yet
        self._rng = np.random.default_rng(0)
        self.rows, self.types, self._full = 0, [], 0
        self.firsts: list[Ints] = []
        self.sample: dict[str, list[Any]] = {name: [] for name in names}

    def insert(self, batch: pa.RecordBatch) -> None:
        """Insert some events."""
        rows = self._as_rows(batch)
        numbers = np.arange(self.rows, self.rows + len(rows))
        times = rows[self._roles.time]
        with self._env.begin(write=True) as change:
            for name, tree in self._trees.items():
                items = self._items(name, rows[name], times, numbers)
                change.cursor(tree).putmulti(items)
            self._write_pages(change, np.concatenate([self._rest, rows]))
        self.rows += len(rows)
        kept = self._rng.random(len(rows)) < self._sampled
        for name, values in self.sample.items():
            values.append(rows[name][kept])

    def finish(self) -> dict[str, int]:
        """Write the last page, and return the size of each tree."""
        with self._env.begin(write=True) as change:
            if len(self._rest):
                missing = np.zeros(self._per_page - len(self._rest), self._layout)
                self._write_pages(change, np.concatenate([self._rest, missing]))
            found = {name: change.stat(tree) for name, tree in {**self._trees, "rows": self._pages}.items()}
        parts = ("branch_pages", "leaf_pages", "overflow_pages")
        return {name: sum(each[part] for part in parts) * each["psize"] for name, each in found.items()}

    def _as_rows(self, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        rows = np.zeros(len(batch), self._layout)
        for name in self._layout.names or ():
            column = batch.column(name)
            if name == self._roles.type:
                rows[name] = self._type_codes(column.dictionary_encode())
            else:
                plain = column.cast(pa.int64()) if name == self._roles.time else column
                rows[name] = plain.to_numpy(zero_copy_only=False)
        return rows

    def _type_codes(self, column: pa.DictionaryArray) -> npt.NDArray[np.int64]:
        held = column.dictionary.to_pylist()
        self.types += [each for each in held if each not in self.types]
        return np.array([self.types.index(each) for each in held])[column.indices.to_numpy()]

    def _items(
        self, name: str, values: npt.NDArray[Any], times: Ints, numbers: Ints
    ) -> list[tuple[bytes, bytes]]:
        """Return keys and entries in the order of the tree."""
        plain = name == self._roles.type
        code = values.astype(np.uint64) if plain else codes(values)
        cut = Cut(0, 0) if plain else self._cuts[name]
        entries = np.empty(len(values), entry_of(cut))
        entries["time"], entries["row"] = times, numbers
        if cut.shift:
            entries["code"] = code
        order = np.argsort(code, kind="stable")
        keys = cut.key(code[order]).astype(">u4").tobytes()
        packed, width = entries[order].tobytes(), entries.itemsize
        return [(keys[4 * i : 4 * i + 4], packed[width * i : width * (i + 1)]) for i in range(len(values))]

    def _write_pages(self, change: Any, rows: npt.NDArray[Any]) -> None:
        per = self._per_page
        whole = len(rows) // per
        for number in range(whole):
            page = rows[number * per : (number + 1) * per]
            change.put(_page_key(self._full + number), page.tobytes(), db=self._pages, append=True)
        if whole:
            self.firsts.append(rows[self._roles.time][: whole * per : per].copy())
        self._full += whole
        self._rest = rows[whole * per :]


def _page_key(number: int) -> bytes:
    return int(number).to_bytes(4, "big")
