"""The wheel and the sdist: the wheel works in an empty environment, the sdist holds every file."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import cerise

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FIND = """
import cerise, pyarrow as pa
events = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "B"]})
sase = cerise.find(events, "PATTERN SEQ(A a, B b) WITHIN 5", time="t", type="kind")
rows = cerise.find(events, "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(B.t) AS last "
                           "PATTERN (A B+) DEFINE A AS kind = 'A', B AS kind = 'B')")
print(cerise.__version__, cerise.__file__, sase["last_time"].to_pylist(), rows["last"].to_pylist())
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_version_is_told_everywhere() -> None:
    version = PROJECT["version"]
    assert cerise.__version__ == version
    changes = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert changes[0] == "Unreleased"
    assert version in changes
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    uv = Path(sys.executable).with_name("uv")
    run(uv, "build", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    return folder


@pytest.mark.nightly
def test_the_wheel_finds_matches_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    version, where, *found = run(python, "-I", "-c", FIND, cwd=tmp_path).split()
    assert version == PROJECT["version"]
    assert Path(where).is_relative_to(tmp_path)
    assert found == ["[2]", "[3]"]


@pytest.mark.nightly
def test_the_sdist_holds_all_files_of_the_repository(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a clone")
    assert set(run("git", "ls-files").splitlines()) <= held
