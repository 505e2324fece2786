"""A plan for people to read."""

from __future__ import annotations

from collections.abc import Mapping

from cerise.pattern.bound import Bound, Branch, Role
from cerise.pattern.query import variables
from cerise.pattern.rewrite import Absence
from cerise.pattern.show import show, show_path, show_pattern, show_window
from cerise.plan.filters import Needed, as_sql
from cerise.plan.nodes import Exchange, FramePlan, LakePlan, Plan, Slices


def describe(bound: Bound, facts: Mapping[str, str]) -> str:
    """Return a bound query as text: what it means, what it reads, and how it runs.

    Args:
        bound: the query.
        facts: what the caller knows of how it runs, by name.
    """
    source = f"{describe(bound.source, {})}\n\nand over its matches:\n\n" if bound.source else ""
    sections = [
        *(_indented(show(bound.query).rsplit(";\n", 1)[-1])),
        "",
        *(line for number, branch in enumerate(bound.branches, 1) for line in _branch(branch, number, bound)),
        *(_fact(name, text) for name, text in {**_facts(bound), **facts}.items()),
        *(f"{'warning':<10} {text}" for text in bound.warnings),
    ]
    return source + "\n".join(sections)


def _fact(name: str, text: str) -> str:
    return f"{name:<10} " + text.replace("\n", "\n" + " " * 11)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _branch(branch: Branch, number: int, bound: Bound) -> list[str]:
    """Show which predicate stands on which variable's edge [SASE08 §3.2]."""
    head = f"branch {number} of {len(bound.branches)}" if len(bound.branches) > 1 else "pattern"
    lines = [f"{head:<10} {show_pattern(branch.pattern)}"]
    same = [each for each in bound.conjuncts if each.role is Role.EQUIVALENCE]
    if bound.not_null:
        lines += [f"{'':<10}   on {'all':<10} {each}   ({each.role.value})" for each in same]
    lines += [
        f"{'':<10}   on {each.last or 'start':<10} {each}   ({each.role.value})" for each in branch.conjuncts
    ]
    for negation in branch.negations:
        tests = " AND ".join(map(str, negation.tests)) or "any event"
        lines.append(f"{'':<10}   no {negation.absence.var.name:<10} {tests}   ({_where(negation.absence)})")
    return lines


def _where(absence: Absence) -> str:
    """Say where an event must not be."""
    if absence.anywhere:
        return "anywhere in the window"
    after = f"after {', '.join(absence.after)}" if absence.after else ""
    before = f"before {', '.join(absence.before)}" if absence.before else ""
    return " and ".join(filter(None, (after, before))) + (", within the window" if absence.at_end else "")


def _facts(bound: Bound) -> dict[str, str]:
    window = show_window(bound.within) if bound.within else "none: a match may span all events"
    slide = f", sliding by {show_window(bound.slide)}" if bound.slide else ""
    last = "arrival" if bound.schema.arrival else _hashed(bound)
    return {
        "strategy": bound.query.strategy.value,
        "partition": ", ".join(map(show_path, bound.partition)) or "none: all events are one stream",
        "window": window + slide,
        "order": f"{bound.schema.time}, then {', '.join((*bound.schema.order, last))}",
        "reads": ", ".join(map(show_path, bound.reads)) or "nothing but the time",
        "returns": ", ".join(column.name for column in bound.columns),
        "variables": ", ".join(var.name for var in variables(bound.query.pattern)),
    }


def _hashed(bound: Bound) -> str:
    """Say what breaks ties between events that do not come in an order (S1.2)."""
    read = ", ".join(show_path(path) for tier in bound.ties for path in tier)
    hint = "" if bound.source is not None else ": order=[…] that leaves no ties is better"
    return f"a hash of {read}{hint}"


# ---- on Spark


def plan_facts(plan: Plan) -> dict[str, str]:
    """Say what a plan reads, leaves out and exchanges."""
    return _lake_facts(plan) if isinstance(plan, LakePlan) else _frame_facts(plan)


def _lake_facts(plan: LakePlan) -> dict[str, str]:
    known, reading = plan.known, plan.reading
    all_rows, rows = known["events"], known["events after pruning"]
    groups = f"{known['row groups after pruning']} of {known['row groups']} row groups"
    pruned = f"{groups}, {rows:,} of {all_rows:,} events"
    files = f"tasks read {len(reading.files)} Parquet files of {reading.root} themselves"
    facts = {
        "scan": files + (f", without {reading.deleted:,} deleted rows" if reading.deleted else ""),
        "pruned": pruned + ("" if plan.why_all is None else f"; nothing is left out: {plan.why_all}"),
        "columns": f"matching reads {', '.join(reading.reads)}"
        + (f"; of matched events also {', '.join(reading.late)}" if reading.late else ""),
    }
    if isinstance(plan.way, Slices):
        count = len(plan.way.slices)
        read = sum(group.span.rows for _, groups in plan.way.slices for group in groups)
        told = f"{count} slices of time, one task each" if count > 1 else "one task"
        told += "; one more chooses the matches that do not overlap" if plan.way.chained else ""
        facts["exchange"] = f"none: {told}" + (f" ({plan.way.why})" if plan.way.why else "")
        facts["rows"] = f"{all_rows:,} in files → {rows:,} after pruning → {read:,} read, overlaps included"
    else:
        facts["exchange"] = _exchanged(plan.way)
        facts["rows"] = f"{all_rows:,} in files → {rows:,} after pruning → {_filtered(plan.needed, rows)}"
    return facts


def _frame_facts(plan: FramePlan) -> dict[str, str]:
    facts = {} if plan.scan is None else {"scan": f"by Spark: {plan.scan}"}
    where = "all rows" if plan.needed is None else f"rows where {_wanted(plan.needed)}"
    facts["filter"] = f"by Spark: {where}" + ("" if plan.why_all is None else f" ({plan.why_all})")
    facts["exchange"] = _exchanged(plan.exchange)
    if plan.rows is not None:
        facts["rows"] = f"about {plan.rows:,} in the DataFrame → {_filtered(plan.needed, plan.rows)}"
    return facts


def _exchanged(exchange: Exchange) -> str:
    targets = exchange.targets
    text = f"{exchange.why}, {targets.count} tasks" if targets.count > 1 else exchange.why
    if targets.length is not None:
        text += f", in stretches of {targets.length:,} units of time"
    return text


def _filtered(wanted: Needed | None, rows: int) -> str:
    if wanted is None:
        return f"{rows:,} exchanged"
    return f"at most {rows:,} exchanged: those that fit no variable stay behind"


def _wanted(wanted: Needed) -> str:
    names = {test.path: show_path(test.path) for tests in wanted for test in tests}
    return as_sql(wanted, names)
