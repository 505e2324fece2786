"""How the code is laid out, as numbers that may only fall.

Where a number has fallen, its test warns until the ratchet in the tables below is lowered, too.
`python -m tests.test_house` writes `tests/api.txt` again and prints today's numbers.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("house")  # one worker: the package is read and walked through once
ROOT = Path(__file__).parents[1]
API = Path(__file__).with_name("api.txt")
RATCHETS = {
    "modules of the largest folder": 18,
    "folders of more than 12 modules": 8,
    "modules of more than 400 lines": 4,
    "modules of fewer than 40 lines": 3,
    "module names used again": 25,
    "class names used again": 1,
    "functions named by participles": 16,
    "banned words": 9,
    "imports of more than 6 constants": 4,
    "numbered loads and stores": 3,
    "patches of constants in tests": 0,
    "files of SASE+ on a table": 24,
    "files of SASE+ on a table, bound": 17,
    "files of MATCH_RECOGNIZE on a table": 26,
    "files of MATCH_RECOGNIZE on a table, bound": 20,
    "files of SASE+ in a task": 35,  # five more than once: the router, and kernels that read pages
    "files of MATCH_RECOGNIZE in a task": 31,
}
CYCLES: set[tuple[str, str]] = set()  # rooms that import each other

MANY_MODULES, MANY_LINES, FEW_LINES, MANY_CONSTANTS = 12, 400, 40, 6
SAME_NAME = {"__init__", "engine", "matcher", "explain", "bind"}  # that rooms may share: one word per idea
SAME_CLASS = {"Plan", "Scope"}
BANNED = re.compile(
    r"\b(nobody|whoever|so many|of which|(is|are) no|what (is|are|was|were|it|they|has))\b", re.IGNORECASE
)
PARTICIPLE = re.compile(
    r"_*(?!need|feed|seed|speed|embed|exceed|string|bring|meaning)(\w+?(ed|ing)|found|made|held|kept|shown|drawn|taken"
    r"|given|known|built|written|told|said|bound|sent|left|gone|seen|put|cut)(_\w+)?"
)
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
PATCHED = re.compile(
    r"""\((\w+(\.\w+)*, |["']\w\w[\w.]*\.)["']?[A-Z][A-Z0-9_]+["'], |^ *\w+(\.\w+)*\.[A-Z][A-Z0-9_]+ = """,
    re.MULTILINE,
)
PUBLIC = ("cerise", "cerise.dsl")


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package, by their paths."""
    paths = sorted((ROOT / "cerise").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def nodes(kind: type[Any]) -> Iterator[Any]:
    return (node for tree in modules().values() for node in ast.walk(tree) if isinstance(node, kind))


# ---- sizes


def lines_of(path: str) -> int:
    return len((ROOT / path).read_text("utf-8").splitlines())


def modules_by_folder() -> Counter[str]:
    paths = [Path(path) for path in modules() if not path.endswith("__init__.py")]
    return Counter(path.parent.as_posix() for path in paths)


def largest_folder() -> list[str]:
    folder, _ = modules_by_folder().most_common(1)[0]
    return [path for path in modules() if Path(path).parent.as_posix() == folder and "__" not in path]


def large_folders() -> list[str]:
    return [folder for folder, count in modules_by_folder().items() if count > MANY_MODULES]


def long_modules() -> list[str]:
    return [path for path in modules() if lines_of(path) > MANY_LINES]


def short_modules() -> list[str]:
    return [path for path in modules() if "__" not in path and lines_of(path) < FEW_LINES]


# ---- names


def repeated_modules() -> list[str]:
    names = Counter(Path(path).stem for path in modules())
    return [name for name, count in names.items() for _ in range(count - 1) if name not in SAME_NAME]


def repeated_classes() -> list[str]:
    names = Counter(node.name for node in nodes(ast.ClassDef) if not node.name.startswith("_"))
    return [name for name, count in names.items() for _ in range(count - 1) if name not in SAME_CLASS]


def participles() -> list[str]:
    """Functions that are no claims and no properties."""
    return [node.name for node in nodes(ast.FunctionDef) if is_verbless(node)]


def is_verbless(node: ast.FunctionDef) -> bool:
    claim = node.returns is not None and ast.unparse(node.returns) == "bool"
    listed = {ast.unparse(each) for each in node.decorator_list} & {"property", "cached_property"}
    return bool(PARTICIPLE.fullmatch(node.name)) and not claim and not listed


def banned_words() -> list[str]:
    """In docstrings, messages and all other text."""
    texts = [node.value for node in nodes(ast.Constant) if isinstance(node.value, str)]
    return [found[0] for text in texts for found in BANNED.finditer(" ".join(text.split()))]


# ---- kernels and limits


def long_imports() -> list[str]:
    """Imports of more constants than one remembers."""
    return [node.module for node in nodes(ast.ImportFrom) if constants(node) > MANY_CONSTANTS]


def constants(node: ast.ImportFrom) -> int:
    return sum(bool(CONSTANT.fullmatch(each.name)) for each in node.names)


def numbered_words() -> list[str]:
    """Loads and stores of words of raw memory by their addresses, where a record could name them."""
    trees = [tree for path, tree in modules().items() if not path.startswith("cerise/kernels/")]
    called = (node.func for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = (each.id for each in called if isinstance(each, ast.Name))
    return [name for name in names if name in ("load", "store", "load_float", "store_float")]


def patched_constants() -> list[str]:
    """Constants of modules that tests patch: limits should be passed in."""
    texts = (path.read_text("utf-8") for path in sorted(Path(__file__).parent.rglob("*.py")))
    return [found[0] for text in texts for found in PATCHED.finditer(text)]


# ---- rooms


def room_of(name: str) -> str:
    """The folder of a module; a module beside rooms, at the top or in `engines`, is a room of its own."""
    parts = name.split(".")
    while len(parts) > 2 and not (ROOT / "/".join(parts)).is_dir():
        if (
            len(parts) == 3
            and parts[1] == "engines"
            and (ROOT / "/".join(parts)).with_suffix(".py").is_file()
        ):
            break
        parts.pop()
    return ".".join(parts)


def imported(path: str, tree: ast.Module) -> Iterator[str]:
    """Yield the full dotted name of all that a file imports, wherever in the file."""
    here = Path(path).with_suffix("").parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: len(here) - node.level]] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def cycles() -> set[tuple[str, str]]:
    """Pairs of rooms of which one imports the other, and is reached from it."""
    edges: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        here = room_of(".".join(Path(path).with_suffix("").parts))
        if path not in ("cerise/__init__.py", "cerise/__main__.py"):
            edges[here] |= {room_of(name) for name in imported(path, tree) if name.startswith("cerise.")} - {
                here
            }
    reached = {room: reach(room, edges) for room in edges}
    return {
        (one, other)
        for one, other in combinations(sorted(edges), 2)
        if (other in edges[one] and one in reached[other]) or (one in edges[other] and other in reached[one])
    }


def reach(room: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [room]
    while ahead:
        new = edges.get(ahead.pop(), set()) - seen
        seen |= new
        ahead += new
    return seen


def test_rooms_import_each_other_nowhere_new() -> None:
    found = cycles()
    assert not found - CYCLES, "rooms import each other"
    if gone := CYCLES - found:
        warnings.warn(f"take out of CYCLES: {sorted(gone)}", stacklevel=1)


# ---- walks


@cache
def walks() -> dict[str, dict[str, list[str]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.walks"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return said


# ---- the ratchets

COUNTED: dict[str, Callable[[], list[str]]] = {
    "modules of the largest folder": largest_folder,
    "folders of more than 12 modules": large_folders,
    "modules of more than 400 lines": long_modules,
    "modules of fewer than 40 lines": short_modules,
    "module names used again": repeated_modules,
    "class names used again": repeated_classes,
    "functions named by participles": participles,
    "banned words": banned_words,
    "imports of more than 6 constants": long_imports,
    "numbered loads and stores": numbered_words,
    "patches of constants in tests": patched_constants,
    "files of SASE+ on a table": lambda: walks()["SASE+ on a table"]["all"],
    "files of SASE+ on a table, bound": lambda: walks()["SASE+ on a table"]["bound"],
    "files of MATCH_RECOGNIZE on a table": lambda: walks()["MATCH_RECOGNIZE on a table"]["all"],
    "files of MATCH_RECOGNIZE on a table, bound": lambda: walks()["MATCH_RECOGNIZE on a table"]["bound"],
    "files of SASE+ in a task": lambda: walks()["SASE+ in a task"]["all"],
    "files of MATCH_RECOGNIZE in a task": lambda: walks()["MATCH_RECOGNIZE in a task"]["all"],
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name.startswith("files"))) for name in RATCHETS]
)
def test_a_number_only_falls(name: str) -> None:
    found = COUNTED[name]()
    assert len(found) <= RATCHETS[name], found
    if len(found) < RATCHETS[name]:
        warnings.warn(f"lower the ratchet of {name!r} to {len(found)}", stacklevel=1)


def test_every_number_has_a_ratchet() -> None:
    assert COUNTED.keys() == RATCHETS.keys()


# ---- the API


def api() -> str:
    """All public names with their signatures, one on a line."""
    return "\n".join(line for name in PUBLIC for line in described_module(name)) + "\n"


def described_module(name: str) -> Iterator[str]:
    module = import_module(name)
    for each in sorted(module.__all__):
        yield from described(f"{name}.{each}", getattr(module, each))


def described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{parameters(value)}"
        for member, held in sorted(vars(value).items()):
            if not member.startswith("_") and (callable(held) or isinstance(held, property | classmethod)):
                yield f"  {member}{parameters(getattr(held, '__func__', held))}"
    else:
        yield f"{name}{parameters(value)}"


def parameters(value: Any) -> str:
    try:
        text = str(inspect.signature(value)) if callable(value) else ""
        return re.sub(r"(Limits)\([^)]*\)", r"\1()", text)  # its defaults are not a promise
    except ValueError:
        return ""


def test_the_api_is_the_one_that_is_written_down() -> None:
    assert api() == API.read_text("utf-8"), "if it is meant: python -m tests.test_house"


if __name__ == "__main__":
    API.write_text(api(), "utf-8")
    numbers = [f'    "{name}": {len(count())},' for name, count in COUNTED.items()]
    pairs = [f"    {pair}," for pair in sorted(cycles())]
    print("\n".join([*numbers, *pairs]))  # noqa: T201
