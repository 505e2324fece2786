"""Compiled kernels are kept where we say, found again by every process, and never mistaken for others."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cerise.errors import CeriseWarning
from cerise.kernels import cache, jit

pytestmark = pytest.mark.xdist_group("cache")  # one worker: kernels are compiled from nothing once
ROOT = Path(__file__).parents[2]

RUN = """
import json, sys, tempfile, warnings
if len(sys.argv) > 2:
    tempfile.tempdir = sys.argv[2]
import pyarrow as pa
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import cerise
    events = pa.table({"t": [1, 2, 3, 4], "type": list("ABBC"), "x": [1, 2, 3, 4]})
    found = [
        len(cerise.find(events, sys.argv[1], time="t", type="type", options=cerise.Options(engine=engine)))
        for engine in ("nfa", "nfa-merge", "nfa-backtrack")
    ]
    from cerise.engines.automaton import memory, window
    from cerise.engines.nfa import backtrack, match_order, step, upkeep
    from cerise.kernels import arrays
modules = (arrays, memory, window, backtrack, step, match_order, upkeep)
kernels = {
    f"{kernel.py_func.__module__}.{kernel.__name__}": kernel
    for module in modules for kernel in vars(module).values()
    if getattr(kernel, "signatures", None) and getattr(kernel, "_can_compile", None) is False
}
print(json.dumps({
    "found": found,
    "hits": {name: sum(kernel.stats.cache_hits.values()) for name, kernel in kernels.items()},
    "misses": {name: sum(kernel.stats.cache_misses.values()) for name, kernel in kernels.items()},
    "warnings": [str(each.message) for each in caught if each.category.__name__ == "CeriseWarning"],
}))
"""
QUERY = "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WHERE b.x > a.x WITHIN 9"
OTHER = "PATTERN SEQ(A a, B b, ~(D d), C c) WHERE b.x % 2 = 0 WITHIN 9"


def run(query: str, *args: str, root: Path = ROOT, **env: str) -> dict[str, Any]:
    """Run a query in a process of its own, with the package that is in a folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CERISE_CACHE_DIR", "NUMBA_DISABLE_JIT")
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, query, *args], cwd=root, env=kept | {"PYTHONPATH": str(root)} | env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def files(place: Path) -> dict[str, tuple[int, int]]:
    """Every file below a directory, with its size and when it was written."""
    there = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): (path.stat().st_size, path.stat().st_mtime_ns) for path in there}


# ---- processes


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A directory that one process has filled, and what that process said."""
    place = tmp_path_factory.mktemp("cache")
    home = place / "home"
    home.mkdir()
    return place, run(
        QUERY, CERISE_CACHE_DIR=str(place / "mine"), HOME=str(home), XDG_CACHE_HOME=str(home / "xdg")
    )


@pytest.mark.nightly
def test_the_first_process_compiles_and_keeps(warm: tuple[Path, dict[str, Any]]) -> None:
    place, said = warm
    assert said["found"] == [3, 3, 3]
    assert len(said["misses"]) > 5
    assert set(said["misses"].values()) == {1}
    assert not any(said["hits"].values())
    assert not said["warnings"]
    names = [Path(name) for name in files(place / "mine")]
    assert {name.parts[0] for name in names} == {f"kernels-{cache._fingerprint()}"}
    assert {name.suffix for name in names} == {".nbi", ".nbc"}


@pytest.mark.nightly
def test_a_directory_that_is_asked_for_is_the_only_one_written_to(warm: tuple[Path, dict[str, Any]]) -> None:
    place, _ = warm
    assert files(place / "mine")
    assert not files(place / "home")


@pytest.mark.nightly
def test_the_next_process_compiles_nothing_for_another_query(warm: tuple[Path, dict[str, Any]]) -> None:
    place, first = warm
    before = files(place / "mine")
    said = run(OTHER, CERISE_CACHE_DIR=str(place / "mine"))
    assert said["found"] == [1, 1, 1]
    assert not any(said["misses"].values())
    assert said["hits"] == first["misses"]
    assert files(place / "mine") == before
    assert not said["warnings"]


@pytest.mark.nightly
def test_a_copy_of_the_package_elsewhere_compiles_nothing(
    warm: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """As another environment with the same sources has it; when the files were written does not matter."""
    place, first = warm
    shutil.copytree(cache.PACKAGE, tmp_path / "cerise", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "cerise").rglob("*.py"):
        os.utime(path, (1, 1))
    before = files(place / "mine")
    said = run(OTHER, root=tmp_path, CERISE_CACHE_DIR=str(place / "mine"))
    assert not any(said["misses"].values())
    assert said["hits"] == first["misses"]
    assert files(place / "mine") == before


@pytest.mark.nightly
def test_nothing_in_the_cache_names_the_place_of_the_package(warm: tuple[Path, dict[str, Any]]) -> None:
    place, _ = warm
    (kernels,) = (place / "mine").iterdir()
    folders = {str(path.relative_to(cache.PACKAGE)).replace("/", "_") for path in cache.PACKAGE.rglob("*")}
    assert {path.name for path in kernels.iterdir()} <= folders


def test_where_nothing_can_be_written_matches_are_found_and_a_warning_says_why(tmp_path: Path) -> None:
    """As plain Python, so that nothing is compiled; the directory is looked for all the same."""
    below = nowhere(tmp_path)
    said = run(
        QUERY, below, CERISE_CACHE_DIR=below, HOME=below, XDG_CACHE_HOME=below, NUMBA_DISABLE_JIT="1"
    )  # fmt: skip
    assert said["found"] == [3, 3, 3]
    assert len(said["warnings"]) == 1
    assert "CERISE_CACHE_DIR" in said["warnings"][0]


# ---- which directory


def nowhere(tmp_path: Path) -> str:
    """A path that not even root can make: below a file."""
    (tmp_path / "file").touch()
    return str(tmp_path / "file" / "below")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Path | None]]:
    """The choice of a directory, made anew."""
    monkeypatch.delenv("CERISE_CACHE_DIR", raising=False)
    return cache.directory.__wrapped__


Chosen = Callable[[], Path | None]


def test_the_directory_asked_for_comes_first(
    chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERISE_CACHE_DIR", str(tmp_path / "mine"))
    place = chosen()
    assert place is not None
    assert place.parent == tmp_path / "mine"
    assert place.is_dir()
    assert place.stat().st_mode & 0o077 == 0


def test_then_the_users_cache(chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERISE_CACHE_DIR", nowhere(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    place = chosen()
    assert place is not None
    assert place.parent == tmp_path / "xdg" / "cerise"


def test_then_a_temporary_one_of_the_user(
    chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", nowhere(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    place = chosen()
    assert place is not None
    assert place.parent.parent == tmp_path / "tmp"


def test_a_user_without_a_home_has_a_temporary_one(
    chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = chosen()
    assert place is not None
    assert place.parent.parent == tmp_path


def test_else_there_is_none_and_a_warning(
    chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", nowhere(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", nowhere(tmp_path))
    with pytest.warns(CeriseWarning, match="CERISE_CACHE_DIR") as caught:
        assert chosen() is None
    assert len(caught) == 1


@pytest.mark.parametrize("name", ["CERISE_CACHE_DIR", "XDG_CACHE_HOME"])
def test_an_empty_variable_is_one_that_is_not_set(
    chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(name, "")
    monkeypatch.chdir(tmp_path)
    place = chosen()
    assert place is not None
    assert place.is_relative_to(tmp_path / "home")


# ---- what is safe


owned = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")


@owned
def test_a_directory_of_somebody_else_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache._writable(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not cache._writable(tmp_path)
    assert "belongs to another user" in str(cache.why_unsafe(tmp_path))


@owned
def test_all_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache.make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in ("a", "a/b", "a/b/c"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
    assert cache.why_unsafe(tmp_path / "a" / "b" / "c") is None


@owned
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
@pytest.mark.parametrize("shared", ["a", "a/b", "a/b/c", "a/b/c/d"])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, shared: str, mode: int) -> None:
    place = tmp_path / "a" / "b" / "c"
    cache.make_private(place / "d")
    assert cache.why_unsafe(place) is None
    (tmp_path / shared).chmod(mode)
    assert cache.why_unsafe(place) == f"others can write {tmp_path / shared}"


@owned
def test_a_shared_folder_may_keep_users_apart_but_not_be_the_cache(tmp_path: Path) -> None:
    place = tmp_path / "tmp" / "mine"
    cache.make_private(place)
    (tmp_path / "tmp").chmod(0o1777)
    assert cache.why_unsafe(place) is None
    assert cache.why_unsafe(tmp_path / "tmp") is not None


@owned
@pytest.mark.parametrize("link", ["cache", "cache/kernels", "cache/kernels/nfa", "cache/kernels/nfa/x.nbi"])
def test_a_link_is_refused(tmp_path: Path, link: str) -> None:
    cache.make_private(tmp_path / "cache" / "kernels" / "nfa")
    (tmp_path / "cache" / "kernels" / "nfa" / "x.nbi").touch()
    (tmp_path / link).rename(tmp_path / "moved")
    (tmp_path / link).symlink_to(tmp_path / "moved")
    assert cache.why_unsafe(tmp_path / "cache" / "kernels") == f"{tmp_path / link} is a link"


@owned
def test_what_a_link_further_up_leads_through_is_judged_too(tmp_path: Path) -> None:
    cache.make_private(tmp_path / "disk" / "shared" / "home")
    (tmp_path / "disk" / "next").symlink_to("shared/../shared/home")
    (tmp_path / "home").symlink_to(tmp_path / "disk" / "next")
    place = tmp_path / "home" / "cache" / "kernels"
    assert cache.why_unsafe(place) is None
    (tmp_path / "disk" / "shared").chmod(0o777)
    assert cache.why_unsafe(place) == f"others can write {tmp_path / 'disk' / 'shared'}"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert not cache._writable(tmp_path / "loop" / "a" / "b")


@owned
def test_an_unsafe_directory_is_left_with_one_warning(
    chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("CERISE_CACHE_DIR", str(tmp_path / "open" / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with pytest.warns(CeriseWarning, match=f"others can write {tmp_path / 'open'}") as caught:
        place = chosen()
    assert place is not None
    assert place.parent == tmp_path / "xdg" / "cerise"
    assert len(caught) == 1
    assert f"it is kept in {place.parent}" in str(caught[0].message)
    assert not (tmp_path / "open" / "mine").exists()


class Bomb:
    """What a stranger would put into a cache: it writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "boom")


@owned
@pytest.mark.skipif(not jit.COMPILED, reason="kernels are plain Python")
def test_what_a_stranger_has_put_there_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "kernels"
    cache.make_private(place)
    monkeypatch.setattr(cache, "directory", lambda: place)
    compiled = [jit.kernel(jit.int64(jit.int64))(_double) for _ in range(2)]
    assert [sum(each.stats.cache_hits.values()) for each in compiled] == [0, 1]  # type: ignore[attr-defined]
    (folder,) = place.iterdir()
    (index,) = folder.glob("*.nbi")
    index.write_bytes(pickle.dumps(Bomb(tmp_path / "boom")))
    folder.chmod(0o777)
    double = jit.kernel(jit.int64(jit.int64))(_double)
    assert double(21) == 42
    assert not (tmp_path / "boom").exists()
    assert sum(double.stats.cache_hits.values()) == 0  # type: ignore[attr-defined]


@pytest.mark.skipif(not jit.COMPILED, reason="kernels are plain Python")
def test_a_kernel_without_a_directory_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "directory", lambda: None)
    double = jit.kernel(jit.int64(jit.int64))(_double)
    assert double(21) == 42
    assert double.stats.cache_path is None  # type: ignore[attr-defined]


def _double(x: int) -> int:
    return 2 * x


# ---- the name of the directory


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, which a test may change."""
    copy = tmp_path / "cerise"
    shutil.copytree(cache.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def fingerprint(package: Path) -> Callable[[], str]:
    """The fingerprint of the copy."""
    return partial(cache._fingerprint.__wrapped__, package)


def test_a_copy_of_the_same_sources_has_the_same_name(fingerprint: Callable[[], str]) -> None:
    assert fingerprint() == cache._fingerprint()


@pytest.mark.parametrize(
    "source", ["kernels/values.py", "kernels/jit.py", "engines/nfa/step.py", "engines/automaton/layout.py"]
)
def test_a_change_of_any_kernel_source_changes_the_name(
    package: Path, fingerprint: Callable[[], str], source: str
) -> None:
    before = fingerprint()
    path = package / source
    path.write_text(path.read_text() + "\n# changed\n")
    assert fingerprint() != before


def test_a_new_source_changes_the_name_and_other_files_do_not(
    package: Path, fingerprint: Callable[[], str]
) -> None:
    before = fingerprint()
    (package / "errors.py").write_text("")
    (package / "kernels" / "notes.txt").write_text("")
    assert fingerprint() == before
    (package / "engines" / "nfa" / "another.py").write_text("")
    assert fingerprint() != before


def test_another_processor_or_numba_changes_the_name(
    fingerprint: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint()
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_cpu", lambda: "another")
        assert fingerprint() != before
    with monkeypatch.context() as patch:
        patch.setattr(cache, "version", lambda name: "99.0")
        assert fingerprint() != before
    assert fingerprint() == before


def test_all_folders_with_kernels_are_sources() -> None:
    """A cached kernel that calls a helper in another file keeps the old helper after an edit."""
    package = cache.PACKAGE
    with_kernels = {
        str(path.parent.relative_to(package))
        for path in package.rglob("*.py")
        if "@kernel(" in path.read_text() and path.name != "jit.py"
    }
    assert with_kernels <= set(cache.SOURCES)
