"""An index file read by `docs/store-format.md` alone, without a line of the reader."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

from cerise.store.index.layout import IndexLayout
from tests.store.index.made import written

ROWS = 150
TABLE = pa.table(
    {
        "t": pa.array([(i * 7) % 50 * 1000 for i in range(ROWS)], pa.timestamp("us")),
        "k": [("A", "B", None)[i % 3] for i in range(ROWS)],
        "i": [None if i % 5 == 0 else i * i - 1000 for i in range(ROWS)],
        "wide": [(-(2**63), 2**63 - 1, 0)[i // 3 % 3] for i in range(ROWS)],
        "f": [i / 4 for i in range(ROWS)],
        "bits": [(-0.0, 1e-9, -7.5)[i // 3 % 3] for i in range(ROWS)],
        "s": [None if i % 7 == 0 else f"ä{i % 10}" for i in range(ROWS)],
        "none": pa.nulls(ROWS, pa.int32()),
        "_seq": [{"append": 12, "row": i + 1000 if i < 100 else 0} for i in range(ROWS)],
    }
)
NAMES = ("i", "wide", "f", "bits", "s", "none")


def bits_of(data: bytes, start: int, count: int) -> int:
    return (int.from_bytes(data, "little") >> start) & ((1 << count) - 1)


def width_of(span: int) -> int:
    return (span % 2**64).bit_length()


def signed(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


class Reader:
    """Follows the page from the end of the file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        start, length, checksum, version, magic = struct.unpack("<QQQQ8s", data[-40:])
        assert (data[:8], magic, version) == (b"CERISEIX", b"CERISEIX", 1)
        assert start + length + 40 == len(data)
        assert xxhash.xxh64_intdigest(data[start : start + length]) == checksum
        source = pa.BufferReader(data[start : start + length])
        blocks, clusters, self.sample = (pa.ipc.open_stream(source).read_all() for _ in range(3))
        facts = json.loads(blocks.schema.metadata[b"cerise"])
        self.layout = json.loads(facts["layout"])
        self.rows = facts["data"]["rows"]
        self.blocks, self.clusters = blocks.to_pylist(), clusters.to_pylist()

    def events(self) -> list[dict[str, Any]]:
        return [event for cluster in self.clusters for event in self.cluster(cluster)]

    def cluster(self, about: dict[str, Any]) -> list[dict[str, Any]]:
        self.part = self.data[about["offset"] : about["offset"] + about["length"]]
        assert xxhash.xxh64_intdigest(self.part) == about["checksum"]
        block, n = self.blocks[about["block"]], about["count"]
        times = self.list_of(n, about["first"], about["last"], block["step"])
        rows = self.list_of(n, about["row_least"], about["row_most"], 1)
        append = self.list_of(n, about["append_least"], about["append_most"], 1)
        arrival = self.list_of(n, about["arrival_least"], about["arrival_most"], 1)
        columns = [self.values(i, about, block) for i in range(len(self.layout["attributes"]))]
        assert not self.part
        return [
            {"block": about["block"], "t": times[j], "k": about["type"], "at": rows[j], "append": append[j],
             "row": arrival[j] + rows[j]} | {name: columns[i][j] for i, name in enumerate(NAMES)}
            for j in range(n)
        ]  # fmt: skip

    def taken(self, bits: int) -> bytes:
        size = (bits + 7) // 8
        found, self.part = self.part[:size], self.part[size:]
        return found

    def list_of(self, n: int, least: int, most: int, step: int) -> list[int]:
        width = width_of((most - least) // step)
        if width > 56 or not self.layout["compress"]:
            data = self.taken(64 * n)
            return [signed(bits_of(data, 64 * j, 64)) for j in range(n)]
        data = self.taken(width * n)
        return [least + step * bits_of(data, width * j, width) for j in range(n)]

    def values(self, i: int, about: dict[str, Any], block: dict[str, Any]) -> list[Any]:
        n, least, nulls = about["count"], about[f"least.{i}"], about[f"nulls.{i}"]
        width = width_of(about[f"most.{i}"] - least)
        if width == 64 or not self.layout["compress"]:
            width, least = 64, -(2**63)
        valid = self.taken(n) if 0 < nulls < n else b"\xff" * n if nulls == 0 else bytes(n)
        slices = [self.taken(n) for _ in range(width)]
        codes = [
            least + sum((1 - bits_of(slices[k], j, 1)) << k for k in range(width)) for j in range(n)
        ]  # fmt: skip
        known = [bits_of(valid, j, 1) for j in range(n)]
        return [self.value(codes[j], i, block) if known[j] else None for j in range(n)]

    def value(self, code: int, i: int, block: dict[str, Any]) -> Any:
        encoding = block[f"encoding.{i}"]
        if encoding == 0:
            return code
        if encoding < 8:
            return code / 10 ** (encoding - 1)
        if encoding == 8:
            return struct.unpack("<d", struct.pack("<q", code if code >= 0 else code ^ (2**63 - 1)))[0]
        start, count = block[f"words_offset.{i}"], block[f"words.{i}"]
        data = self.data[start : start + block[f"words_length.{i}"]]
        assert xxhash.xxh64_intdigest(data) == block[f"words_checksum.{i}"]
        ends = struct.unpack(f"<{count + 1}i", data[: 4 * (count + 1)])
        return data[4 * (count + 1) :][ends[code] : ends[code + 1]].decode()


@pytest.mark.parametrize("compress", [True, False])
def test_the_page_is_enough_to_read_a_file(tmp_path: Path, *, compress: bool) -> None:
    layout = IndexLayout(TABLE.schema, "t", "k", NAMES, sequence=True, compress=compress)
    groups = [TABLE.slice(0, 100), TABLE.slice(100)]
    reader = Reader(Path(written(tmp_path, "part", groups, layout).path).read_bytes())
    assert reader.rows == ROWS
    assert len(reader.sample) == ROWS
    expected = [
        {"block": b, "t": t, "k": row["k"], "at": at, **row["_seq"]} | {name: row[name] for name in NAMES}
        for b, group in enumerate(groups)
        for at, (row, t) in enumerate(
            zip(group.to_pylist(), group["t"].cast(pa.int64()).to_pylist(), strict=True)
        )
    ]
    found = reader.events()
    key = lambda event: (event["block"], str(event["k"]), event["t"], event["at"])  # noqa: E731
    in_clusters = [event for _, event in sorted((key(event), event) for event in found)]
    assert repr(in_clusters) == repr(sorted(expected, key=key))
    order = [(event["block"], event["t"], event["at"]) for event in found]
    for type_ in ("A", "B", None):
        of_type = [at for at, event in zip(order, found, strict=True) if event["k"] == type_]
        assert of_type == sorted(of_type)
