"""One measurement, in a process of its own: `python measure.py WORK RESULT`, two JSON files.

Needs nothing but Python, so that a peer is measured by the same program in its own environment. WORK has
repeat, warm, query, data, path (the Parquet file), options, and run (a name in `subjects`) or peer (a folder
with an `adapter.py` that has `prepare` and `found`, and may have the other parts of a `subjects.Subject`). It
may have patience (the seconds that a call may take), enough (those after which it is not repeated) and watch
(a file for what `memory.Watch` notes).
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from fresh import GaveUp
from memory import Watch, family, peak_rss_bytes

WORD = 2**64
HASHED = ("match_id", "positions", "row hash")
PACKAGES = (
    "apache-flink chdb duckdb lark llvmlite numba numpy pandas polars pyarrow pysiddhi pyspark sqlglot xxhash"
).split()


def main() -> None:
    work_file, result_file = map(Path, sys.argv[1:])
    work = json.loads(work_file.read_text(encoding="utf-8"))
    result_file.write_text(json.dumps(measure(work)), encoding="utf-8")


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Measure a piece of work, or say why it was skipped, or given up."""
    subject = _subject(work)
    if (reason := subject.why_not(work)) is not None:
        return {"skipped": reason}
    watch = Watch(Path(work["watch"])) if work.get("watch") else None
    try:
        measured = _measure(work, subject, watch)
    except GaveUp as why:
        measured = {"gave_up": {"why": str(why), "seconds": None}}
    return measured | {"rss": watch.told() if watch else None}


def _measure(work: dict[str, Any], subject: Any, watch: Watch | None) -> dict[str, Any]:
    """Prepare, warm up, and time the call; what it found is looked at between, not within, the timings."""
    started = perf_counter()
    call = subject.prepare(work)
    prepared = perf_counter() - started
    ready, patience, enough = peak_rss_bytes(), work.get("patience"), work.get("enough") or math.inf
    warm = [_time(call, subject.timed, patience)[0] for _ in range(work["warm"])]
    seconds, cpu_seconds, names, counted = [], [], [], None
    while len(seconds) < work["repeat"] and sum(seconds) < enough:
        with watch or nullcontext():
            took, busy, result = _time(call, subject.timed, patience)
        seconds.append(took)
        cpu_seconds.append(busy)
        names.append(digest(subject.found(result)))
        counted = subject.counted(result)
        del result
    if len({json.dumps(each) for each in names}) > 1:
        raise SystemExit(f"the repeats found different matches: {names}")
    others = len(family(os.getpid())) > 1
    # A process that the call started and that has ended is gone: its memory is not ours to tell.
    gone = None in cpu_seconds and not others
    return {
        "seconds": seconds,
        "cpu_seconds": None if None in cpu_seconds or others else cpu_seconds,
        "warm_seconds": warm,
        "prepare_seconds": prepared,
        "ready_rss_bytes": None if gone else ready,
        "peak_rss_bytes": None if gone else max(peak_rss_bytes(), watch.most if watch else 0),
        "versions": versions() | subject.versions(),
        "report": counted,
        **names[0],
    }


def digest(found: tuple[str, Any] | None) -> dict[str, Any]:
    """Return the number of matches and a hash of them in which their order does not count, but duplicates do.

    Names of matches are hashes already and are summed as they are, rows as a hash of their JSON form. Where
    they are too many to hold, whoever went through them has their number and the sum.
    """
    match found:
        case None:
            return {"matches": None, "hash": None, "hash_of": None}
        case "count", int(count):
            return {"matches": count, "hash": f"{_hash(count):016x}", "hash_of": "count"}
        case what, {"count": int(count), "sum": int(total)}:
            return {"matches": count, "hash": f"{total % WORD:016x}", "hash_of": what}
        case what, values:
            values = list(values)
            words: Iterable[int] = values if what in HASHED else map(_hash, values)
            return {"matches": len(values), "hash": f"{sum(words) % WORD:016x}", "hash_of": what}
    raise TypeError(f"found {found!r}")


def versions() -> dict[str, str]:
    """Return the versions of Python, and of those packages in use that a figure may depend on."""
    modules = {"apache-flink": "pyflink"}
    used = [name for name in PACKAGES if modules.get(name, name) in sys.modules]
    known = {"python": platform.python_version()}
    if "cerise" in sys.modules:
        known["cerise"] = sys.modules["cerise"].__version__
    return known | {name: importlib.metadata.version(name) for name in used}


def _subject(work: dict[str, Any]) -> Any:
    from subjects import SUBJECTS, Subject

    if "peer" not in work:
        return SUBJECTS[work["run"]]
    adapter = _adapter(Path(work["peer"], "adapter.py"))
    parts = ("prepare", "found", "counted", "timed", "why_not", "versions")
    return Subject(
        needs="events", **{part: getattr(adapter, part) for part in parts if hasattr(adapter, part)}
    )


def _adapter(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("adapter", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _time(call: Callable[[], Any], timed: bool, patience: float | None) -> tuple[float, float | None, Any]:
    """Return the seconds that a call took, those that this process was computing, and the result.

    A call that outlasts the patience ends this process, by SIGALRM: compiled code hears nothing else.
    """
    gc.collect()
    signal.setitimer(signal.ITIMER_REAL, patience or 0)
    started, before = perf_counter(), process_time()
    try:
        result = call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took, busy = perf_counter() - started, process_time() - before
    return result if timed else (took, busy, result)


def _hash(value: Any) -> int:
    text = json.dumps(value, default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


if __name__ == "__main__":
    main()
