"""What verbs give shows itself in a notebook."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import cerise

EVENTS = pa.table({"kind": ["A", "B"] * 30, "t": range(60), "<x>": ["<b>"] * 60})
QUERY = "PATTERN SEQ(A a, B b) WITHIN 1 RETURN a.t AS t, '<i>' AS tag"
ROLES = {"time": "t", "type": "kind"}


def test_what_run_and_profile_give_is_a_table_and_figures() -> None:
    shown = cerise.profile(EVENTS, QUERY, **ROLES)._repr_html_()
    assert shown.count("<tr>") == 21
    assert "the first 20 of 30 rows" in shown
    assert "&lt;i&gt;" in shown
    assert "<i>" not in shown
    assert "matches" in shown.split("<pre")[1]
    few = cerise.profile(EVENTS.slice(0, 2).to_pandas(), QUERY, **ROLES)._repr_html_()
    assert "<table" in few


def test_texts_keep_their_lines() -> None:
    explained = cerise.explain(EVENTS, QUERY, **ROLES)
    assert isinstance(explained, str)
    assert explained in explained._repr_html_().replace("&lt;", "<").replace("&#x27;", "'").replace(
        "&gt;", ">"
    )  # type: ignore[attr-defined]
    misses = cerise.explain_misses(EVENTS, "PATTERN SEQ(B b, A a) WITHIN 0", limit=3, **ROLES)
    assert misses._repr_html_().startswith("<pre")
    query = cerise.parse(QUERY)
    assert "PATTERN SEQ(A a, B b)" in query._repr_html_()
    assert "matches" in cerise.profile(EVENTS, QUERY, **ROLES).report._repr_html_()


def test_a_store_shows_its_events(tmp_path: Path) -> None:
    store = cerise.Store.create(str(tmp_path / "s"), schema=EVENTS.schema, time="t", type="kind")
    store.append(EVENTS)
    assert "events   60" in store._repr_html_()
    assert "&lt;x&gt;" in store._repr_html_()


@pytest.mark.filterwarnings("error")
def test_nothing_warns() -> None:
    cerise.find(EVENTS, QUERY, **ROLES)
