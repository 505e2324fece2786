"""Writes the formulas of an automaton as source text: the tests of each edge, and its updates of V."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from cerise.engines.automaton.automaton import Bounds, Check, Edge, Test
from cerise.engines.automaton.layout import Field, ProgramLayout, Slot, ValueKey
from cerise.engines.automaton.records import Candidate, Chunk, Node, Run
from cerise.kernels.predicates import NEVER, Value, Writer, better, either, guard, truth, value
from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import Agg, At, Attr, Expr, Literal, attributes, rebuild


def words(base: str, number: int | str) -> str:
    """Return the address of a word."""
    if isinstance(number, int):
        return f"{base} + {8 * number}" if number else base
    return f"{base} + 8 * {number}"


def load_code(address: str, kind: Kind) -> str:
    """Return the code that reads a word as a value of a kind."""
    return f"{'load_float' if kind is Kind.FLOAT else 'load'}({address})"


@dataclass(slots=True)
class Scope:
    """Writes the code of the identifiers in a formula.

    Attributes:
        layout: the positions of values in runs, nodes and candidates.
        kleene: the Kleene variables.
        numbers: the number of each variable.
        absent: the variables that this branch never binds.
        run: the name of the run whose V is read.
        newest: the variable that binds the current event; None: no variable does.
        fresh: whether the current event is the first of `newest`.
        walked: for each variable in whose events a loop is open, the name of the current node.
        negated: the negated variable under test, and the name of its candidate.
        uses: the values of V that the formulas read.
        history: the variables whose events the formulas loop over.
        hoisted: names for loads that give the same value for all events of a chunk; None: nothing is hoisted.
    """

    layout: ProgramLayout
    kleene: frozenset[str]
    numbers: Mapping[str, int]
    absent: frozenset[str]
    run: str = "r"
    newest: str | None = None
    fresh: bool = False
    walked: dict[str, str] = field(default_factory=dict)
    negated: tuple[str, str] | None = None
    uses: set[Slot] = field(default_factory=set)
    history: set[str] = field(default_factory=set)
    hoisted: dict[str, str] | None = None

    # ---- identifiers

    def attribute(self, attr: Attr, writer: Writer) -> Value:
        """Return the value of an attribute of an event."""
        assert attr.kind is not None
        var, at, kind = attr.var, attr.at, attr.kind
        if self.negated and var == self.negated[0]:
            place = self.layout.candidate(var, attr.path, kind)
            return self._field(self.negated[1], Candidate.nulls, Candidate.WORDS, place, writer)
        if var in self.walked and at in (At.EVERY, At.CURRENT, At.PREVIOUS):
            what = "last" if at is At.PREVIOUS else "single"
            if what == "last":
                self.slot(ValueKey(var, "last", attr.path), kind)
            return self._read_payload(var, ValueKey(var, what, attr.path), kind, writer)
        if at is At.ALL or (var == self.newest and at in (At.EVERY, At.CURRENT, At.RUNNING)):
            return self.event(attr, writer)
        if isinstance(at, int):
            return self._nth(attr, at, writer)
        what = "last" if at in (At.LAST, At.PREVIOUS) else "single"
        return self.read(self.slot(ValueKey(var, what, attr.path), kind), writer)

    def event(self, attr: Attr, writer: Writer) -> Value:
        """Return the value of an attribute of the current event."""
        assert attr.kind is not None
        number = self.layout.column(attr.path, attr.kind)
        column = f"{self._hoist(words('cols', Chunk.WORDS + number))} + 8 * e"
        nulls = f"load({self._hoist(words('cols', Chunk.nulls))} + 8 * e)"
        return Value(
            writer.name(load_code(column, attr.kind)), writer.name(f"({nulls} >> {number}) & 1 != 0")
        )

    def _nth(self, attr: Attr, k: int, writer: Writer) -> Value:
        assert attr.kind is not None
        if attr.var == self.newest and self.fresh and k == 1:
            return self.event(attr, writer)
        slot = self.slot(ValueKey(attr.var, "nth", attr.path, k), attr.kind)
        found = self.read(slot, writer)
        counted = self.count(attr.var, writer)
        if attr.var != self.newest:
            return found
        now = self.event(attr, writer)
        here = writer.name(f"{counted} + 1 == {k}")
        return Value(
            writer.name(f"{now.code} if {here} else {found.code}"),
            writer.name(f"{now.null} if {here} else {found.null}"),
        )

    def aggregate(self, agg: Agg, writer: Writer) -> Value:
        """Return the value of an aggregate: of all events so far, or of the events before the current one."""
        first = attributes(agg.arg)[0]
        if first.var in self.absent:
            return Value("0") if agg.function == "count" else value(Literal(None, kind_of(agg)), self, writer)
        if first.var in self.walked and first.at is At.RUNNING:
            if first.path:
                self.uses.update(self.layout.slot(key, kind) for key, kind in parts_of(agg))
            else:
                self.slot(ValueKey(first.var, "count"), Kind.INT)
            return self._read_payload(
                first.var, ValueKey(first.var, "running", agg=agg), kind_of(agg), writer
            )
        return self.summary(agg, writer)

    def text(self, literal: str) -> str:
        number = self.layout.texts.setdefault(literal, len(self.layout.texts))
        return self._hoist(words(self._hoist(words("cols", Chunk.texts)), number))

    def _hoist(self, address: str) -> str:
        """Return the code that reads a word with the same value for every event of a chunk."""
        code = f"load({address})"
        return code if self.hoisted is None else self.hoisted.setdefault(code, f"at{len(self.hoisted)}")

    # ---- V

    def slot(self, key: ValueKey, kind: Kind) -> Slot:
        found = self.layout.slot(key, kind)
        self.uses.add(found)
        return found

    def read(self, slot: Slot, writer: Writer) -> Value:
        code = writer.name(load_code(words(self.run, slot.word), slot.kind))
        null = writer.name(f"(load({words(self.run, Run.nulls)}) >> {slot.number}) & 1 != 0")
        return Value(code, null)

    def count(self, var: str, writer: Writer) -> str:
        return self.read(self.slot(ValueKey(var, "count"), Kind.INT), writer).code

    def summary(self, agg: Agg, writer: Writer) -> Value:
        """Return an aggregate from its parts in V."""
        if agg.function == "count" and isinstance(agg.arg, Attr) and not agg.arg.path:
            return Value(self.count(attributes(agg.arg)[0].var, writer))
        parts = [self.read(self.slot(key, kind), writer) for key, kind in parts_of(agg)]
        codes = [part.code for part in parts]
        match agg.function:
            case "sum" if kind_of(agg.arg) is Kind.INT:
                joined = ", ".join(codes)
                return guard(f"sum_value({joined})", parts[0].null, f"sum_faults({joined})", writer)
            case "avg":
                return Value(writer.name(f"{codes[0]} / max({codes[1]}, 1)"), parts[0].null)
            case "stddev":
                spread = writer.name(f"square_root({codes[2]} / max({codes[0]} - 1, 1))")
                return Value(spread, writer.name(f"{codes[0]} < 2"))
            case "count":
                return Value(codes[0])
        return parts[0]

    # ---- values kept with nodes and candidates

    def _read_payload(self, var: str, key: ValueKey, kind: Kind, writer: Writer) -> Value:
        place = self.layout.node_field(var, key, kind)
        base = self.layout.node_words
        return self._field(self.walked[var], base, base + 1, place, writer)

    @staticmethod
    def _field(row: str, nulls: int, first: int, place: Field, writer: Writer) -> Value:
        code = writer.name(load_code(words(row, first + place.number), place.kind))
        return Value(code, writer.name(f"(load({words(row, nulls)}) >> {place.number}) & 1 != 0"))


def parts_of(agg: Agg) -> list[tuple[ValueKey, Kind]]:
    """Return the values of V that an aggregate is computed from."""
    var = attributes(agg.arg)[0].var
    plain = Agg(agg.function, _all(agg.arg))
    whole = {"sum": ["sum", "sum.low"], "count": ["count.values"]}
    kinds = {"sum.low": Kind.INT, "count.values": Kind.INT, "number": Kind.INT}
    names = {"avg": ["avg", "number"], "stddev": ["number", "mean", "squares"]}.get(agg.function)
    if names is None:
        exact = agg.function == "count" or (agg.function == "sum" and kind_of(agg.arg) is Kind.INT)
        names = whole[agg.function] if exact else [agg.function]
    return [(ValueKey(var, name, agg=plain), kinds.get(name, kind_of(agg))) for name in names]


def _all(expr: Expr) -> Expr:
    """Return an aggregate's argument over all events: running and final aggregates share their parts."""
    if isinstance(expr, Attr):
        return replace(expr, at=At.ALL, span=None)
    return rebuild(expr, _all)


# ---- edges


def write_edge(edge: Edge, started: frozenset[str], scope: Scope, writer: Writer) -> None:
    """Write the formula of an edge: 0 disabled, 1 enabled, 2 enabled and the run may not ignore the event."""
    scope.newest, scope.fresh = edge.var, edge.var not in started
    for var, low in edge.least:
        with writer.block(f"if {scope.count(var, writer)} < {low}:"):
            writer.line("return 0")
    if edge.below is not None:
        with writer.block(f"if {scope.count(edge.var, writer)} >= {edge.below}:"):
            writer.line("return 0")
    for check in edge.checks:
        _write_check(check, edge.var, scope, writer)
    if any(high is None for _, high in edge.opens):
        writer.line("return 1")
    else:
        for var, high in edge.opens:
            with writer.block(f"if {scope.count(var, writer)} < {high}:"):
                writer.line("return 1")
        writer.line("return 2")


def is_trivial(edge: Edge) -> bool:
    """Whether an edge is enabled for every event that fits its variable."""
    return not (edge.least or edge.below is not None or edge.checks) and not any(h for _, h in edge.opens)


def _write_check(check: Check, var: str, scope: Scope, writer: Writer) -> None:
    runs_over = dict(check.test.runs_over)
    if scope.fresh and runs_over.get(var) == 2:
        return  # the test begins with the second event
    if check.before == ():
        write_test(check.test, scope, writer, newest_only=True)
        return
    counts = {v: scope.count(v, writer) for v, _ in (*(check.before or ()), *check.after)}
    now = _test_counts(check.after, counts, newest=var)
    if check.before is None and not check.after:
        write_test(check.test, scope, writer, newest_only=scope.fresh)
        return
    if check.before is None:
        with writer.block(f"if {now}:"):
            write_test(check.test, scope, writer, newest_only=False)
        return
    then = _test_counts(check.before, counts)
    with writer.block(f"if {then}:"):
        if var in runs_over:
            write_test(check.test, scope, writer, newest_only=True)
        writer.line("pass")
    with writer.block(f"elif {now}:"):
        write_test(check.test, scope, writer, newest_only=False)


def _test_counts(bounds: Bounds, counts: Mapping[str, str], newest: str | None = None) -> str:
    tests = [f"{counts[var]} >= {k - 1 if var == newest else k}" for var, k in bounds]
    return " and ".join(tests) or "True"


def write_accept(least: Bounds, checks: Iterable[Check], scope: Scope, writer: Writer) -> None:
    """Write the tests of a match that no edge has made."""
    for var, low in least:
        with writer.block(f"if {scope.count(var, writer)} < {low}:"):
            writer.line("return 0")
    for check in checks:
        if check.before:
            counts = {v: scope.count(v, writer) for v, _ in check.before}
            with writer.block(f"if not ({_test_counts(check.before, counts)}):"):
                write_test(check.test, scope, writer, newest_only=False)
        else:
            write_test(check.test, scope, writer, newest_only=False)
    writer.line("return 1")


def write_negation(tests: Iterable[Test], scope: Scope, writer: Writer) -> None:
    """Write the tests that a candidate passes to veto a match."""
    for test in tests:
        write_test(test, scope, writer, newest_only=False)
    writer.line("return 1")


def write_test(test: Test, scope: Scope, writer: Writer, *, newest_only: bool) -> None:
    """Write a test that returns 0 where it fails, for all events that it runs over.

    The newest event of the edge's own variable is the current event; loops go through all others.
    """
    _walk_over(list(test.runs_over), test, scope, writer, newest_only=newest_only)


def _walk_over(
    rest: list[tuple[str, int]], test: Test, scope: Scope, writer: Writer, *, newest_only: bool
) -> None:
    if not rest:
        with writer.block(f"if not ({truth(test.expr, scope, writer).true}):"):
            writer.line("return 0")
        return
    (var, first), *others = rest
    if var == scope.newest:
        _walk_over(others, test, scope, writer, newest_only=newest_only)
        if newest_only:
            return
    _write_walk(var, first, others, test, scope, writer)


def _write_walk(
    var: str, first: int, others: list[tuple[str, int]], test: Test, scope: Scope, writer: Writer
) -> None:
    """Write the loop over the nodes of a variable, from its newest back to its first event."""
    number = next(_WALKS)
    node, row, left = f"node{number}", f"row{number}", f"left{number}"
    scope.history.add(var)
    writer.line(f"{left} = {scope.count(var, writer)} + 0")
    writer.line(f"{node} = load({words(scope.run, Run.node)})")
    with writer.block(f"while {left} >= {first}:"):
        writer.line(f"{row} = nodes + {8 * NODE_WIDTH_MARK} * {node}")
        with writer.block(f"if load({words(row, Node.var)}) == {scope.numbers[var]}:"):
            scope.walked[var] = row
            _walk_over(others, test, scope, writer, newest_only=False)
            del scope.walked[var]
            writer.line(f"{left} -= 1")
        writer.line(f"{node} = load({words(row, Node.prev)})")


_WALKS = count()
NODE_WIDTH_MARK = 7_000_000_001  # stands for the width of a node, which is known when all code is written


# ---- binding an event


def write_update(
    edge: Edge, started: frozenset[str], relevant: set[Slot], scope: Scope, writer: Writer
) -> bool:
    """Write how V changes from run r to run d when the edge binds the current event; False: it does not."""
    var = edge.var
    scope.newest = var
    if var in scope.layout.payload:
        _write_payload(var, scope, writer)
    changes: list[tuple[Slot, Value]] = []
    for slot in sorted(relevant, key=lambda each: each.number):
        changes += _change(slot, edge, started, scope, writer)
    if not changes and var not in scope.layout.payload:
        return False
    writer.line(f"nulls = load({words('r', Run.nulls)})")
    for slot, new in changes:
        place = words("d", slot.word)
        writer.line(f"{'store_float' if slot.kind is Kind.FLOAT else 'store'}({place}, {new.code})")
        writer.line(f"nulls = nulls & {~(1 << slot.number)}")
        if new.null != NEVER:
            with writer.block(f"if {new.null}:"):
                writer.line(f"nulls = nulls | {1 << slot.number}")
    writer.line(f"store({words('d', Run.nulls)}, nulls)")
    writer.line("return 0")
    return True


def _change(
    slot: Slot, edge: Edge, started: frozenset[str], scope: Scope, writer: Writer
) -> list[tuple[Slot, Value]]:
    """Return the new value of a slot, if this edge changes it."""
    key = slot.key
    if key.what in ("first_seq", "first_point"):
        return [] if started else [(slot, _stamp(key.what, writer))]
    if key.what == "after":
        return [(slot, _stamp("seq", writer))] if edge.var in key.path else []
    if key.what == "before":
        fresh = edge.var in key.path and not started & set(key.path)
        return [(slot, _stamp("seq", writer))] if fresh else []
    if key.var != edge.var:
        return []
    match key.what:
        case "single" | "last":
            return [(slot, scope.event(Attr(key.var, key.path, kind=slot.kind), writer))]
        case "count":
            return [(slot, Value(writer.name(f"{scope.read(slot, writer).code} + 1")))]
        case "nth":
            before = scope.read(slot, writer)
            now = scope.event(Attr(key.var, key.path, kind=slot.kind), writer)
            here = writer.name(f"{scope.count(key.var, writer)} + 1 == {key.number}")
            code = writer.name(f"{now.code} if {here} else {before.code}")
            return [(slot, Value(code, writer.name(f"{now.null} if {here} else {before.null}")))]
    return _accumulate(slot, scope, writer)


def _stamp(what: str, writer: Writer) -> Value:
    if what == "first_point":
        return Value(writer.name(f"load(load({words('cols', Chunk.points)}) + 8 * e)"))
    return Value(writer.name(f"load({words('cols', Chunk.seq)}) + e"))


def _accumulate(slot: Slot, scope: Scope, writer: Writer) -> list[tuple[Slot, Value]]:
    """Add the current event to a part of an aggregate, unless its value is null."""
    agg = slot.key.agg
    assert agg is not None
    new = value(agg.arg, scope, writer)
    old = scope.read(slot, writer)
    code = new.code
    if slot.kind is Kind.FLOAT and kind_of(agg.arg) is not Kind.FLOAT:
        code = writer.name(f"float({code})")
    match slot.key.what:
        case "min" | "max":
            keeps = f"not ({old.null}) and not ({better(agg.function, code, old.code, slot.kind)})"
            return [_unless_null(slot, new, old, f"{old.code} if {keeps} else {code}", writer)]
        case "sum" if slot.kind is Kind.INT:
            return [_unless_null(slot, new, old, f"{old.code} + ({code} >> 32)", writer)]
        case "sum.low":
            return [_unless_null(slot, new, old, f"{old.code} + ({code} & 4294967295)", writer)]
        case "sum" | "avg":
            return [_unless_null(slot, new, old, f"{code} if {old.null} else {old.code} + {code}", writer)]
        case "number" | "count.values":
            return [_unless_null(slot, new, old, f"{old.code} + 1", writer)]
    number, mean = (scope.read(scope.layout.slots[key], writer).code for key, _ in parts_of(agg)[:2])
    moved = writer.name(f"{mean} + ({code} - {mean}) / ({number} + 1)")
    if slot.key.what == "mean":
        return [_unless_null(slot, new, old, moved, writer)]
    return [_unless_null(slot, new, old, f"{old.code} + ({code} - {mean}) * ({code} - {moved})", writer)]


def _unless_null(slot: Slot, new: Value, old: Value, changed: str, writer: Writer) -> tuple[Slot, Value]:
    changed = writer.name(changed)
    if new.null == NEVER:
        return slot, Value(changed)
    kept = writer.name(new.null)
    code = writer.name(f"{old.code} if {kept} else {changed}")
    return slot, Value(code, writer.name(f"{old.null} and {kept}"))


def _write_payload(var: str, scope: Scope, writer: Writer) -> None:
    """Write the values that later loops read of this event into its node, which the kernel has just made."""
    row = writer.name(f"nodes + {8 * NODE_WIDTH_MARK} * load({words('d', Run.node)})")
    base = scope.layout.node_words
    values = []
    for key, place in scope.layout.payload[var].items():
        if key.what == "running":
            assert key.agg is not None
            found = scope.summary(key.agg, writer)
        elif key.what == "last":
            found = scope.read(scope.layout.slot(ValueKey(var, "last", key.path), place.kind), writer)
        else:
            found = scope.event(Attr(var, key.path, kind=place.kind), writer)
        values.append((place, found))
    writer.line("kept = 0")
    for place, found in values:
        address = words(row, base + 1 + place.number)
        writer.line(f"{'store_float' if place.kind is Kind.FLOAT else 'store'}({address}, {found.code})")
        with writer.block(f"if {either(found.null)}:"):
            writer.line(f"kept = kept | {1 << place.number}")
    writer.line(f"store({words(row, base)}, kept)")


def write_candidate(var: str, scope: Scope, writer: Writer) -> None:
    """Write the attributes of the current event into a candidate for a negated variable."""
    writer.line("kept = 0")
    for path, place in scope.layout.candidates.get(var, {}).items():
        found = scope.event(Attr(var, path, kind=place.kind), writer)
        address = words("d", Candidate.WORDS + place.number)
        writer.line(f"{'store_float' if place.kind is Kind.FLOAT else 'store'}({address}, {found.code})")
        with writer.block(f"if {either(found.null)}:"):
            writer.line(f"kept = kept | {1 << place.number}")
    writer.line(f"store({words('d', Candidate.nulls)}, kept)")
    writer.line("return 0")
