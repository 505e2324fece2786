"""The parts of a clause bound to the columns of its input: BoundRows, or what is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from cerise.errors import BindError, ParseError, Span, did_you_mean
from cerise.kinds import INT64_MAX, TIMES, Kind
from cerise.lang.match_recognize_atoms import Place, refuse_in_rows
from cerise.lang.match_recognize_clause import Given, Parts, Piece
from cerise.lang.match_recognize_conditions import bind_condition, bind_measure
from cerise.lang.match_recognize_exprs import inside, is_constant, parse_expression, parse_sql
from cerise.lang.match_recognize_labels import spread_labels
from cerise.lang.match_recognize_rows import Host, Rows
from cerise.lang.match_recognize_terms import microseconds
from cerise.lang.match_recognize_words import fold, pointing_at
from cerise.lang.sase_exprs import Name, whole_number
from cerise.pattern.rows import (
    BoundRows,
    Condition,
    Excluded,
    Extent,
    Measure,
    Order,
    Show,
    Shown,
    Skip,
    SkipTo,
    labels,
    walk_rows,
)


@dataclass(frozen=True, slots=True)
class Input:
    """What a clause is bound to.

    Attributes:
        columns: the columns of its rows.
        host: who knows the types of what only the database computes, if anyone.
        tables: the names by which the input could be called.
        ctes: names that subqueries of the clause cannot read.
        text: the statement.
    """

    columns: pa.Schema
    host: Host | None
    tables: tuple[str, ...] = ()
    ctes: frozenset[str] = frozenset()
    text: str = ""


def bind_parts(parts: Parts, given: Input, *, flink: bool) -> BoundRows:
    """Bind a clause.

    Raises:
        BindError: with the place and a hint.
    """
    _refuse_twins(given.columns)
    variables = _variables(parts)
    rows = Rows(given.columns, given.host, variables, given.tables, given.text)
    plain = replace(rows, variables=None)
    partition = tuple(_of_one_row(piece, plain) for piece in parts.partition)
    order = tuple(
        Order(_of_one_row(each.piece, plain), each.descending, each.nulls_first) for each in parts.order
    )
    one = parts.show is Show.ONE
    conditions = _conditions(parts, rows, given.ctes)
    measures = _measures(parts, Place(rows, None, one, given.ctes))
    bound = BoundRows(
        parts.pattern, given.columns, (), partition, order, {}, conditions, measures, parts.show,
        _skip(parts, variables, flink=flink), _within(parts, order, rows, flink=flink), text=given.text,
    )  # fmt: skip
    _refuse_exclusion(parts)
    atoms = {name: atom for atom, name in rows.atoms.items()}
    bound = replace(bound, derived=tuple(rows.derived.values()), atoms=atoms)
    return replace(bound, output=_output(bound, parts))


def _refuse_twins(columns: pa.Schema) -> None:
    twins = [name for name, times in Counter(columns.names).items() if times > 1]
    if twins:
        raise BindError(
            f"two columns of the input are called '{twins[0]}'",
            hint="give them names of their own in a subquery: FROM (SELECT x AS y, … FROM …) MATCH_RECOGNIZE",
        )


# ---- variables


def _variables(parts: Parts) -> dict[str, frozenset[str]]:
    """Return what each variable stands for: itself, or the members of a subset."""
    primary = labels(parts.pattern)
    found = {name: frozenset({name}) for name in primary}
    for subset in parts.subsets:
        name = fold(subset.name)
        if name in found:
            what = "a variable of the pattern" if name in primary else "another subset"
            raise BindError(f"the subset '{name}' has the name of {what}", span=subset.name.span)
        for member in subset.members:
            _check_primary(member, primary, "SUBSET")
        _refuse_doubles(subset.members, "the subset names")
        found[name] = frozenset(map(fold, subset.members))
    if parts.define is None and primary:
        first = next(each for each in walk_rows(parts.pattern) if getattr(each, "name", None) == primary[0])
        raise ParseError(
            "DEFINE is missing", span=getattr(first, "span", None),
            hint=f"say what the rows of the variables satisfy: DEFINE {primary[0]} AS …",
        )  # fmt: skip
    return found


def _check_primary(name: Name, primary: Iterable[str], clause: str) -> None:
    if fold(name) not in primary:
        raise BindError(
            f"'{name.text}' of {clause} is not in the pattern", span=name.span,
            hint=did_you_mean(name.text, primary),
        )  # fmt: skip


def _refuse_doubles(names: Iterable[Name], what: str) -> None:
    seen = set()
    for name in names:
        if fold(name) in seen:
            raise BindError(f"{what} '{name.text}' twice", span=name.span)
        seen.add(fold(name))


# ---- expressions


def _of_one_row(piece: Piece, rows: Rows) -> str:
    """Return the column of an item of PARTITION BY or ORDER BY."""
    tree = parse_expression(piece)
    place = Place(rows, None, one=True)
    with pointing_at(piece.span):
        for each in inside(tree):
            refuse_in_rows(each, place)
        if is_constant(tree):
            raise BindError(
                "a constant, the same for all rows", span=piece.span,
                hint="name a column; in double quotes it is a string to Spark, use backticks: `name`",
            )  # fmt: skip
        return rows.derive(tree)


def _conditions(parts: Parts, rows: Rows, ctes: frozenset[str]) -> tuple[Condition, ...]:
    define = parts.define or ()
    for given in define:
        _check_primary(given.name, labels(parts.pattern), "DEFINE")
    _refuse_doubles((given.name for given in define), "DEFINE defines")
    return tuple(_condition(given, rows, ctes) for given in define)


def _condition(given: Given, rows: Rows, ctes: frozenset[str]) -> Condition:
    label = fold(given.name)
    tree, place = parse_expression(given.piece), Place(rows, label, False, ctes)
    with pointing_at(given.piece.span):
        expr = bind_condition(spread_labels(tree, place), place, given.piece.span)
    return Condition(label, expr, given.piece.span)


def _measures(parts: Parts, place: Place) -> tuple[Measure, ...]:
    seen: set[str] = set()
    for given in parts.measures:
        if given.name.text.lower() in seen:
            hint = "give each measure a name of its own"
            raise BindError(f"two measures are called '{given.name.text}'", span=given.name.span, hint=hint)
        seen.add(given.name.text.lower())
    return tuple(_measure(given, place) for given in parts.measures)


def _measure(given: Given, place: Place) -> Measure:
    tree = parse_expression(given.piece)
    with pointing_at(given.piece.span):
        return bind_measure(given.name.text, spread_labels(tree, place), place, given.piece.span)


# ---- the rest


def _skip(parts: Parts, variables: Mapping[str, frozenset[str]], *, flink: bool) -> Skip:
    if parts.skip is None:
        return Skip(SkipTo.NEXT if flink else SkipTo.PAST_LAST)
    name = parts.skip.name
    if name is None:
        return Skip(parts.skip.to)
    if fold(name) not in variables:
        raise BindError(
            f"AFTER MATCH SKIP TO '{name.text}', which is not in the pattern", span=name.span,
            hint=did_you_mean(name.text, variables),
        )  # fmt: skip
    return Skip(parts.skip.to, variables[fold(name)], fold(name))


def _within(parts: Parts, order: tuple[Order, ...], rows: Rows, *, flink: bool) -> Extent | None:
    if parts.within is None:
        return None
    span = parts.within.piece.span
    kind = rows.kind(order[0].column) if order else None
    if not order or order[0].descending or kind not in TIMES:
        raise BindError(
            "WITHIN measures the first column of ORDER BY, in ascending order", span=span,
            hint="ORDER BY a timestamp, a date or an integer",
        )  # fmt: skip
    size = _length(parts.within.piece, span)
    if kind is not Kind.NULL and isinstance(size, str) is not (kind is Kind.INT):
        wanted = "a number, as in WITHIN 10" if kind is Kind.INT else "a duration: INTERVAL '15' MINUTE"
        raise BindError(
            f"'{order[0].column}' is {kind.value if kind else ''}: WITHIN takes {wanted}", span=span
        )
    length = size if isinstance(size, int) else whole_number(size, span)
    if length > INT64_MAX:
        raise BindError("WITHIN does not fit into 64 bits", span=span, hint="leave WITHIN out")
    return Extent(length, flink, parts.within.timeouts)


def _length(piece: Piece, span: Span) -> int | str:
    """Return a duration in microseconds, or a bare number as text."""
    words = piece.words
    if len(words) == 1 and words[0].text.isdigit():
        return words[0].text
    text, start = piece.text, span.start
    if words[0].key != "INTERVAL":  # 15 minutes
        text = f"{text[:start]}INTERVAL {text[start:]}"
        span = Span(start, span.end + len("INTERVAL "))
    size = microseconds(parse_sql(text, span))
    if size is None or size < 0:
        raise BindError(
            "WITHIN takes a duration", span=piece.span,
            hint="write INTERVAL '15' MINUTE or 15 minutes; months and years differ in length",
        )  # fmt: skip
    return size


def _refuse_exclusion(parts: Parts) -> None:
    if parts.show is Show.UNMATCHED and any(isinstance(each, Excluded) for each in walk_rows(parts.pattern)):
        raise BindError(
            "{- … -} together with WITH UNMATCHED ROWS", span=parts.show_span,
            hint="rows that a match leaves out would look like rows of no match (M38)",
        )  # fmt: skip


def _output(bound: BoundRows, parts: Parts) -> tuple[Shown, ...]:
    """Return the columns of the result (M33, M34); what has no name is not shown."""
    known = set(bound.columns.names)
    partition = [name for name in bound.partition if name in known]
    measures = [Shown(each.name, True) for each in bound.measures]
    if parts.show is Show.ONE:
        shown = [*(Shown(name, False) for name in partition), *measures]
    else:
        order = [each.column for each in bound.order if each.column in known]
        first = [*partition, *order]
        rest = [name for name in bound.columns.names if name not in first]
        shown = [*(Shown(name, False) for name in first), *measures, *(Shown(name, False) for name in rest)]
    if not shown:
        raise BindError(
            "the result has no columns", hint="add MEASURES, or PARTITION BY a column, or ALL ROWS PER MATCH"
        )
    return tuple(shown)
