"""Runs plans on Spark, and reads DataFrames as a source."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.functions import broadcast, expr
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from cerise.engines.base import Options
from cerise.engines.rows.output import MATCHED
from cerise.engines.totals import group_names
from cerise.errors import UnsupportedError
from cerise.filters.passes.summaries import Passes
from cerise.pattern.row_pattern import BoundRows, Nav, Show
from cerise.plan.needs import Needs
from cerise.plan.pushdown import as_sql
from cerise.plan.slicing import AMPLIFIED
from cerise.run.access import Access
from cerise.run.files_access import FilesAccess
from cerise.run.find import Exchanged, Plan
from cerise.run.many.united_answers import TAG
from cerise.run.question import Question, Questions, has_totals
from cerise.run.report import Report
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.spark.exchange import BLOBS, Cutter
from cerise.spark.frames import arrow_schema, as_written, column, lake_behind, quote_path, result_schema
from cerise.spark.passes.filter_tasks import FILTER, SUMMARIES, FilterTask, MergeTask, SummaryTask
from cerise.spark.progress import progress
from cerise.spark.session import is_local, parallelism, session
from cerise.spark.task_errors import map_batches, translate_errors
from cerise.spark.tasks import ChooseTask, CombineTask, CutTask, MatchTask, Records, SliceTask, warn_of_ties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET_BYTES = 64 << 20
MOST_TASKS = 2_000
SLICES_PER_CORE = 3  # more slices than cores, so that no core waits long for the last slice
TARGETS_PER_CORE = 4  # if the size of a DataFrame is unknown
UNKNOWN_BYTES = 1 << 50  # Spark's estimates of unknown sizes are larger
COPIES, LONG_VALUE = 3, 32  # of rows in one task: as read, in order, and their order; bytes of a string


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A DataFrame: Catalyst prunes and filters, then Spark hands rows over for the exchange.

    Attributes:
        frame: the DataFrame.
        scan: why Spark reads the files, and not tasks of Cerise; None: it is the user's DataFrame.
        matches: whether its rows are the matches of another query.
    """

    frame: DataFrame
    scan: str | None = None
    matches: bool = False

    @property
    def columns(self) -> pa.Schema:
        return arrow_schema(self.frame)

    def access(self, questions: Questions, options: Options) -> Access | str:
        """Return the access path to the files, for row patterns over a DataFrame that is only files."""
        needs = questions.needs
        if needs.roles is None and not any(name in needs.computed for name in needs.reads):
            lake = lake_behind(self.frame)
            if lake is not None:
                return FilesAccess.of(lake, needs, options.limits)
        return ""

    def hand_over(self, needs: Needs) -> DataFrame:
        """Return the columns and rows that must cross to Python; columns are named by number."""
        events, spark = self.frame, self.frame.sparkSession
        for path in needs.not_null:
            events = events.where(column(path).isNotNull())
        if needs.filter is not None:
            paths = {test.path for tests in needs.filter for test in tests}
            sql = as_sql(needs.filter, {path: quote_path(path) for path in paths})
            wanted = expr(as_written(spark, sql))
            if needs.roles is not None:
                wanted = wanted | column((needs.roles.time,)).isNull()  # a task refuses such events
            events = events.where(wanted)
        return events.select(
            *(
                (
                    expr(as_written(spark, needs.computed[name]))
                    if name in needs.computed
                    else column((name,))
                ).alias(f"c{i}")
                for i, name in enumerate(needs.columns.names)
            )
        )

    @property
    def bytes(self) -> int | None:
        """How many bytes Spark expects; None if unknown."""
        known = self._statistics()
        size = UNKNOWN_BYTES if known is None else int(str(known.sizeInBytes()))
        return size if size < UNKNOWN_BYTES else None

    @property
    def rows(self) -> int | None:
        """How many rows Spark expects; None if unknown."""
        known = self._statistics()
        rows = None if known is None else known.rowCount()
        return int(str(rows.get())) if rows is not None and rows.isDefined() else None

    def _statistics(self) -> Any:
        frame = getattr(self.frame, "_jdf", None)
        if frame is None:
            return None
        with translate_errors():
            return frame.queryExecution().optimizedPlan().stats()


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Runs plans as tasks of Spark; answers are lazy DataFrames."""

    spark: SparkSession
    exchanges = True

    @classmethod
    def of(cls, given: Any) -> OnSpark:
        """Return the runner for a session; for True, of the running session or a new one."""
        if given is True:
            return cls(session())
        if not callable(getattr(given, "range", None)):
            raise UnsupportedError(
                f"spark= is a {given.__class__.__name__}",
                hint="give a SparkSession, or True for the one there is",
            )
        return cls(given)

    def slices(self, access: Access, needs: Needs, options: Options) -> tuple[int, float]:
        """Return a few slices for each core; for row patterns, more, so that each fits in memory."""
        if options.partitions:
            return options.partitions, math.inf
        most = SLICES_PER_CORE * parallelism(self.spark)
        if needs.roles is None:
            most = max(most, -(-access.rows // options.limits.exchanged_events))
        return min(MOST_TASKS, most), AMPLIFIED

    def targets(self, source: Any, access: Access | None, options: Options) -> int:
        """Return how many tasks take exchanged events."""
        cores = parallelism(self.spark)
        if options.partitions:
            return options.partitions
        if access is not None:
            return min(MOST_TASKS, max(cores, -(-access.rows // options.limits.exchanged_events)))
        size = source.bytes
        if size is None:
            return TARGETS_PER_CORE * cores
        return min(MOST_TASKS, max(cores, -(-int(size) // TARGET_BYTES)))

    def cores(self) -> int:
        return parallelism(self.spark)

    def gather(self, access: Access, needs: Needs, options: Options) -> tuple[int, str] | None:
        """Return with how many threads one task searches all rows, and why; None: rows are exchanged.

        An exchange costs several times the search. In a local session a task has all memory and all cores,
        which a search for a row pattern can use.
        """
        if needs.roles is not None or options.partitions or not is_local(self.spark):
            return None
        size = COPIES * access.rows * sum(width_of(each.type) for each in needs.columns)
        if size > memory_of_machine() * options.limits.gathered_percent // 100:
            return None
        threads = options.threads or parallelism(self.spark)
        share = f"{options.limits.gathered_percent} % of the memory of this machine"
        return threads, f"with {threads} threads: the session is local, and the rows fit into {share}"

    def source(self, matches: DataFrame) -> FrameSource:
        return FrameSource(matches, matches=True)

    def run(self, plan: Plan, *, noted: bool) -> tuple[DataFrame, Report]:
        """Return the answer as a lazy DataFrame, and a report that its tasks fill."""
        records = self._records(plan, noted=noted)
        rows = self._rows(plan, records)
        access = plan.access
        known = {} if access is None else access.known
        return _finish(rows, plan), records.report(known, {} if access is None else access.explain())

    def collect(self, plan: Plan) -> pa.Table:
        """Return the answer as a table, combined in the driver, which saves a stage of tasks."""
        records = self._records(plan, noted=False)
        rows = self._rows(plan, records)
        with progress(self.spark, "counting"), translate_errors():
            table = plan.questions.finish_table(rows.toArrow())
        warn_of_ties(records)
        return table

    def has_rows(self, plan: Plan) -> bool:
        """Return whether a search gives a row: Spark starts one task first, and ends it at the first row."""
        records = self._records(plan, noted=False)
        with progress(self.spark, "searching"), translate_errors():
            return bool(self._rows(plan, records).take(1))

    def unite(self, answers: Sequence[DataFrame], questions: Questions) -> DataFrame:
        """Return the union of the answers to groups of questions, with the columns of all."""
        names = questions.result.names
        places = {name: f"c{place}" for place, name in enumerate(names)}  # Spark mistakes `A` for `a`
        numbered = [each.toDF(*(places[name] for name in each.columns)) for each in answers]
        whole = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), numbered)
        return whole.select(*places.values()).toDF(*names)

    def _records(self, plan: Plan, *, noted: bool) -> Records:
        """Return the records of tasks' figures: all, or only the ties of a DataFrame's rows, or none."""
        if isinstance(plan.source, FrameSource):
            return Records.of_frame(self.spark, noted=noted)
        return Records.of(self.spark) if noted else Records()

    def _rows(self, plan: Plan, records: Records) -> DataFrame:
        """Return the rows that searches give, as a lazy DataFrame."""
        schema = partial_schema(plan.questions, spark_columns(plan.source))
        if isinstance(plan, Exchanged):
            task = MatchTask(plan.questions, plan.options, records, _counts_ties(plan.source))
            blobs = self._blobs(plan, records)
            return map_batches(blobs.repartition(plan.targets.count, "target"), task, schema)
        sent = replace(plan, source=None)
        if not plan.chained:
            return map_batches(self._numbers(len(plan.slices)), SliceTask(sent, records), schema)
        (question,) = plan.questions.each
        arrow, order = question.candidate_schema
        wanted = _candidate_schema(arrow, schema)
        candidates = map_batches(self._numbers(len(plan.slices)), SliceTask(sent, records), wanted)
        in_order = candidates.repartition(1).sortWithinPartitions(*order)
        return map_batches(in_order, ChooseTask(sent, records), schema, wanted.names)

    def _blobs(self, plan: Exchanged, records: Records) -> DataFrame:
        needs, options = plan.questions.needs, plan.options
        if plan.access is None:
            assert isinstance(plan.source, FrameSource)
            cutter = Cutter(needs, plan.targets, False, options.limits)
            return map_batches(plan.source.hand_over(needs), CutTask(cutter, records), BLOBS)
        portions = plan.access.portions(SLICES_PER_CORE * parallelism(self.spark))
        numbers = self._numbers(len(portions))
        if not isinstance(plan.passes, str):
            return self._pass_over(plan, plan.passes, portions, records)
        cutter = Cutter(needs, plan.targets, True, options.limits)
        return map_batches(numbers, CutTask(cutter, records, plan.access, portions), BLOBS)

    def _pass_over(
        self, plan: Exchanged, passes: Passes, portions: Sequence[Any], records: Records
    ) -> DataFrame:
        """Return the blobs of events inside the filter that passes over the files make; nothing runs yet."""
        assert isinstance(plan.access, FilesAccess)
        given = numbers = self._numbers(len(portions))
        for step in range(len(passes.steps)):
            task = SummaryTask(plan.access, portions, passes, step, records)
            sent = map_batches(given, task, SUMMARIES).repartition(1)
            merged = map_batches(sent, MergeTask(passes, step, records), FILTER)
            given = numbers.crossJoin(broadcast(merged))
        cutter = Cutter(plan.questions.needs, plan.targets, False, plan.options.limits)
        last = FilterTask(CutTask(cutter, records).write_blobs, plan.access, portions, passes, records)
        return map_batches(given, last, BLOBS)

    def _numbers(self, count: int) -> DataFrame:
        return self.spark.range(0, count, 1, count)


def width_of(kind: pa.DataType) -> int:
    """Return how many bytes a value of a type takes, about."""
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:  # of no fixed width
        return LONG_VALUE


def memory_of_machine() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _counts_ties(source: Any) -> bool:
    return isinstance(source, FrameSource) and not source.matches


def spark_columns(source: Any) -> StructType:
    """Return the columns of a source with Spark types."""
    return source.frame.schema if isinstance(source, FrameSource) else from_arrow_schema(source.columns)


# ---- the columns of answers


def answer_schema(questions: Questions, columns: StructType) -> StructType:
    """Return the columns of answers; columns of the events keep their Spark types."""
    found = [_question_schema(each, columns) for each in questions.each]
    if questions.tags is None:
        return found[0]
    fields: dict[str, StructField] = {TAG: StructField(TAG, StringType(), False)}
    for each in (each for schema in found for each in schema):
        fields.setdefault(each.name, StructField(each.name, each.dataType, True))
    return StructType(list(fields.values()))


def _question_schema(question: Question, columns: StructType) -> StructType:
    if isinstance(question, Sase):
        return result_schema(question.bound, columns)
    return from_arrow_schema(question.result)


def partial_schema(questions: Questions, columns: StructType) -> StructType:
    """Return the columns that searches give: matches, partial totals, or the atoms of measures."""
    first = questions.each[0]
    if isinstance(first, RowClause):
        return _atom_schema(first, columns)
    if has_totals(first):
        return from_arrow_schema(questions.partial)
    return answer_schema(questions, columns)


def _atom_schema(question: RowClause, columns: StructType) -> StructType:
    """Return the columns of atoms; columns of the input keep their Spark types."""
    bound = question.bound
    shown = {f"_s{i}": each.name for i, each in enumerate(bound.output) if not each.measure}
    known = {each.name: each.dataType for each in columns.fields}
    atoms = {name: atom.column for name, atom in bound.atoms.items() if isinstance(atom, Nav)}
    return StructType(
        [
            StructField(each.name, known.get(shown.get(each.name, atoms.get(each.name, "")), each.dataType))
            for each in from_arrow_schema(question.partial).fields
        ]
    )


def _candidate_schema(arrow: pa.Schema, schema: StructType) -> StructType:
    """Return the columns of candidates; columns of matches keep their Spark types."""
    known = {each.name: each for each in schema}
    return StructType([known.get(each.name, each) for each in from_arrow_schema(arrow)])


# ---- the last step


def _finish(rows: DataFrame, plan: Plan) -> DataFrame:
    """Combine the rows of all searches into the answer."""
    question = plan.questions.each[0]
    if isinstance(question, RowClause):
        return compute_measures(rows, question.bound)
    if not isinstance(question, Sase) or question.bound.query.totals is None:
        return rows
    schema = answer_schema(plan.questions, spark_columns(plan.source))
    groups = group_names(question.bound)
    if groups:
        keys = groups if plan.questions.tags is None else [TAG, *groups]
        together = rows.repartition(*(column((name,)) for name in keys))
        task = CombineTask(plan.questions, plan.options, nested=False)
        return map_batches(together, task, schema, plan.questions.partial.names)
    listed = rows.agg(expr("collect_list(struct(*)) AS parts"))  # gives a row even without matches
    return map_batches(listed, CombineTask(plan.questions, plan.options, nested=True), schema)


def compute_measures(found: DataFrame, bound: BoundRows) -> DataFrame:
    """Let Spark compute the measures from atoms, by its own rules."""
    sql = {each.name: f"({as_written(found.sparkSession, each.sql)})" for each in bound.measures}
    if bound.show is Show.UNMATCHED:
        sql = {name: f"CASE WHEN {MATCHED} THEN {text} END" for name, text in sql.items()}
    return found.select(
        *(
            expr(sql[each.name] if each.measure else f"_s{i}").alias(each.name)
            for i, each in enumerate(bound.output)
        )
    )
