"""Where a data set lies in each form: as it was generated, as a store, with B+trees; each is made once.

All forms lie beside the generated file. One that is there is whole: it is made under another name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import cerise
from acer import btrees
from acer.answers import Roles
from acer.inserting import build

ROW_GROUP = 131_072
Sizes = dict[str, int]  # in bytes: "data", "index", and what these consist of


@dataclass(frozen=True, slots=True)
class Place:
    """A generated Parquet file, what its columns are, and how many events a row group of a store has."""

    source: Path
    roles: Roles
    block: int = ROW_GROUP

    def path(self, form: str) -> Path:
        """Return where a form is, or would be."""
        return self.source.with_name(f"{self.source.stem}.{form}.made")

    def made(self, form: str) -> Path:
        """Return where a form is; it is made, where it has not been."""
        if not self.path(form).exists():
            self.make(form, self.source)
        return self.path(form)

    def make(self, form: str, events: Path | pa.Table) -> tuple[float, Sizes]:
        """Make a form anew; return how long that took, and how large it is."""
        draft = self.path(f"{form}.draft")
        for each in (draft, self.path(form)):
            shutil.rmtree(each, ignore_errors=True)
        started = perf_counter()
        FORMS[form].make(self, events, draft)
        seconds = perf_counter() - started
        draft.rename(self.path(form))
        return seconds, FORMS[form].sizes(self.path(form))

    def with_trees(self, use: Callable[[btrees.Trees], Any]) -> Any:
        """Return what is made of the B+trees."""
        return use(btrees.Trees(self.made("btrees"), self.source, self.roles))


@dataclass(frozen=True, slots=True)
class Form:
    """How a form is made of a file or of a table, and what it takes."""

    make: Callable[[Place, Any, Path], None]
    sizes: Callable[[Path], Sizes]


def _write_parquet(_: Place, events: Any, folder: Path) -> None:
    """Write Parquet as the store does, without index."""
    table = pq.read_table(events) if isinstance(events, Path) else events
    folder.mkdir()
    path = folder / "events.parquet"
    pq.write_table(table, path, row_group_size=ROW_GROUP, compression="zstd")
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _write_trees(place: Place, _: Any, folder: Path) -> None:
    """Insert the events into B+trees, from the file."""
    build(place.source, folder, place.roles)


def _write_store(place: Place, events: Any, folder: Path, **options: Any) -> None:
    """Create a store and append all events."""
    roles = place.roles
    given: dict[str, Any] = {
        "schema": roles.columns,
        "time": roles.time,
        "type": roles.type,
        "index": list(roles.indexed),
        "block_rows": place.block,
        "pool_rows": 1,  # nothing waits: all events are indexed
    }
    store = cerise.Store.create(str(folder), **given, **options)
    store.append(str(events) if isinstance(events, Path) else events)


def _write_plain_store(place: Place, events: Any, folder: Path) -> None:
    """Create a store whose index is not compressed: ACER-C."""
    _write_store(place, events, folder, compress=False)


def _parquet_sizes(folder: Path) -> Sizes:
    return {"data": bytes_of(folder), "index": 0}


def _tree_sizes(folder: Path) -> Sizes:
    found = btrees.sizes(folder)
    rows = found.pop("rows")
    return {"data": rows, "index": sum(found.values()), **{f"tree of {name}": n for name, n in found.items()}}


def _store_sizes(folder: Path) -> Sizes:
    index = bytes_of(folder / "_cerise")
    return {"data": sum(each.stat().st_size for each in folder.rglob("*.parquet")), "index": index}


def bytes_of(folder: Path) -> int:
    """Return how large all files in a folder are."""
    return sum(each.stat().st_size for each in files_in(folder))


def files_in(folder: Path) -> list[Path]:
    """Return all files in a folder."""
    return sorted(each for each in folder.rglob("*") if each.is_file())


FORMS = {
    "parquet": Form(_write_parquet, _parquet_sizes),
    "btrees": Form(_write_trees, _tree_sizes),
    "store": Form(_write_store, _store_sizes),
    "plain store": Form(_write_plain_store, _store_sizes),
}
