"""Cerise's event store, with what 000 §4.2 switches off: ACER, and ACER-C, -Q and -F."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acer.answers import Answer
from acer.places import files_in
from acer.queries import Query


class Stored:
    """Answers queries from a store, in this process."""

    def __init__(self, folder: Path, **filtering: Any) -> None:
        import cerise

        self._folder = folder
        self._store = cerise.Store(str(folder))
        self._filtering = cerise.Filtering(**filtering) if filtering else None

    def answer(self, query: Query) -> Answer:
        """Count the matches of a query."""
        given = {} if self._filtering is None else {"filtering": self._filtering}
        found = self._store.run_local(query.text, **given)
        return _told(found)

    def files(self) -> Sequence[Path]:
        """Return all files of the store."""
        return files_in(self._folder)

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()


def _told(found: Any) -> Answer:
    """Return what a run of the store has found, and what it reports."""
    raise NotImplementedError
