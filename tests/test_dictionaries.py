"""Columns of dictionaries, however Arrow holds them, give the answer of plain columns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cerise

WORDS = ["A", None, "B", "A", "B", None]
Parts = list[tuple[list[int | None], list[Any]]]  # of a column: indices and words of each chunk


NUMBERS = [str(number) for number in range(198)]
INT32, STRING = pa.int32(), pa.string()


def dictionary(parts: Parts, index: pa.DataType = INT32, words: pa.DataType = STRING) -> pa.ChunkedArray:
    arrays = [(pa.array(at, index), pa.array(known, words)) for at, known in parts]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(*each) for each in arrays])


NULL_FIRST: Parts = [([1, 0, 2], [None, "A", "B"]), ([1, 0, 2], ["B", "A", None])]
COLUMNS = {
    "null among the words": dictionary([([0, 1, 2, 0, 2, 1], ["A", None, "B"])]),
    "null among the words of each chunk": dictionary(NULL_FIRST),
    "equal words with null": dictionary([([0, 1, 2], ["A", None, "B"]), ([0, 2, 1], ["A", None, "B"])]),
    "nulls of both kinds": dictionary([([0, None, 2], ["A", None, "B"]), ([1, 0, 2], ["B", "A", None])]),
    "other words in each chunk": dictionary([([0, None, 1], ["A", "B"]), ([1, 0, None], ["B", "A"])]),
    "a word twice": dictionary([([0, None, 2], ["A", "A", "B"]), ([1, 0, None], ["B", "A"])]),
    "small indices": dictionary(NULL_FIRST, pa.int8(), pa.large_string()),
    "unsigned indices": dictionary(NULL_FIRST, pa.uint32()),
    "views": dictionary(NULL_FIRST, words=pa.string_view()),
    "a dictionary of a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 0, 2, 1]), pa.array(["A", None, "B"]).dictionary_encode()
    ),
    "more words than small indices count": dictionary(
        [([0, None, 1], ["A", "B", *NUMBERS[:99]]), ([0, 1, None], ["A", "B", *NUMBERS[99:]])], pa.int8()
    ),
}  # fmt: skip

ANY = "USE skip_till_any_match"
QUERIES = [
    f"PATTERN SEQ(a, b) {ANY} WHERE a.k = 'A' AND b.k = 'B'",
    f"PATTERN SEQ(a, b) {ANY} WHERE a.k IS NULL AND b.k LIKE 'B%'",
    f"PATTERN SEQ(a, b) {ANY} WHERE a.k = b.k RETURN a.k AS k",
    f"PATTERN SEQ(a, b) {ANY} WHERE [k]",
    f"PATTERN SEQ(a, b) {ANY} PARTITION BY k RETURN COUNT(*) AS n, MAX(b.k) AS most PER PARTITION",
    """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES A.k AS k PATTERN (A B)
       DEFINE A AS k = 'A', B AS k IS NULL)""",
    """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
       MEASURES COUNT(DISTINCT A.k) AS n, MAX(A.k) AS most, ARRAY_AGG(A.k) AS all_of PATTERN (A+)
       DEFINE A AS x > 0)""",
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY k, t MEASURES FIRST(A.x) AS x PATTERN (A+) DEFINE A AS x > 0)",
]


def table(column: Any) -> pa.Table:
    return pa.table({"t": [1, 2, 3, 4, 5, 6], "k": column, "x": [1, 2, 3, 4, 5, 6]})


def answer(found: pa.Table) -> Counter[str]:
    rows = [{name: value for name, value in row.items() if name != "match_id"} for row in found.to_pylist()]
    return Counter(map(str, rows))


def asked(events: pa.Table, query: str, **how: Any) -> Counter[str]:
    return answer(cerise.find(events, query, **({"time": "t"} if query.startswith("PATTERN") else {}), **how))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_dictionary_is_what_its_values_are(name: str, query: str) -> None:
    expected = asked(table(pa.array(WORDS)), query)
    assert expected.total()
    assert asked(table(COLUMNS[name]), query) == expected
    if query.startswith("PATTERN"):
        assert asked(table(COLUMNS[name]), query, options=cerise.Options(engine="reference")) == expected


@pytest.mark.parametrize("name", COLUMNS)
def test_types_and_misses_of_dictionaries(name: str) -> None:
    query = "PATTERN SEQ(A a, B b)"
    roles = {"time": "t", "type": "k"}
    plain, coded = table(pa.array(WORDS)), table(COLUMNS[name])
    assert answer(cerise.find(coded, query, **roles)) == answer(cerise.find(plain, query, **roles))
    misses = [str(cerise.explain_misses(each, "PATTERN SEQ(A a, Z z)", **roles)) for each in (plain, coded)]
    assert misses[0] == misses[1]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_store_of_dictionaries(name: str, tmp_path: Path) -> None:
    events = table(COLUMNS[name])
    store = cerise.Store.create(tmp_path / "store", schema=events, time="t", index=["k"])
    store.append(events)
    for query in QUERIES:
        assert answer(store.find(query)) == asked(table(pa.array(WORDS)), query), query


@pytest.mark.parametrize(
    "values", [[7, None, 9], [7.5, None, 9.5], [True, None, False], [b"x", None, b"y"]], ids=str
)
def test_dictionaries_of_other_values(values: list[Any]) -> None:
    words = pa.array(values).type
    coded = dictionary([([0, 1, 2], values), ([1, 0, 2], [values[2], values[0], None])], words=words)
    plain = pa.array([*values, values[0], values[2], None], words)
    for query in ("PATTERN SEQ(a, b) USE strict_contiguity RETURN a.k AS k", QUERIES[3]):
        if not pa.types.is_binary(words) or "RETURN" in query:
            assert asked(table(coded), query) == asked(table(plain), query)


def test_dictionaries_inside_other_types() -> None:
    parts = COLUMNS["null among the words of each chunk"].chunks
    structs = pa.chunked_array([pa.StructArray.from_arrays([each], ["k"]) for each in parts])
    lists = pa.chunked_array([pa.ListArray.from_arrays([0, 1, 2, 3], each) for each in parts])
    events = pa.table({"t": [1, 2, 3, 4, 5, 6], "s": structs, "l": lists})
    query = "PATTERN SEQ(a, b) WHERE a.s.k = 'A' AND b.s.k IS NULL"
    (found, *_) = cerise.find(events, query, time="t").to_pylist()
    assert found["a"] == {"t": 1, "s": {"k": "A"}, "l": ["A"]}
    assert found["b"] == {"t": 2, "s": {"k": None}, "l": [None]}
