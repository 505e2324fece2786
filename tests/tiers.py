"""What `make test` leaves to `make nightly`: parameters that repeat a behaviour, and long loops."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

EXAMPLES = int(os.environ.get("CERISE_EXAMPLES", "0"))  # that random properties try; `make nightly` sets it
AT_LENGTH = EXAMPLES > 0


def mostly_nightly(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Parameters of a test, of which `make test` runs those that are kept."""
    return [each if each in kept else pytest.param(each, marks=pytest.mark.nightly) for each in values]
