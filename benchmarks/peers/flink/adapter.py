"""Flink CEP through its Java API: a JVM that holds the events in memory and runs one job for each call.

The jars are those of PyPI's apache-flink-libraries, the part of apache-flink that is not Python. They are
put into an environment of their own, in benchmarks/.venvs or where CERISE_PEERS_DIR says; `python adapter.py`
makes it, as does a run whose subject has `install = true`. A JDK, 17 or newer, must be there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("CERISE_PEERS_DIR") or HERE.parents[1] / ".venvs") / "flink"
PACKAGE = "apache-flink-libraries>=2.2,<3"
OPENS = ("java.util", "java.lang", "java.time")

Query = tuple[str, str, int, tuple[str, ...]]  # attribute, contiguity, window (inclusive), steps for Cep.java

ANY3 = ("a:1:1:29", "b:7:1:100:below", "c:4:81:100")
NEXT3 = ("a:1:0:199", "b:2:0:199", "c:3:0:199")
QUERIES: dict[str, Query] = {  # as the suite `engine` has them, by name
    "next3": ("x", "followedBy", 999, NEXT3),  # 1000 events, one per time unit
    "next3_time": ("x", "followedBy", 1000, NEXT3),
    "next3_rising": ("x", "followedBy", 999, (NEXT3[0], f"{NEXT3[1]}:above", NEXT3[2])),
    "any3_w100": ("price", "followedByAny", 100, ANY3),
    "any3_w1000": ("price", "followedByAny", 1000, ANY3),
    "any5_w1000": ("price", "followedByAny", 1000, (*ANY3, "d:9:1:19", "e:2:1:9")),
}

timed = True


def why_not(work: dict[str, Any]) -> str | None:
    """Say what is missing to run Flink here."""
    if shutil.which("javac") is None:
        return "there is no javac: install a JDK, 17 or newer"
    if not _jars() and not work["options"].get("install"):
        return "it is not installed: python benchmarks/peers/flink/adapter.py does that"
    return None


def prepare(work: dict[str, Any]) -> Callable[[], tuple[float, None, int]]:
    """Start a JVM with the events in its memory, and return what asks it for one more job."""
    install()
    folder = tempfile.TemporaryDirectory(prefix="cerise-flink-")
    attribute, contiguity, window, steps = QUERIES[work["query"]["name"]]
    options = work["options"]
    events = _write_events(work, attribute, Path(folder.name, "events"))
    jvm = subprocess.Popen(
        [
            "java", f"-Xmx{options.get('memory', '3g')}",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS),
            "-cp", _classpath(), "Cep", str(events), contiguity,
            str(window + 1),  # Flink's window is exclusive, ours inclusive
            str(options.get("parallelism", 1)), str(options.get("filtered", False)).lower(), *steps,
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip

    def call(_keep: Any = folder) -> tuple[float, None, int]:
        assert jvm.stdin
        assert jvm.stdout
        jvm.stdin.write("\n")
        answer = jvm.stdout.readline()
        if not answer:
            raise SystemExit(f"Flink has ended with code {jvm.wait()}")
        told = json.loads(answer)
        return told["seconds"], None, told["matches"]

    return call


def found(matches: int) -> tuple[str, int]:
    """Return the number of matches: Flink has no names for them that are ours."""
    return "count", matches


def versions() -> dict[str, str]:
    """Return the versions of Flink, from the name of a jar, and of Java."""
    flink = re.search(r"flink-dist-([\d.]+)\.jar", " ".join(map(str, _jars())))
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return {"flink": flink[1] if flink else "?", "java": java.split('"')[1]}


def install() -> None:
    """Make the environment and compile, where that has not been done."""
    if not _jars():
        venv.create(HOME, clear=True, with_pip=True)
        (HOME / ".gitignore").write_text("*\n")
        pip = [HOME / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", PACKAGE]
        subprocess.run(pip, check=True)
    source, compiled = HERE / "Cep.java", HOME / "classes/Cep.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-cp", _classpath(), "-d", compiled.parent, source], check=True)


def _jars() -> list[Path]:
    return sorted(HOME.glob("lib/python*/site-packages/pyflink/lib/*.jar"))


def _classpath() -> str:
    return os.pathsep.join(map(str, (HOME / "classes", *_jars())))


def _write_events(work: dict[str, Any], attribute: str, path: Path) -> Path:
    """Write time, number of the type and one attribute of each event in the form that Cep.java reads."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    query = work["query"]
    table = pq.read_table(work["path"], columns=[query["time"], query["type"], attribute])
    events = np.empty(len(table), [("time", "<i8"), ("type", "<i4"), ("value", "<i4")])
    events["time"] = table[query["time"]]
    events["type"] = pc.utf8_slice_codeunits(table[query["type"]], 1).cast("int32")  # S7 is 7
    events["value"] = table[attribute]
    events.tofile(path)
    return path


if __name__ == "__main__":
    if (reason := why_not({"options": {"install": True}})) is not None:
        sys.exit(reason)
    install()
