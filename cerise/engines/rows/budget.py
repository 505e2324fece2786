"""How many steps searches may take, how far they are, and how they are told to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cerise.errors import PlanError

Progress = Callable[[int, int], None]  # told how many rows, of how many, have been searched from
TOGETHER = 2  # times as many steps as one search may take, all of them together may take
PER_ROW = 10_000  # steps that each row searched from adds to that
PER_ROW_AHEAD = 16  # steps that each row of the match under way adds


class Stopped(Exception):
    """A search was told to stop, as another one failed or the user interrupted the run."""


@dataclass(slots=True)
class Watch:
    """Sees how far the searches of a run are; threads share it.

    Attributes:
        total: how many rows there are to search from.
        tell: told how far the searches are; None: nobody is told.
        done: how many rows have been searched from.
        stopped: whether searches stop.
    """

    total: int = 0
    tell: Progress | None = None
    done: int = 0
    stopped: bool = False

    def walked(self, rows: int) -> None:
        """Take into account that a search has passed further rows.

        Raises:
            Stopped: where it is to stop.
        """
        if self.stopped:
            raise Stopped
        self.done += rows
        if self.tell is not None:
            self.tell(min(self.done, self.total), self.total)


@dataclass(slots=True)
class Steps:
    """Counts the steps of the searches from one row after another, and gives up where these are too many.

    Work that grows with the number of rows is never given up; work that grows with its square is.

    Attributes:
        most: how many steps one search may take.
        watch: told how far the searches are.
        taken: the steps of all searches.
        walked: how many rows have been searched from.
    """

    most: int
    watch: Watch
    taken: int = 0
    walked: int = 0

    def take(self, steps: int, walked: int, ahead: int = 0) -> None:
        """Count steps, and give up where they are too many.

        Args:
            steps: the steps taken since the last call.
            walked: how many rows have been searched from by now.
            ahead: how many rows the search under way has mapped.

        Raises:
            PlanError: where they are too many.
        """
        self.taken += steps
        before, self.walked = self.walked, walked
        self.watch.walked(walked - before)
        if walked and self.taken > TOGETHER * self.most + PER_ROW * walked + PER_ROW_AHEAD * ahead:
            raise PlanError(
                f"the searches from the first {walked:,} rows took {self.taken:,} steps: "
                "most rows start a search through many others",
                hint="add WITHIN, or conditions that end a search early, or AFTER MATCH SKIP PAST LAST ROW; "
                f"or raise Options(max_steps=…), now {self.most:,}",
            )


def too_many_ways(most: int, row: int, where: str) -> PlanError:
    """Return the error of a search for one match that takes too many steps."""
    return PlanError(
        f"the search for one match took more than {most:,} steps, at row {row} of {where}: "
        "the pattern can be matched in too many ways",
        hint="make it less ambiguous, add WITHIN, or raise Options(max_steps=…)",
    )
