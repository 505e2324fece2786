"""Tasks that read a Delta table themselves leave out what its deletion vectors delete."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import cerise
from cerise import Options
from cerise.engines.limits import Limits
from cerise.files import event_files as files
from tests.spark.test_lake import RISES, ROLES, ids, stream
from tests.support.faults.deletions import delete, paths, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTAS_OWN = str(Path(__file__).parents[1] / "store" / "deleted")
CHAINED = RISES + " OUTPUT NON_OVERLAPPING"
pytestmark = pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")


def written(path: Path, table: pa.Table, seed: int = 0) -> tuple[str, pa.Table]:
    """Write a table as three files, delete a third of it, and return its path and what is left of it.

    Of one row group of each file all is deleted, of another nothing.
    """
    rng = random.Random(seed)
    size = -(-len(table) // 3)
    parts = [table.slice(first, size) for first in rng.sample(range(0, len(table), size), 3)]
    write(path, parts, group=20)
    kept = [[(n >= 40 and rng.random() < 0.7) or 20 <= n < 40 for n in range(len(part))] for part in parts]
    deleted = [[n for n, stays in enumerate(each) if not stays] for each in kept]
    delete(path, dict(zip(paths(path), deleted, strict=True)))
    left = [part.filter(pa.array(each)) for part, each in zip(parts, kept, strict=True)]
    return str(path), pa.concat_tables(left)


def spelled(found: Any) -> list[str]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize(
    "query",
    [
        RISES, CHAINED, RISES.replace("WITHIN 20", "WITHIN 12 EVENTS"),
        "PATTERN SEQ(a, b+, c) USE strict_contiguity WHERE b[i].x >= a.x AND c.x < a.x WITHIN 30",
        "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 3 EVENTS",
        "PATTERN SEQ(A a, B b) PARTITION BY k OUTPUT NON_OVERLAPPING",
    ],
)  # fmt: skip
def test_matches_are_those_of_what_is_left(tmp_path: Path, spark: SparkSession, query: str) -> None:
    for seed, partitions in enumerate((1, 5)):
        path, left = written(tmp_path / str(seed), stream(seed=seed), seed)
        found = cerise.find(path, query, **ROLES, options=Options(partitions=partitions), spark=True)
        assert spelled(found) == spelled(cerise.find(left, query, **ROLES))


def test_files_out_of_order(tmp_path: Path, spark: SparkSession) -> None:
    options = Options(limits=Limits(task_events=100))
    shuffled = stream().take(pa.array(random.Random(1).sample(range(400), 400)))
    path, left = written(tmp_path / "events", shuffled)
    assert "exchanged by time: row groups are few, or overlap in time" in cerise.explain(
        path, RISES, **ROLES, options=options, spark=True
    )
    found = cerise.profile(path, RISES, **ROLES, options=options, spark=True)
    assert spelled(found.matches) == spelled(cerise.find(left, RISES, **ROLES))
    wanted = sum(each in "AB" for each in left.column("kind").to_pylist())
    assert wanted <= found.report.figures["events handed over"] < len(left)


def test_what_is_deleted_is_not_counted(tmp_path: Path, spark: SparkSession) -> None:
    table = stream()
    path, left = written(tmp_path / "events", table)
    found = cerise.profile(path, RISES, **ROLES, options=Options(partitions=1), spark=True)
    assert ids(found.matches) == ids(cerise.find(left, RISES, **ROLES))
    figures = found.report.figures
    assert figures["events"] == figures["events read"] == len(left)
    assert figures["row groups read"] == figures["row groups after pruning"] == figures["row groups"] - 3
    assert cerise.count(path, RISES, **ROLES, spark=True) == figures["matches"]
    assert (
        cerise.count(path, RISES, **ROLES, version=1, spark=True) > figures["matches"]
    )  # nothing is deleted yet
    said = cerise.explain(path, RISES, **ROLES, spark=True)
    assert f", without {len(table) - len(left)} deleted rows" in said
    assert f"{len(left)} in files" in said


def test_match_recognize(tmp_path: Path, spark: SparkSession) -> None:
    path, left = written(tmp_path / "events", stream())
    for partition in ("", "PARTITION BY k "):
        clause = f"""SELECT * FROM events MATCH_RECOGNIZE ({partition}ORDER BY t, note
            MEASURES A.t AS first, LAST(UP.note) AS last, COUNT(*) AS events
            AFTER MATCH SKIP TO NEXT ROW PATTERN (A UP{{2,}}) DEFINE UP AS x >= PREV(x))"""
        assert spelled(cerise.find(path, clause, spark=True)) == spelled(cerise.find(left, clause))


def test_a_table_of_deltas_own(spark: SparkSession) -> None:
    left = files.read(DELTAS_OWN)
    assert len(left) == 565
    query = "PATTERN SEQ(A a, B b, A c) WHERE b.x > a.x WITHIN 9"
    for partitions in (None, 4):
        found = cerise.find(DELTAS_OWN, query, **ROLES, options=Options(partitions=partitions), spark=True)
        assert spelled(found) == spelled(cerise.find(left, query, **ROLES))
        assert found.count() > 50
