"""The settings of an event table, fixed at its creation: parts of columns, indexed columns, sizes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from cerise.errors import StoreError
from cerise.events import Schema
from cerise.files.folder import Folder, attempt
from cerise.store.index.layout import SEQUENCE, IndexLayout

FORMAT = 1
FILE = "store.json"
FOLDER = "_cerise"  # Delta ignores names that begin with _
BLOCKS_PER_FILE = 8


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an event table.

    Attributes:
        time: the column of times.
        type: the column of types.
        key: the columns that partition the events.
        order: the columns that break ties between events of equal time.
        index: further indexed columns.
        block_rows: how many events a block has: a row group and its part of the index.
        pool_rows: how many fresh events may wait, unindexed, before they are sealed.
        compress: whether the index is compressed.
        sequence: whether events carry the sequence of their arrival; False for tables that other tools write.
    """

    time: str
    type: str | None = None
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    block_rows: int = 131_072
    pool_rows: int = 65_536
    compress: bool = True
    sequence: bool = True

    def __post_init__(self) -> None:
        for name in ("block_rows", "pool_rows"):
            rows = getattr(self, name)
            if type(rows) is not int or not 1 <= rows < 1 << 31:
                raise StoreError(
                    f"{name} is {rows!r}", hint="give a whole number of events, at least 1 and below 2^31"
                )
        if type(self.compress) is not bool:
            raise StoreError(f"compress is {self.compress!r}", hint="give True or False")

    @property
    def file_rows(self) -> int:
        return BLOCKS_PER_FILE * self.block_rows

    def roles(self, columns: pa.Schema) -> Schema:
        """Return the columns of a table with the parts that they play."""
        return Schema(columns, self.time, self.type, self.key, self.order)

    def layout(self, columns: pa.Schema) -> IndexLayout:
        """Return the layout of the index of a table."""
        named = dict.fromkeys((*self.index, *self.key, *self.order))
        attributes = tuple(name for name in named if name not in (self.time, self.type))
        if not self.sequence:  # columns that other tools add later must not change the layout
            held = {self.time, self.type, *attributes}
            columns = pa.schema([each for each in columns if each.name in held])
        return IndexLayout(columns, self.time, self.type, attributes, self.sequence, self.compress)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2)


def save(settings: Settings, folder: Folder) -> None:
    """Write the settings of a new table.

    Raises:
        StoreError: an interrupted creation has left other settings behind.
    """
    with attempt(f"write to {folder.root}", "nothing was created"):
        try:
            folder.write(FILE, settings.to_json().encode(), new=True)
            return
        except FileExistsError:
            pass
        if load(folder) != settings:
            raise StoreError(
                f"{folder.root} holds the settings of another table, whose creation was interrupted",
                hint=f"remove {folder.root}, or create the table with those settings",
            ) from None


def load(folder: Folder) -> Settings:
    """Read the settings.

    Raises:
        StoreError: the settings are missing or damaged, or a newer Cerise has written them.
    """
    place = f"{folder.root}/{FILE}"
    if not folder.holds(FILE):
        raise StoreError(
            f"there is no event table: {place} is missing",
            hint="create one with cerise.Store.create, or index a table of others with cerise.index",
        )
    try:
        held = json.loads(folder.read(FILE))
        version = held.pop("format")
        if version == FORMAT:
            return _settings(held)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{place} is damaged: {error}", hint="restore it from a copy; the events themselves are untouched"
        ) from error
    raise StoreError(
        f"{place} has format {version}, and this Cerise knows formats up to {FORMAT}",
        hint="use a newer Cerise",
    )


def _settings(held: dict[str, Any]) -> Settings:
    known = {field.name for field in fields(Settings)}
    if set(held) != known:
        raise ValueError(f"unknown or missing: {', '.join(sorted(set(held) ^ known))}")
    plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in held.items()}
    return Settings(**plain)


def index_name(path: str) -> str:
    """Return the name of the index file of a data file that Cerise has written."""
    return f"index/{path}.cix"


SEQUENCE_FIELD = pa.field(SEQUENCE, pa.struct([pa.field("append", pa.int64()), pa.field("row", pa.int64())]))
