"""What the queries of a team say of joins: leaves and branches, and how events come to leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cerise.engines.tree.branches.branch_writer import join_branches
from cerise.engines.tree.branches.join_branch import Catalog
from cerise.engines.tree.branches.team_branch import TeamBranch, make_branch
from cerise.engines.tree.events.leaf_rows import LeafReader
from cerise.pattern.bound import Bound


@dataclass(frozen=True, slots=True)
class TeamParts:
    """What a team's queries say of joins, whatever its options and events are."""

    catalog: Catalog
    branches: list[TeamBranch]
    reader: LeafReader


def write_parts(bounds: Sequence[Bound]) -> TeamParts:
    """Return the parts of queries; those of one query are kept, for the next slice or search."""
    return _write_one(_Same(bounds[0])) if len(bounds) == 1 else _write(bounds)


def _write(bounds: Sequence[Bound]) -> TeamParts:
    catalog = Catalog()
    branches = [
        make_branch(number, bound, branch)
        for number, bound in enumerate(bounds)
        for branch in join_branches(bound, catalog)
    ]
    return TeamParts(catalog, branches, LeafReader(catalog))


@dataclass(frozen=True, eq=False, slots=True)
class _Same:
    """A query as itself: equal queries may differ, as 1 = 1.0 does."""

    bound: Bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.bound is self.bound

    def __hash__(self) -> int:
        return id(self.bound)


@lru_cache(maxsize=64)
def _write_one(same: _Same) -> TeamParts:
    return _write([same.bound])
