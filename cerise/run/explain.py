"""Plans for people to read: what a query means, where and how it runs."""

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
from cerise.run.row_search import Rows
from cerise.run.sase_search import Sase


def explain(asked: Questions, options: Options, plan: Plan | None, *, here: bool) -> str:
    """Return what the questions mean, and how they would be run.

    Args:
        asked: the questions.
        options: how to run.
        plan: the plan; None: there is only a schema, or the events are the matches of another query.
        here: whether this process runs it.
    """
    where = "in this process" if here else "on Spark"
    if asked.each[0].inner is not None:
        where += ", over the matches of the query before it"
    facts = {"runs": where, **({} if plan is None else explain_plan(plan, here=here))}
    texts = []
    for each in asked.each:
        if isinstance(each, Rows):
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
    """Say how totals come about; an engine that has a better way says so itself."""
    if bound.query.totals is None:
        return {}
    how = "matches are counted" if bound.query.counts_only else "each match is added as it is found"
    return {"totals": f"{how}, none is kept"}


def explain_plan(plan: Plan, *, here: bool) -> dict[str, str]:
    """Say what a plan reads, leaves out and exchanges."""
    if isinstance(plan, Exchanged):
        return _explain_exchange(plan)
    facts = plan.access.explain()
    if here:
        return facts
    count = len(plan.slices)
    told = f"{count} slices of time, one task each" if count > 1 else "one task"
    told += "; one more chooses among their candidates" if plan.chained else ""
    facts["exchange"] = f"none: {told}" + (f" ({plan.why})" if plan.why else "")
    if isinstance(plan.access, FilesAccess):
        read = plan.access.count_rows(plan.slices)
        facts["rows"] = f"{_pruned(plan.access)} → {read:,} read, overlaps included"
    return facts


def _pruned(access: FilesAccess) -> str:
    known = access.known
    return f"{known['events']:,} in files → {known['events after pruning']:,} after pruning"


def _moved(wanted: Needed | None, rows: int) -> str:
    if wanted is None:
        return f"{rows:,} exchanged"
    return f"at most {rows:,} exchanged: those that cannot matter stay behind"


def _explain_exchange(plan: Exchanged) -> dict[str, str]:
    needs = plan.asked.needs
    facts = {} if plan.access is None else plan.access.explain()
    if plan.access is None:
        scan = getattr(plan.source, "scan", None)
        facts |= {} if scan is None else {"scan": f"by Spark: {scan}"}
        where = "all rows" if needs.filter is None else f"rows where {_shown(needs.filter)}"
        facts["filter"] = f"by Spark: {where}" + ("" if needs.why_all is None else f" ({needs.why_all})")
    targets = plan.targets
    text = f"{plan.why}, {targets.count} tasks" if targets.count > 1 else plan.why
    if targets.length is not None:
        text += f", in slices of {targets.length:,} units of time"
    facts["exchange"] = text
    if isinstance(plan.access, FilesAccess):
        facts["rows"] = f"{_pruned(plan.access)} → {_moved(needs.filter, plan.access.rows)}"
    elif plan.access is None and (rows := getattr(plan.source, "rows", None)) is not None:
        facts["rows"] = f"about {rows:,} in the DataFrame → {_moved(needs.filter, rows)}"
    return facts


def _shown(wanted: Needed) -> str:
    return as_sql(wanted, {test.path: show_path(test.path) for tests in wanted for test in tests})
