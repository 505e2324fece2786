"""Objects of JSON as a table: the verdict on each is its own, whatever stands beside it."""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.errors import UnsupportedError
from cerise.files.topics.json_values import JsonColumns, is_zone

COLUMNS = pa.schema(
    [
        ("id", pa.int64()), ("kind", pa.string()), ("x", pa.float64()), ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())), ("place", pa.struct([("lat", pa.float64()), ("name", pa.string())])),
    ]
)  # fmt: skip
BAD: list[bytes | None] = [
    None, b"", b"null", b"5", b"[1]", b'"a"', b"true", b"{", b"}", b"{}{}", b'{"id":1}{"id":2}', b"{}5",
    b"{} null {}", b'{"id":1', b',"kind":"A"}', b'{"id":1.5}', b'{"id":"1"}',
    b'{"id":99999999999999999999}', b'{"kind":5}',
    b'{"kind":"\xff"}', b'{"kind":"a\nb"}', b'{"kind":"\\ud800"}', b'{"id":1,"id":2}', b'{"id":1}\0',
    b'{"id":1}\0{"id":2}', b'{"id":1\0}', b"{'id':1}", b'{"id":1,}', b'{"id":1} x', b'{"x":1e999}',
    b'{"ok":1}',
    b'{"at":"yesterday"}', b'{"at":1700000000}', b'{"at":"2026-13-01T00:00:00Z"}', b'{"day":"2026-02-30"}',
    b'{"day":"2026-02-03T10:00:00"}', b'{"price":"dear"}', b'{"price":1234567890.5}',
    b'{"tags":"a"}', b'{"tags":[1]}',
    b'{"place":[]}', b'{"place":{"lat":"north"}}', b"\xef\xbb\xbf{}", b"\0\0\0\0\x01{}", b"{\xff}",
]  # fmt: skip
GOOD: list[tuple[bytes, dict[str, Any]]] = [
    (b"{}", {}),
    (b'  {"id" : 1 }\n', {"id": 1}),
    (b'{\n  "id": 1,\n  "kind": "A"\n}', {"id": 1, "kind": "A"}),
    (b'{"id":-9223372036854775808}', {"id": -(2**63)}),
    ('{"kind":"Überraschung {\\"}\\n"}'.encode(), {"kind": 'Überraschung {"}\n'}),
    (b'{"kind":null,"x":1,"ok":false}', {"x": 1.0, "ok": False}),
    (b'{"other":{"id":[1,{"id":2}]},"id":3,"further":"null"}', {"id": 3}),
    (b'{"at":"2026-03-02T09:00:00.5Z"}', {"at": dt.datetime(2026, 3, 2, 9, 0, 0, 500_000, dt.UTC)}),
    (b'{"at":"2026-03-02 09:00:00+01:00"}', {"at": dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC)}),
    (b'{"at":"2026-03-02T09:00:00"}', {"at": dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)}),
    (b'{"at":"2026-03-02"}', {"at": dt.datetime(2026, 3, 2, tzinfo=dt.UTC)}),
    (b'{"day":"2026-03-02","price":1.25}', {"day": dt.date(2026, 3, 2), "price": "1.25"}),
    (b'{"price":"7"}', {"price": "7.00"}),
    (b'{"tags":["a",null],"place":{"name":"X","z":1}}',
     {"tags": ["a", None], "place": {"lat": None, "name": "X"}}),
]  # fmt: skip


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a row that are not null; decimals as text."""
    found = {name: value for name, value in row.items() if value is not None}
    return found | ({"price": str(found["price"])} if "price" in found else {})


@pytest.mark.parametrize("value", BAD)
def test_a_value_that_does_not_fit(value: bytes | None) -> None:
    table, reasons = JsonColumns(COLUMNS).parse([value])
    assert table.schema == COLUMNS
    assert [plain(row) for row in table.to_pylist()] == [{}]
    assert list(reasons) == [0]
    assert reasons[0]


@pytest.mark.parametrize(("value", "row"), GOOD)
def test_a_value_that_fits(value: bytes, row: dict[str, Any]) -> None:
    table, reasons = JsonColumns(COLUMNS).parse([value])
    assert reasons == {}
    assert [plain(each) for each in table.to_pylist()] == [row]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.5]))
def test_the_verdict_on_a_value_is_its_own(seed: int, share: float) -> None:
    rng = random.Random(seed)
    chosen = [
        (rng.choice(BAD), None) if rng.random() < share else rng.choice(GOOD)
        for _ in range(rng.randrange(70))
    ]
    table, reasons = JsonColumns(COLUMNS).parse([value for value, _ in chosen])
    assert sorted(reasons) == [number for number, (_, row) in enumerate(chosen) if row is None]
    assert [plain(row) for row in table.to_pylist()] == [row or {} for _, row in chosen]


def test_reasons_are_in_words() -> None:
    _, reasons = JsonColumns(COLUMNS).parse([None, b"[]", b'{"id":"x"}', b"{}{}", b'{"kind":"\xff"}'])
    assert list(reasons.values()) == [
        "the message has no value", "it is not an object of JSON", "'id' is string, not number",
        "it is more than one object", "Invalid UTF8 sequence",
    ]  # fmt: skip


def test_times_without_a_zone() -> None:
    columns = pa.schema([("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))])
    values = [b'{"at":"2026-07-02T09:00:00","local":"2026-07-02T09:00:00"}', b'{"at":"2026-07-02T09:00:00Z"}']
    table, reasons = JsonColumns(columns, "Europe/Athens").parse(values)
    assert [row["at"].hour for row in table.to_pylist()] == [6, 9]
    assert (table["local"][0].as_py().hour, reasons) == (9, {})
    assert JsonColumns(columns, None).parse(values)[1] == {0: "a time names no zone"}
    assert list(JsonColumns(columns).parse([b'{"local":"2026-07-02T09:00:00Z"}'])[1]) == [0]
    assert (is_zone("Europe/Athens"), is_zone("GMT+25")) == (True, False)


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(), pa.map_(pa.string(), pa.int64()), pa.list_(pa.timestamp("us")), pa.duration("us"),
        pa.struct([("at", pa.date32())]),
    ],
)  # fmt: skip
def test_a_type_that_json_does_not_have(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match="JSON has no column 'v'") as error:
        JsonColumns(pa.schema([("v", kind)]))
    assert "from_json" in (error.value.hint or "")


def test_no_columns_and_no_values() -> None:
    assert JsonColumns(COLUMNS).parse([])[0].num_rows == 0
    values = [json.dumps({"id": n}).encode() for n in range(10)]
    assert JsonColumns(pa.schema([("id", pa.int64())])).parse(values)[0]["id"].to_pylist() == list(range(10))
