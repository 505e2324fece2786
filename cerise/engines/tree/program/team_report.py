"""What a team counts: events, matches of each query, and the rows of nodes.

Rows are counted by sub-pattern, so that the figures of several plans add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cerise.engines.base import EngineReport
from cerise.engines.tree.machine.join_records import JoinNode
from cerise.engines.tree.program.tables import TeamTables
from cerise.plan.joins import Key

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class NodeFigures:
    """Candidates and rows of each sub-pattern.

    Attributes:
        candidates: how many pairs of rows were compared.
        rows: how many of them passed.
    """

    candidates: dict[Key, int] = field(default_factory=dict)
    rows: dict[Key, int] = field(default_factory=dict)

    def add(self, tables: TeamTables, nodes: Ints) -> None:
        """Add the figures of the nodes of a plan."""
        for plan, (candidates, made) in zip(tables.plan, self._counters(nodes), strict=True):
            self.candidates[plan.key] = self.candidates.get(plan.key, 0) + candidates
            self.rows[plan.key] = self.rows.get(plan.key, 0) + made

    @staticmethod
    def _counters(nodes: Ints) -> Iterator[tuple[int, int]]:
        yield from zip(nodes[:, JoinNode.candidates].tolist(), nodes[:, JoinNode.made].tolist(), strict=True)

    @property
    def totals(self) -> tuple[int, int]:
        """The candidates and rows of all nodes."""
        return sum(self.candidates.values()), sum(self.rows.values())


@dataclass(slots=True)
class TeamReport:
    """The counters of a team.

    Attributes:
        team: of all queries together.
        matches: how many matches each query has found.
        nodes: the rows of the nodes of all plans.
        names: the variables of each node.
        planning_seconds: the time spent looking for plans.
    """

    team: EngineReport
    matches: Ints
    nodes: NodeFigures = field(default_factory=NodeFigures)
    names: dict[Key, str] = field(default_factory=dict)
    planning_seconds: float = 0.0
