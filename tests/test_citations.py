"""Citations resolve: every rule, decision and source that code, cases and pages name is in the documents.

A citation is a rule (`S3.4`, `M42`), a decision (`D3`), a key in brackets (`[SASE08 §5.1]`) or the number of
a paper (000 to 004). The test looks in prose: docstrings, comments, hints, the heads of cases, pages without
their code. Elsewhere `M3` is an event.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CASES = ROOT / "tests/cases"
SEMANTICS = (DOCS / "semantics.md").read_text(encoding="utf-8")
BIBLIOGRAPHY = (DOCS / "bibliography.md").read_text(encoding="utf-8")

RULE = re.compile(r"\b(S\d+\.\d+[a-z]?|[MD]\d{1,2})\b(?!\.\d)")
SECTION = re.compile(r"(?<=\()S\d{1,2}(?=[),])|(?<=semantics\.md §)\d+")
KEY = re.compile(r"(?<![\w\])])\[([A-Z]{3,}[\d-]*|[A-Z][a-z]+\d\d)\](?!\()")
KEY_AND_PLACE = re.compile(r"(?<![\w\])])\[([A-Z][A-Za-z]*\d*) (?:§|Table|Fig|Eq|Algorithm|Observation|O\d)")
PAPER = re.compile(r"(?<![\w.,:+-])00\d\b(?!%|[.,:_-]\d)")
HINT = re.compile(r"\((?:S\d+\.\d+|M\d+)\)(?=[\"'])")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\([^)\s]+\)")
COMMENT = re.compile(r"#.*(?:[SMD]\d|00\d|§|\[[A-Z])")
HEAD = re.compile(r"^# (?:title|rules):.*$", re.MULTILINE)


# ---- what the documents define


def rules() -> set[str]:
    """The rules and the sections of the semantics."""
    numbered = re.findall(r"^- <a id=\"[\w-]+\"></a>\*\*([SM][\d.]+)\*\* ", SEMANTICS, re.MULTILINE)
    sections = re.findall(r"^## (\d+)\. ", SEMANTICS, re.MULTILINE)
    return {*numbered, *(f"S{number}" for number in sections)}


def decisions() -> set[str]:
    pages = (DOCS / "decisions").glob("D*.md")
    titles = (page.read_text(encoding="utf-8").partition("\n")[0] for page in pages)
    return {title.split()[1] for title in titles}


def keys() -> set[str]:
    return set(re.findall(r"^\| <a id=\"[\w-]+\"></a>`([\w-]+)`", BIBLIOGRAPHY, re.MULTILINE))


def papers() -> set[str]:
    return set(re.findall(r"^\| <a id=[^|]*\| (00\d) \|", BIBLIOGRAPHY, re.MULTILINE))


@cache
def known() -> frozenset[str]:
    return frozenset(rules() | decisions() | keys() | papers())


# ---- what is cited


def cited(text: str) -> Iterator[str]:
    """Yield the citations in prose; of a § that names no document, the word before it."""
    text = LINK.sub("]()", CODE.sub("``", text))
    yield from RULE.findall(text)
    for section in SECTION.findall(text):
        yield section if section.startswith("S") else f"S{section}"
    yield from KEY.findall(text)
    yield from KEY_AND_PLACE.findall(text)
    yield from PAPER.findall(text)
    for sign in re.finditer("§", text):
        before = text[max(0, sign.start() - 40) : sign.start()].split()
        of = before[-1].lstrip("([") if before else ""
        if of != "semantics.md" and "§" not in of and of not in known():
            yield f"{of} §"


def dangling(text: str) -> list[str]:
    return [each for each in cited(text) if each not in known()]


def prose(path: Path) -> str:
    """The part of a file in which citations are looked for."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return "\n".join([*comments(text), *docstrings(text), *HINT.findall(text)])
    if path.suffix == ".lark":
        return "\n".join(re.findall("//.*", text))
    if path.suffix in (".cer", ".mr"):
        heads = (head if head.startswith("# title") else listed(head) for head in HEAD.findall(text))
        return "\n".join(heads)
    return text


def listed(head: str) -> str:
    """The rules of a case as prose: `# rules: S8 S3.4` is (S8), (S3.4)."""
    return ", ".join(f"({rule})" for rule in head.split()[2:])


def comments(source: str) -> Iterator[str]:
    if not COMMENT.search(source):
        return  # to take a file apart is slow
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.partition("noqa")[0]


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def files() -> Iterator[Path]:
    for folder, patterns in {
        "cerise": ("*.py", "*.lark"), "tests": ("*.py", "*.cer", "*.mr"), "docs": ("*.md",),
        "benchmarks": ("*.py",), "examples": ("*.py",),
    }.items():  # fmt: skip
        for pattern in patterns:
            found = (ROOT / folder).rglob(pattern)
            yield from (path for path in found if ".venvs" not in path.parts and path != Path(__file__))
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))


def test_every_citation_resolves() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {each}" for path in sorted(files()) for each in dangling(prose(path))
    ]
    assert not wrong, "\n".join(wrong)


# ---- the documents themselves


def test_every_rule_has_its_anchor_once() -> None:
    found = re.findall(r"<a id=\"([\w-]+)\"></a>\*\*([SM][\d.]+)\*\*", SEMANTICS)
    assert [anchor for anchor, _ in found] == [rule.lower().replace(".", "-") for _, rule in found]
    assert len(set(found)) == len(found)


def test_rules_and_decisions_are_numbered_without_gaps() -> None:
    assert {f"M{n}" for n in range(1, 48)} <= rules()
    assert decisions() == {f"D{n}" for n in range(1, 13)}
    assert len(papers()) == 5


def test_every_decision_is_listed() -> None:
    index = (DOCS / "decisions/index.md").read_text(encoding="utf-8")
    for page in (DOCS / "decisions").glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index
        assert page.name == "index.md" or "**Status:**" in page.read_text(encoding="utf-8")


def sections() -> Iterator[tuple[list[str], list[str]]]:
    """The rules and the case files of each section of the semantics."""
    for section in re.split(r"^##+ ", SEMANTICS, flags=re.MULTILINE)[1:]:
        names = re.findall(r"`((?:rows/)?\w+\.(?:cer|mr))`", section)
        yield re.findall(r"</a>\*\*([SM][\d.]+)\*\*", section), names


def proven(name: str) -> set[str]:
    """The rules that the cases of a file cite."""
    heads = HEAD.findall((CASES / name).read_text(encoding="utf-8"))
    return {rule for head in heads if head.startswith("# rules") for rule in head.split()[2:]}


def test_the_cases_that_a_section_names_prove_it() -> None:
    for its_rules, names in sections():
        for name in names:
            assert (CASES / name).is_file(), name
            assert not its_rules or proven(name) & set(its_rules), f"{name} has no case of {its_rules}"


def test_every_rule_with_a_case_has_one_in_a_file_that_its_section_names() -> None:
    everywhere = {rule for path in CASES.rglob("*.*") for rule in proven(str(path.relative_to(CASES)))}
    for its_rules, names in sections():
        here = {rule for name in names for rule in proven(name)}
        assert not (set(its_rules) & everywhere) - here


def test_every_case_file_is_named() -> None:
    named = {name for _, names in sections() for name in names}
    assert named == {str(path.relative_to(CASES)) for path in CASES.rglob("*.*") if path.is_file()}


def test_the_tests_that_the_semantics_and_decisions_name_exist() -> None:
    for page in [DOCS / "semantics.md", *(DOCS / "decisions").glob("*.md")]:
        for path in re.findall(r"`((?:tests|cerise)/[\w/]+(?:\.py|/))`", page.read_text(encoding="utf-8")):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


# ---- the test itself


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("as the strategy says (S3.4), and M9–M16", []),
        ("as the strategy says (S3.9), and M9–M61", ["S3.9", "M61"]),
        ("cut by time (decision D3), or not (D42)", ["D42"]),
        ("partitions (S8), none (S99, row 1)", ["S99"]),
        ("semantics.md §9, semantics.md §90", ["S90"]),
        ("begins [SASE08 §3.2, step 2], ends [SASE09 §3.2]", ["SASE09", "SASE09 §"]),
        ("recomputation [RCEP], and other [XCEP]", ["XCEP"]),
        ("the synopsis (000 Algorithm 1), a map of 007", ["007"]),
        ("between its events (§6), as in §7", [" §", "in §"]),
        ("from 002 §2, §3 and semantics.md §2–§7, after [Chan98] and [Chan89]", ["Chan89"]),
        ("types S1 to S20 in S3 buckets, `A1 M99`, list[ANY], [ANY](D01.md)", []),
        ("1,000 rows, 0.003 s, 10:00:004", []),
    ],
)  # fmt: skip
def test_a_citation_that_leads_nowhere_is_found(text: str, wrong: list[str]) -> None:
    assert dangling(text) == wrong


def test_citations_are_looked_for_in_prose_only(tmp_path: Path) -> None:
    source = tmp_path / "some.py"
    source.write_text('"""A rule (M98)."""\nEVENTS = "A1 M97"  # as D96\nHINT = "so it is (M95)"\n')
    assert sorted(dangling(prose(source))) == ["D96", "M95", "M98"]
    case = tmp_path / "some.cer"
    case.write_text("# title: as in 009\n# rules: S1.99 S8\nPATTERN A a\n--\nM94\n--\na=94\n")
    assert dangling(prose(case)) == ["S1.99", "009"]
