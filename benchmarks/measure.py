"""One measurement, in a process of its own: `python measure.py WORK RESULT`, two JSON files.

Needs nothing but Python, so that a peer is measured by the same program in its own environment. WORK has
repeat, warm, query, data, path (the Parquet file), options, and run (a name in `subjects`) or peer (a folder
with an `adapter.py` that has `prepare` and `found`, and may have the other parts of a `subjects.Subject`).
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

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
    """Prepare, warm up, and time the call; what it found is looked at between, not within, the timings."""
    subject = _subject(work)
    if (reason := subject.why_not(work)) is not None:
        return {"skipped": reason}
    started = perf_counter()
    call = subject.prepare(work)
    prepared = perf_counter() - started
    ready = peak_rss_bytes()
    warm = [_time(call, subject.timed)[0] for _ in range(work["warm"])]
    seconds, cpu_seconds, names, counted = [], [], [], None
    for _ in range(work["repeat"]):
        took, busy, result = _time(call, subject.timed)
        seconds.append(took)
        cpu_seconds.append(busy)
        names.append(digest(subject.found(result)))
        counted = subject.counted(result)
        del result
    if len({json.dumps(each) for each in names}) > 1:
        raise SystemExit(f"the repeats found different matches: {names}")
    family = _family(os.getpid())
    # A process that the call started and that has ended is gone: its memory is not ours to tell.
    gone = None in cpu_seconds and len(family) == 1
    return {
        "seconds": seconds,
        "cpu_seconds": None if None in cpu_seconds or len(family) > 1 else cpu_seconds,
        "warm_seconds": warm,
        "prepare_seconds": prepared,
        "ready_rss_bytes": None if gone else ready,
        "peak_rss_bytes": None if gone else peak_rss_bytes(),
        "versions": versions() | subject.versions(),
        "report": counted,
        **names[0],
    }


def digest(found: tuple[str, Any] | None) -> dict[str, Any]:
    """Return the number of matches and a hash of them in which their order does not count, but duplicates do.

    Names of matches are hashes already and are summed as they are, rows as a hash of their JSON form.
    """
    match found:
        case None:
            return {"matches": None, "hash": None, "hash_of": None}
        case "count", int(count):
            return {"matches": count, "hash": f"{_hash(count):016x}", "hash_of": "count"}
        case what, values:
            values = list(values)
            words: Iterable[int] = values if what in HASHED else map(_hash, values)
            return {"matches": len(values), "hash": f"{sum(words) % WORD:016x}", "hash_of": what}
    raise TypeError(f"found {found!r}")


def peak_rss_bytes() -> int:
    """Return the peak memory of this process, plus that of each process it has started and that still runs.

    Linux keeps the peak of every process: nothing is sampled. For a family such as Spark's the sum is an
    upper bound, as the peaks need not coincide and forked workers share pages. Elsewhere: this process only.
    """
    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: bytes
    return sum(_high_water(pid) for pid in _family(os.getpid()))


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


def _time(call: Callable[[], Any], timed: bool) -> tuple[float, float | None, Any]:
    """Return the seconds that a call took, those that this process was computing, and the result."""
    gc.collect()
    started, before = perf_counter(), process_time()
    result = call()
    took, busy = perf_counter() - started, process_time() - before
    return result if timed else (took, busy, result)


def _hash(value: Any) -> int:
    text = json.dumps(value, default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _family(pid: int) -> list[int]:
    """Return a process and its descendants; only the process itself where there is no /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")  # a process may have a bracket in its name
        except OSError:
            continue  # it has ended
        parents.setdefault(int(rest.split()[1]), []).append(int(stat.parent.name))
    family = [pid]
    for member in family:  # grows as it is walked
        family.extend(parents.get(member, ()))
    return family


def _high_water(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines.get("VmHWM", "0 kB").split()[0]) * 1024


if __name__ == "__main__":
    main()
