"""The choices that a user has for the search of a plan; importing them costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from cerise.errors import PlanError, did_you_mean

MOVES = {"edge": 2, "vertex4": 4, "vertex8": 8}  # → how many patterns a move plans
CHOICES = {
    "method": ("trivial", "SH", "RE", "best", "descend", "anneal", "tabu"), "moves": tuple(MOVES),
    "cost": ("ours", "paper"), "schedule": ("epoch", "step"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """How the joins of several any-match queries are planned: `Options(plan=PlanSearch(…))`.

    A plan changes the time that queries take, and never their answers.

    >>> PlanSearch("tabu", neighbours=1_000, seconds=None).moves
    'edge'

    Args:
        method: "trivial", "SH" and "RE" are the paper's baselines; "best" plans each pattern alone;
            "descend", "anneal" and "tabu" search.
        moves: of `anneal` and `tabu`: "edge", "vertex4" or "vertex8".
        prefix_only: whether trees are left-deep, so that patterns share prefixes of their orders only.
        neighbours: how many plans a search may look at; with `seconds=None` the same seed then gives the
            same plan.
        seconds: how long a search may take; None for a search that ends by itself or by `neighbours`.
        seed: of the random choices of `anneal` and `tabu`.
        cost: "ours", the time of the engine, or "paper", rows.
        schedule: of `anneal`: cool once an "epoch" of as many neighbours as patterns, or each "step" [002].
    """

    method: str = "descend"
    moves: str = "edge"
    prefix_only: bool = False
    neighbours: int | None = None
    seconds: float | None = 1.0
    seed: int = 0
    cost: str = "ours"
    schedule: str = "epoch"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                hint = did_you_mean(str(value), allowed)
                raise PlanError(f"unknown {name} of a plan search, {value!r}", hint=hint)
        for name in ("neighbours", "seconds"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise PlanError(f"{name} of a plan search is {value}", hint="it must be at least 0, or None")
