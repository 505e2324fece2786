"""Writes plans as text for users: the meaning of a query, where it runs and how."""

from __future__ import annotations

from cerise.engines.base import Options
from cerise.engines.choose import choose, reasons
from cerise.engines.rows.table_search import explain as explain_rows
from cerise.pattern.bound import Bound
from cerise.pattern.show import show_path
from cerise.plan.explain import describe
from cerise.plan.pushdown import Needed, as_sql
from cerise.run.files_access import FilesAccess
from cerise.run.find import Exchanged, Plan
from cerise.run.question import Questions
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase


def explain(questions: Questions, options: Options, plan: Plan | None, *, here: bool) -> str:
    """Return the meaning of questions, and how they would run, as text.

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
    texts = []
    for each in questions.each:
        if isinstance(each, RowClause):
            slices = None if here or plan is None else f"{facts.pop('exchange')}"
            known = {**facts, **explain_rows(each.bound, options, slices)}
            texts.append("\n".join(f"{name:<10} {text}" for name, text in known.items()))
        else:
            assert isinstance(each, Sase)
            texts.append(describe(each.bound, {**facts, **_engine(each.bound, options)}))
    return "\n\n".join(texts)


def _engine(bound: Bound, options: Options) -> dict[str, str]:
    engine = choose(bound, options)
    shown = [name for name in options.__slots__ if name != "limits"]
    return {
        "engine": f"{engine.name} ({reasons(bound, options)})",
        **_totals(bound),
        **engine.explain(bound),
        "options": ", ".join(f"{name}={getattr(options, name)}" for name in shown),
    }


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
        facts["rows"] = f"{_show_rows(plan.access)} → {_show_exchange(needs.filter, plan.access.rows)}"
    elif plan.access is None and (rows := getattr(plan.source, "rows", None)) is not None:
        facts["rows"] = f"about {rows:,} in the DataFrame → {_show_exchange(needs.filter, rows)}"
    return facts


def _show_filter(wanted: Needed) -> str:
    return as_sql(wanted, {test.path: show_path(test.path) for tests in wanted for test in tests})
