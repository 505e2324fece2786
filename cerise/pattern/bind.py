"""Binds a query to a schema. Finds every mistake of a query, before any event is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cerise.errors import BindError, CeriseError, Span, UnsupportedError, did_you_mean, show_number
from cerise.events import Path, Schema
from cerise.kinds import INT64_MAX, MOMENTS, Kind
from cerise.pattern.bound import Bound, Branch, Conjunct, Negation, Role, final_variables
from cerise.pattern.check import kind_of
from cerise.pattern.expr import (
    At,
    Attr,
    Binary,
    Expr,
    Index,
    Literal,
    Param,
    Same,
    attributes,
    outside_aggregates,
    walk,
)
from cerise.pattern.output import as_integers, event_schema, output_columns
from cerise.pattern.query import (
    Kleene,
    Node,
    Query,
    Strategy,
    Unit,
    Var,
    Window,
    absent_names,
    kleene_names,
    variables,
    walk_nodes,
)
from cerise.pattern.resolve import (
    Names,
    find_column,
    is_single_event,
    literal,
    of_one_event,
    optional,
    resolve,
    settle_steps,
)
from cerise.pattern.rewrite import Absence, Shape, shapes
from cerise.pattern.show import quote, show_identifier, show_path


def bind(query: Query, schema: Schema, params: Mapping[str, Any] | None = None) -> Bound:
    """Resolve a query against the columns of its events.

    Args:
        query: the query.
        schema: the events' columns and the parts they play.
        params: values for the query's `:name` parameters.

    Raises:
        BindError: the query does not fit the columns; with the place in the query and a hint.
    """
    params = dict(params or {})
    _reject_unknown(params, _params(query))
    try:
        return replace(_bind(query, schema, params), params=_show_params(params))
    except CeriseError as error:
        raise error.located(query.text) from None
    except RecursionError:
        raise BindError("the query nests too deeply", hint="write long lists as x IN (…)") from None


def _bind(query: Query, schema: Schema, params: Mapping[str, Any]) -> Bound:
    source = None
    if isinstance(query.source, Query):
        source = as_integers(_bind(query.source, schema, params))
        schema = event_schema(source)
    names = _names(query.pattern, schema, params)
    where = _conjuncts(query, names)
    equivalences = tuple(c.expr.path for c in where if isinstance(c.expr, Same))
    partition, not_null = _partition(query, schema, equivalences)
    within, slide = _windows(query, schema, params)
    found = shapes(query.pattern)
    _check_shapes(found, query)
    branches = tuple(_branch(shape, where, query, names) for shape in found)
    bound = Bound(
        query, schema, branches, where, variables(query.pattern), names.kleene, partition, not_null,
        within, slide, (), source=source,
    )  # fmt: skip
    warnings = (*(source.warnings if source else ()), *_warnings(bound))
    return replace(bound, columns=output_columns(bound, names), warnings=warnings)


def share_params(params: Mapping[str, Any], queries: Sequence[Query]) -> list[dict[str, Any]]:
    """Return for each of several queries the values of its own parameters.

    >>> from cerise.lang.sase import parse
    >>> share_params({"low": 3}, [parse("PATTERN A a WHERE a.x < :low"), parse("PATTERN B b")])
    [{'low': 3}, {}]

    Raises:
        BindError: no query has a parameter of that name.
    """
    each = [_params(query) for query in queries]
    _reject_unknown(params, set().union(*each), "no query has a" if len(each) > 1 else "the query has no")
    return [{name: value for name, value in params.items() if name in used} for used in each]


def _reject_unknown(params: Mapping[str, Any], used: set[str], problem: str = "the query has no") -> None:
    for name in params:
        if name not in used:
            hint = did_you_mean(name, used) if used else "the query has no parameters"
            raise BindError(f"{problem} parameter :{name}", hint=hint)


def _show_params(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    values = {name: literal(Param(name), params) for name in sorted(params)}
    return tuple((name, f"{value.kind.value} {value.value!r}") for name, value in values.items())


def _params(query: Query) -> set[str]:
    exprs = list(query.where)
    if isinstance(query.returns, tuple):
        exprs += [item.expr for item in query.returns]
    if query.totals is not None:
        exprs += [item.arg for item in query.totals.items if item.arg is not None]
    used = {each.name for expr in exprs for each in walk(expr) if isinstance(each, Param)}
    used |= {w.size.name for w in (query.within, query.slide) if w is not None and isinstance(w.size, Param)}
    return used | (_params(query.source) if isinstance(query.source, Query) else set())


def _names(pattern: Node, schema: Schema, params: Mapping[str, Any]) -> Names:
    seen: set[str] = set()
    for var in variables(pattern):
        if var.name in seen:
            raise BindError(
                f"variable '{var.name}' stands twice", span=var.span, hint="give each item its own name"
            )
        seen.add(var.name)
        if var.type is not None:
            _type_literal(var, schema)
    names = tuple(var.name for var in variables(pattern))
    return Names(schema, names, kleene_names(pattern), absent_names(pattern), params, optional(pattern))


def _type_literal(var: Var, schema: Schema) -> Literal:
    if schema.type is None:
        raise BindError(
            f"'{var.type} {var.name}' has a type, but no column says which type an event has", span=var.span,
            hint=f"say which column does (type=…, or --type), or write {var.name.lower()} without a type",
        )  # fmt: skip
    if schema.kind((schema.type,)) in (Kind.STRING, Kind.NULL):
        return Literal(var.type, Kind.STRING)
    try:
        return Literal(int(str(var.type)), Kind.INT)
    except ValueError:
        raise BindError(
            f"type '{var.type}' is not a number, but type column '{schema.type}' holds integers",
            span=var.span,
        ) from None


# ---- predicates


def _conjuncts(query: Query, names: Names) -> tuple[Conjunct, ...]:
    return tuple(_conjunct(settle_steps(resolve(each, names), names.kleene), names) for each in query.where)


def _conjunct(expr: Expr, names: Names) -> Conjunct:
    """Classify a resolved conjunct (S4.2) and find its last identifier [SASE08 §3.2, step 2]."""
    if isinstance(expr, Same):
        return Conjunct(expr, Role.EQUIVALENCE, "", frozenset())
    if any(isinstance(each, Same) for each in walk(expr)):
        raise BindError(
            "an equivalence test [attr] inside an expression",
            span=next(each.span for each in walk(expr) if isinstance(each, Same)),
            hint="join it to the others by AND",
        )
    if (kind := kind_of(expr)) is not Kind.BOOL and not (kind is Kind.NULL and attributes(expr)):
        raise BindError(f"a predicate must be true or false, not {kind_of(expr).value}", span=expr.span)
    used = frozenset(each.var for each in outside_aggregates(expr))
    if len(used & names.negated) > 1:
        both = " and ".join(sorted(used & names.negated))
        raise UnsupportedError(
            f"one conjunct speaks of two negated variables, {both}", span=expr.span, hint="split it"
        )
    last = _last_identifier(expr, names)
    single = is_single_event(expr)
    stepped = bool(Conjunct(expr, Role.STEP, last, used).steps())
    role = Role.STEP if stepped else Role.INDEPENDENT if single or not attributes(expr) else Role.DEPENDENT
    filters = single and all(each.at is At.EVERY for each in attributes(expr))
    return Conjunct(expr, role, last, used, filters)


def _last_identifier(expr: Expr, names: Names) -> str:
    """Return the identifier that is bound last: by pattern order, then b[1] < b[i] < b[b.LEN]."""
    final = final_variables(expr)

    def rank(attr: Attr) -> tuple[int, int]:
        stage = 2 if attr.var in final and attr.at in (At.LAST, At.ALL) else 0 if attr.at == 1 else 1
        return names.variables.index(attr.var), stage

    found = attributes(expr)
    if not found:
        return ""
    latest = max(found, key=rank)
    meaning: dict[Index, Index] = {At.ALL: At.LAST, At.RUNNING: At.CURRENT}
    return show_identifier(replace(latest, at=meaning.get(latest.at, latest.at)))


def _branch(shape: Shape, where: Iterable[Conjunct], query: Query, names: Names) -> Branch:
    """Return a branch with the conjuncts whose variables are all in it (S3.2)."""
    present = {var.name for var in variables(shape.positive)}
    conjuncts = [
        _here(c, present, names) for c in where if c.variables <= present and not isinstance(c.expr, Same)
    ]
    types = [_type_test(var, names) for var in variables(shape.positive) if var.type]
    same = [c for c in where if isinstance(c.expr, Same)] if query.strategy is Strategy.STRICT else []
    equal = [_equal(c, shape, var, names) for c in same for var in variables(shape.positive)]
    negations = tuple(_negation(each, shape, where, same, names) for each in shape.absences)
    return Branch(shape.positive, (*types, *conjuncts, *equal), negations)


def _here(conjunct: Conjunct, present: set[str], names: Names) -> Conjunct:
    """Return a conjunct for a branch, in which an optional variable of the branch binds one event (S3.6)."""
    single = {each.var for each in attributes(conjunct.expr)} & names.optional & present
    expr = of_one_event(conjunct.expr, single) if single else conjunct.expr
    return conjunct if expr == conjunct.expr else _conjunct(expr, names)


def _type_test(var: Var, names: Names) -> Conjunct:
    column = names.schema.type
    assert column is not None
    attr = Attr(var.name, (column,), kind=names.schema.kind((column,)))
    expr = Binary("=", attr, _type_literal(var, names.schema))
    return Conjunct(expr, Role.INDEPENDENT, quote(var.name), frozenset({var.name}), filters=True)


def _equal(conjunct: Conjunct, shape: Shape, var: Var, names: Names) -> Conjunct:
    """Return `[attr]` for one variable, as equality with the first variable of the branch."""
    assert isinstance(conjunct.expr, Same)
    path = conjunct.expr.path
    kind = names.schema.kind(path)
    anchor = variables(shape.positive)[0].name
    first = Attr(anchor, path, 1 if anchor in names.kleene else At.EVERY, kind)
    expr = Binary("=", first, Attr(var.name, path, At.EVERY, kind))
    return Conjunct(expr, Role.EQUIVALENCE, quote(var.name), frozenset({anchor, var.name}))


def _negation(
    absence: Absence, shape: Shape, where: Iterable[Conjunct], same: Iterable[Conjunct], names: Names
) -> Negation:
    name = absence.var.name
    present = {var.name for var in variables(shape.positive)} | {name}
    tests = [_here(c, present, names) for c in where if name in c.variables and c.variables <= present]
    typed = [_type_test(absence.var, names)] if absence.var.type else []
    equal = [_equal(c, shape, absence.var, names) for c in same]
    return Negation(absence, (*typed, *tests, *equal))


# ---- structure, windows, partitions


def _check_shapes(found: tuple[Shape, ...], query: Query) -> None:
    if not found:
        raise BindError(
            "the pattern binds no event", hint="a pattern needs at least one item that is not negated"
        )
    for shape in found:
        for absence in shape.absences:
            if absence.at_end and query.within is None:
                raise BindError(
                    f"NOT {absence.var.name} at an end of the pattern or in AND needs WITHIN",
                    span=absence.var.span,
                    hint="say for how long it must not happen: WITHIN 1 hour",
                )


def _partition(
    query: Query, schema: Schema, equivalences: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the columns that partition the events, and the partition columns that may not be null (S8)."""
    given = tuple((name,) for name in schema.key)
    if query.partition_by and given and set(query.partition_by) != set(given):
        clause = ", ".join(map(show_path, query.partition_by))
        raise BindError(
            f"the query says PARTITION BY {clause}, the call says key={', '.join(schema.key)}",
            hint="give one of them, or the same columns",
        )
    columns = query.partition_by or given
    for path in columns:
        find_column(path, schema, _span_after(query.text, "PARTITION BY", show_path(path)))
    not_null = () if query.strategy is Strategy.STRICT else tuple(dict.fromkeys(equivalences))
    return (*columns, *(path for path in not_null if path not in columns)), not_null


def _span_after(text: str | None, clause: str, word: str) -> Span | None:
    """Return the position of a word in a clause, found in the text: paths keep no position."""
    found = re.search(
        rf"{clause.replace(' ', chr(92) + 's+')}.*?({re.escape(word)})", text or "", re.IGNORECASE | re.DOTALL
    )
    return Span(*found.span(1)) if found else None


def _windows(query: Query, schema: Schema, params: Mapping[str, Any]) -> tuple[Window | None, Window | None]:
    within = _window(query.within, schema, params) if query.within else None
    slide = _window(query.slide, schema, params) if query.slide else None
    if slide is None:
        return within, None
    if within is None:
        raise BindError(
            "SLIDE without WITHIN", span=slide.span, hint="say how long the window is: WITHIN 30 minutes"
        )
    if (within.unit is Unit.EVENTS) != (slide.unit is Unit.EVENTS):
        raise BindError(
            "WITHIN and SLIDE are in different units", span=slide.span, hint="use the same unit in both"
        )
    if slide.size == 0:
        raise BindError("SLIDE must be more than 0", span=slide.span)
    return within, slide


def _window(window: Window, schema: Schema, params: Mapping[str, Any]) -> Window:
    """Fill in a parameter and check the unit against the time column (S2.4)."""
    if isinstance(window.size, Param):
        given = literal(window.size, params)
        if not isinstance(given.value, int) or given.kind not in (Kind.INT, Kind.DURATION) or given.value < 0:
            raise BindError(
                f"parameter :{window.size.name} is not an extent of a window", span=window.span,
                hint="give a timedelta, or an int of 0 or more",
            )  # fmt: skip
        unit = Unit.TIME if given.kind is Kind.DURATION else window.unit
        window = replace(window, size=given.value, unit=unit)
    if isinstance(window.size, int) and window.size > INT64_MAX:
        raise BindError(
            f"a window of {show_number(window.size)} does not fit into 64 bits", span=window.span,
            hint="leave the clause out: without WITHIN a match may last any time",
        )  # fmt: skip
    if schema.kind((schema.time,)) is Kind.NULL:
        return window
    timed = schema.kind((schema.time,)) in MOMENTS
    if window.unit is Unit.NUMBER and timed:
        raise BindError(
            f"{window.size} has no unit, and '{schema.time}' is not an integer", span=window.span,
            hint=f"write {window.size} seconds, {window.size} minutes or {window.size} events",
        )  # fmt: skip
    if window.unit is Unit.TIME and not timed:
        raise BindError(
            f"a duration, but time column '{schema.time}' holds integers", span=window.span,
            hint="write a bare number, in the units of the column",
        )  # fmt: skip
    return window


def _warnings(bound: Bound) -> list[str]:
    found = []
    within, slide = bound.within, bound.slide
    if within and slide and int(str(slide.size)) > int(str(within.size)):
        found.append("SLIDE is longer than WITHIN: events in the gaps between windows never match")
    if within and _too_small(within, slide, bound):
        found.append("the window of WITHIN is too small for the pattern: it can never match")
    middle = any(not each.absence.at_end for branch in bound.branches for each in branch.negations)
    if bound.query.strategy.contiguous and middle:
        found.append(f"NOT between events can never fail under {bound.query.strategy.value}")
    return found


def _too_small(within: Window, slide: Window | None, bound: Bound) -> bool:
    if within.unit is not Unit.EVENTS:
        return within.size == 0 and slide is not None
    return all(int(str(within.size)) < _fewest(branch.pattern) for branch in bound.branches)


def _fewest(pattern: Node) -> int:
    kleene = [each for each in walk_nodes(pattern) if isinstance(each, Kleene)]
    return len(variables(pattern)) + sum(each.low - 1 for each in kleene)
