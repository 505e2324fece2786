"""Parquet files, folders of them with hive partitions, and Delta tables, described by their footers alone.

This module reads no events. Tables that Python cannot read correctly raise `NotDirect`, and Spark reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from cerise.errors import DataError, StoreError
from cerise.events import Path as Attribute
from cerise.events import Schema
from cerise.files import delta
from cerise.files.checksums import ANY, Expected, Sums, Tail, read_tail
from cerise.files.delta_log import LOG
from cerise.files.event_files import PARQUET, TEXT, suffix
from cerise.files.footers import columns_of, is_coded, may_lack, range_of, times_of
from cerise.files.types import common_schema, spark_type
from cerise.kinds import Kind, kind_of
from cerise.plan.pushdown import Needed, Pruner, Range
from cerise.plan.slicing import MAX_TIME, MIN_TIME, GroupSpan

HIVE = re.compile(r"^([^=]+)=(.*)$")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
THREADS = 8


class NotDirect(Exception):
    """A table that only Spark can read; the message says why."""


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file.

    Attributes:
        path: its path.
        hive: the values of the columns that the names of its folders give.
        kept: a mask of the rows that are not deleted (a Delta table's deletion vector); None: all.
        expected: its size and its name when written, where its table records them.
    """

    path: str
    hive: Mapping[str, Any] = field(default_factory=dict)
    kept: pa.BooleanArray | None = field(default=None, compare=False, repr=False)
    expected: Expected = ANY

    @property
    def deleted(self) -> int:
        return 0 if self.kept is None else self.kept.false_count


@dataclass(frozen=True, slots=True)
class Group:
    """A row group that may hold events of a query.

    Attributes:
        file: the number of its file.
        number: its number in the file.
        place: its number among all row groups, in arrival order.
        span: the time it covers, and how many rows it has that are not deleted.
        timeless: whether a row may lack a time, as far as statistics tell: all its times must be read.
    """

    file: int
    number: int
    place: int
    span: GroupSpan
    timeless: bool = True


@dataclass(frozen=True, slots=True)
class Lake:
    """The files of one table, in arrival order: by name (S1.2).

    Attributes:
        root: the path of the table, as given.
        files: the files.
        columns: the columns of all files together.
        footers: the footer of each file.
        sums: the checksums of each file; None: it carries none.
    """

    root: str
    files: tuple[File, ...]
    columns: pa.Schema
    footers: tuple[pq.FileMetaData, ...] = field(default=(), repr=False)
    sums: tuple[Sums | None, ...] = field(default=(), repr=False)

    @property
    def tails(self) -> list[Tail]:
        return list(map(Tail, self.footers, self.sums))

    @property
    def rows(self) -> int:
        return sum(rows for *_, rows in self._number_groups())

    @property
    def groups(self) -> int:
        return sum(footer.num_row_groups for footer in self.footers)

    def choose_code_columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns with few distinct strings, which are cheaper to read as codes."""
        wanted = {name for name in names if kind_of(self.columns.field(name).type) is Kind.STRING}
        return tuple(name for name in wanted if all(is_coded(footer, name) for footer in self.footers))

    def list_groups(self, needed: Needed | None = None) -> list[Group]:
        """Return the row groups that may hold needed rows, in arrival order, without their times."""
        paths, pruner = [columns_of(footer) for footer in self.footers], Pruner(needed)
        return [
            Group(number, i, place, GroupSpan(0, 0, rows))
            for number, i, place, rows in self._number_groups()
            if rows and self._may_hold(pruner, number, i, paths[number])
        ]

    def list_groups_by_time(
        self, column: str, *, nulls_first: bool, needed: Needed | None = None
    ) -> list[Group]:
        """Return the row groups that may hold needed rows, in arrival order, with the times of a column.

        Rows without a time count as the earliest, or as the latest.
        """
        schema = Schema(self.columns, column)
        places = [columns_of(footer).get((column,)) for footer in self.footers]
        found = []
        for group in self.list_groups(needed):
            held, index = self.footers[group.file].row_group(group.number), places[group.file]
            first, last = times_of(held, index, schema)
            if index is None or may_lack(held.column(index)):
                first, last = (MIN_TIME, last) if nulls_first else (first, MAX_TIME)
            found.append(replace(group, span=GroupSpan(first, last, group.span.rows)))
        return found

    def list_event_groups(self, schema: Schema, needed: Needed | None) -> list[Group]:
        """Return the row groups that may hold needed events, by their statistics."""
        paths, pruner = [columns_of(footer) for footer in self.footers], Pruner(needed)
        for each in zip(self.files, self.footers, paths, strict=True):
            _reject_null_times(*each, schema.time)
        found: list[Group] = []
        for number, i, place, rows in self._number_groups():
            if rows and self._may_hold(pruner, number, i, paths[number]):
                group = self.footers[number].row_group(i)
                column = paths[number].get((schema.time,))
                timeless = column is None or may_lack(group.column(column))
                span = GroupSpan(*times_of(group, column, schema), rows)
                found.append(Group(number, i, place, span, timeless))
        return found

    def _may_hold(self, pruner: Pruner, file: int, number: int, paths: Mapping[Attribute, int]) -> bool:
        if not pruner.paths:
            return pruner.may_hold({})
        group = self.footers[file].row_group(number)
        return pruner.may_hold(self._ranges(pruner.paths, group, paths, self.files[file]))

    def _number_groups(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield for each row group its file's number, its own number, its place, and its number of events."""
        place = 0
        for number, (file, footer) in enumerate(zip(self.files, self.footers, strict=True)):
            first = 0
            for i in range(footer.num_row_groups):
                rows = footer.row_group(i).num_rows
                left = rows if file.kept is None else file.kept.slice(first, rows).true_count
                yield number, i, place, left
                first += rows
                place += 1

    def size(self, groups: Iterable[Group], names: Iterable[str]) -> int:
        """Return how many bytes the named columns of the row groups take."""
        total = 0
        for each in groups:
            footer = self.footers[each.file]
            held = {path[0]: index for path, index in columns_of(footer).items()}
            row_group = footer.row_group(each.number)
            total += sum(row_group.column(held[n]).total_compressed_size for n in names if n in held)
        return total

    def _ranges(
        self, wanted: Iterable[Attribute], group: Any, paths: Mapping[Attribute, int], file: File
    ) -> dict[Attribute, Range]:
        known: dict[Attribute, Range] = {}
        for path in wanted:
            if len(path) == 1 and file.hive.get(path[0]) is not None:
                known[path] = Range(file.hive[path[0]], file.hive[path[0]])
            elif path in paths and (found := range_of(group.column(paths[path]))) is not None:
                known[path] = found
        return known


def open_lake(path: str | Path, version: int | None = None) -> Lake:
    """Return the table at a path.

    Raises:
        NotDirect: only Spark can read it.
        StoreError: the path holds no table, or its files contradict each other.
    """
    text = str(path)
    local = Path(text) if "://" not in text else None
    if local is not None and delta.is_table(local):
        root, files, declared = _delta_files(local, version)
    else:
        if version is not None:
            raise StoreError(f"{text} is not a Delta table, so it has no version {version}")
        root, files, declared = *_parquet_files(text), None
    files, footers, sums = _read_footers(root, files)
    schemas = [footer.schema.to_arrow_schema() for footer in footers]
    columns = common_schema([(file.path, s) for file, s in zip(files, schemas, strict=True)])
    columns, files = _with_hive(declared or columns, files)
    columns = pa.schema([pa.field(each.name, spark_type(each.type)) for each in columns])
    return Lake(text, files, columns, footers, sums)


def lake_of(root: str, files: Sequence[File], columns: pa.Schema) -> Lake:
    """Return the table made of the given files, whose columns are known."""
    described, footers, sums = _read_footers(root, tuple(files))
    return Lake(root, described, columns, footers, sums)


def open_file_system(root: str) -> fs.FileSystem:
    """Return the file system of a path."""
    try:
        if "://" in root:
            return fs.FileSystem.from_uri(root)[0]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise NotDirect(f"Python cannot open {root}: {str(error).splitlines()[0]}") from error
    return fs.LocalFileSystem()


# ---- which files


def _parquet_files(root: str) -> tuple[str, tuple[File, ...]]:
    system = open_file_system(root)
    base = fs.FileSystem.from_uri(root)[1] if "://" in root else str(Path(root).absolute())
    found = system.get_file_info(base)
    if found.type == fs.FileType.NotFound:
        raise StoreError(f"there is nothing at {root}", hint="is the path right, and seen from here?")
    if found.type == fs.FileType.File:
        reject_other(base)
        return root, (File(base),)
    if "://" in root and system.get_file_info(f"{base}/{LOG}").type == fs.FileType.Directory:
        raise NotDirect(f"{root} is a Delta table, whose log Cerise reads only at a local path")
    held = system.get_file_info(fs.FileSelector(base, recursive=True))
    files = []
    for each in sorted(held, key=lambda info: str(info.path)):
        inside = each.path[len(base) :].strip("/").split("/")
        if each.type == fs.FileType.File and not any(part.startswith((".", "_")) for part in inside):
            reject_other(each.path)
            files.append(File(each.path, _hive(inside[:-1], root)))
    if not files:
        raise StoreError(
            f"{root} holds no Parquet files", hint="give a Parquet file, a folder or a Delta table"
        )
    return root, tuple(files)


def reject_other(path: str) -> None:
    """Refuse files of other formats than Parquet."""
    kind = suffix(Path(path))
    if kind in TEXT:
        raise StoreError(
            f"{path} is text, which Cerise reads by path only on the command line",
            hint="give spark.read.csv(…) or pyarrow.csv.read_csv(…), or convert it to Parquet",
        )
    if kind and kind not in PARQUET and not kind.removeprefix(".").isdigit():
        raise StoreError(f"{path} is not a Parquet file", hint="move it out, or read it with Spark")


def _hive(folders: Sequence[str], root: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for folder in folders:
        parts = HIVE.match(folder)
        if parts is None:
            raise StoreError(
                f"{root} has a folder '{folder}' inside that is not a partition (name=value)",
                hint="give that folder itself, or name its folders name=value",
            )
        text = unquote(parts[2])
        values[unquote(parts[1])] = None if text == NO_VALUE else text
    return values


def hive_values(folders: Sequence[str], root: str, columns: pa.Schema) -> dict[str, Any]:
    """Return the values that the names of folders give, in the types of their columns."""
    return {
        name: _as(value, columns.field(name).type)
        for name, value in _hive(folders, root).items()
        if name in columns.names
    }


def _with_hive(columns: pa.Schema, files: Sequence[File]) -> tuple[pa.Schema, tuple[File, ...]]:
    """Add the columns given by the names of folders; integers if all values are integers, else strings."""
    for name in dict.fromkeys(name for file in files for name in file.hive):
        values = [file.hive[name] for file in files if file.hive.get(name) is not None]
        whole = bool(values) and all(re.fullmatch(r"-?\d{1,18}", str(each)) for each in values)
        if name not in columns.names:
            columns = columns.append(pa.field(name, pa.int64() if whole else pa.string()))
    typed = [
        replace(file, hive={n: _as(v, columns.field(n).type) for n, v in file.hive.items()}) for file in files
    ]
    return columns, tuple(typed)


def _as(value: Any, kind: pa.DataType) -> Any:
    return int(value) if isinstance(value, str) and pa.types.is_integer(kind) else value


def _delta_files(root: Path, version: int | None) -> tuple[str, tuple[File, ...], pa.Schema]:
    try:
        held = delta.live_files(root, version)
    except delta.UnknownFeature as error:
        raise NotDirect(str(error)) from error
    return str(root), tuple(_file(each) for each in held.files), held.columns


def _file(logged: delta.LoggedFile) -> File:
    return File(logged.path, logged.values, logged.kept, logged.expected)


def _pad_kept(file: File, footer: pq.FileMetaData) -> File:
    if file.kept is None:
        return file
    return replace(file, kept=delta.pad_kept(file.kept, footer.num_rows, file.path))


# ---- footers


def _read_footers(
    root: str, files: tuple[File, ...]
) -> tuple[tuple[File, ...], tuple[pq.FileMetaData, ...], tuple[Sums | None, ...]]:
    tails = _tails(root, files)
    footers = tuple(tail.footer for tail in tails)
    return tuple(map(_pad_kept, files, footers)), footers, tuple(tail.sums for tail in tails)


def _tails(root: str, files: Sequence[File]) -> list[Tail]:
    system = open_file_system(root)

    def tail(file: File) -> Tail:
        try:
            with system.open_input_file(file.path) as source:
                return read_tail(source, file.path, file.expected)
        except (pa.ArrowException, OSError) as error:
            if "encrypt" in str(error).lower():
                raise NotDirect(f"{file.path} is encrypted") from error
            reason = str(error).strip().split("\n")[0]
            raise StoreError(
                f"cannot read {file.path}: {reason}", hint="is it a whole Parquet file?"
            ) from error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(tail, files))


def _reject_null_times(
    file: File, footer: pq.FileMetaData, paths: Mapping[Attribute, int], time: str
) -> None:
    index = paths.get((time,))
    if file.kept is not None and index is not None:
        return  # the rows without a time may be deleted; the reader checks the others
    if index is None:
        if time in file.hive:
            return
        raise DataError(f"{file.path} has no column '{time}', which says when its events happened")
    for i in range(footer.num_row_groups):
        found = footer.row_group(i).column(index).statistics
        if found is not None and found.has_null_count and found.null_count:
            raise DataError(
                f"{found.null_count} events have no time: '{time}' is null in {file.path}, row group {i}",
                hint=f"filter them out first: spark.read.parquet(…).where('{time} IS NOT NULL')",
            )
