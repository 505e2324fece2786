"""The events of a suite's data set: those of `cerise.data`, and streams that only benchmarks ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cerise import data as published
from cerise.data.draws import BATCH, DRAW, regroup, rng_of, schema, sizes
from cerise.data.generators import ROW_GROUP
from cerise.data.generators import SCHEMAS as PUBLISHED_SCHEMAS

RANKED = schema(type=pa.string(), x=pa.int32(), ts=pa.int64())
CANDIDATES = RANKED
SYMBOLS = schema(type=pa.string(), price=pa.int32(), volume=pa.int32(), ts=pa.int64())
VISITS = schema(type=pa.string(), id=pa.int32(), x=pa.int32(), ts=pa.int64())
PLATEAU = schema(type=pa.string(), ts=pa.int64())
CARDS = PUBLISHED_SCHEMAS["credit_cards"]

Draw = Callable[[np.random.Generator], dict[str, Any]]


def ranked(
    events: int, *, seed: int = 0, batch: int = BATCH, types: int = 50, exponent: float = 1.3
) -> Iterator[pa.RecordBatch]:
    """Yield one event per time unit: type T1, T2, … by Zipf's law in this order, x uniform from 0 to 999."""
    weight = np.arange(1, types + 1) ** -exponent
    upto = np.cumsum(weight) / weight.sum()
    names = _names("T", types)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        rank = np.searchsorted(upto, rng.random(DRAW), side="right")
        return {"type": names.take(np.minimum(rank, types - 1)), "x": _uniform(rng, 0, 999)}

    return _stream(draw, RANKED, seed, sizes(events, batch))


def symbols(events: int, *, seed: int = 0, batch: int = BATCH, symbols: int = 20) -> Iterator[pa.RecordBatch]:
    """Yield one event per time unit: type S1, S2, …, price and volume from 1 to 100, all of them uniform."""
    names = _names("S", symbols)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        symbol = names.take(rng.integers(0, symbols, DRAW))
        return {"type": symbol, "price": _uniform(rng, 1, 100), "volume": _uniform(rng, 1, 100)}

    return _stream(draw, SYMBOLS, seed, sizes(events, batch))


def candidates(events: int, *, seed: int = 0, batch: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Yield one event per time unit: first an A, then ten B and a C, over and over; x uniform below 2**31."""
    kinds = pa.array(["A", "B", "C"])

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {"x": _uniform(rng, 0, 2**31 - 2)}

    for made in _stream(draw, RANKED.remove(0), seed, sizes(events, batch)):
        ts = made["ts"].to_numpy()
        kind = np.where(ts == 1, 0, np.where(ts % 11 == 1, 2, 1))
        yield pa.RecordBatch.from_arrays([kinds.take(kind), *made.columns], schema=CANDIDATES)


def crimes_shuffled(events: int, *, seed: int = 0, batch: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Yield the reports of `crimes`, those of each batch in no order."""
    for number, reports in enumerate(published.GENERATORS["crimes"](events, seed=seed, batch=batch)):
        yield reports.take(pa.array(rng_of(seed, number).permutation(len(reports))))


def cards_dealt(events: int, *, seed: int = 0, batch: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Yield the payments of `credit_cards`, all of them in no order: files of them are dealt at random."""
    made = pa.Table.from_batches(published.GENERATORS["credit_cards"](events, seed=seed), CARDS)
    dealt = made.take(pa.array(rng_of(seed, 0).permutation(len(made))))
    yield from dealt.combine_chunks().to_batches(max_chunksize=batch)


def visits(
    events: int, *, seed: int = 0, batch: int = BATCH, ids: int = 1_000, rare: float = 0.02
) -> Iterator[pa.RecordBatch]:
    """Yield one event per time unit: an A or, rarely, a B; id uniform, x uniform from 0 to 999."""
    kinds = pa.array(["A", "B"])

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        kind = kinds.take(pa.array(rng.random(DRAW) < rare).cast(pa.int8()))
        return {"type": kind, "id": _uniform(rng, 1, ids), "x": _uniform(rng, 0, 999)}

    return _stream(draw, VISITS, seed, sizes(events, batch))


def plateau(events: int, *, seed: int = 0, batch: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Yield one event per time unit: each is an A, and the last a B; the seed changes nothing."""
    for made in _stream(lambda rng: {}, PLATEAU.remove(0), seed, sizes(events, batch)):
        kinds = ["B" if each == events else "A" for each in made["ts"].to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(kinds), *made.columns], schema=PLATEAU)


OWN = {
    "ranked": ranked, "symbols": symbols, "candidates": candidates, "crimes_shuffled": crimes_shuffled,
    "cards_dealt": cards_dealt, "visits": visits, "plateau": plateau,
}  # fmt: skip
GENERATORS = {**published.GENERATORS, **OWN}
SCHEMAS = {
    **PUBLISHED_SCHEMAS,
    "ranked": RANKED,
    "symbols": SYMBOLS,
    "candidates": CANDIDATES,
    "crimes_shuffled": PUBLISHED_SCHEMAS["crimes"],
    "cards_dealt": CARDS,
    "visits": VISITS,
    "plateau": PLATEAU,
}


def batches(data: Mapping[str, Any], **options: Any) -> Iterator[pa.RecordBatch]:
    """Yield the events that a suite's table describes."""
    given = data.get("options", {}) | options
    return GENERATORS[data["generator"]](data["events"], seed=data.get("seed", 0), **given)


def write(data: Mapping[str, Any], path: Path) -> Path:
    """Write the events that a suite's table describes to Parquet: one file, or a folder of several."""
    name, files = data["generator"], data.get("files", 1)
    path = path if files > 1 else path.with_suffix(".parquet")
    if name not in OWN:
        given = {"seed": data.get("seed", 0), "files": files, **data.get("options", {})}
        return published.write(name, path, data["events"], overwrite=True, **given)
    if files > 1:
        return _write_files(data, files, path)
    with pq.ParquetWriter(path, SCHEMAS[name]) as file:
        for batch in batches(data, batch=ROW_GROUP):
            file.write_batch(batch)
    return path


def _write_files(data: Mapping[str, Any], files: int, path: Path) -> Path:
    """Write a folder of files, named in the order of time; all but the last have as many events."""
    path.mkdir(parents=True)
    for number, batch in enumerate(batches(data, batch=-(-data["events"] // files))):
        pq.write_table(pa.Table.from_batches([batch]), path / f"part-{number:05}.parquet")
    return path


def _stream(draw: Draw, columns: pa.Schema, seed: int, wanted: Iterator[int]) -> Iterator[pa.RecordBatch]:
    def draws() -> Iterator[pa.RecordBatch]:
        for number in count(1):
            first = 1 + (number - 1) * DRAW
            made = draw(rng_of(seed, number)) | {"ts": np.arange(first, first + DRAW)}
            yield pa.RecordBatch.from_pydict(made, schema=columns)

    return regroup(draws(), wanted)


def _uniform(rng: np.random.Generator, least: int, most: int) -> npt.NDArray[np.int32]:
    return rng.integers(least, most + 1, DRAW, dtype=np.int32)


def _names(letter: str, many: int) -> pa.Array:
    return pa.array([f"{letter}{number}" for number in range(1, many + 1)])
