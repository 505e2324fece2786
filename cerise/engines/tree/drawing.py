"""Draws plans of joins as text: the tree of a query, and the sub-patterns that queries share."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cerise.engines.tree.branches.team_branch import TeamBranch
from cerise.pattern.bound import Bound
from cerise.plan.cost import TimedCosts
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import Key, Tree, key_of, slots_of


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """A sub-pattern that several queries use.

    Attributes:
        shown: its variables and types, in the first of these queries.
        queries: the numbers of the queries.
        rows: how many rows a window is expected to hold.
        saved: the nanoseconds for each window that the other queries save.
    """

    shown: str
    queries: tuple[int, ...]
    rows: float
    saved: float


class PlanDrawing:
    """A plan of a team, as text.

    Args:
        bounds: the queries.
        branches: the branches of all queries.
        trees: the join tree of each.
        stats: the statistics that the plan follows from.
        names: the names of the queries; None: there is one query.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        branches: Sequence[TeamBranch],
        trees: Sequence[Tree],
        stats: Statistics,
        names: Sequence[str] | None = None,
    ) -> None:
        self._branches, self._trees, self._stats, self._names = branches, trees, stats, names
        self._types = [{var.name: var.type for var in bound.variables} for bound in bounds]
        self._users: dict[Key, list[int]] = defaultdict(list)
        self._first: dict[Key, tuple[int, tuple[Tree, Tree]]] = {}
        for number, (team, tree) in enumerate(zip(branches, trees, strict=True)):
            for node in _joins(tree):
                key = key_of(team.branch.pattern, slots_of(node))[0]
                self._first.setdefault(key, (number, node))
                if team.query not in self._users[key]:
                    self._users[key].append(team.query)

    @property
    def joins(self) -> int:
        """How many different joins all queries need."""
        return len(self._users)

    @property
    def cost(self) -> float:
        """The nanoseconds that all joins take for each window."""
        return sum(self._cost(number, node) for number, node in self._first.values())

    def _cost(self, number: int, node: tuple[Tree, Tree]) -> float:
        costs = TimedCosts(self._branches[number].branch.pattern, self._stats)
        return costs.join(slots_of(node[0]), slots_of(node[1]))

    def list_shared(self) -> list[SharedJoin]:
        """Return the sub-patterns that several queries use, those first that save most."""
        found = []
        for key, queries in self._users.items():
            if len(queries) > 1:
                number, node = self._first[key]
                pattern = self._branches[number].branch.pattern
                costs = TimedCosts(pattern, self._stats)
                saved = self._cost(number, node) * (len(queries) - 1)
                rows = costs.rows(slots_of(node))
                found.append(SharedJoin(self._name(number, node), tuple(queries), rows, saved))
        return sorted(found, key=lambda each: (-each.saved, each.shown))

    def name_joins(self) -> dict[Key, str]:
        """Return the variables of each join, in the first query that needs it.

        Joins of the same variables that differ, by a predicate for example, are told apart by that query.
        """
        shown = {key: self._name(number, node) for key, (number, node) in self._first.items()}
        uses = Counter(shown.values())
        return {key: name if uses[name] == 1 else self._add_query(name, key) for key, name in shown.items()}

    def _add_query(self, name: str, key: Key) -> str:
        number = self._branches[self._first[key][0]].query
        return f"{name}, of {number + 1 if self._names is None else self._names[number]}"

    def draw(self, query: int, made: Mapping[str, int] | None = None) -> str:
        """Return the trees of a query, a line for each node: its variables, its rows, how many share it.

        Args:
            query: the number of the query.
            made: how many rows joins made in a run, by their names.
        """
        numbers = [number for number, each in enumerate(self._branches) if each.query == query]
        names = self.name_joins() if made else {}
        rows = {key: made[name] for key, name in names.items() if name in made} if made else {}
        trees = ((number, self._trees[number]) for number in numbers)
        return "\n".join(line for number, tree in trees for line in self._lines(number, tree, "", rows))

    def _lines(self, number: int, tree: Tree, indent: str, made: Mapping[Key, int]) -> Iterator[str]:
        pattern = self._branches[number].branch.pattern
        rows = TimedCosts(pattern, self._stats).rows(slots_of(tree))
        text = f"{indent}{self._name(number, tree)}: {show_rows(rows)} rows a window"
        if not isinstance(tree, int):
            key = key_of(pattern, slots_of(tree))[0]
            text += f", {made[key]:,} in the run" if key in made else ""
            others = len(self._users[key]) - 1
            text += f", shared with {others} {'query' if others == 1 else 'queries'}" if others else ""
        yield text
        for half in () if isinstance(tree, int) else tree:
            yield from self._lines(number, half, indent + "  ", made)

    def _name(self, number: int, tree: Tree) -> str:
        team = self._branches[number]
        types, kleene = self._types[team.query], team.branch.pattern.kleene
        shown = []
        for slot, name in enumerate(team.branch.names):
            if slots_of(tree) >> slot & 1:
                type_ = types[name]
                typed = name if type_ is None or type_ == name else f"{type_} {name}"
                shown.append(typed + ("+" if kleene >> slot & 1 else ""))
        return " ⋈ ".join(shown)


def _joins(tree: Tree) -> Iterator[tuple[Tree, Tree]]:
    if not isinstance(tree, int):
        yield tree
        for half in tree:
            yield from _joins(half)


def show_rows(rows: float) -> str:
    """Return a number of rows with two digits that count.

    >>> show_rows(1234.5), show_rows(0.0123), show_rows(3.14)
    ('1,200', '0.012', '3.1')
    """
    if rows <= 0 or not math.isfinite(rows):
        return "0" if rows <= 0 else "∞"
    digits = 1 - math.floor(math.log10(rows))
    shown = f"{round(rows, digits):,.{max(digits, 0)}f}"
    return shown.rstrip("0").rstrip(".") if digits > 0 else shown
