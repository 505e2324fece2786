"""Generates the loads of values in conditions, while a row is being mapped to a label."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cerise.engines.automaton.formulas import load_code, words
from cerise.engines.results.context import COLUMNS, SCAN_NAMES, Context, column_name, text_name
from cerise.engines.rows.running_aggregates import Fold
from cerise.kernels.predicates import NEVER, Value, Writer, either
from cerise.kinds import Kind
from cerise.kinds import kind_of as kind_of_type
from cerise.pattern.expr import Agg, Attr
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Atom,
    BoundRows,
    Derived,
    MatchNumber,
    MatchStatus,
    Nav,
    RowAgg,
)

if TYPE_CHECKING:
    from cerise.kernels.formulas import Formulas

Members = frozenset[str]
MemoKeyWords = tuple[int, int, int, int, int]  # the words of a `records.MemoKey`


class UnfitRows(Exception):
    """This engine cannot run a clause; the message says why."""


@dataclass
class Conditions:
    """The conditions of a clause as generated code, and the state that the code needs.

    Attributes:
        source: the generated module.
        judged: whether the code computes masks of labels, row by row.
        dependent: a bit for each label with a condition that is tested during the search.
        updates: a bit for each label whose rows change registers, or are kept for conditions.
        columns: the columns that the code reads, with their kinds.
        texts: the strings of the conditions, with their numbers.
        sets: the sets of labels whose rows are kept, with the register that counts them.
        registers: how many registers the code uses.
        keys: the keys of the memo, on which the future of a search depends.
        directions: the atoms that conditions only compare, with 1 where greater values can only help to map
            rows, and -1 where smaller can.
        read: for an end and the register of a set, the columns that conditions read in rows from that end;
            None: they also read the rows around these.
        histories: for an end and the register of a set, on how many rows from that end the future depends, if
            these are many, and the first of the registers with their hashes.
        derived: columns to compute before the search.
        literal_only: the string columns that conditions only compare with their own strings.
        classes: whether conditions read the labels of earlier rows.
        from_start: whether conditions depend on a row's position in the match.
    """

    source: str = ""
    judged: bool = False
    dependent: int = 0
    updates: int = 0
    columns: dict[str, Kind] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    sets: dict[Members, int] = field(default_factory=dict)
    registers: int = 0
    keys: list[MemoKeyWords] = field(default_factory=list)
    directions: dict[str, int] = field(default_factory=dict)
    read: dict[tuple[int, int], set[str] | None] = field(default_factory=dict)
    histories: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    derived: list[Derived] = field(default_factory=list)
    literal_only: frozenset[str] = frozenset()
    classes: bool = False
    from_start: bool = False

    @cached_property
    def formulas(self) -> Formulas:
        from cerise.kernels import formulas  # imports numba

        return formulas.load(self.source)


def is_here(each: Atom, label: str) -> bool:
    """Tell whether an atom reads the row being mapped, or a row at a fixed distance from it."""
    if not isinstance(each, Nav) or each.column == CLASSIFIER:
        return False
    return each.last and each.offset == 0 and (each.members is None or label in each.members)


def position_address(register: int, index: str) -> str:
    """Return the address of a position of a set, which is identified by its register."""
    stride = f"load({words('cols', Context.stride)})"
    return f"load({words('cols', Context.positions)}) + 8 * ({register} * {stride} + {index})"


@dataclass(slots=True)
class Scope:
    """Generates the values of atoms while row `e` is being mapped to a label in a match that starts at `d`.

    `searching` is False for masks, which are computed before any match exists.
    """

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
                return self._navigate(each, writer)
            case RowAgg():
                fold = self.folds[attr.path[0]]
                return fold.result(self.fold(attr.path[0], writer), writer)
            case MatchNumber():
                return Value(writer.name(f"load({words('cols', Context.number)})"))
            case MatchStatus():
                raise UnfitRows("DEFINE asks for MATCH_STATUS()")

    def aggregate(self, agg: Agg, writer: Writer) -> Value:  # noqa: ARG002
        raise AssertionError(agg)

    def text(self, literal: str) -> str:
        """Return the expression for the code of a string of the conditions."""
        number = self.found.texts.setdefault(literal, len(self.found.texts))
        if not self.searching:
            return text_name(number)
        texts = f"load({words('cols', Context.texts)})"
        return f"load({words(texts, number)})"

    def fold(self, name: str, writer: Writer) -> list[str]:
        """Return the parts of an aggregate, with the row being mapped included."""
        fold, agg = self.folds[name], self.bound.atoms[name]
        assert isinstance(agg, RowAgg)
        parts = [writer.name(f"{load_code(words('r', p.register), p.kind)} + {p.zero}") for p in fold.parts]
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

    def _navigate(self, nav: Nav, writer: Writer) -> Value:
        """Return the value of a column in the row that a navigation reaches."""
        row, missing = self._row(nav, writer)
        if nav.shift:
            row = writer.name(f"{row} + {nav.shift}" if nav.shift > 0 else f"{row} - {-nav.shift}")
            bounds = f"{row} < {self._word(Context.low)} or {row} >= {self._word(Context.high)}"
            missing = writer.name(either(missing, f"({bounds})"))
        if missing != NEVER:
            row = writer.name(f"e if {missing} else {row}")
        if nav.column == CLASSIFIER:
            return self._class(row, missing, writer)
        return self._column(nav.column, row, missing, writer)

    def _class(self, row: str, missing: str, writer: Writer) -> Value:
        """Return the label of a row; null for a row that is not mapped yet (M20)."""
        if row == "e":
            return Value(self.text(self.label))
        outside = writer.name(either(missing, f"({row} < d or {row} > e)"))
        safe = writer.name(f"0 if {outside} or {row} == e else {row} - d")
        earlier = writer.name(f"load(load({words('cols', Context.classes)}) + 8 * {safe})")
        here = writer.name(self.text(self.label))
        return Value(writer.name(f"{here} if {row} == e else {earlier}"), outside)

    def _row(self, nav: Nav, writer: Writer) -> tuple[str, str]:
        """Return the row of the match that a navigation starts from, and whether it is missing."""
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
        row = writer.name(f"load({position_address(register, safe)})")
        if own and not nav.last:
            row = writer.name(f"e if {index} == {count} else {row}")
        return row, missing

    def _column(self, name: str, row: str, missing: str, writer: Writer) -> Value:
        kind = kind_of_type(self.bound.type_of(name))
        self.found.columns.setdefault(name, kind)
        number = list(self.found.columns).index(name)
        base = self._word(COLUMNS + number) if self.searching else column_name(number)
        code = writer.name(load_code(f"{base} + 8 * {row}", kind))
        bits = f"load({self._word(Context.nulls)} + {self._word(Context.step)} * {row})"
        null = writer.name(f"({bits} >> {number}) & 1 != 0")
        return Value(code, null if missing == NEVER else writer.name(f"{missing} or {null}"))

    def _word(self, word: int) -> str:
        return f"load({words('cols', word)})" if self.searching else SCAN_NAMES[word]
