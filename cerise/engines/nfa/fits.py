"""Which variables an event could be, one bit each: by its type and by the predicates on it alone.

This runs over every event, so it branches as little as it can: a wrong guess of the processor costs more
than some comparisons. A predicate that can fail, or that would make the flat part long, is asked only
where all before it hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cerise.engines.nfa.automaton import Automaton
from cerise.engines.nfa.formulas import Scope
from cerise.kernels.predicates import Writer, truth
from cerise.pattern.expr import Expr

FLAT = 24  # predicates of all variables together that are asked of every event


def write_fits(
    automata: Iterable[Automaton], numbers: Mapping[str, int], scope_of: Callable[[Automaton], Scope]
) -> str:
    """Write the function that fills in the variables that each event of a chunk could be."""
    filters: dict[str, tuple[Scope, tuple[Expr, ...]]] = {}
    for automaton in automata:
        for name, exprs in automaton.filters.items():
            filters.setdefault(name, (scope_of(automaton), exprs))
    writer = Writer(depth=2)
    hoisted: dict[str, str] = {}
    flat = sum(len(exprs) for _, exprs in filters.values()) <= FLAT
    for name, (scope, exprs) in filters.items():
        scope.newest, scope.hoisted = name, hoisted
        _write_variable(f"fits{numbers[name]}", 1 << numbers[name], exprs, scope, writer, flat=flat)
    head = [f"    {name} = {code}" for code, name in hoisted.items()]
    lines = ["def fits(n, cols, out) -> None:", *head, "    for e in range(n):", "        m = 0"]
    return "\n".join([*lines, *writer.lines, "        store(out + 8 * e, m)", ""])


def _write_variable(
    fits: str, bit: int, exprs: Iterable[Expr], scope: Scope, writer: Writer, *, flat: bool
) -> None:
    later = []
    sure = ["True"]
    for expr in exprs:
        trial = Writer(depth=writer.depth, names=writer.names)
        holds = truth(expr, scope, trial).true
        if flat and not any("(cols)" in line or line.lstrip().startswith("if ") for line in trial.lines):
            writer.lines += trial.lines
            writer.names = trial.names
            sure.append(holds)
        else:
            later.append(expr)
    writer.line(f"{fits} = {' and '.join(sure)}")
    for expr in later:
        with writer.block(f"if {fits}:"):
            writer.line(f"{fits} = {truth(expr, scope, writer).true}")
    writer.line(f"m |= {bit} if {fits} else 0")
