"""A suite: what to measure, read from a TOML file and checked before anything runs.

Any table of the file may hold a table `smoke`, whose entries replace those beside it in a `--smoke` run. A
query that says `for = { W = [500, 1000], P = ["p1", "p2"] }` is one query for each combination of these; what
a name such as p1 stands for is said once, in the suite's table `axis`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from string import Template
from typing import Any

from binding import ROLES
from subjects import SUBJECTS

from cerise.errors import CeriseError, did_you_mean

HOME = Path(__file__).parent
SUITES = HOME / "suites"

Table = dict[str, Any]

TOP = {
    "title", "repeat", "warm", "timeout", "enough", "sample_seconds", "baseline", "axis", "data", "subject",
    "query", "smoke",
}  # fmt: skip
DATA = {"generator", "events", "seed", "files", "options", "columns"}
QUERY = {"name", "part", "text", "workload", "index", "data", "subjects", "also", "for", *ROLES}
SUBJECT = {"run", "peer", "python", "repeat", "warm", "patience", "data"}  # others are options of `run`


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement: a subject, on data, with a query; a subject such as an import needs neither."""

    subject: str
    query: str | None
    data: str | None
    repeat: int
    warm: int
    patience: float | None = None  # seconds after which a call is given up

    @property
    def title(self) -> str:
        """Say what is measured, in a few words."""
        return " · ".join(part for part in (self.query, self.subject, self.data) if part)


@dataclass(frozen=True, slots=True)
class Suite:
    """What the file says, checked; tables stay tables."""

    name: str
    title: str
    home: Path  # the folder that holds `suites` and `peers`
    baseline: str | None
    timeout: float  # seconds that a measurement may take
    enough: float | None  # seconds after which a call is not repeated
    sample_seconds: float | None  # between two looks at the memory
    data: Mapping[str, Table]
    subjects: Mapping[str, Table]
    queries: Mapping[str, Table]
    jobs: tuple[Job, ...]

    def only(self, names: Iterable[str]) -> tuple[Job, ...]:
        """Return the jobs whose query, part, subject or data has one of these names; without names, all."""
        wanted = set(names)
        known = dict.fromkeys(name for job in self.jobs for name in self._names(job))
        for name in wanted - set(known):
            raise CeriseError(f"suite '{self.name}' measures no '{name}'", hint=did_you_mean(name, known))
        return tuple(job for job in self.jobs if not wanted or wanted & self._names(job))

    def _names(self, job: Job) -> set[str]:
        part = self.queries[job.query].get("part") if job.query else None
        return {name for name in (job.query, part, job.subject, job.data) if name}


def names() -> list[str]:
    """Return the names of the suites of this folder."""
    return sorted(path.stem for path in SUITES.glob("*.toml"))


def load(name: str, *, smoke: bool = False, repeat: int | None = None, settings: Iterable[str] = ()) -> Suite:
    """Read a suite by its name, or by the path of its TOML file.

    Args:
        name: the name or the path.
        smoke: whether the tables `smoke` replace what stands beside them.
        repeat: how often to time everything, whatever the file says.
        settings: entries to change, such as "data.soak.events=1000".

    Raises:
        CeriseError: there is no such suite, or the file or a setting is wrong.
    """
    path = Path(name) if name.endswith(".toml") else SUITES / f"{name}.toml"
    if not path.is_file():
        raise CeriseError(f"unknown suite '{name}'", hint=did_you_mean(name, names()))
    try:
        top = _sized(tomllib.loads(path.read_text(encoding="utf-8")), smoke)
    except tomllib.TOMLDecodeError as error:
        raise CeriseError(f"{path.name} is not TOML: {error}") from None
    try:
        for each in settings:
            _change(top, each)
        return _suite(path, top, repeat)
    except CeriseError as error:
        raise CeriseError(f"{path.name}: {error.problem}", hint=error.hint) from None


def _change(top: Table, setting: str) -> None:
    """Replace one entry of a table of data or of a subject."""
    place, _, value = setting.partition("=")
    kind, _, rest = place.partition(".")
    name, _, entry = rest.rpartition(".")
    try:
        given = tomllib.loads(f"value = {value}")["value"]
        if kind not in ("data", "subject"):
            raise KeyError(kind)
        top[kind][name][entry] = given
    except (tomllib.TOMLDecodeError, KeyError):
        raise CeriseError(
            f"'{setting}' changes nothing of the suite",
            hint="write data.NAME.ENTRY=VALUE or subject.NAME.ENTRY=VALUE, with a value as in TOML",
        ) from None


def _sized(table: Table, smoke: bool) -> Table:
    """Return a table without its `smoke` entries, which replace others in a smoke run."""
    small = table.get("smoke", {}) if smoke else {}
    return {name: _sizes_within(value, smoke) for name, value in (table | small).items() if name != "smoke"}


def _sizes_within(value: Any, smoke: bool) -> Any:
    match value:
        case dict():
            return _sized(value, smoke)
        case list():
            return [_sizes_within(each, smoke) for each in value]
    return value


def _suite(path: Path, top: Table, repeat: int | None) -> Suite:
    _check(top, TOP, ("title", "subject"), "the suite")
    data, subjects = top.get("data", {}), top["subject"]
    queries = _queries(top.get("query", []), top.get("axis", {}))
    for name, table in data.items():
        _check(table, DATA, ("events",) if "generator" in table else ("columns",), f"data '{name}'")
    for name, table in subjects.items():
        _check_subject(name, table, data)
    for name, table in queries.items():
        for of in (table["data"], *table.get("also", ())):
            _known(of, data, f"query '{name}': unknown data")
        for subject in chain(table.get("subjects", ()), *table.get("also", {}).values()):
            _known(subject, subjects, f"query '{name}': unknown subject")
    if "baseline" in top:
        _known(top["baseline"], subjects, "unknown baseline")
    usual = {"repeat": top.get("repeat", 3), "warm": top.get("warm", 0), "patience": None}
    given = {} if repeat is None else {"repeat": repeat}
    return Suite(
        name=path.stem,
        title=top["title"],
        home=path.resolve().parent.parent,
        baseline=top.get("baseline"),
        timeout=top.get("timeout", 600),
        enough=top.get("enough"),
        sample_seconds=top.get("sample_seconds"),
        data=data,
        subjects=subjects,
        queries=queries,
        jobs=tuple(
            Job(subject, query, of, **{n: (usual | subjects[subject] | given)[n] for n in usual})
            for subject, query, of in _pairs(data, subjects, queries)
        ),
    )


def _queries(tables: Iterable[Table], axes: Mapping[str, Table]) -> dict[str, Table]:
    queries: dict[str, Table] = {}
    for number, table in enumerate(tables, 1):
        what = "workload" if "workload" in table else "text"  # many queries at once, or one
        _check(table, QUERY, ("name", what, "data", "time"), f"query '{table.get('name', number)}'")
        for query in _spread(table, axes):
            if query["name"] in queries:
                raise CeriseError(f"two queries have the name '{query['name']}'")
            queries[query["name"]] = query
    return queries


def _spread(table: Table, axes: Mapping[str, Table]) -> Iterator[Table]:
    """Yield a query for each combination that it has in `for`, with values in the place of `$axis`."""
    if "for" not in table:
        yield table | {"axes": {}}
        return
    for ranges in table["for"] if isinstance(table["for"], list) else [table["for"]]:
        for chosen in product(*ranges.values()):
            names = dict(zip(ranges, chosen, strict=True))
            values = {axis: _value(axes.get(axis), axis, name) for axis, name in names.items()}
            filled = {entry: _fill(table[entry], values) for entry in ("text", "data") if entry in table}
            filled["name"] = _fill(table["name"], names)
            if "workload" in table:
                filled["workload"] = {
                    entry: _fill(each, values) if isinstance(each, str) else each
                    for entry, each in table["workload"].items()
                }
            yield table | filled | {"axes": names}


def _value(named: Table | None, axis: str, name: Any) -> Any:
    """Return what a name on an axis stands for: itself, where the suite does not say."""
    if named is None:
        return name
    _known(name, named, f"axis '{axis}' has no")
    return named[name]


def _fill(text: str, values: Mapping[str, Any]) -> str:
    try:
        return Template(text).substitute(values)
    except KeyError as missing:
        raise CeriseError(f"'{text}' has no {missing} in its `for`") from None


def _pairs(
    data: Mapping[str, Table], subjects: Mapping[str, Table], queries: Mapping[str, Table]
) -> Iterable[tuple[str, str | None, str | None]]:
    """Yield (subject, query, data): those without a query first, then all subjects of each query."""
    needs = {name: _needs(table) for name, table in subjects.items()}
    for subject, table in subjects.items():
        if needs[subject] == "nothing":
            yield subject, None, None
        elif needs[subject] == "data":
            generated = [name for name, each in data.items() if "generator" in each]
            yield from ((subject, None, of) for of in table.get("data", generated))
    for query, table in queries.items():
        asked = table.get("subjects", [s for s in subjects if needs[s] in ("query", "events")])
        for of, them in {table["data"]: asked, **table.get("also", {})}.items():
            yield from ((subject, query, of) for subject in them)


def _needs(subject: Table) -> str:
    return "events" if "peer" in subject else SUBJECTS[subject["run"]].needs


def _check_subject(name: str, table: Table, data: Mapping[str, Table]) -> None:
    if ("run" in table) == ("peer" in table):
        raise CeriseError(
            f"subject '{name}' says not how it is run", hint="give it either run = … or peer = …"
        )
    if "run" in table:
        _known(table["run"], SUBJECTS, f"subject '{name}': unknown run")
        options = SUBJECTS[table["run"]].options
        _check(table, SUBJECT | set(options), (), f"subject '{name}'")
    for each in table.get("data", ()):
        _known(each, data, f"subject '{name}': unknown data")


def _check(table: Table, known: set[str], needed: Iterable[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise CeriseError(
                f"{where} has an unknown entry '{name}'", hint=did_you_mean(name, sorted(known))
            )
    for name in needed:
        if name not in table:
            raise CeriseError(f"{where} has no '{name}'")


def _known(name: str, known: Iterable[str], problem: str) -> None:
    if name not in known:
        raise CeriseError(f"{problem} '{name}'", hint=did_you_mean(name, known))
