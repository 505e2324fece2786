"""The conditions of DEFINE as source text: which labels a row could have by itself, and what else is asked.

A conjunct that looks only at the row to be mapped, and at rows a fixed way before or after it, is judged for
all rows of a partition at once. The others are asked during the search, which keeps for them the places of
the rows of each set of labels, and the parts of aggregates, in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cerise.engines.nfa.derived import computes_text
from cerise.engines.nfa.formulas import loaded, words
from cerise.engines.nfa.texts import compared_with_literals
from cerise.engines.rows.folds import Fold, fold_of
from cerise.engines.rows.layout import (
    C_CLASSES,
    C_HIGH,
    C_LOW,
    C_MASKS,
    C_NULLS,
    C_NUMBER,
    C_PLACES,
    C_STRIDE,
    C_TEXTS,
    COLUMNS,
    FITS,
    FROM_END,
    FROM_START,
    REGISTER,
)
from cerise.events import Path
from cerise.kernels.predicates import NEVER, Value, Writer, either, truth
from cerise.kinds import ARROW_OF, Kind
from cerise.kinds import kind_of as kind_of_type
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import compiled
from cerise.pattern.expr import Agg, Attr, Call, Expr, IsNull, Literal, attributes, conjuncts, rebuild
from cerise.pattern.rows import (
    CLASSIFIER,
    Atom,
    BoundRows,
    Derived,
    MatchNumber,
    MatchStatus,
    Nav,
    RowAgg,
    atom,
)
from cerise.pattern.show import show_expr

Members = frozenset[str]
HEAD = """\
def count_fault(cols) -> None:
    store(cols + 16, load(cols + 16) + 1)


def edge(k, r, d, e, cols, nodes):
"""


class Unfit(Exception):
    """A clause that this engine cannot run; the message says why."""


@dataclass(slots=True)
class Conditions:
    """What a search asks of rows, as code, and what it must keep for that.

    Attributes:
        source: the generated module.
        dependent: a bit for each label that is also asked about during the search.
        columns: the columns that are read, with their kinds.
        texts: the strings of the conditions, with their numbers.
        sets: the sets of labels whose rows are kept, with the register of their number.
        registers: how many registers there are.
        keys: on what the future of a search depends.
        derived: columns to be computed first.
        literal_only: the columns of strings that are only ever asked to equal strings of the conditions.
        classes: whether conditions ask for labels of earlier rows.
        numbered: whether they ask for MATCH_NUMBER().
        from_start: whether they ask where in the match a row is.
    """

    source: str = ""
    dependent: int = 0
    columns: dict[str, Kind] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    sets: dict[Members, int] = field(default_factory=dict)
    registers: int = 0
    keys: list[tuple[int, int, int]] = field(default_factory=list)
    derived: list[Derived] = field(default_factory=list)
    literal_only: frozenset[str] = frozenset()
    classes: bool = False
    numbered: bool = False
    from_start: bool = False


def write_conditions(bound: BoundRows) -> Conditions:
    """Return the code of the conditions of a clause.

    Raises:
        Unfit: where this engine cannot compute them.
    """
    found = Conditions()
    rewritten = _without_texts(bound, found)
    asked = {each.label: conjuncts(each.expr) for each in rewritten.conditions}
    alone = {
        label: [each for each in exprs if judged_alone(each, label, rewritten)]
        for label, exprs in asked.items()
    }
    rest = {label: [each for each in exprs if each not in alone[label]] for label, exprs in asked.items()}
    aggs = _aggregates(rest, rewritten)
    _take_places(rest, rewritten, found)
    folds = {name: _take_fold(agg, rewritten, found) for name, agg in aggs.items()}
    cases = [_fits(alone, rewritten, found)]
    for number, label in enumerate(bound.labels):
        if rest.get(label):
            found.dependent |= 1 << number
            cases.append(_test(number, label, rest[label], rewritten, found, folds))
    if found.registers or found.classes:
        cases += [_update(number, rewritten, found, folds) for number in range(len(bound.labels))]
    exprs = [expr for each in asked.values() for expr in each]
    found.literal_only = _literal_columns(exprs, rewritten)
    found.source = HEAD + "\n".join(cases) + "\n    return 0\n"
    return found


# ---- what can be judged for each row by itself


def judged_alone(expr: Expr, label: str, bound: BoundRows) -> bool:
    """Whether a conjunct looks only at the row to be mapped, and at rows a fixed way from it."""
    return all(_is_here(each, label) for each in bound.atoms_of(expr))


def _is_here(each: Atom, label: str) -> bool:
    """Whether an atom is of the row that is being mapped, or of one a fixed way from it."""
    if not isinstance(each, Nav) or each.column == CLASSIFIER:
        return False
    return each.last and each.offset == 0 and (each.members is None or label in each.members)


def _fits(alone: dict[str, list[Expr]], bound: BoundRows, found: Conditions) -> str:
    """Write the case that tells which labels each row of a partition could have."""
    writer = Writer(depth=3)
    always = 0
    for number, label in enumerate(bound.labels):
        exprs = alone.get(label, [])
        if not exprs:
            always |= 1 << number
            continue
        scope = _Scope(bound, found, label, searching=False)
        holds = [truth(each, scope, writer).true for each in exprs]
        writer.line(f"m |= {1 << number} if {' and '.join(holds)} else 0")
    head = [
        f"    if k == {FITS}:",
        f"        low = load({words('cols', C_LOW)})",
        f"        high = load({words('cols', C_HIGH)})",
        f"        masks = load({words('cols', C_MASKS)})",
        "        e = low",
        "        while e < high:",
        f"            m = {always} + 0",
    ]
    tail = ["            store(masks + 8 * (e - low), m)", "            e += 1", "        return 0"]
    return "\n".join([*head, *writer.lines, *tail])


# ---- what is asked during the search


def _test(
    number: int, label: str, exprs: list[Expr], bound: BoundRows, found: Conditions, folds: dict[str, Fold]
) -> str:
    writer = Writer(depth=2)
    scope = _Scope(bound, found, label, folds=folds)
    for expr in exprs:
        holds = truth(expr, scope, writer).true
        with writer.block(f"if not ({holds}):"):
            writer.line("return 0")
    return "\n".join([f"    if k == {number}:", *writer.lines, "        return 1"])


def _update(number: int, bound: BoundRows, found: Conditions, folds: dict[str, Fold]) -> str:
    """Write the case that takes a mapped row into account."""
    label = bound.labels[number]
    writer = Writer(depth=2)
    for members, register in found.sets.items():
        if label in members:
            count = writer.name(f"load({words('r', register)})")
            writer.line(f"store({_place(register, count)}, e)")
            writer.line(f"store({words('r', register)}, {count} + 1)")
    scope = _Scope(bound, found, label, folds=folds)
    for name, fold in folds.items():
        agg = bound.atoms[name]
        assert isinstance(agg, RowAgg)
        if agg.members is None or label in agg.members:
            for part, code in zip(fold.parts, scope.folded(name, writer), strict=True):
                store = "store_float" if part.kind is Kind.FLOAT else "store"
                writer.line(f"{store}({words('r', part.register)}, {code})")
    if found.classes:
        writer.line(f"store(load({words('cols', C_CLASSES)}) + 8 * (e - d), {scope.text(label)})")
    return "\n".join([f"    if k == {len(bound.labels) + number}:", *writer.lines, "        return 0"])


def _place(register: int, index: str) -> str:
    """Return the address of a place of a set: sets are known by their registers."""
    stride = f"load({words('cols', C_STRIDE)})"
    return f"load({words('cols', C_PLACES)}) + 8 * ({register} * {stride} + {index})"


# ---- registers


def _take_places(rest: dict[str, list[Expr]], bound: BoundRows, found: Conditions) -> None:
    """Give a register to each set of labels whose rows conditions ask for, and say which rows these are."""
    ends: dict[tuple[int, int], int] = {}
    for label, exprs in rest.items():
        for each in (a for expr in exprs for a in bound.atoms_of(expr)):
            if isinstance(each, Nav) and each.members is not None and not _is_here(each, label):
                if each.members not in found.sets:
                    found.sets[each.members] = found.registers
                    found.registers += 1
                key = (FROM_END if each.last else FROM_START, found.sets[each.members])
                ends[key] = max(ends.get(key, 0), each.offset)
            found.classes |= isinstance(each, Nav) and each.column == CLASSIFIER
            found.from_start |= _depends_on_start(each)
            found.numbered |= isinstance(each, MatchNumber)
    found.keys += [(kind, register, n) for (kind, register), most in ends.items() for n in range(most + 1)]


def _depends_on_start(each: Atom) -> bool:
    return isinstance(each, Nav) and each.members is None and (not each.last or each.offset > 0)


def _aggregates(rest: dict[str, list[Expr]], bound: BoundRows) -> dict[str, RowAgg]:
    names = {each.path[0] for exprs in rest.values() for expr in exprs for each in attributes(expr)}
    return {name: agg for name in sorted(names) if isinstance(agg := bound.atoms[name], RowAgg)}


def _take_fold(agg: RowAgg, bound: BoundRows, found: Conditions) -> Fold:
    kind = kind_of_type(bound.type_of(agg.columns[0])) if agg.columns else Kind.INT
    fold = fold_of(agg, kind, found.registers)
    if isinstance(fold, str):
        raise Unfit(fold)
    found.registers += len(fold.parts)
    found.keys += [(REGISTER, part.register, 0) for part in fold.parts]
    return fold


# ---- texts


def _literal_columns(exprs: list[Expr], bound: BoundRows) -> frozenset[str]:
    alone = compared_with_literals(exprs)
    others = {each.path for expr in exprs for each in attributes(expr)} - alone
    columns: list[set[str]] = [set(), set()]
    for which, paths in enumerate((alone, others)):
        atoms = [bound.atoms[path[0]] for path in paths]
        columns[which] |= {each.column for each in atoms if isinstance(each, Nav)}
        columns[1] |= {name for each in atoms if isinstance(each, RowAgg) for name in each.columns}
    return frozenset(columns[0] - columns[1])


def _without_texts(bound: BoundRows, found: Conditions) -> BoundRows:
    """Return the clause with all that computes with text, in one row, as a column of its own."""
    atoms = dict(bound.atoms)

    def change(expr: Expr) -> Expr:
        if not computes_text(expr):
            return rebuild(expr, change)
        used = {each.path[0]: bound.atoms[each.path[0]] for each in attributes(expr)}
        navs = [each for each in used.values() if isinstance(each, Nav) and each.column != CLASSIFIER]
        where = {replace(each, column="") for each in navs}
        if len(navs) < len(used) or len(where) > 1:
            raise Unfit(f"{show_expr(expr)[:60]} computes text from several rows")
        if not navs:
            raise Unfit(f"{show_expr(expr)[:60]} computes text from constants")
        columns = {name: nav.column for name, nav in zip(used, navs, strict=True)}
        there = column(_over_columns(expr, columns), navs[0])
        nothing: dict[Path, list[object]] = {(name,): [None] for name in used}
        missing = compiled(expr, lambda fault: None)(nothing, {"": (0,)}, {})
        if missing is None or replace(navs[0], column="") == Nav(""):
            return there
        exists = column(Literal(True, Kind.BOOL), navs[0])
        return Call("if", (IsNull(exists), Literal(missing, kind_of(expr)), there))

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


# ---- where atoms find their values


@dataclass(slots=True)
class _Scope:
    """Gives atoms their values while a row `e` is being mapped to a label in a match that starts at `d`."""

    bound: BoundRows
    found: Conditions
    label: str
    searching: bool = True
    folds: dict[str, Fold] = field(default_factory=dict)

    def attribute(self, attr: Attr, writer: Writer) -> Value:
        """Return the value of an atom."""
        each = self.bound.atoms[attr.path[0]]
        match each:
            case Nav():
                return self._reached(each, writer)
            case RowAgg():
                fold = self.folds[attr.path[0]]
                return fold.result(self.folded(attr.path[0], writer), writer)
            case MatchNumber():
                return Value(writer.name(f"load({words('cols', C_NUMBER)})"))
            case MatchStatus():
                raise Unfit("DEFINE asks for MATCH_STATUS()")

    def aggregate(self, agg: Agg, writer: Writer) -> Value:  # noqa: ARG002
        """Atoms stand for aggregates here."""
        raise AssertionError(agg)

    def text(self, literal: str) -> str:
        """Return the code that stands for a string of the conditions."""
        number = self.found.texts.setdefault(literal, len(self.found.texts))
        texts = f"load({words('cols', C_TEXTS)})"
        return f"load({words(texts, number)})"

    def folded(self, name: str, writer: Writer) -> list[str]:
        """Return the parts of an aggregate with the row that is being mapped."""
        fold, agg = self.folds[name], self.bound.atoms[name]
        assert isinstance(agg, RowAgg)
        parts = [writer.name(f"{loaded(words('r', p.register), p.kind)} + {p.zero}") for p in fold.parts]
        if agg.members is not None and self.label not in agg.members:
            return parts
        value = self._argument(agg, writer)
        taken = [f"not ({value.null})"] if value.null != NEVER else []
        if agg.where is not None:
            where = self._column(agg.where, "e", NEVER, writer)
            taken += [f"not ({where.null})", f"{where.code} != 0"]
        with writer.block(f"if {' and '.join(taken) or 'True'}:"):
            fold.add(parts, value.code, writer)
        return parts

    def _argument(self, agg: RowAgg, writer: Writer) -> Value:
        if not agg.columns:
            return Value("0")
        if agg.columns[0] == CLASSIFIER:
            return Value(self.text(self.label))
        return self._column(agg.columns[0], "e", NEVER, writer)

    def _reached(self, nav: Nav, writer: Writer) -> Value:
        """Return the value of a column in the row that a navigation reaches."""
        row, missing = self._row(nav, writer)
        if nav.shift:
            row = writer.name(f"{row} + {nav.shift}" if nav.shift > 0 else f"{row} - {-nav.shift}")
            bounds = f"{row} < load({words('cols', C_LOW)}) or {row} >= load({words('cols', C_HIGH)})"
            missing = writer.name(either(missing, f"({bounds})"))
        if missing != NEVER:
            row = writer.name(f"e if {missing} else {row}")
        if nav.column == CLASSIFIER:
            return self._class(row, missing, writer)
        return self._column(nav.column, row, missing, writer)

    def _class(self, row: str, missing: str, writer: Writer) -> Value:
        """Return the label of a row; of one that is not mapped yet it is null (M20)."""
        if row == "e":
            return Value(self.text(self.label))
        outside = writer.name(either(missing, f"({row} < d or {row} > e)"))
        safe = writer.name(f"0 if {outside} or {row} == e else {row} - d")
        earlier = writer.name(f"load(load({words('cols', C_CLASSES)}) + 8 * {safe})")
        here = writer.name(self.text(self.label))
        return Value(writer.name(f"{here} if {row} == e else {earlier}"), outside)

    def _row(self, nav: Nav, writer: Writer) -> tuple[str, str]:
        """Return the row of the match that a navigation starts from, and whether there is none."""
        own = nav.members is None or self.label in nav.members
        if own and nav.last and nav.offset == 0:
            return "e", NEVER
        if nav.members is None:
            row = writer.name(f"e - {nav.offset}" if nav.last else f"d + {nav.offset}")
            return row, writer.name(f"{row} < d" if nav.last else f"{row} > e")
        register = self.found.sets[nav.members]
        count = writer.name(f"load({words('r', register)})")
        if nav.last:
            index = writer.name(f"{count} - {nav.offset if own else nav.offset + 1}")
            missing = writer.name(f"{index} < 0")
        else:
            index = str(nav.offset)
            missing = writer.name(f"{index} >= {count} + {int(own)}")
        safe = writer.name(f"{index} if {index} >= 0 and {index} < {count} else 0")
        row = writer.name(f"load({_place(register, safe)})")
        if own and not nav.last:
            row = writer.name(f"e if {index} == {count} else {row}")
        return row, missing

    def _column(self, name: str, row: str, missing: str, writer: Writer) -> Value:
        kind = kind_of_type(self.bound.type_of(name))
        self.found.columns.setdefault(name, kind)
        number = list(self.found.columns).index(name)
        code = writer.name(loaded(f"load({words('cols', COLUMNS + number)}) + 8 * {row}", kind))
        null = writer.name(f"(load(load({words('cols', C_NULLS)}) + 8 * {row}) >> {number}) & 1 != 0")
        return Value(code, null if missing == NEVER else writer.name(f"{missing} or {null}"))
