"""`cerise compile`, and the line that tells of kernels that are compiled."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cerise.cli.compile import PARTS
from cerise.cli.main import app
from cerise.kernels.first_use import FirstUse

PACKAGE = Path(__file__).parents[2] / "cerise"


def test_every_kernel_belongs_to_a_part() -> None:
    """Each module with a kernel of its own signature is imported by the modules of a part."""
    owners = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if any(line.startswith(("@kernel(", "@jit.kernel(")) and "()" not in line for line in path.open())
    }
    assert len(owners) > 15
    code = f"import sys, {', '.join(name for part in PARTS.values() for name in part)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert owners <= set(done.stdout.split())


def test_a_part_is_compiled_and_an_unknown_one_refused() -> None:
    done = CliRunner().invoke(app, ["compile", "rows"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("Engines ready (rows): ")
    wrong = CliRunner().invoke(app, ["compile", "row"])
    assert wrong.exit_code == 1
    assert "did you mean 'rows'" in wrong.output


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    told = FirstUse()
    told.end()
    assert terminal.getvalue() == ""
    told.compiling()
    told.compiling()
    told.end()
    told.end()
    lines = terminal.getvalue().split("\r")
    assert lines[2].startswith("compiling engines, once on this machine: 2 kernels, 0 s")
    assert lines[-1] == "compiled 2 kernels in 0 s, once on this machine\x1b[K\n"
    assert terminal.getvalue().count("\n") == 1
    told.compiling()  # of another engine, later
    told.end()
    assert terminal.getvalue().split("\r")[-1].startswith("compiled 1 kernel in 0 s")
    assert told.compiled == 3


def test_a_file_gets_no_line_and_a_spinner_shows_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told, shown = FirstUse(), []
    told.compiling()
    with told.shown_by(shown.append):
        told.compiling()
    told.compiling()
    told.end()
    assert shown == ["compiling engines, once on this machine: 2 kernels, 0 s"]
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
