"""Makes the room that the kernels of a team lack, up to the limits of its queries."""

from __future__ import annotations

from collections.abc import Sequence

from cerise.engines.base import Options
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.chains import MOST_COUNTED
from cerise.engines.tree.machine.join_records import OutputRecord, Pool
from cerise.engines.tree.program.team_memory import TeamMemory
from cerise.errors import PlanError
from cerise.pattern.bound import Bound
from cerise.pattern.show import show

ALL_NODES = 16  # times as many rows as one node may have, all nodes of a plan may have
WAYS_OUT = "make the window smaller, add predicates"


class Growth:
    """Makes room in the memory of a team.

    Args:
        bounds: the queries.
        names: their names, for errors; None: there is one query.
        options: the limits.
    """

    def __init__(self, bounds: Sequence[Bound], names: Sequence[str] | None, options: Options) -> None:
        self._bounds, self._names, self._options = bounds, names, options

    def make_rows(self, memory: TeamMemory, before: int, size: int) -> bool:
        """Make room for rows of the node that lacks it; False: the piece must be cut in two first.

        Args:
            memory: the memory.
            before: how many rows all nodes had before the piece.
            size: how many events the piece has.

        Raises:
            PlanError: one event makes more rows than the budget allows.
        """
        pool = memory.m.needs
        room, rows = int(memory.pools[pool, Pool.room]), memory.rows_in_nodes
        if size > 1 and rows - before > self._options.limits.piece_rows:
            return False
        if 2 * room > self._options.max_runs or rows > ALL_NODES * self._options.max_runs:
            if size > 1:
                return False
            if rows > ALL_NODES * self._options.max_runs or room >= self._options.max_runs:
                raise self._too_many_rows(memory, pool)
            memory.grow(pool, self._options.max_runs)
            return True
        memory.grow(pool, 2 * room)
        return True

    def make(self, memory: TeamMemory, status: int) -> None:
        """Make the room that a kernel lacks, other than that of a node.

        Raises:
            PlanError: one event completes more matches than the budget allows or a word counts, or too many
            matches wait.
        """
        needs = memory.m.needs
        if status == at.TOO_MANY:
            raise self._too_many_matches(memory)
        if status == at.UNCOUNTABLE:
            raise self._uncountable(memory)
        if status == at.POOL_FULL:  # of matches that wait
            room = int(memory.pools[needs, Pool.room])
            if room >= self._options.max_runs * ALL_NODES:
                raise self._too_many_rows(memory, needs)
            memory.grow(needs, 2 * room)
        elif status == at.OUTPUT_FULL:
            memory.make_words()
        elif status == at.SCRATCH_FULL:
            memory.make_scratch()
        elif status == at.STACK_FULL:
            memory.make_frames()

    def _refuse(self, query: int, problem: str, ways_out: str) -> PlanError:
        """Return the error of a query that needs too much room."""
        return self._name(query, problem, f"{ways_out}, or raise Options(max_runs=…)")

    def _name(self, query: int, problem: str, hint: str) -> PlanError:
        """Return an error with the name and the text of a query."""
        name = "" if self._names is None else f"{self._names[query]}: "
        text = f"{name}{problem} of the query\n{show(self._bounds[query].query)}"
        return PlanError(text, hint=hint)

    def _uncountable(self, memory: TeamMemory) -> PlanError:
        query = int(memory.outputs[memory.m.output, OutputRecord.query])
        hint = f"{WAYS_OUT}, or count it alone with Options(engine='rcep')"
        return self._name(query, f"a batch completes more than {MOST_COUNTED:,} matches", hint)

    def _too_many_rows(self, memory: TeamMemory, pool: int) -> PlanError:
        node, users = memory.tables.describe(pool)
        rows = f"the plan keeps more than {self._options.max_runs:,} rows of {node}"
        return self._refuse(users[0], rows, WAYS_OUT)

    def _too_many_matches(self, memory: TeamMemory) -> PlanError:
        query = int(memory.outputs[memory.m.output, OutputRecord.query])
        rows = f"one event completes more than {self._options.max_runs:,} matches"
        return self._refuse(query, rows, f"{WAYS_OUT}, add LIMIT n PER EVENT")
