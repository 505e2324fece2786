"""Generates the source code of DEFINE: masks of the labels that rows could have, and tests during the search.

A conjunct on the row to be mapped alone is tested for all rows at once, in any order. One that also reads
rows at a fixed distance is tested for all rows of a sorted partition at once. All other conjuncts are tested
during the search. For these it keeps the positions of the rows of each set of labels, and the parts of
aggregates, in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from cerise.engines.automaton.derived import computes_text, find_literal_only
from cerise.engines.automaton.formulas import words
from cerise.engines.results.context import COLUMNS, HEAD, SCAN_NAMES, Context, column_name, text_name
from cerise.engines.rows.paths import find_directions, order_folds, settle
from cerise.engines.rows.records import EQUAL, FITS, FROM_END, FROM_START, POSITION, REGISTER
from cerise.engines.rows.running_aggregates import Fold, fold_of
from cerise.engines.rows.scope import (
    Conditions,
    Scope,
    UnfitRows,
    is_here,
    position_address,
)
from cerise.events import Path
from cerise.kernels.predicates import NEVER, Writer, truth
from cerise.kinds import ARROW_OF, Kind
from cerise.kinds import kind_of as kind_of_type
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import Attr, Binary, Call, Expr, IsNull, Literal, attributes, conjuncts, rebuild
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Atom,
    BoundRows,
    Condition,
    Derived,
    Nav,
    RowAgg,
    atom,
)
from cerise.pattern.show import show_expr

FEW = 8  # up to so few rows of a set are memo keys themselves; a hash stands for more
FACTORS = 1013904223, 747796405


def write_conditions(bound: BoundRows, followers: Sequence[int] = ()) -> Conditions:
    """Return the code of the conditions of a clause.

    Args:
        bound: the clause.
        followers: for each label a bit for each label that must follow; empty: none is known.

    Raises:
        UnfitRows: this engine cannot compute a condition.
    """
    found = Conditions()
    rewritten = _without_texts(bound, found)
    by_label = {each.label: conjuncts(each.expr) for each in rewritten.conditions}
    alone = {
        label: [each for each in exprs if _judged_alone(each, label, rewritten)]
        for label, exprs in by_label.items()
    }
    rest = {label: [each for each in exprs if each not in alone[label]] for label, exprs in by_label.items()}
    aggs = _aggregates(rest, rewritten)
    _take_places(rest, rewritten, found)
    folds = {name: _take_fold(agg, rewritten, found) for name, agg in aggs.items()}
    found.directions = find_directions([expr for exprs in rest.values() for expr in exprs])
    order_folds(folds, found)
    cases = [_fits(alone, rewritten, found)]
    for number, label in enumerate(bound.labels):
        ahead = _look_ahead(label, followers[number], rest, rewritten) if followers else []
        if rest.get(label) or ahead:
            found.dependent |= 1 << number
            cases.append(_test(number, label, (rest.get(label, []), ahead), rewritten, found, folds))
    if found.registers or found.classes:
        updates = [_update(number, rewritten, found, folds) for number in range(len(bound.labels))]
        cases += updates
        found.updates = sum(1 << number for number, case in enumerate(updates) if case.count("\n") > 1)
    exprs = [expr for each in by_label.values() for expr in each]
    found.literal_only = _literal_columns(exprs, rewritten)
    found.source = HEAD + "\n".join(cases) + "\n    return 0\n"
    return found


# ---- conjuncts on single rows


def split_conditions(bound: BoundRows) -> tuple[BoundRows, BoundRows]:
    """Return the clause with the conjuncts on the row to be mapped alone, and with all other conjuncts."""
    single: list[Condition] = []
    rest: list[Condition] = []
    for condition in bound.conditions:
        by_scope: dict[bool, list[Expr]] = {True: [], False: []}
        for each in conjuncts(condition.expr):
            by_scope[_of_one_row(each, condition.label, bound)].append(each)
        single += _conjoin(condition, by_scope[True])
        rest += _conjoin(condition, by_scope[False])
    return replace(bound, conditions=tuple(single)), replace(bound, conditions=tuple(rest))


def _conjoin(condition: Condition, exprs: list[Expr]) -> list[Condition]:
    if not exprs:
        return []
    return [replace(condition, expr=reduce(lambda left, right: Binary("and", left, right), exprs))]


def _of_one_row(expr: Expr, label: str, bound: BoundRows) -> bool:
    return all(
        is_here(each, label) and isinstance(each, Nav) and not each.shift for each in bound.atoms_of(expr)
    )


def _judged_alone(expr: Expr, label: str, bound: BoundRows) -> bool:
    """Tell whether a conjunct reads only the row to be mapped, and rows at a fixed distance from it."""
    return all(is_here(each, label) for each in bound.atoms_of(expr))


def _fits(alone: dict[str, list[Expr]], bound: BoundRows, found: Conditions) -> str:
    """Generate the case that computes masks: the labels that each row could have."""
    writer = Writer(depth=3)
    always = 0
    for number, label in enumerate(bound.labels):
        exprs = alone.get(label, [])
        if not exprs:
            always |= 1 << number
            continue
        scope = Scope(bound, found, label, searching=False)
        holds = [truth(each, scope, writer).true for each in exprs]
        writer.line(f"m |= {1 << number} if {' and '.join(holds)} else 0")
        found.judged = True
    known = [f"{name} = load({words('cols', word)})" for word, name in SCAN_NAMES.items()]
    known += [f"{column_name(i)} = load({words('cols', COLUMNS + i)})" for i in range(len(found.columns))]
    known += [f"{text_name(i)} = load({words('texts', i)})" for i in range(len(found.texts))]
    head = [
        f"    if k == {FITS}:",
        *(f"        {each}" for each in known),
        "        masks = r + 0",
        "        stop = e + 0",
        "        e = d",
        "        while e < stop:",
        f"            m = {always} + 0",
    ]
    tail = ["            store(masks, m)", "            masks += 8", "            e += 1", "        return 0"]
    return "\n".join([*head, *writer.lines, *tail])


# ---- tests during the search


def _test(
    number: int,
    label: str,
    exprs: tuple[list[Expr], list[Expr]],
    bound: BoundRows,
    found: Conditions,
    folds: dict[str, Fold],
) -> str:
    """Generate the case that tests the conditions of a label, then those that no later row could satisfy."""
    writer = Writer(depth=2)
    scope = Scope(bound, found, label, folds=folds)
    for expr in exprs[0]:
        holds = truth(expr, scope, writer).true
        with writer.block(f"if not ({holds}):"):
            writer.line("return 0")
    for expr in exprs[1]:
        nulls = [scope.attribute(each, writer).null for each in attributes(expr)]
        known = [f"not ({null})" for null in nulls if null != NEVER]
        holds = truth(expr, scope, writer).true
        with writer.block(f"if {' and '.join([*known, f'not ({holds})'])}:"):
            writer.line("return 0")
    return "\n".join([f"    if k == {number}:", *writer.lines, "        return 1"])


def _look_ahead(label: str, followers: int, rest: dict[str, list[Expr]], bound: BoundRows) -> list[Expr]:
    """Return tests that no row of a later label satisfies, if a row of this label fails them."""
    after = [expr for i, each in enumerate(bound.labels) if followers >> i & 1 for expr in rest.get(each, [])]
    settled = [each for expr in after if (each := settle(expr, bound.atoms)) is not None]
    return [expr for expr in settled if any(_may_change(each, label) for each in bound.atoms_of(expr))]


def _may_change(each: Atom, label: str) -> bool:
    """Whether mapping a row to a label may change the value of an atom."""
    return isinstance(each, Nav | RowAgg) and (each.members is None or label in each.members)


def _update(number: int, bound: BoundRows, found: Conditions, folds: dict[str, Fold]) -> str:
    """Generate the case that updates the registers after a row is mapped."""
    label = bound.labels[number]
    writer = Writer(depth=2)
    for members, register in found.sets.items():
        if label in members:
            count = writer.name(f"load({words('r', register)})")
            _hash_history(register, count, found, writer)
            writer.line(f"store({position_address(register, count)}, e)")
            writer.line(f"store({words('r', register)}, {count} + 1)")
    scope = Scope(bound, found, label, folds=folds)
    for name, fold in folds.items():
        agg = bound.atoms[name]
        assert isinstance(agg, RowAgg)
        if agg.members is None or label in agg.members:
            for part, code in zip(fold.parts, scope.fold(name, writer), strict=True):
                store = "store_float" if part.kind is Kind.FLOAT else "store"
                writer.line(f"{store}({words('r', part.register)}, {code})")
    if found.classes:
        writer.line(f"store(load({words('cols', Context.classes)}) + 8 * (e - d), {scope.text(label)})")
    return "\n".join([f"    if k == {len(bound.labels) + number}:", *writer.lines, "        return 0"])


# ---- registers


def _take_places(rest: dict[str, list[Expr]], bound: BoundRows, found: Conditions) -> None:
    """Give a register to each set of labels whose rows conditions read, and make these rows memo keys."""
    ends: dict[tuple[int, int], int] = {}
    for label, exprs in rest.items():
        for each in (a for expr in exprs for a in bound.atoms_of(expr)):
            if isinstance(each, Nav) and each.members is not None and not is_here(each, label):
                if each.members not in found.sets:
                    found.sets[each.members] = found.registers
                    found.registers += 1
                key = (FROM_END if each.last else FROM_START, found.sets[each.members])
                ends[key] = max(ends.get(key, 0), each.offset)
                _note_read(key, each, found)
            found.classes |= isinstance(each, Nav) and each.column == CLASSIFIER
            found.from_start |= _depends_on_start(each)
    for (kind, register), most in ends.items():
        if most < FEW:
            found.keys += [(kind, register, n, POSITION, EQUAL) for n in range(most + 1)]
        else:
            found.histories[kind, register] = most + 1, found.registers
            found.keys += [(REGISTER, found.registers + i, 0, POSITION, EQUAL) for i in range(len(FACTORS))]
            found.registers += len(FACTORS)


def _note_read(key: tuple[int, int], nav: Nav, found: Conditions) -> None:
    columns = found.read.setdefault(key, set())
    if columns is None or nav.shift or nav.column == CLASSIFIER:
        found.read[key] = None
    else:
        columns.add(nav.column)


def _hash_history(register: int, count: str, found: Conditions, writer: Writer) -> None:
    """Generate the update of the hashes of the first or last rows of a set.

    The rows of a set ascend, so a sum of a hash per row identifies them: two sums of 46 bits.
    """
    for kind in (FROM_END, FROM_START):
        most, first = found.histories.get((kind, register), (0, 0))
        for i, factor in enumerate(FACTORS if most else ()):
            at, gone = words("r", first + i), f"load({position_address(register, f'{count} - {most}')})"
            added = writer.name(f"load({at}) + mix(e, {factor})")
            with writer.block(f"if {count} < {most}:"):
                writer.line(f"store({at}, {added})")
            if kind == FROM_END:
                with writer.block(f"if {count} >= {most}:"):
                    writer.line(f"store({at}, {added} - mix({gone}, {factor}))")


def _depends_on_start(each: Atom) -> bool:
    return isinstance(each, Nav) and each.members is None and (not each.last or each.offset > 0)


def _aggregates(rest: dict[str, list[Expr]], bound: BoundRows) -> dict[str, RowAgg]:
    names = {each.path[0] for exprs in rest.values() for expr in exprs for each in attributes(expr)}
    return {name: agg for name in sorted(names) if isinstance(agg := bound.atoms[name], RowAgg)}


def _take_fold(agg: RowAgg, bound: BoundRows, found: Conditions) -> Fold:
    kind = kind_of_type(bound.type_of(agg.columns[0])) if agg.columns else Kind.INT
    fold = fold_of(agg, kind, found.registers)
    if isinstance(fold, str):
        raise UnfitRows(fold)
    found.registers += len(fold.parts)
    found.keys += [(REGISTER, part.register, 0, POSITION, EQUAL) for part in fold.parts]
    return fold


# ---- texts


def _literal_columns(exprs: list[Expr], bound: BoundRows) -> frozenset[str]:
    alone = find_literal_only(exprs)
    others = {each.path for expr in exprs for each in attributes(expr)} - alone
    columns: list[set[str]] = [set(), set()]
    for which, paths in enumerate((alone, others)):
        atoms = [bound.atoms[path[0]] for path in paths]
        columns[which] |= {each.column for each in atoms if isinstance(each, Nav)}
        columns[1] |= {name for each in atoms if isinstance(each, RowAgg) for name in each.columns}
    return frozenset(columns[0] - columns[1])


def _without_texts(bound: BoundRows, found: Conditions) -> BoundRows:
    """Return the clause with each text expression on one row replaced by a derived column."""
    atoms = dict(bound.atoms)

    def change(expr: Expr) -> Expr:
        if not computes_text(expr):
            return rebuild(expr, change)
        used = {each.path[0]: bound.atoms[each.path[0]] for each in attributes(expr)}
        navs = [each for each in used.values() if isinstance(each, Nav) and each.column != CLASSIFIER]
        where = {replace(each, column="") for each in navs}
        if len(navs) < len(used) or len(where) > 1:
            raise UnfitRows(f"{show_expr(expr)[:60]} computes text from several rows")
        if not navs:
            raise UnfitRows(f"{show_expr(expr)[:60]} computes text from constants")
        columns = {name: nav.column for name, nav in zip(used, navs, strict=True)}
        derived = column(_over_columns(expr, columns), navs[0])
        nothing: dict[Path, list[object]] = {(name,): [None] for name in used}
        missing = compile_expr(expr, lambda fault: None)(nothing, {"": (0,)}, {})
        if missing is None or replace(navs[0], column="") == Nav(""):
            return derived
        exists = column(Literal(True, Kind.BOOL), navs[0])
        return Call("if", (IsNull(exists), Literal(missing, kind_of(expr)), derived))

    def column(expr: Expr, nav: Nav) -> Attr:
        kind, taken = kind_of(expr), {*bound.columns.names, *(each.name for each in found.derived)}
        name = next(f"_t{i}" for i in range(len(taken) + 1) if f"_t{i}" not in taken)
        found.derived.append(Derived(name, "", expr, ARROW_OF[kind]))
        atoms[name] = replace(nav, column=name)
        return atom(name, kind)

    conditions = tuple(replace(each, expr=change(each.expr)) for each in bound.conditions)
    return replace(bound, conditions=conditions, atoms=atoms, derived=(*bound.derived, *found.derived))


def _over_columns(expr: Expr, columns: dict[str, str]) -> Expr:
    if isinstance(expr, Attr):
        return Attr("", (columns[expr.path[0]],), kind=expr.kind)
    return rebuild(expr, lambda each: _over_columns(each, columns))
