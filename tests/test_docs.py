"""The documentation is true: its code runs, its output is what is printed, its links and tables hold.

The ```python blocks of a page run in order in one namespace. A ```text block that directly follows one is
exactly what it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cerise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"^   a query .*? web/$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    follows: bool  # nothing but blank lines stands between it and the block before


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found, end = [], 0
    for fence in FENCE.finditer(text):
        follows = bool(found) and not text[end : fence.start()].strip()
        found.append(Block(fence[1], fence[2], text.count("\n", 0, fence.start()) + 1, follows))
        end = fence.end()
    return found


def uses_spark(path: Path) -> bool:
    code = (
        [path.read_text()]
        if path.suffix == ".py"
        else [b.text for b in blocks(path) if b.language == "python"]
    )
    return any("session(" in each for each in code)


def names(paths: list[Path], *, spark: bool) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths if uses_spark(path) is spark]


def printed(block: Block, page: Path, namespace: dict[str, Any]) -> str:
    """Run a block; errors point at the line of the page."""
    code = compile("\n" * block.line + block.text, str(page), "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("error", cerise.CeriseWarning)
        exec(code, namespace)
    return output.getvalue()


def run_page(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    before, output = None, ""
    for block in blocks(page):
        if block.language == "text" and block.follows and before and before.language == "python":
            assert output == block.text, f"{page.name}, line {block.line}"
        if block.language == "python":
            output = printed(block, page, namespace)
        before = block


@pytest.mark.parametrize("page", names(PAGES, spark=False))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / page)


@pytest.mark.parametrize("page", names(PAGES, spark=True))
def test_the_code_of_a_page_with_spark_runs(page, tmp_path, monkeypatch, spark: SparkSession):
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / page)
