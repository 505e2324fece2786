"""The state of a team as bytes: the events of its windows, and what events alone do not say."""

from __future__ import annotations

import numpy as np

from cerise.engines.automaton import state
from cerise.engines.meaning import digest
from cerise.engines.tree.events.team_events import KeptPiece
from cerise.engines.tree.team import JoinTeam
from cerise.events import EventBatch

ENGINE = b"tree"


def save_team(team: JoinTeam) -> bytes:
    """Return the state of a team, for `load_team` in another process; the plan is not part of it."""
    team.prune()
    arrays: state.Arrays = {}
    kept = team.events.kept
    if kept is not None:
        arrays = {
            **state.pack_events(kept.events), "numbers": kept.numbers, "opens": kept.opens,
            "points": kept.points, "counted": kept.equals,
        }  # fmt: skip
    ties = team.events.ties
    plain = {
        "start": team.events.start,
        "last": team.last,
        "positions": team.numbers.save(),
        "ties": [[each.time, list(each.seen.items())] for each in ties],
        "ends": [[query, list(key), end] for query, key, end in team.answers.ends],
    }
    return state.write_for(team.bounds[0], digest(ENGINE), {**arrays, "plain": state.pack_json(plain)})


def load_team(team: JoinTeam, saved: bytes) -> None:
    """Go on from a saved state of the same query."""
    arrays = state.read_for(team.bounds[0], digest(ENGINE), saved)
    plain = state.unpack_json(arrays["plain"])
    schema = team.bounds[0].schema
    team.reset()
    piece = None
    if "numbers" in arrays:
        nothing = EventBatch.in_order(schema.columns.empty_table(), schema)
        piece = KeptPiece(
            arrays["numbers"], state.unpack_events(arrays, nothing), np.ascontiguousarray(arrays["opens"]),
            arrays["points"], arrays["counted"],
        )  # fmt: skip
    for each, (time, seen) in zip(team.events.ties, plain["ties"], strict=True):
        each.restore(time, seen)
    ends = [(query, tuple(key), end) for query, key, end in plain["ends"]]
    team.restore(piece, plain["positions"], (plain["start"], plain["last"]), ends)
