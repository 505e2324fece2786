"""The generated data sets by name: as a table, or as Parquet files of any size, written in bounded memory."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.data.acer_synthetic import ACER_SYNTHETIC, acer_synthetic
from cerise.data.citibike import CITIBIKE, citibike
from cerise.data.cluster import CLUSTER, cluster
from cerise.data.credit_cards import CREDIT_CARDS, credit_cards
from cerise.data.crimes import CRIMES, crimes
from cerise.data.dfs_synthetic import DFS_SYNTHETIC, dfs_synthetic
from cerise.data.draws import check, regroup, sizes
from cerise.data.funnel import FUNNEL, funnel
from cerise.data.nasdaq import NASDAQ, nasdaq
from cerise.data.stock import STOCK, stock
from cerise.data.ticks import TICKS, ticks
from cerise.errors import CeriseError, StoreError, did_you_mean

Generator = Callable[..., Iterator[pa.RecordBatch]]

GENERATORS: dict[str, Generator] = {
    "stock": stock,
    "nasdaq": nasdaq,
    "crimes": crimes,
    "acer_synthetic": acer_synthetic,
    "citibike": citibike,
    "dfs_synthetic": dfs_synthetic,
    "funnel": funnel,
    "credit_cards": credit_cards,
    "cluster": cluster,
    "ticks": ticks,
}
SCHEMAS: dict[str, pa.Schema] = {
    "stock": STOCK,
    "nasdaq": NASDAQ,
    "crimes": CRIMES,
    "acer_synthetic": ACER_SYNTHETIC,
    "citibike": CITIBIKE,
    "dfs_synthetic": DFS_SYNTHETIC,
    "funnel": FUNNEL,
    "credit_cards": CREDIT_CARDS,
    "cluster": CLUSTER,
    "ticks": TICKS,
}

ROW_GROUP = 131_072


def table(name: str, events: int, *, seed: int = 0, **options: Any) -> pa.Table:
    """Return the events of a data set as one table in memory.

    Args:
        name: a name in `GENERATORS`.
        events: how many events.
        seed: the seed of the events.
        **options: options of the generator, such as `p=0.55` for `stock`.

    Raises:
        CeriseError: the name or an option is unknown, or an argument is out of its range.
    """
    batches = _generator(name, options)(events, seed=seed, **options)
    return pa.Table.from_batches(batches, SCHEMAS[name])


def write(  # noqa: PLR0913  the options of a writer, all but three with defaults
    name: str,
    path: str | os.PathLike[str],
    events: int,
    *,
    seed: int = 0,
    files: int = 1,
    row_group: int = ROW_GROUP,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Path:
    """Write the events of a data set to Parquet completely or, if anything fails, not at all.

    The events go to a hidden neighbour of `path` that takes its name when complete. Memory holds a few row
    groups, whatever the number of events.

    Args:
        name: a name in `GENERATORS`.
        path: a directory for part-00000.parquet, part-00001.parquet, … in time order; or, if it ends with
            .parquet, a single file.
        events: how many events, over all files.
        seed: the seed of the events.
        files: how many files share the events evenly.
        row_group: events per Parquet row group.
        overwrite: whether to replace the files that an earlier call has written to `path`.
        progress: called with the number of events written so far, after each row group.
        **options: options of the generator, such as `tickers=100` for `nasdaq`.

    Returns:
        The path.

    Raises:
        CeriseError: the name or an option is unknown, or an argument is out of its range.
        StoreError: `path` exists and may not be replaced, or cannot be written.
    """
    batches = _generator(name, options)(events, seed=seed, **options)
    check(files=(files, 1), row_group=(row_group, 1))
    target = Path(path).resolve()
    parts = {part: list(sizes(rows, row_group)) for part, rows in _parts(target, events, files).items()}
    _refuse_to_replace(target, overwrite)
    try:
        with _replace_whole(target) as fresh:
            fresh_parts = {fresh / part: groups for part, groups in parts.items()}
            _write_parts(batches, fresh_parts, SCHEMAS[name], progress)
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error}", hint="is there space, and may you write there?"
        ) from error
    return Path(path)


def _generator(name: str, options: dict[str, Any]) -> Generator:
    if name not in GENERATORS:
        raise CeriseError(f"unknown data set {name!r}", hint=did_you_mean(name, GENERATORS))
    known = list(inspect.signature(GENERATORS[name]).parameters)
    for option in options:
        if option not in known:
            raise CeriseError(f"{name} has no option {option!r}", hint=did_you_mean(option, known[2:]))
    return GENERATORS[name]


def _parts(target: Path, events: int, files: int) -> dict[str, int]:
    """Return the files to write, relative to the target, and the number of events in each."""
    if target.suffix != ".parquet":
        ends = [events * number // files for number in range(files + 1)]
        return {f"part-{n:05}.parquet": ends[n + 1] - ends[n] for n in range(files)}
    if files > 1:
        raise StoreError(f"{target.name} is one file, not {files}", hint="give the path of a directory")
    return {"": events}


def _refuse_to_replace(target: Path, overwrite: bool) -> None:
    """Refuse to replace a target that is not a data set, or without `overwrite`; empty directories pass."""
    if not target.exists():
        return
    single = target.suffix == ".parquet"
    held = [] if target.is_file() else list(target.iterdir())
    if target.is_file() != single or not all(each.match("part-*.parquet") for each in held):
        raise StoreError(f"{target} exists and is not a data set of ours", hint="give another path")
    if (single or held) and not overwrite:
        raise StoreError(f"{target} exists", hint="give another path, or overwrite=True to replace it")


@contextlib.contextmanager
def _replace_whole(target: Path) -> Iterator[Path]:
    """Yield a hidden path to write to; it becomes the target if the body succeeds, else it is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = (target.with_name(f".{target.name}.{uuid.uuid4().hex}.{end}") for end in ("tmp", "old"))
    try:
        yield fresh
        if target.is_dir():  # a directory, unlike a file, cannot be replaced in one step
            target.rename(old)
        fresh.replace(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for each in (fresh, old):
            shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)


def _write_parts(
    batches: Iterator[pa.RecordBatch],
    parts: dict[Path, list[int]],
    schema: pa.Schema,
    progress: Callable[[int], None] | None,
) -> None:
    """Write the events to files, each with row groups of the given sizes."""
    groups = regroup(batches, chain.from_iterable(parts.values()))
    written = 0
    for path, rows in parts.items():
        path.parent.mkdir(exist_ok=True)
        with pq.ParquetWriter(path, schema) as out:
            for group in islice(groups, len(rows)):
                out.write_batch(group, row_group_size=group.num_rows)
                written += group.num_rows
                if progress:
                    progress(written)
