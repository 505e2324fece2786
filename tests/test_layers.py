"""Imports point one way, each heavy package has one home, and no module has a name that says nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = (
    "errors kinds ties events pattern lang kernels plan engines files store filters run streaming "
    "spark dsl sources local_sql stream_queries watcher streams api event_store data cli"
).split()
EXEMPT = ("cerise/__init__.py", "cerise/__main__.py")
HOMES = {
    "pyspark": ("cerise/spark/*",),
    "numba": ("cerise/kernels/*",),
    "sqlglot": ("cerise/lang/match_recognize/*", "cerise/local_sql/*"),
    "duckdb": ("cerise/local_sql/duck.py",),
    "confluent_kafka": ("cerise/files/topics/*",),
    "deltalake": ("cerise/files/delta.py", "cerise/store/table/commits.py"),
}
NAMELESS = {"utils", "common", "core", "helpers", "manager", "factory"}
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "cerise").rglob("*.py"))


class _RunTime(ast.NodeTransformer):
    """Leaves out imports of heavy packages that only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        typed = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if typed:
            node.body = [each for each in node.body if not _is_heavy(each)] or [ast.Pass()]
        return node


def _is_heavy(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in HOMES


def imports(path: str, source: str) -> Iterator[str]:
    """Yield the full dotted name of all that a file imports, wherever in the file."""
    here = Path(path).with_suffix("").parts
    for node in ast.walk(_RunTime().visit(ast.parse(source))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: len(here) - node.level]] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def complaints(path: str, source: str) -> Iterator[str]:
    """Yield what is wrong with the imports and the name of one file of the package."""
    parts = Path(path).with_suffix("").parts
    if NAMELESS & set(parts):
        yield f"{path}: the name says nothing"
    for name in imports(path, source):
        top, room = name.split(".")[0], [*name.split("."), ""][1]
        if top in HOMES and not any(fnmatch(path, home) for home in HOMES[top]):
            yield f"{path} imports {name}, which only {' and '.join(HOMES[top])} may"
        if top == "cerise" and path not in EXEMPT and not allowed(parts[1], room):
            yield f"{path} imports {name}, which comes after it"


def allowed(room: str, imported: str) -> bool:
    return imported in ORDER and room in ORDER and ORDER.index(imported) <= ORDER.index(room)


def test_every_rule_is_of_something() -> None:
    homes = [home for listed in HOMES.values() for home in listed]
    assert [home for home in homes if not any(fnmatch(path, home) for path in FILES)] == []
    assert {Path(path).with_suffix("").parts[1] for path in FILES if path not in EXEMPT} == set(ORDER)


@pytest.mark.parametrize("path", FILES)
def test_the_package_keeps_the_order(path: str) -> None:
    assert list(complaints(path, (ROOT / path).read_text())) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("cerise/pattern/query.py", "from cerise.lang import sase"),
        ("cerise/pattern/query.py", "from cerise import api"),
        ("cerise/pattern/query.py", "import cerise.engines.reference"),
        ("cerise/pattern/query.py", "from ..engines import reference"),
        ("cerise/pattern/query.py", "import cerise"),
        ("cerise/errors.py", "def late():\n    from cerise.events import Schema"),
        ("cerise/unknown.py", "from cerise.errors import PlanError"),
        ("cerise/api.py", "import pyspark"),
        ("cerise/api.py", "from pyspark.sql import SparkSession"),
        ("cerise/engines/nfa/run.py", "from numba import njit"),
        ("cerise/lang/sase/parser.py", "import sqlglot"),
        ("cerise/store/index.py", "import deltalake"),
        ("cerise/store/utils.py", ""),
        ("cerise/core/nodes.py", ""),
    ],
)
def test_a_planted_mistake_is_caught(path: str, source: str) -> None:
    assert len(list(complaints(path, source))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "cerise/pattern/query.py",
            "from cerise.errors import Span\nfrom . import expr\nfrom .expr import Attr",
        ),
        ("cerise/kernels/jit.py", "import numba"),
        ("cerise/spark/batch.py", "from pyspark.sql import DataFrame\nfrom cerise.engines import choose"),
        ("cerise/__init__.py", "from cerise.api import find"),
    ],
)
def test_a_right_import_passes(path: str, source: str) -> None:
    assert list(complaints(path, source)) == []
