"""Writes a bound query as text for users: its meaning, and the facts of its plan."""

from __future__ import annotations

from collections.abc import Mapping

from cerise.pattern.bound import Bound, Branch, Role
from cerise.pattern.query import variables
from cerise.pattern.rewrite import Absence
from cerise.pattern.show import show, show_path, show_pattern, show_window


def describe(bound: Bound, facts: Mapping[str, str]) -> str:
    """Return a bound query as text: its branches and predicates, the columns it reads, and how it runs.

    Args:
        bound: the query.
        facts: the caller's facts about the run, by name.
    """
    source = f"{describe(bound.source, {})}\n\nand over its matches:\n\n" if bound.source else ""
    sections = [
        *(_indent(show(bound.query).rsplit(";\n", 1)[-1])),
        "",
        *(line for number, branch in enumerate(bound.branches, 1) for line in _branch(branch, number, bound)),
        *(_fact(name, text) for name, text in {**_facts(bound), **facts}.items()),
        *(f"{'warning':<10} {text}" for text in bound.warnings),
    ]
    return source + "\n".join(sections)


def _fact(name: str, text: str) -> str:
    return f"{name:<10} " + text.replace("\n", "\n" + " " * 11)


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _branch(branch: Branch, number: int, bound: Bound) -> list[str]:
    """Show each predicate beside the variable whose edge tests it [SASE08 §3.2]."""
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
    """Say where the negated event must not occur."""
    if absence.anywhere:
        return "anywhere in the window"
    after = f"after {', '.join(absence.after)}" if absence.after else ""
    before = f"before {', '.join(absence.before)}" if absence.before else ""
    return " and ".join(filter(None, (after, before))) + (", within the window" if absence.at_end else "")


def _facts(bound: Bound) -> dict[str, str]:
    window = show_window(bound.within) if bound.within else "none: a match may span all events"
    slide = f", sliding by {show_window(bound.slide)}" if bound.slide else ""
    last = "arrival" if bound.schema.arrival else _show_hash(bound)
    return {
        "strategy": bound.query.strategy.value,
        "partition": ", ".join(map(show_path, bound.partition)) or "none: all events are one stream",
        "window": window + slide,
        "order": f"{bound.schema.time}, then {', '.join((*bound.schema.order, last))}",
        "reads": ", ".join(map(show_path, bound.reads)) or "nothing but the time",
        "returns": ", ".join(column.name for column in bound.columns),
        "variables": ", ".join(var.name for var in variables(bound.query.pattern)),
    }


def _show_hash(bound: Bound) -> str:
    """Say which attributes' hash breaks ties between events without an order of arrival (S1.2)."""
    read = ", ".join(show_path(path) for tier in bound.ties for path in tier)
    hint = "" if bound.source is not None else ": order=[…] that leaves no ties is better"
    return f"a hash of {read}{hint}"
