"""The pages about the code are true: every file, function and class that they name is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("docs/architecture.md", "docs/how-it-works.md", "docs/spark.md", "CONTRIBUTING.md")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`((?:\w+/)*\w+\.(?:py|lark|cer|mr|toml|txt)|(?:\w+/)+)(?::([\w.]+))?`")


def named(page: str) -> set[tuple[str, str | None]]:
    """The files and folders that a page names, each with the function or class that it names there."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return {(found[1], found[2]) for found in NAMED.finditer(text)}


@cache
def places_in(path: Path) -> frozenset[str]:
    """The functions, classes, methods and constants of a module, by their dotted names."""
    found = set()

    def see(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(before + node.name)
                if isinstance(node, ast.ClassDef):
                    see(node.body, f"{before}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(before + each.id for each in targets if isinstance(each, ast.Name))

    see(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return frozenset(found)


def missing(file: str, name: str | None) -> str | None:
    """Say what is not there; pages name files of the package without `cerise/`."""
    path = next((ROOT / base / file for base in ("cerise", "") if (ROOT / base / file).exists()), None)
    if path is None:
        return file
    if name is not None and name not in places_in(path):
        return f"{file}:{name}"
    return None


@pytest.mark.parametrize("page", PAGES)
def test_the_files_and_functions_that_a_page_names_exist(page: str) -> None:
    assert [each for each in (missing(*found) for found in sorted(named(page), key=str)) if each] == []


def test_the_map_has_every_folder() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listed = {file for file, _ in named("docs/architecture.md")}
    for room in sorted((ROOT / "cerise").glob("*/__init__.py")):
        assert f"{room.parent.name}/" in listed
    for room in sorted((ROOT / "cerise/engines").glob("*/__init__.py")):
        assert f"| `engines/{room.parent.name}/`" in text or f", `engines/{room.parent.name}/` |" in text
    for module in sorted((ROOT / "cerise").glob("*.py")):
        assert module.stem.startswith("__") or module.name in listed


@pytest.mark.parametrize(
    ("file", "name", "is_missing"),
    [
        ("run/find.py", "decide", False),
        ("run/find.py", "Here.run", False),
        ("sources.py", "CACHED", False),
        ("tests/cases/windows.cer", None, False),
        ("run/", None, False),
        ("run/find.py", "decided", True),
        ("run/find.py", "Here.walk", True),
        ("run/found.py", None, True),
        ("web/", None, True),
    ],
)
def test_a_name_that_is_not_there_is_found(file: str, name: str | None, is_missing: bool) -> None:
    assert (missing(file, name) is not None) == is_missing
