"""Failpoints: named steps at which a test can stop a writer. Without a hook they do nothing."""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def mark_step(step: str) -> None:
    """Call the hook, if any, with the name of a step."""
    if hook is not None:
        hook(step)
