"""The values of an aggregate's argument: one for each event it reads, or one for each match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Matches
from cerise.engines.limits import Limits
from cerise.engines.results.match_table import compute_at_once, nth, refuse
from cerise.engines.totals.cells import Argument
from cerise.engines.totals.exact import Ints
from cerise.engines.totals.groups import normal
from cerise.events import EventBatch, read_column
from cerise.kinds import STORED, canonical
from cerise.pattern.bound import Bound
from cerise.pattern.evaluate import Binding, compile_expr
from cerise.pattern.expr import At, Attr, Expr, attributes, rebuild
from cerise.pattern.output import run_through
from cerise.pattern.resolve import is_single_event
from cerise.pattern.show import show_expr


@dataclass(frozen=True, slots=True)
class ArgumentValues:
    """The values of an argument over matches.

    Attributes:
        match: the match of each value, ascending.
        place: the source of each value: a row of the events, or the value's own number.
        values: returns the values of sources, in canonical form.
    """

    match: Ints
    place: Ints
    values: Callable[[Ints], pa.Array]

    @classmethod
    def of(cls, argument: Argument, matches: Matches, bound: Bound, limits: Limits) -> ArgumentValues:
        """Return the values of an argument."""
        if not is_single_event(argument.arg):
            match, values = _match_by_match(argument, matches, bound, limits)
            return cls(match, np.arange(len(match)), lambda places: values.take(pa.array(places)))
        attr = attributes(argument.arg)[0]
        match, rows = _events_of(matches.rows[attr.var], attr)
        return cls(match, rows, lambda places: values_at(argument, matches.events, places))

    def by(self, members: Ints, matches: int) -> tuple[Ints, Ints]:
        """Return the values of members: the number of the member and the source of each value.

        Args:
            members: the match of each member.
            matches: how many matches there are.
        """
        lengths = np.bincount(self.match, minlength=matches)
        starts = np.cumsum(lengths) - lengths
        counts = lengths[members]
        owner = np.repeat(np.arange(len(members)), counts)
        before = np.cumsum(counts) - counts
        return owner, self.place[np.arange(len(owner)) + np.repeat(starts[members] - before, counts)]


def _events_of(rows: pa.ListArray, attr: Attr) -> tuple[Ints, Ints]:
    """Return the events that an identifier names, and the match of each."""
    if attr.at is At.EVERY:
        lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return np.repeat(np.arange(len(rows)), lengths), rows.flatten().to_numpy(zero_copy_only=False)
    single = nth(rows, attr.at - 1 if isinstance(attr.at, int) else -1)
    return np.flatnonzero(np.asarray(single.is_valid())), single.drop_null().to_numpy(zero_copy_only=False)


def values_at(argument: Argument, events: EventBatch, rows: Ints) -> pa.Array:
    """Return the values of an argument over one event, at the given rows."""
    paths = {each.path for each in attributes(argument.arg) if each.path}
    if not paths:
        return pa.array(np.ones(len(rows), bool))  # the argument is the event itself
    names = list(dict.fromkeys(path[0] for path in paths))
    some = events.table.select(names).take(pa.array(rows))
    columns = {path: read_column(some, events.schema, path) for path in paths}
    if isinstance(argument.arg, Attr):
        return normal(columns[argument.arg.path])
    var = attributes(argument.arg)[0].var
    function = compile_expr(_at_one(argument.arg), argument.forgive or refuse(argument.arg))
    plain = {path: column.to_pylist() for path, column in columns.items()}
    values = [function(plain, {var: (row,)}, {}) for row in range(len(rows))]
    return normal(pa.array(values, STORED[argument.kind]))


def _at_one(expr: Expr) -> Expr:
    return replace(expr, at=At.EVERY) if isinstance(expr, Attr) else rebuild(expr, _at_one)


def _match_by_match(
    argument: Argument, matches: Matches, bound: Bound, limits: Limits
) -> tuple[Ints, pa.Array]:
    """Return the values of an argument over several events: one a match, or one for each event of b."""
    through = next(iter(run_through(argument.arg, bound.kleene)), None)
    if through is None and (at_once := compute_at_once(argument.arg, matches, limits)) is not None:
        return np.arange(len(matches)), normal(canonical(at_once, argument.kind, show_expr(argument.arg)))
    function = compile_expr(argument.arg, argument.forgive or refuse(argument.arg))
    columns = matches.events.columns({each.path for each in attributes(argument.arg) if each.path})
    match: list[int] = []
    values: list[Any] = []
    for number, binding in enumerate(_bindings(matches)):
        events = 1 if through is None else len(binding.get(through, ()))
        for step in range(1, events + 1):
            match.append(number)
            values.append(function(columns, binding, {} if through is None else {through: step}))
    return np.array(match, np.int64), normal(pa.array(values, STORED[argument.kind]))


def _bindings(matches: Matches) -> Iterator[Binding]:
    names = list(matches.rows)
    for rows in zip(*(column.to_pylist() for column in matches.rows.values()), strict=True):
        yield {name: tuple(taken) for name, taken in zip(names, rows, strict=True) if taken is not None}
