"""Measure a suite, each measurement in a fresh process: `python benchmarks/run.py SUITE`.

This program measures and writes results/<suite>.jsonl; figures are drawn from there, by others. See
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fresh
import machine
import report
import suite as suites
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from subjects import SUBJECTS
from suite import HOME, Job, Suite

from cerise.errors import CeriseError

RESULTS = HOME / "results"
WIDTH = 160  # of the table where nobody's terminal says otherwise
LAST_LINES = 25
OWN = ("run", "peer", "python", "repeat", "warm", "patience", "data")  # a subject's that are not options
UNKNOWN = dict.fromkeys(  # of what was given up
    "seconds cpu_seconds events_per_second warm_seconds prepare_seconds ready_rss_bytes peak_rss_bytes "
    "versions report matches hash hash_of".split()
)

Say = Callable[[str], None]


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments().parse_args(argv)
    try:
        if args.list or args.suite is None:
            return _list()
        return _run(args)
    except CeriseError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure a suite, or list them all.")
    parser.add_argument(
        "suite", nargs="?", metavar="SUITE", help="a name in suites/, or the path of a TOML file"
    )
    parser.add_argument("--list", action="store_true", help="list the suites and what they measure")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does everything still run?")
    parser.add_argument("--repeat", type=_positive, metavar="N", help="time everything N times")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="a query, a part of the suite, a subject or a data set",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="PLACE=VALUE", dest="settings",
        help="change an entry of the suite, such as data.soak.events=1000",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write SUITE.jsonl [benchmarks/results]"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a run that ended early: what it measured is kept"
    )
    parser.add_argument("--date", metavar="DATE", help="the date to write into the results [now]")
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def _list() -> int:
    for name in suites.names():
        suite = suites.load(name)
        print(f"{name}: {suite.title}")
        for kind, held in (("queries", suite.queries), ("subjects", suite.subjects), ("data", suite.data)):
            if held:
                print(f"  {kind:9} {' · '.join(held)}")
    print("\nRun one:  make bench SUITE=foundation    or  python benchmarks/run.py foundation [--smoke]")
    return 0


def _run(args: argparse.Namespace) -> int:
    suite = suites.load(args.suite, smoke=args.smoke, repeat=args.repeat, settings=args.settings)
    jobs = suite.only(args.only)
    facts = {
        "suite": suite.name,
        "smoke": args.smoke,
        "date": args.date or dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": machine.commit(HOME.parent),
        "machine": machine.machine(),
    }
    out = args.out or (None if args.smoke or args.only or args.settings else RESULTS)
    part = out and out / f"{suite.name}.part.jsonl"
    lines = _resumed(part, facts) if args.resume else []
    try:
        for line in _measure_all(suite, jobs, lines):
            lines.append(facts | line)
            if part:
                report.save(lines, part)
    except report.Disagreement:
        if part:
            part.unlink(missing_ok=True)
        raise
    lines = report.compare(lines, suite.baseline)
    report.show(lines, Console(width=None if sys.stdout.isatty() else WIDTH))
    if out is None or part is None:
        print("Not a whole run: nothing is written without --out DIR.")
    else:
        path = out / f"{suite.name}.jsonl"
        report.save(lines, path)
        part.unlink(missing_ok=True)
        print(f"Written: {path if args.out else os.path.relpath(path)}")
    return 0


def _resumed(part: Path | None, facts: Mapping[str, Any]) -> list[report.Line]:
    """Return what a run that ended early has measured, if it measured the same things."""
    if part is None or not part.exists():
        raise CeriseError(
            f"there is no {part.name if part else 'run'} to go on with",
            hint="--resume is for a run that wrote to the same place and ended before its end",
        )
    lines = [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()]
    for name in ("suite", "smoke", "commit", "machine"):
        if any(line[name] != facts[name] for line in lines):
            raise CeriseError(
                f"{part.name} is of another {name}", hint="figures of two runs are not compared: start anew"
            )
    return lines


def _measure_all(
    suite: Suite, jobs: Sequence[Job], before: Sequence[report.Line]
) -> Iterator[dict[str, Any]]:
    """Yield the measurements one by one; stop at the first that disagrees with those before it."""
    done = list(before)
    known = {(line["query"], line["subject"], line["data"] and line["data"]["name"]) for line in done}
    jobs = [job for job in jobs if (job.query, job.subject, job.data) not in known]
    skipped: list[str] = []
    with tempfile.TemporaryDirectory(prefix="cerise-bench-") as folder, _progress(len(jobs)) as (now, over):
        files: dict[str, Path] = {}
        for number, job in enumerate(jobs):
            if _needs_events(suite, job) and job.data not in files:
                now(f"generating {job.data}")
                files[str(job.data)] = _events(suite, str(job.data), Path(folder))
            now(job.title)
            line = _measure(suite, job, files.get(str(job.data)), Path(folder))
            if job.data not in {each.data for each in jobs[number + 1 :]}:
                _remove(Path(folder), str(job.data))
            if "skipped" in line:
                skipped.append(f"{job.title}: skipped: {line['skipped']}")
                over(skipped[-1])
                continue
            done.append(line)
            report.agree(done)
            over(f"{job.title}: {report.outcome(line)}")
            yield line
    if sys.stderr.isatty():  # where `over` only moved a bar
        print(*skipped, sep="\n", end="\n" if skipped else "", file=sys.stderr)


def _needs_events(suite: Suite, job: Job) -> bool:
    subject = suite.subjects[job.subject]
    return "peer" in subject or SUBJECTS[subject["run"]].needs == "events"


def _events(suite: Suite, name: str, folder: Path) -> Path:
    data = suite.data[name]
    if "generator" not in data:
        raise CeriseError(f"data '{name}' has columns but no events", hint="give it a generator")
    import streams

    return streams.write(data, folder / name)


def _remove(folder: Path, data: str) -> None:
    """Remove a data set that nothing will ask for, and what subjects have made of it: disks are small."""
    for path in (*folder.glob(data), *folder.glob(f"{data}.*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _measure(suite: Suite, job: Job, events: Path | None, folder: Path) -> dict[str, Any]:
    subject = suite.subjects[job.subject]
    data = dict(suite.data[job.data]) if job.data else None
    work = _work(suite, job, data, events)
    before = machine.load()
    measured = _in_fresh_process(_python(suite, subject), work, folder, job, suite)
    if "skipped" in measured:
        return measured
    if measured.get("gave_up") and job.patience is None:
        raise CeriseError(
            f"{job.title}: {measured['gave_up']['why']}",
            hint="a subject that may give up has `patience`, in seconds, in its suite",
        )
    count = data["events"] if data and "events" in data and _per_event(subject) else None
    return {
        "query": job.query,
        "axes": suite.queries[job.query]["axes"] if job.query else {},
        "subject": job.subject,
        "how": {name: subject[name] for name in ("run", "peer") if name in subject} | work["options"],
        "data": {"name": job.data} | data if data else None,
        "events": count,
        "load": {"before": before, "after": machine.load()},
        "gave_up": None,
        **UNKNOWN,
        **(measured if measured.get("gave_up") else _timed(measured, count)),
    }


def _work(suite: Suite, job: Job, data: dict[str, Any] | None, events: Path | None) -> dict[str, Any]:
    """Return what `measure.py` is asked."""
    subject = suite.subjects[job.subject]
    peer = {"peer": str(suite.home / "peers" / subject["peer"])} if "peer" in subject else {}
    return {
        "repeat": job.repeat,
        "warm": job.warm,
        "patience": job.patience,
        "enough": suite.enough,
        "query": suite.queries[job.query] if job.query else None,
        "data": data,
        "path": str(events) if events else None,
        "options": {name: value for name, value in subject.items() if name not in OWN},
        **(peer or {"run": subject["run"]}),
    }


def _timed(measured: dict[str, Any], count: int | None) -> dict[str, Any]:
    """Return the times that a process measured in the form that they are written in."""
    seconds, busy = measured["seconds"], measured["cpu_seconds"]
    return measured | {
        "seconds": _summary(seconds),
        "cpu_seconds": _summary(busy) if busy else None,
        "events_per_second": count / min(seconds) if count else None,
    }


def _summary(seconds: list[float]) -> dict[str, Any]:
    return {"min": min(seconds), "median": statistics.median(seconds), "all": seconds}


def _per_event(subject: dict[str, Any]) -> bool:
    return "peer" in subject or SUBJECTS[subject["run"]].needs in ("data", "events")


def _python(suite: Suite, subject: dict[str, Any]) -> str:
    """Return the interpreter of a subject: ours, or that of a peer's own environment in its folder."""
    if "python" not in subject:
        return sys.executable
    own = suite.home / "peers" / subject["peer"] / subject["python"]
    if not own.exists():
        raise CeriseError(
            f"there is no {own.name} for peer '{subject['peer']}'", hint="its README says how to make it"
        )
    return str(own)


def _in_fresh_process(
    python: str, work: dict[str, Any], folder: Path, job: Job, suite: Suite
) -> dict[str, Any]:
    """Run `measure.py`; whatever it started ends with it."""
    asked, told, note = (folder / f"{name}.json" for name in ("work", "result", "note"))
    for path in (told, note):
        path.unlink(missing_ok=True)
    watch = {"watch": str(note)} if suite.sample_seconds else {}
    asked.write_text(json.dumps(work | watch, default=str), encoding="utf-8")
    command = [python, str(HOME / "measure.py"), str(asked), str(told)]
    ended = fresh.run(command, folder, _environment(), suite.timeout, suite.sample_seconds)
    if ended.code == -signal.SIGALRM:
        why = f"took more than {job.patience:g} s"
        result: dict[str, Any] = {"gave_up": {"why": why, "seconds": job.patience}}
    elif ended.code == 0:
        result = json.loads(told.read_text(encoding="utf-8"))
    else:
        why = f"took more than {suite.timeout:g} s" if ended.code is None else "failed"
        last = "\n".join(ended.log.splitlines()[-LAST_LINES:])
        raise CeriseError(f"{job.title}: {why}\n{last}".rstrip())
    seen = result.get("rss") or (json.loads(note.read_text(encoding="utf-8")) if note.exists() else None)
    return result | {"rss": _rss(seen, ended.samples) if seen else None}


def _rss(seen: Mapping[str, Any], samples: Sequence[fresh.Sample]) -> dict[str, Any]:
    """Return the memory before the timed calls, the most in them as Linux knows it, and as was sampled."""
    spans = [(span[0], span[1] if len(span) > 1 else float("inf")) for span in seen["spans"]]
    within = [held for at, held in samples if any(began <= at <= ended for began, ended in spans)]
    return {"before": seen["before"], "peak": seen.get("peak"), "sampled": max(within, default=None)}


def _environment() -> dict[str, str]:
    """Return our environment, with the library of this checkout importable from anywhere."""
    paths = [str(HOME.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _progress(total: int) -> Iterator[tuple[Say, Say]]:
    """Give two functions to say what is measured now, and what has been: a bar on a terminal, or lines."""
    if not sys.stderr.isatty():
        yield (lambda what: None), (lambda what: print(what, file=sys.stderr, flush=True))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield (lambda what: bar.update(task, description=what)), (lambda what: bar.advance(task))


if __name__ == "__main__":
    sys.exit(main())
