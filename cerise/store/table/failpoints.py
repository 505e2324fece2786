"""The steps of writing, named: a test stops a writer at one of them; otherwise nothing happens there."""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def reached(step: str) -> None:
    """Say that a step has been reached."""
    if hook is not None:
        hook(step)
