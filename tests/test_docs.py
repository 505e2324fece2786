"""The documentation is true: its code runs, its output is what is printed, its links and tables hold.

The ```python blocks of a page run in order in one namespace. A ```text block that directly follows one is
exactly what it prints.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import runpy
import shlex
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cerise
import cerise.data
import cerise.dsl
from cerise import kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"^   a query .*? cli/$", re.MULTILINE | re.DOTALL)


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


@pytest.mark.parametrize("example", names(EXAMPLES, spark=False))
def test_an_example_runs(example, capsys):
    runpy.run_path(str(ROOT / example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 2


@pytest.mark.parametrize("example", names(EXAMPLES, spark=True))
def test_an_example_with_spark_runs(example, capsys, spark: SparkSession):
    runpy.run_path(str(ROOT / example), run_name="__main__")
    assert capsys.readouterr().out.count("\n|") > 2  # a header, and matches


# ---- docs/api.md


def test_the_page_of_the_api_is_generated():
    generated = runpy.run_path(str(ROOT / "docs/generate_api.py"))["page"]
    assert (ROOT / "docs/api.md").read_text(encoding="utf-8") == generated, "run docs/generate_api.py"
    for name in (*cerise.__all__, *cerise.dsl.__all__):
        assert f"\n### `{name}`\n" in generated


@pytest.mark.parametrize(
    "module", ["cerise.api", "cerise.dsl", "cerise.engines.limits", "cerise.stream_queries", "cerise.watcher"]
)
def test_the_examples_of_docstrings_run(module):
    done = doctest.testmod(import_module(module))
    assert done.attempted
    assert not done.failed


# ---- what the pages promise each other


def test_the_readme_shows_code_and_output_before_line_40():
    query, output = blocks(ROOT / "README.md")[:2]
    assert (query.language, output.language) == ("python", "text")
    assert output.follows
    assert output.line + output.text.count("\n") + 1 < 40
    code = query.text.split('"""')
    assert "PATTERN" in code[1]
    python = [line for line in (code[0] + code[2]).splitlines() if line and "QUERY =" not in line]
    assert len(python) == 4
    assert {"make demo", "make test"} <= {line.split("#")[0].strip() for line in lines_of("README.md")}


def test_the_command_of_the_readme_prints_what_it_shows(monkeypatch):
    from typer.testing import CliRunner

    from cerise.cli.main import app

    (shown,) = [each.text for each in blocks(ROOT / "README.md") if each.text.startswith("$ cerise run")]
    command, output = shown.split("--type status\n")
    words = shlex.split(command.removeprefix("$ cerise ").replace("\\\n", "") + "--type status")
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert [line.rstrip() for line in done.stdout.splitlines()] == output.splitlines()


def lines_of(page: str) -> list[str]:
    return (ROOT / page).read_text(encoding="utf-8").splitlines()


def test_the_drawing_of_the_readme_is_written_by_its_script():
    drawn = runpy.run_path(str(ROOT / "docs/pictures/draw_match.py"))
    written = (ROOT / "docs/pictures/match.svg").read_text(encoding="utf-8")
    assert written == drawn["picture"](), "run docs/pictures/draw_match.py"
    assert "(docs/pictures/match.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_drawing_of_the_readme_shows_a_match_of_its_query():
    drawn = runpy.run_path(str(ROOT / "docs/pictures/draw_match.py"))
    query = blocks(ROOT / "README.md")[0].text.split('"""')[1].partition("RETURN")[0]
    bars = cerise.data.table("nasdaq", 20_000)
    match = cerise.find(bars, query, time="date", type="ticker").sort_by("first_time").to_pylist()[1]
    for name, lane, bar in drawn["MATCH"]:
        event = match[name]
        minute = event["date"].hour * 60 + event["date"].minute
        assert (event["ticker"], event["open"]) == (lane, drawn["BARS"][lane][bar])
        assert minute == drawn["FIRST"] + bar
    for lane, prices in drawn["BARS"].items():
        opens = bars.filter(pc.field("ticker") == lane)["open"].to_pylist()
        first = drawn["FIRST"] - (9 * 60 + 30)
        assert tuple(opens[first : first + len(prices)]) == prices


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_picture_is_the_same_everywhere(page):
    here, there = (
        PICTURE.search((ROOT / path).read_text(encoding="utf-8")) for path in (page, "cerise/__init__.py")
    )
    assert here is not None
    assert there is not None
    assert here[0] == there[0]


def test_the_picture_names_the_rooms_that_exist():
    found = PICTURE.search((ROOT / "cerise/__init__.py").read_text(encoding="utf-8"))
    assert found is not None
    rooms = {each.parent.name for each in (ROOT / "cerise").glob("*/__init__.py")}
    assert set(re.findall(r"(\w+)/", found[0])) == rooms
    assert all((ROOT / "cerise" / name).is_file() for name in re.findall(r"\w+\.py", found[0]))


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES if page.name != "README.md"])
def test_a_page_begins_with_what_its_reader_can_do_then(page):
    title, _, first = lines_of(page)[:3]
    assert title.startswith("# ")
    assert first.startswith(("After this page you can ", "After this page you know "))


def test_every_page_is_on_the_map():
    for map_ in (ROOT / "docs").rglob("index.md"):
        listed = set(LINK.findall(map_.read_text(encoding="utf-8")))
        assert {page.name for page in map_.parent.glob("*.md") if page != map_} <= listed
        assert {f"{each.parent.name}/index.md" for each in map_.parent.glob("*/index.md")} <= listed


@pytest.mark.parametrize(
    "page",
    [*(str(page.relative_to(ROOT)) for page in PAGES), "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"],
)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page, and those that the page gives itself."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = re.findall(r"<a id=\"([\w-]+)\"></a>", text)
    return {*named, *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)}


# ---- docs/types.md


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One line of the table of types."""

    arrow: tuple[str, ...]
    spark: tuple[str, ...]
    kind: str
    predicates: str
    output: str


def type_rows() -> list[TypeRow]:
    lines = lines_of("docs/types.md")
    start = next(i for i, line in enumerate(lines) if line.startswith("| Arrow | Spark | kind |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        arrow, spark, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(
            TypeRow(tuple(re.findall(r"`([^`]+)`", arrow)), tuple(re.findall(r"`([^`]+)`", spark)), *rest)
        )
    return rows


ROWS = type_rows()
NAMED = {"bool": pa.bool_(), "uuid": pa.uuid()}
MADE = {
    "list": pa.list_, "fixed_size_list": lambda item, size: pa.list_(item, int(size)), "map": pa.map_,
    "fixed_size_binary": lambda size: pa.binary(int(size)), "struct": lambda field: pa.struct([field]),
}  # fmt: skip


def arrow_type(text: str) -> Any:
    """Return the type that the table writes as `int64`, `timestamp(us, UTC)` or `list(int64)`."""
    name, _, inner = text.removesuffix(")").partition("(")
    if not inner:
        return NAMED.get(name) or getattr(pa, name)()
    return MADE.get(name, getattr(pa, name, None))(*map(argument, inner.split(", ")))


def argument(text: str) -> Any:
    if ": " in text:
        name, type_ = text.split(": ")
        return pa.field(name, arrow_type(type_))
    if text.isdigit():
        return int(text)
    return getattr(pa, text)() if hasattr(pa, text) else text


def values(type_: Any) -> Any:
    """Two nulls of a type."""
    if pa.types.is_run_end_encoded(type_):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array([2], type_.run_end_type), pa.nulls(1, type_.value_type)
        )
    return pa.nulls(2, type_)


ARROW = [(row, each) for row in ROWS for each in row.arrow]
SPARK = [(row, each) for row in ROWS for each in row.spark]


ASKED_FOR = [
    "uint64", "float16", "float32", "decimal128", "struct", "list", "map", "binary", "large_string",
    "dictionary", "timestamp(s)", "timestamp(ms)", "timestamp(ns)", "date32", "time64", "duration", "null",
    "VARIANT", "TIMESTAMP_NTZ", "INTERVAL YEAR TO MONTH",
]  # fmt: skip


def test_the_table_of_types_names_the_types_people_ask_for():
    named = " ".join(name for _, name in ARROW + SPARK)
    for word in ASKED_FOR:
        assert word in named


@pytest.mark.parametrize(("row", "name"), ARROW, ids=[name for _, name in ARROW])
def test_the_table_of_types_says_what_happens_to_an_arrow_type(row, name):
    type_ = arrow_type(name)
    kind = kinds.kind_of(type_.value_type if row.kind == "as its values" else type_)
    assert kinds.kind_of(type_) is kind
    assert row.kind in ("as its values", kind.value)
    events = pa.table({"t": [1, 2], "x": values(type_)})
    computable = kind in kinds.COMPUTABLE
    assert row.predicates.startswith(("supported", "cast") if computable else "rejected")
    if not computable:
        with pytest.raises(cerise.BindError, match="cannot be used in a predicate"):
            cerise.find(events, "PATTERN SEQ(a, b) WHERE a.x IS NULL", time="t")
    query = f"PATTERN SEQ(a, b) {'WHERE a.x IS NULL' if computable else ''}"
    assert len(cerise.find(events, query, time="t")) == 1
    given = type_ if row.output == "as it is" else arrow_type(row.output.removeprefix("as ").strip("`"))
    found = cerise.find(events, f"{query} RETURN b.x AS y", time="t")
    assert found.schema.field("y").type == given


def test_the_table_of_types_says_what_happens_to_a_spark_type(spark: SparkSession):
    spark.conf.set("spark.sql.timeType.enabled", "true")
    frames = [spark.sql(f"SELECT 1L AS t, CAST(NULL AS {name}) AS x") for _, name in SPARK]
    spark.conf.unset("spark.sql.timeType.enabled")
    for (row, name), frame in zip(SPARK, frames, strict=True):
        if row.kind == "none":
            with pytest.raises(cerise.BindError, match="cannot leave Spark"):
                cerise.schema(frame, "PATTERN a", time="t")
            continue
        field = cerise.schema(frame, "PATTERN a RETURN a.x AS y", time="t")["y"]
        assert field.dataType == frame.schema["x"].dataType, name
        works = kinds.Kind(row.kind) in kinds.COMPUTABLE
        with contextlib.nullcontext() if works else pytest.raises(cerise.BindError, match="in a predicate"):
            cerise.schema(frame, "PATTERN a WHERE a.x IS NULL", time="t")
