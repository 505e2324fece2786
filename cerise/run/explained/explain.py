"""Writes plans as text for users: the meaning of a query, where it runs and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cerise.engines.base import Options
from cerise.engines.choose import choose, reasons
from cerise.engines.rows.table_search import explain as explain_rows
from cerise.filters.passes.plan_passes import explain_passes
from cerise.pattern.bound import Bound
from cerise.pattern.show import show_path
from cerise.plan.explain import describe
from cerise.plan.pushdown import Needed, as_sql
from cerise.run.explained.explain_list import MOST_EXPLAINED, SharedText, name_only, show_group
from cerise.run.files_access import FilesAccess
from cerise.run.find import Exchanged, GroupPlan, Plan
from cerise.run.question import Question, Questions
from cerise.run.report import Report
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase


def explain(questions: Questions, options: Options, plan: Plan | None, *, here: bool) -> str:
    """Return the meaning of a question, or of several, and how they would run, as text.

    Args:
        questions: the questions.
        options: how to run.
        plan: the plan; None: the source is only a schema, a table, or the matches of another query.
        here: whether this process runs the plan.
    """
    where = "in this process" if here else "on Spark"
    if questions.each[0].inner is not None:
        where += ", over the matches of the query before it"
    facts = {"runs": where, **({} if plan is None else explain_plan(plan, here=here))}
    return "\n\n".join(
        _name(questions, number) + _explain_one(each, options, facts, here=here)
        for number, each in enumerate(questions.each)
    )


def explain_list(
    questions: Questions,
    options: Options,
    plans: Sequence[GroupPlan],
    *,
    here: bool,
    only: str | None = None,
    report: Report | None = None,
) -> str:
    """Return how a list of questions would run: its groups, the plans they share, and each question.

    Args:
        questions: the questions.
        options: how to run.
        plans: the plan of each group of questions.
        here: whether this process runs the plans.
        only: the name of the only question to explain; None: all, if they are few.
        report: the report of a run of the questions; None: they have not run.
    """
    wanted = name_only(questions, only)
    heads, texts = [], dict[int, str]()
    for place, each in enumerate(plans, 1):
        numbers = each.group.numbers
        facts = {"runs": "in this process" if here else "on Spark"}
        if len(plans) > 1:
            facts["group"] = f"{place} of {len(plans)}, {show_group(questions, each.group)}"
        some = questions if len(numbers) == len(questions.each) else questions.select(numbers)
        shared = SharedText(some, each.plan.access, options, report)
        how = explain_plan(each.plan, here=here)
        if wanted is None:
            heads += [_indent("group", facts["group"])] if len(plans) > 1 else []
            heads += [_indent("exchange", how["exchange"])] if "exchange" in how else []
            heads += [_indent("plan", shared.describe())] if shared.numbers else []
        facts |= how
        for number in numbers if wanted is None else {*numbers} & {wanted}:
            if wanted is None and len(questions.each) > MOST_EXPLAINED:
                continue
            place_in_group = numbers.index(number)
            drawn = shared.draw(place_in_group) if place_in_group in shared.numbers else None
            texts[number] = _name(questions, number) + _explain_one(
                questions.each[number], options, facts, here=here, drawn=drawn
            )
    if wanted is None and len(questions.each) > MOST_EXPLAINED:
        heads.append(f"{'queries':<10} {len(questions.each):,}; explain(…, only='name') explains one")
    return "\n\n".join(["\n".join(heads)] * bool(heads) + [texts[number] for number in sorted(texts)])


def _indent(name: str, text: str) -> str:
    return f"{name:<10} " + text.replace("\n", "\n" + " " * 11)


def _name(questions: Questions, number: int) -> str:
    shown = questions.show_name(number)
    return "" if shown is None else f"{shown}\n\n"


def _explain_one(
    question: Question, options: Options, facts: Mapping[str, str], *, here: bool, drawn: str | None = None
) -> str:
    """Explain one question; `drawn` is its tree in a plan that it shares."""
    if isinstance(question, RowClause):
        others = {name: text for name, text in facts.items() if here or name != "exchange"}
        known = {**others, **explain_rows(question.bound, options, None if here else facts.get("exchange"))}
        return "\n".join(f"{name:<10} {text}" for name, text in known.items())
    assert isinstance(question, Sase)
    engine = _engine(question.bound, options) if drawn is None else _engine_of_joins(options, drawn)
    return describe(question.bound, {**facts, **engine})


def _engine(bound: Bound, options: Options) -> dict[str, str]:
    engine = choose(bound, options)
    return {
        "engine": f"{engine.name} ({reasons(bound, options)})",
        **_totals(bound),
        **engine.explain(bound),
        "options": _show_options(options),
    }


def _engine_of_joins(options: Options, drawn: str) -> dict[str, str]:
    return {
        "engine": "tree (one plan for several queries)",
        "joins": drawn,
        "options": _show_options(options),
    }


def _show_options(options: Options) -> str:
    shown = [name for name in options.__slots__ if name != "limits"]
    return ", ".join(f"{name}={getattr(options, name)}" for name in shown)


def _totals(bound: Bound) -> dict[str, str]:
    """Say how totals are computed; an engine that computes them without matches overrides this."""
    if bound.query.totals is None:
        return {}
    how = "matches are counted" if bound.query.counts_only else "each match is added as it is found"
    return {"totals": f"{how}, none is kept"}


def explain_plan(plan: Plan, *, here: bool) -> dict[str, str]:
    """Return by topic which events a plan reads, leaves out and exchanges."""
    if isinstance(plan, Exchanged):
        return _explain_exchange(plan)
    facts = plan.access.explain()
    if here:
        return facts
    count = len(plan.slices)
    tasks = f"{count} slices of time, one task each" if count > 1 else "one task"
    tasks += "; one more chooses among their candidates" if plan.chained else ""
    facts["exchange"] = f"none: {tasks}" + (f" ({plan.why})" if plan.why else "")
    if isinstance(plan.access, FilesAccess):
        read = plan.access.count_rows(plan.slices)
        facts["rows"] = f"{_show_rows(plan.access)} → {read:,} read, overlaps included"
    return facts


def _show_rows(access: FilesAccess) -> str:
    known = access.known
    return f"{known['events']:,} in files → {known['events after pruning']:,} after pruning"


def _show_exchange(wanted: Needed | None, rows: int) -> str:
    if wanted is None:
        return f"{rows:,} exchanged"
    return f"at most {rows:,} exchanged: those that cannot matter stay behind"


def _explain_exchange(plan: Exchanged) -> dict[str, str]:
    needs = plan.questions.needs
    facts = {} if plan.access is None else plan.access.explain()
    if plan.access is None:
        scan = getattr(plan.source, "scan", None)
        facts |= {} if scan is None else {"scan": f"by Spark: {scan}"}
        where = "all rows" if needs.filter is None else f"rows where {_show_filter(needs.filter)}"
        facts["filter"] = f"by Spark: {where}" + ("" if needs.why_all is None else f" ({needs.why_all})")
    targets = plan.targets
    text = f"{plan.why}, {targets.count} tasks" if targets.count > 1 else plan.why
    if targets.length is not None:
        text += f", in slices of {targets.length:,} units of time"
    facts["exchange"] = text
    if isinstance(plan.access, FilesAccess):
        facts["passes"] = explain_passes(plan.passes)
        facts["rows"] = f"{_show_rows(plan.access)} → {_show_exchange(needs.filter, plan.access.rows)}"
    elif plan.access is None and (rows := getattr(plan.source, "rows", None)) is not None:
        facts["rows"] = f"about {rows:,} in the DataFrame → {_show_exchange(needs.filter, rows)}"
    return facts


def _show_filter(wanted: Needed) -> str:
    return as_sql(wanted, {test.path: show_path(test.path) for tests in wanted for test in tests})
