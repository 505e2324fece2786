"""Whatever text and table a verb is given, it answers or raises a CeriseError, and within a bounded time."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import cerise
from cerise import Options
from tests.support.strategies.door_texts import Texts

EXAMPLES = int(os.environ.get("CERISE_DOORS", "1000"))
FIRST = int(os.environ.get("CERISE_DOORS_FROM", "0"))
PIECES = 20
BUDGET = 60  # seconds of one example, the compilation of kernels included
OPTIONS = Options(max_runs=2_000, max_steps=20_000, threads=1)


def ask(verb: str, texts: Texts) -> None:
    """Ask one question."""
    query, table, rng = texts.query(), texts.table(), texts.rng
    sql, odd = "MATCH_RECOGNIZE" in query, rng.random() < 0.02
    roles: dict[str, Any] = {}
    if sql is odd:
        time_column = rng.choice(("ts",) * 30 + ("no", None))
        roles = {"time": time_column, "type": rng.choice(("kind",) * 9 + (None,))}
        roles |= {"key": rng.choice(((), (), "s")), "params": texts.params(query)}
    if verb in ("compressed", "show") and sql:
        verb = "find"
    if verb == "schema":
        cerise.schema(table, query, **roles)
    elif verb == "show":
        str(cerise.parse(query))
    elif verb == "explain_misses":
        str(cerise.explain_misses(table, query, limit=3, options=OPTIONS, **roles))
    elif verb == "compressed":
        cerise.compressed(table, query, options=OPTIONS, **roles).count()
    else:
        engine = rng.choice((None, None, "reference"))
        whole: Callable[..., Any] = getattr(cerise, verb)
        whole(table, query, options=replace(OPTIONS, engine=engine), **roles)


VERBS = (
    "find", "find", "find", "count", "profile", "explain", "schema", "show", "explain_misses", "compressed",
)  # fmt: skip


@pytest.mark.parametrize("piece", range(PIECES))
def test_a_door_answers_or_says_what_is_wrong(piece: int) -> None:
    wrong = []
    for seed in range(FIRST + piece, FIRST + EXAMPLES, PIECES):
        started = time.process_time()
        texts = Texts(seed)
        verb = texts.rng.choice(VERBS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ask(verb, texts)
        except cerise.CeriseError as error:
            if len(str(error)) > 4_000:
                wrong.append(f"{seed} {verb}: the error has {len(str(error)):,} characters")
        except Exception as error:  # noqa: BLE001  whatever it is, it is not a CeriseError
            wrong.append(f"{seed} {verb}: {type(error).__name__}: {str(error)[:200]}")
        if time.process_time() - started > BUDGET:
            wrong.append(f"{seed} {verb}: {time.process_time() - started:.0f} s")
    assert not wrong, "\n".join(wrong)
