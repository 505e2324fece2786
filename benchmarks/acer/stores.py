"""Cerise's event store, with what 000 §4.2 switches off: ACER, and ACER-C, -Q and -F."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cerise
from acer.answers import FILTER, MATCH, READ, Answer
from acer.places import files_in
from acer.queries import Query
from cerise.filters.two_phase import Filtering

STEPS = {FILTER: "seconds filtering", READ: "seconds reading", MATCH: "seconds matching"}  # of a report


class Stored:
    """Answers queries from a store, in this process; its synopsis is read once."""

    def __init__(self, folder: Path, **filtering: Any) -> None:
        self._folder = folder
        self._store: cerise.Store | None = cerise.Store(str(folder))
        self._filtering = Filtering(**filtering)
        assert self._store.schema  # brings the synopsis

    def answer(self, query: Query) -> Answer:
        """Count the matches of a query."""
        assert self._store
        self._store.filtering = self._filtering
        found = cerise.profile(self._store, query.text)
        figures = found.report.figures
        read = int(figures.get("bytes of the index read", 0))
        told = {
            "way": next(
                text for name, text in found.report.access.items() if name in ("by index", "reads all")
            ),
            "index_bytes": read,
        }
        seconds = {step: float(figures[name]) for step, name in STEPS.items()}
        matches = int(found.matches.column(0)[0].as_py())
        return Answer(matches, int(figures["events kept"]), seconds, told)

    def files(self) -> Sequence[Path]:
        """Return all files of the store."""
        return files_in(self._folder)

    def close(self) -> None:
        """Let go of the files."""
        self._store = None
        gc.collect()  # what is mapped goes with what mapped it
