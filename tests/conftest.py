"""Fixtures for all tests: one Spark session, in one worker."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
SLOW = """
    cli data kernels spark store/table store/test_damage.py store/test_object_store.py
    engines/test_chains.py engines/test_counting.py engines/test_nfa_small.py engines/test_nfa_state.py
    engines/test_nfa_streams.py engines/test_rcep_joins.py engines/test_rcep_leaps.py
    engines/test_rcep_pieces.py engines/test_rcep_pruning.py::test_pruning_never_loses_a_match
    engines/test_return_columns.py::test_all_at_once_and_one_by_one engines/test_row_computing.py
    engines/test_row_engine.py::test_a_clause_is_explained_without_numba engines/test_row_limits.py
    engines/test_row_output.py engines/test_row_skipping.py engines/test_row_slices.py engines/test_totals.py
    filters/test_row_index_query.py::test_what_is_kept_has_the_same_answer filters/test_two_phase.py
    lang/test_show.py::test_what_is_shown_parses_to_the_same_query
    pattern/test_values.py::test_like_agrees_with_one_that_tries_everything
    store/index/test_lookup.py::test_look_ups_find_what_a_loop_over_the_rows_finds
    store/test_store.py::test_a_store_finds_what_is_found_in_the_same_events
    test_agreement.py test_api.py::test_finding_in_arrow_loads_no_spark test_docs.py test_door_fuzz.py
    test_doors.py test_limits.py test_misses.py test_papers.py test_row_agreement.py
    test_sources.py::test_files_and_a_store_answer_as_the_table_does test_times_at_the_ends.py
    test_untyped.py::test_an_empty_frame_finds_nothing
    streaming/test_state_files.py::test_a_state_among_objects
    streaming/test_state_files.py::test_a_writer_that_is_killed_leaves_whole_versions
    streaming/test_state_files.py::test_random_lives_of_a_state
""".split()  # what `make quick` leaves out: folders, files and tests
# Spark's JVMs live for a minute here: code that is optimised at length never pays.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from cerise.spark.session import session

    running = session(cores=2, memory="1g", spark_sql_shuffle_partitions=2)
    yield running
    running.stop()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all tests with a session on one xdist worker, and start it with them: the other does the rest.

    Tests that share a fixture of their module, which is made once in each worker, share a worker as well.
    The tests of the benchmarks run in `make nightly`: most of them start processes that run whole suites. So
    do the tests with a broker of Kafka, which comes from Maven: other tests need PyPI alone.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.spark)
        elif item.get_closest_marker("xdist_group") is None and shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
        if item.path.parent == HERE / "benchmarks" or "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.nightly)
        if is_slow(item.path) or name_of(item) in SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: group_of(item) != "spark")  # all of a module together: its fixtures are kept


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files that are slow unread where their tests are not asked for."""
    return True if "not slow" in config.option.markexpr and is_slow(collection_path) else None


def shares_a_fixture(item: pytest.Item) -> bool:
    known = getattr(item, "_fixtureinfo", None)
    return known is not None and any(each[-1].scope == "module" for each in known.name2fixturedefs.values())


def group_of(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark is not None else None


def name_of(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").split("[")[0]


@functools.cache  # thousands of tests are in a hundred files
def is_slow(path: Path) -> bool:
    return any(path.is_relative_to(HERE / each) for each in SLOW)
