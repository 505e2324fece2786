"""How queries would run on a stream: when a match is final, and what bounds the state.

Pure text about bound queries; nothing runs, and no Spark is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cerise.engines.base import Options
from cerise.engines.choose import why_late
from cerise.engines.rows.table_search import explain as explain_rows
from cerise.errors import UnsupportedError
from cerise.kinds import MOMENTS, Kind
from cerise.pattern.query import Output, Per, Unit
from cerise.pattern.row_pattern import (
    Alternation,
    Anchor,
    BoundRows,
    Concat,
    Excluded,
    Label,
    Nav,
    Permute,
    Quantified,
    RowPattern,
    walk_rows,
)
from cerise.pattern.show import show_duration, show_path, show_window
from cerise.plan.needs import any_filter
from cerise.plan.pushdown import as_sql
from cerise.run.explained import explain as plans
from cerise.run.question import Questions
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.streaming.live_query import StreamQuery, check_query
from cerise.streaming.query_groups import StreamGroup, group_queries, needs_of
from cerise.streaming.reports.figures import fact_lines
from cerise.streaming.stages import (
    StreamQuestion,
    is_late,
    keeps_twice,
    stages_of,
    waits,
    why_not_rebuilt,
    window_of,
)

GIVE_DELAY = "not set: give delay= to watch, or withWatermark to the stream"
LATER = "once the watermark has passed it"
SILENCE = (
    "an answer that waits for time comes only when later events, of any key, move the watermark; "
    "idle= lets the clock move it where no event comes"
)


@dataclass(frozen=True, slots=True)
class StreamSetting:
    """The stream that queries are explained for.

    Attributes:
        kind: the kind of the time column.
        delays: how late events of each source may be; None: not set yet.
        buckets: how many buckets the keys are divided into.
        sampled: one in this number of other events is handed over, to tell the time.
        options: how queries run.
    """

    kind: Kind
    delays: Mapping[str, int] | None
    buckets: int
    sampled: int
    options: Options = Options()


def explain_stream(queries: Sequence[StreamQuery], setting: StreamSetting) -> str:
    """Return the meaning of queries over a stream, and how they would run, as text."""
    texts = []
    for each in queries:
        named = [f"query {each.name}"] if len(queries) > 1 else []
        facts = [(name, text) for name, text in explain_query(each, setting).items()]
        texts.append("\n".join([*named, *_explain_stages(each.question, setting), *fact_lines(facts)]))
    return "\n\n".join([*texts, "\n".join(fact_lines(_explain_flow(queries, setting)))])


def _explain_stages(question: StreamQuestion, setting: StreamSetting) -> Iterator[str]:
    """Yield the meaning and the engine of a query; of FROM, the query that reads the stream comes first."""
    if isinstance(question, RowClause):
        facts = explain_rows(question.bound, setting.options)
        facts.pop("slices", None)  # a stream is not cut by time
        yield from fact_lines([("runs", "on Spark, as a stream"), *facts.items()])
        return
    if question.inner is not None:
        yield from _explain_stages(question.inner, setting)
        yield ""
    yield plans.explain(Questions.of([question]), setting.options, None, here=False)


# ---- one query


def explain_query(query: StreamQuery, setting: StreamSetting) -> dict[str, str]:
    """Return facts about one query on a stream, by name; a query that cannot run has only the reason."""
    try:
        check_query(query.name, query.question, setting.options, unbounded=True)
    except UnsupportedError as error:
        hint = f"; {error.hint}" if error.hint else ""
        return {"refused": error.problem + hint}
    facts = {
        "final": say_final(query.question, setting.kind),
        "state": say_bound(query.question, setting.kind),
        "rebuilt": _say_rebuilt(query.question),
    }
    return facts | ({"silence": SILENCE} if needs_time(query.question) else {})


def say_final(question: StreamQuestion, kind: Kind) -> str:
    """Say when a match is final, so that the stream gives it."""
    *inner, last = stages_of(question)
    if isinstance(last, RowClause):
        return _say_rows_final(last.bound, kind)
    texts = [_say_late_final(last, kind) if is_late(last) else _say_sase_final(last, kind)]
    texts += [f"its inner query is {_say_late(each)}" for each in inner if is_late(each)]
    return "; ".join(texts)


def _say_late_final(question: StreamQuestion, kind: Kind) -> str:
    assert isinstance(question, Sase)
    query, window = question.bound.query, _say_window(question, kind)
    chooses = query.output is Output.NON_OVERLAPPING or query.limit is not None
    if query.totals is None:
        event = "last" if chooses else "first"
        return f"when a window{window} has passed since its {event} event: {_say_late(question)}"
    point = "the end of theirs" if query.totals.per.window else "their event"
    return f"totals: when a window{window} has passed since {point}: {_say_late(question)}"


def _say_late(question: StreamQuestion) -> str:
    assert isinstance(question, Sase)
    reason = why_late(question.bound)
    return f"late by one window, because only the reference engine can run it: {reason}"


def _say_sase_final(last: Sase, kind: Kind) -> str:
    totals = last.bound.query.totals
    if totals is not None and totals.per.window:
        return "totals of a window: when the watermark has passed its end"
    if totals is not None and totals.per is Per.EVENT:
        return f"totals of an event: {LATER}"
    if waits(last):
        return f"when its window{_say_window(last, kind)} has passed, because {_say_vetoes(last)}"
    chosen = last.bound.query.output is Output.NON_OVERLAPPING
    return f"at its last event, {LATER}" + (
        "; matches that overlap an earlier one are dropped" if chosen else ""
    )


def _say_vetoes(question: Sase) -> str:
    absences = [each.absence for branch in question.bound.branches for each in branch.negations]
    after = [each.var.name for each in absences if not each.anywhere and not each.before]
    anywhere = [each.var.name for each in absences if each.anywhere]
    texts = [f"no {' or '.join(dict.fromkeys(after))} may follow"] if after else []
    texts += [f"no {' or '.join(dict.fromkeys(anywhere))} may occur in it"] if anywhere else []
    return " and ".join(texts)


def _say_rows_final(bound: BoundRows, kind: Kind) -> str:
    expires = (
        "" if bound.within is None else f", or {_show_extent(bound.within.size, kind)} (WITHIN) have passed"
    )
    ahead = max((each.shift for each in bound.atoms.values() if isinstance(each, Nav)), default=0)
    tail = find_open_tail(bound.pattern)
    if any(isinstance(each, Anchor) and not each.start for each in walk_rows(bound.pattern)):
        text = f"when the partition can have no further row in its window{expires.replace(', or', ':')}"
    elif tail is not None:
        text = f"when a row breaks {_show_tail(tail)} at its end{expires}"
    elif any(is_greedy(each) for each in walk_rows(bound.pattern)):
        preferred = "where that row could lead to a preferred match"
        text = f"at its last row, or, {preferred}, when rows break it{expires}"
    else:
        text = f"at its last row, {LATER}"
    text += f"; {ahead:,} rows later, because of NEXT" if ahead > 0 else ""
    timeouts = bound.within is not None and bound.within.timeouts
    return text + ("; a partial match becomes a timeout when its window has passed" if timeouts else "")


def is_greedy(pattern: RowPattern) -> bool:
    """Whether a part can take a varying number of rows, and prefers more."""
    return isinstance(pattern, Quantified) and pattern.high != pattern.low and not pattern.reluctant


def find_open_tail(pattern: RowPattern) -> RowPattern | None:
    """Return the part at the end of a pattern that prefers further rows; None: a match ends for certain."""
    match pattern:
        case Quantified(item=item):
            return pattern if is_greedy(pattern) else find_open_tail(item)
        case Excluded(item):
            return find_open_tail(item)
        case Concat(items):
            for item in reversed(items):
                if (found := find_open_tail(item)) is not None or count_rows(item)[0] > 0:
                    return found
        case Alternation(items):
            sizes = [count_rows(each) for each in items]
            longer = any(sizes[i][1] > low for i in range(len(sizes)) for low, _ in sizes[i + 1 :])
            return pattern if longer else _first_open(items)
        case Permute(items):
            return _first_open(items)
        case Label() | Anchor():
            pass
    return None


def _first_open(items: Sequence[RowPattern]) -> RowPattern | None:
    for each in items:
        if (found := find_open_tail(each)) is not None:
            return found
    return None


def count_rows(pattern: RowPattern) -> tuple[float, float]:
    """Return the least and the largest number of rows that a pattern takes."""
    match pattern:
        case Label():
            return 1, 1
        case Anchor():
            return 0, 0
        case Excluded(item):
            return count_rows(item)
        case Quantified(item, low, high):
            least, most = count_rows(item)
            return least * low, (most and float("inf")) if high is None else most * high
        case Alternation(items):
            sizes = [count_rows(each) for each in items]
            return min(low for low, _ in sizes), max(high for _, high in sizes)
        case Concat(items) | Permute(items):
            sizes = [count_rows(each) for each in items]
            return sum(low for low, _ in sizes), sum(high for _, high in sizes)


def _show_tail(tail: RowPattern) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if isinstance(tail, Quantified) and isinstance(tail.item, Label):
        sign = signs.get((tail.low, tail.high)) or f"{{{tail.low},{'' if tail.high is None else tail.high}}}"
        return f"{tail.item.name}{sign}"
    return "a preferred alternative" if isinstance(tail, Alternation) else "the repeated part"


def say_bound(question: StreamQuestion, kind: Kind) -> str:
    """Say how large the state of a query can grow."""
    texts = []
    for stage in stages_of(question):
        events = "rows" if isinstance(stage, RowClause) else "events"
        window = window_of(stage)
        if window is not None:
            length = _show_extent(2 * window if keeps_twice(stage) else window, kind)
            texts.append(f"the {events} of the last {length} before the watermark{_say_key(stage)}")
        elif isinstance(stage, Sase) and stage.bound.within is not None:
            texts.append(f"the last {show_window(stage.bound.within)}{_say_key(stage, each=True)}")
        else:
            texts.append("without bound, for lack of WITHIN: only with unbounded=True")
    return "; then ".join(texts)


def _say_key(stage: StreamQuestion, *, each: bool = False) -> str:
    key = ", ".join(map(show_path, stage.needs.partition))
    if not key:
        return ", of all keys together"
    return f" of each {key}" if each else f", by {key}"


def _say_rebuilt(question: StreamQuestion) -> str:
    reason = why_not_rebuilt(question)
    if reason is not None:
        return f"not after an upgrade that changes the form of the state: {reason}"
    kept = "its rows" if isinstance(question, RowClause) else "the journal"
    return f"from {kept}, if another engine or version of Cerise has written the state"


def needs_time(question: StreamQuestion) -> bool:
    """Whether the passing of time alone can complete an answer."""
    for stage in stages_of(question):
        if isinstance(stage, RowClause):
            within = stage.bound.within
            if within is not None and (within.timeouts or find_open_tail(stage.bound.pattern) is not None):
                return True
            continue
        totals = stage.bound.query.totals
        if waits(stage) or is_late(stage) or (totals is not None and totals.per.window):
            return True
    return False


def _say_window(question: Sase, kind: Kind) -> str:
    window = question.bound.within
    if window is None or window.unit is Unit.EVENTS:
        return "" if window is None else f" of {show_window(window)}"
    return f" of {_show_extent(int(str(window.size)), kind)}"


def _show_extent(size: int, kind: Kind) -> str:
    return show_duration(size) if kind in MOMENTS else f"{size:,}"


# ---- the stream


def _explain_flow(
    queries: Sequence[StreamQuery], setting: StreamSetting
) -> Iterator[tuple[str, str | Sequence[str]]]:
    """Yield facts about the stream that its queries share."""
    yield "delay", _say_delays(setting)
    groups = group_queries(queries, setting.buckets)
    yield "buckets", [_say_group(each, several=len(groups) > 1) for each in groups]
    yield "hands over", _say_filter(queries, setting)


def _say_delays(setting: StreamSetting) -> str | list[str]:
    if setting.delays is None:
        return GIVE_DELAY
    shown = {name: _show_extent(size, setting.kind) for name, size in setting.delays.items()}
    if len(shown) == 1:
        return f"{next(iter(shown.values()))}: an event that comes later is late, and set aside"
    return [f"{name}: {text}" for name, text in shown.items()]


def _say_group(group: StreamGroup, *, several: bool) -> str:
    names = f"{', '.join(each.name for each in group.queries)}: " if several else ""
    if not group.partition:
        return f"{names}one: the events have no key that all variables share"
    key = ", ".join(map(show_path, group.partition))
    return f"{names}{group.buckets:,}, the keys ({key}) are divided among them"


def _say_filter(queries: Sequence[StreamQuery], setting: StreamSetting) -> str:
    needs = [needs_of(each) for each in queries]
    wanted = any_filter([each.filter for each in needs])
    if wanted is None:
        reason = next((each.why_all for each in needs if each.filter is None and each.why_all), None)
        return "all events" + (f" ({reason})" if reason else "")
    sql = as_sql(wanted, {test.path: show_path(test.path) for tests in wanted for test in tests})
    return f"events where {sql}; and one in {setting.sampled} of the others, to tell the time"
