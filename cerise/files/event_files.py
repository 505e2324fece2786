"""One event file, or a directory of them, as one table in arrival order: file name, then row (S1.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.errors import StoreError, did_you_mean
from cerise.files import delta
from cerise.files.checksums import open_parquet
from cerise.files.text import NOTHING, PLAIN, TextLayout, parse_json, read_csv, read_json
from cerise.files.times import parse_times

TEXT = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".zst")
KNOWN = "CSV (.csv, .tsv), JSON lines (.json, .jsonl, .ndjson), Parquet (.parquet, .pq); text also with .gz"


def read(
    path: str | Path,
    *,
    layout: TextLayout = PLAIN,
    time: str | Sequence[str] = (),
    written: str | None = None,
) -> pa.Table:
    """Return the events of a file, a directory of files or a Delta table, in arrival order.

    Args:
        path: the file or directory; in a directory, files whose names start with . or _ are ignored.
        layout: the layout of CSV files.
        time: the column or columns to parse as times; columns that do not exist are ignored.
        written: the format of their values; see `times.parse_times`.

    Returns:
        A table; for empty files one without rows, and perhaps without columns or types.

    Raises:
        StoreError: nothing is at the path, a file cannot be read, or the files differ in their columns.
        DataError: a time column is not in the format `written`.
    """
    path = Path(path)
    times = (time,) if isinstance(time, str) else time
    if delta.is_table(path):
        return _with_times(delta.read(path), times, written, typed=True)
    files = data_files(path)
    tables = [(file, _read(file, layout)) for file in files]
    typed = not any(suffix(file) in TEXT for file in files)
    return _with_times(_concat(tables, typed=typed), times, written, typed=typed)


def read_lines(
    data: bytes,
    name: str,
    *,
    layout: TextLayout = PLAIN,
    time: str | Sequence[str] = (),
    written: str | None = None,
) -> pa.Table:
    """Return JSON lines that are in memory as a table; `name` stands for them in an error.

    Takes the arguments of `read`, and raises as it does.
    """
    times = (time,) if isinstance(time, str) else time
    try:
        table = parse_json(pa.py_buffer(data), name, layout)
    except pa.ArrowException as error:
        reason = str(error).strip().split("\n")[0]
        raise StoreError(
            f"cannot read {name}: {reason}", hint="is every line one object of JSON, with the same types?"
        ) from error
    _reject_twice(Path(name), table.schema.names)
    return _with_times(table, times, written, typed=False)


def data_files(path: Path) -> list[Path]:
    """Return the file itself, or the files of a directory sorted by name."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        if path.exists():
            raise StoreError(f"{path} is not a regular file", hint="copy its content into a file first")
        raise StoreError(f"there is no file {path}", hint=_nearby(path))
    files = sorted(each for each in _list(path) if not each.name.startswith((".", "_")))
    if not files:
        raise StoreError(f"directory {path} holds no files", hint=f"known formats: {KNOWN}")
    for each in files:
        if each.is_dir():
            raise StoreError(
                f"{each} is a directory inside {path}",
                hint="give one directory of files, or read it with Spark: spark.read.parquet(…)",
            )
    return files


def parquet_schema(files: Sequence[Path]) -> pa.Schema | None:
    """Return the common columns of Parquet files, from their footers; None if a file is of another format."""
    if any(suffix(file) not in PARQUET for file in files):
        return None
    empty = [(file, _guard(file, lambda f: pq.read_schema(f).empty_table())) for file in files]
    return _concat(empty, typed=True).schema


def lake_columns(path: Path) -> pa.Schema | None:
    """Return the columns of a Delta table, a Parquet file or a folder of Parquet files; None: another format.

    Reads one footer: of several files, that of the first.
    """
    if delta.is_table(path):
        return delta.columns(path)
    inside = [path] if path.is_file() else sorted(path.rglob("*"))
    found = [
        each
        for each in inside
        if each.is_file() and not any(part.startswith((".", "_")) for part in each.relative_to(path).parts)
    ]
    if not found or any(suffix(file) not in PARQUET for file in found):
        return None
    return _guard(found[0], lambda file: pq.read_schema(file).empty_table()).schema


def suffix(file: Path) -> str:
    """Return the suffix that names a file's format, without that of its compression."""
    ends = [each.lower() for each in file.suffixes]
    return next((each for each in reversed(ends) if each not in COMPRESSED), "")


# ---- one file


def _read_parquet(file: Path) -> pa.Table:
    with pa.OSFile(str(file)) as source:
        return open_parquet(source, str(file)).read()


def _read(file: Path, layout: TextLayout) -> pa.Table:
    kind = suffix(file)
    if kind in PARQUET:
        table = _guard(file, _read_parquet)
    elif kind in (".csv", ".tsv"):
        table = _guard(file, lambda f: read_csv(f, layout))
    elif kind in TEXT:
        table = _guard(file, lambda f: read_json(f, layout))
    else:
        raise StoreError(f"unknown format: {file}", hint=f"known: {KNOWN}")
    _reject_twice(file, table.schema.names)
    return table


def _guard(file: Path, reader: Callable[[Path], pa.Table]) -> pa.Table:
    """Read a file; name it in the error if that fails."""
    try:
        return reader(file)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise StoreError(
            f"cannot read {file}: {reason}", hint="is it whole, and what its name says it is?"
        ) from error


def _reject_twice(file: Path, names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise StoreError(
            f"{file} has more than one column named {', '.join(map(repr, twice))}",
            hint="rename them; for CSV, give all names yourself",
        )


def _list(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error


def _nearby(path: Path) -> str | None:
    parent = path.parent
    if not parent.is_dir():
        return f"there is no directory {parent} either"
    return did_you_mean(path.name, sorted(each.name for each in _list(parent)))


# ---- many files


def _concat(tables: Sequence[tuple[Path, pa.Table]], *, typed: bool) -> pa.Table:
    """Concatenate tables; all must have the same columns, in any order."""
    filled = [(file, table) for file, table in tables if table.num_columns]
    if not filled:
        return NOTHING
    schema = filled[0][1].schema.remove_metadata()
    for file, table in filled[1:]:
        schema = _common(schema, filled[0][0], table.schema, file, typed=typed)
    return pa.concat_tables([_cast(table, schema, file) for file, table in filled])


def _common(schema: pa.Schema, first: Path, other: pa.Schema, file: Path, *, typed: bool) -> pa.Schema:
    """Return the common schema of two files, or raise with their difference."""
    for name in (*schema.names, *other.names):
        if (name in schema.names) != (name in other.names):
            has, lacks = (first, file) if name in schema.names else (file, first)
            raise StoreError(f"{has} has a column '{name}' and {lacks} has not", hint=_SAME)
    return pa.schema(
        [_common_field(field, first, other.field(field.name), file, typed=typed) for field in schema]
    )


def _common_field(field: pa.Field, first: Path, other: pa.Field, file: Path, *, typed: bool) -> pa.Field:
    wider = field.type if field.type == other.type else None if typed else _wider(field.type, other.type)
    if wider is None:
        raise StoreError(
            f"column '{field.name}' has type {field.type} in {first} and {other.type} in {file}", hint=_SAME
        )
    return pa.field(field.name, wider)


_SAME = "all files of a directory need the same columns: give one of the files, or make them alike"


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return a type for two that Arrow guessed from text files; None if they differ by more than a guess."""
    types = pa.types
    if types.is_null(left) or types.is_null(right):
        return right if types.is_null(left) else left
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if types.is_timestamp(left) and types.is_timestamp(right) and left.tz == right.tz:
        return pa.timestamp("ns" if "ns" in (left.unit, right.unit) else "us", left.tz)
    return None


def _cast(table: pa.Table, schema: pa.Schema, file: Path) -> pa.Table:
    return _guard(file, lambda _: table.select(schema.names).cast(schema))


def _with_times(table: pa.Table, times: Sequence[str], written: str | None, *, typed: bool) -> pa.Table:
    for name in times if table.num_rows else ():
        if name in table.schema.names:
            column = parse_times(table[name], name, written, typed=typed)
            table = table.set_column(table.schema.get_field_index(name), name, column)
    return table
