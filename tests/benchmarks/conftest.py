"""What the tests of the benchmarks share."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module from a folder of the benchmarks; each peer has an `adapter` of its own."""

    def load(name: str, folder: str = ".") -> ModuleType:
        monkeypatch.syspath_prepend(BENCHMARKS / folder)
        monkeypatch.delitem(sys.modules, "adapter", raising=False)
        return importlib.import_module(name)

    return load
