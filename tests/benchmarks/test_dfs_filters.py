"""The programs of 001's filters and rounds run, in a small size, and no way to pull loses a match."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "dfs" / "measure.py"


def test_every_way_to_pull_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "lines.jsonl"
    command = [
        sys.executable,
        str(PROGRAM),
        "rounds",
        "--events",
        "5000",
        "--queries",
        "2",
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True, capture_output=True)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {(line["template"], line["query"]) for line in lines} == {
        (template, number) for template in ("crimes", "citibike") for number in range(2)
    }
    by_way = {line["way"]: line["pulled"] for line in lines if line["template"] == "crimes"}
    assert by_way["dual"] <= by_way["push-down"] <= by_way["pull-all"] == 5000
