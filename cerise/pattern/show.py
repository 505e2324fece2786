"""Writes a query as text: `parse(show(query)) == query`."""

from __future__ import annotations

import datetime as dt
import re

from cerise.events import Path
from cerise.kinds import Kind
from cerise.pattern.expr import (
    Agg,
    At,
    Attr,
    Binary,
    Call,
    Cast,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Param,
    Same,
    Unary,
    rebuild,
)
from cerise.pattern.query import (
    And,
    Kleene,
    Maybe,
    Node,
    Not,
    Or,
    Output,
    Per,
    Query,
    Seq,
    Strategy,
    Total,
    Totals,
    Unit,
    Var,
    Window,
)
from cerise.pattern.row_pattern import CLASSIFIER, Atom, BoundRows, MatchNumber, MatchStatus, Nav, RowAgg

RESERVED = frozenset(
    "PATTERN SEQ AND OR NOT KLEENE KL FROM USE USING PARTITION BY WHERE WITHIN SLIDE OUTPUT LIMIT PER EVENT"
    " EVENTS RETURN INTO IS NULL IN LIKE BETWEEN TRUE FALSE AS".split()
)
STRATEGY = re.compile(r"skip_till_(next|any)(_match)?|(strict|partition)_contigu(ity|ous)", re.IGNORECASE)
UNITS = ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second"),
         (1_000, "millisecond"), (1, "microsecond"))  # fmt: skip
PRECEDENCE = {"or": 1, "and": 2, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
COMPARISON, ATOM = 4, 8
CAST_NAMES = {Kind.INT: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.STRING: "STRING", Kind.BOOL: "BOOLEAN"}
EPOCH = dt.datetime(1970, 1, 1)


def show(query: Query) -> str:
    """Return the text of a query, one clause on a line, after the queries that it reads FROM."""
    source = query.source
    before = f"{show(source)};\n" if isinstance(source, Query) else ""
    name = source.into if isinstance(source, Query) else source
    clauses = [
        ("PATTERN", show_pattern(query.pattern)),
        ("FROM", name and quote(name)),
        ("USE", query.strategy.value if query.strategy is not Strategy.NEXT else None),
        ("PARTITION BY", ", ".join(map(show_path, query.partition_by))),
        ("WHERE", "\n  AND ".join(_operand(each, 2) for each in query.where)),
        ("WITHIN", query.within and show_window(query.within)),
        ("SLIDE", query.slide and show_window(query.slide)),
        ("OUTPUT", query.output.value if query.output is not Output.ALL else None),
        ("LIMIT", f"{query.limit} PER EVENT" if query.limit else None),
        ("RETURN", _returns(query)),
        ("INTO", query.into and quote(query.into)),
    ]
    return before + "\n".join(f"{clause} {text}" for clause, text in clauses if text)


def show_pattern(node: Node) -> str:
    """Return a pattern as text."""
    match node:
        case Var(name, type_):
            return f"{quote(type_)} {quote(name)}" if type_ else quote(name)
        case Kleene(var):
            times = _quantifier(node)
            return (
                f"{quote(var.type)}{times} {quote(var.name)}[]" if var.type else f"{quote(var.name)}{times}"
            )
        case Maybe(Var() as var):
            return f"{quote(var.type)}? {quote(var.name)}" if var.type else f"{quote(var.name)}?"
        case Maybe(item):
            return f"({show_pattern(item)})?"
        case Not(var):
            return f"NOT {show_pattern(var)}"
        case Seq(items):
            return f"SEQ({', '.join(map(show_pattern, items))})"
        case And(items):
            return f"AND({', '.join(map(show_pattern, items))})"
        case Or(items):
            return f"OR({', '.join(map(show_pattern, items))})"


def show_expr(expr: Expr) -> str:
    """Return an expression as text, with parentheses only where they matter."""
    match expr:
        case Literal():
            return _literal(expr)
        case Param(name):
            return f":{name}"
        case Attr():
            return show_attr(expr)
        case Same(path):
            return f"[{show_path(path)}]"
        case Agg(function, arg):
            return f"{function}({show_expr(arg)})"
        case Unary("not", arg):
            return f"NOT {_operand(arg, 3)}"
        case Unary(_, arg):
            return f"-{_operand(arg, ATOM)}"
        case Binary(op, left, right):
            level = PRECEDENCE.get(op, COMPARISON)
            around = level + 1 if level == COMPARISON else level
            return f"{_operand(left, around)} {op.upper()} {_operand(right, level + 1)}"
        case IsNull(arg):
            return f"{_operand(arg, COMPARISON + 1)} IS NULL"
        case In(arg, items):
            return f"{_operand(arg, COMPARISON + 1)} IN ({', '.join(map(show_expr, items))})"
        case Like(arg, pattern):
            return f"{_operand(arg, COMPARISON + 1)} LIKE {_quote_text(pattern)}"
        case Call(function, args):
            return f"{function}({', '.join(map(show_expr, args))})"
        case Cast(arg, kind):
            return f"CAST({show_expr(arg)} AS {CAST_NAMES[kind]})"


def show_attr(attr: Attr) -> str:
    """Return an attribute of a variable as text."""
    path = "".join(f".{quote(name)}" for name in attr.path)
    if attr.at in (At.NEXT, At.PREV):
        return f"{attr.at.name}({quote(attr.var)}{path})"
    return f"{show_identifier(attr)}{path}"


def show_identifier(attr: Attr) -> str:
    """Return the event that an attribute belongs to, as text: `a`, `b[i]`, `b[b.LEN]`."""
    name = quote(attr.var)
    index = {
        At.EVERY: "", At.ALL: "[]", At.RUNNING: "[..i-1]", At.CURRENT: "[i]", At.PREVIOUS: "[i-1]",
        At.LAST: f"[{name}.LEN]", At.NEXT: "", At.PREV: "",
    }  # fmt: skip
    return name + (index[attr.at] if isinstance(attr.at, At) else f"[{attr.at}]")


def show_window(window: Window) -> str:
    """Return the extent of a window as text."""
    if isinstance(window.size, Param):
        return f":{window.size.name}" + (" EVENTS" if window.unit is Unit.EVENTS else "")
    if window.unit is Unit.TIME:
        return show_duration(window.size)
    return f"{window.size} EVENTS" if window.unit is Unit.EVENTS else str(window.size)


def show_duration(size_us: int) -> str:
    """Return a duration in the largest unit in which it is whole."""
    for unit_us, name in UNITS:
        if size_us % unit_us == 0 and size_us:
            return f"{(count := size_us // unit_us)} {name}{'' if count == 1 else 's'}"
    return "0 seconds"


def show_path(path: Path) -> str:
    """Return a column path as text."""
    return ".".join(map(quote, path))


def quote(name: str) -> str:
    """Return an identifier, in double quotes if the parser would not read it as one."""
    if re.fullmatch(r"[^\W\d]\w*", name) and name.upper() not in RESERVED and not STRATEGY.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _operand(expr: Expr, level: int) -> str:
    text = show_expr(expr)
    return text if _level(expr) >= level else f"({text})"


def _level(expr: Expr) -> int:
    match expr:
        case Binary(op):
            return PRECEDENCE.get(op, COMPARISON)
        case Unary("not"):
            return 3
        case IsNull() | In() | Like() | Same():
            return COMPARISON
        case Unary():
            return 7
        case Literal(int() | float() as value) if value < 0:
            return 7
    return ATOM


def _quantifier(node: Kleene) -> str:
    simple: dict[tuple[int, int | None], str] = {(1, None): "+", (0, None): "*"}
    bounds = f"{{{node.low},{'' if node.high is None else node.high}}}"
    return simple.get((node.low, node.high), bounds)


def _literal(expr: Literal) -> str:
    match expr.kind, expr.value:
        case _, None:
            return "NULL"
        case Kind.BOOL, value:
            return str(value).upper()
        case Kind.STRING, value:
            return _quote_text(str(value))
        case Kind.DURATION, int(value):
            return f"-{show_duration(-value)}" if value < 0 else show_duration(value)
        case Kind.DATE, int(value):
            return f"DATE '{(EPOCH + dt.timedelta(microseconds=value)).date()}'"
        case (Kind.INSTANT | Kind.LOCAL) as kind, int(value):
            zone = "+00:00" if kind is Kind.INSTANT else ""
            return f"TIMESTAMP '{EPOCH + dt.timedelta(microseconds=value)}{zone}'"
    return repr(expr.value)


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _returns(query: Query) -> str | None:
    if query.returns is None:
        return None
    if isinstance(query.returns, Totals):
        return _totals(query.returns)
    return ", ".join(f"{show_expr(item.expr)} AS {quote(item.name)}" for item in query.returns)


def _totals(totals: Totals) -> str:
    items = ", ".join(map(show_total, totals.items))
    alone = totals.per is Per.ALL and any(each.arg is None for each in totals.items)
    return items if alone else f"{items} {totals.per.value}"


def show_total(total: Total) -> str:
    """Return a column of totals as text."""
    value = f"{total.function.upper()}({'*' if total.arg is None else show_expr(total.arg)})"
    value = f"STRING({value})" if total.text else value
    return value if total.arg is None and total.name == "count" else f"{value} AS {quote(total.name)}"


# ---- row patterns: atoms as navigations and aggregates, as users write them

PLACE = re.compile(r"_cerise_atom(\w+?)_place")


def show_condition(expr: Expr, bound: BoundRows) -> str:
    """Return a condition, or a part of one, as text."""

    def mark_atoms(each: Expr) -> Expr:
        if isinstance(each, Attr):
            return Attr(f"_cerise_atom{each.path[0]}_place", ())
        return rebuild(each, mark_atoms)

    return PLACE.sub(lambda found: show_atom(bound.atoms[found[1]], bound), show_expr(mark_atoms(expr)))


def show_atom(atom: Atom, bound: BoundRows) -> str:
    """Return an atom as text: `PREV(B.x)`, `sum(A.x)`."""
    match atom:
        case MatchNumber():
            return "MATCH_NUMBER()"
        case MatchStatus():
            return "MATCH_STATUS()"
        case Nav():
            return _navigation(atom, bound)
        case RowAgg(function, columns, members, _, distinct, where):
            args = ", ".join(_column(each, members, bound) for each in columns)
            rows = "*" if members is None else f"{_variable(members)}.*"
            kept = "" if where is None else f" FILTER (WHERE {_column(where, None, bound).strip('()')})"
            return f"{function}({'DISTINCT ' if distinct else ''}{args or rows}){kept}"


def _navigation(nav: Nav, bound: BoundRows) -> str:
    text = _column(nav.column, nav.members, bound)
    if not nav.last or nav.offset:
        text = f"{'LAST' if nav.last else 'FIRST'}({text}{f', {nav.offset}' if nav.offset else ''})"
    if nav.shift:
        count = abs(nav.shift)
        text = f"{'PREV' if nav.shift < 0 else 'NEXT'}({text}{f', {count}' if count > 1 else ''})"
    return text


def _column(name: str, members: frozenset[str] | None, bound: BoundRows) -> str:
    if name == CLASSIFIER:
        return f"CLASSIFIER({'' if members is None else _variable(members)})"
    sql = next((each.sql for each in bound.derived if each.name == name), None)
    text = quote(name) if sql is None else f"({sql})"
    return text if members is None else f"{_variable(members)}.{text}"


def _variable(members: frozenset[str]) -> str:
    """Return a variable; a subset, which has no name here, is shown by its members."""
    return quote(next(iter(members))) if len(members) == 1 else f"({'|'.join(sorted(members))})"
