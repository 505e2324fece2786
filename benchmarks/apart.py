"""Peers in environments of their own: made where a suite asks for it, and asked line by line.

An environment is a folder of benchmarks/.venvs, or of where CERISE_PEERS_DIR says. A program in it prepares,
then does its work once for each line that it is sent, and answers with a line of JSON: seconds and matches.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

VENVS = Path(__file__).resolve().parent / ".venvs"

Call = Callable[[], tuple[float, float | None, int]]


def home(peer: str) -> Path:
    """Return where the environment of a peer is, or would be."""
    return Path(os.environ.get("CERISE_PEERS_DIR") or VENVS) / peer


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return home(peer) / "bin/python"


def installed(peer: str, module: str) -> bool:
    """Whether the environment of a peer has a module."""
    return any(home(peer).glob(f"lib/python*/site-packages/{module}"))


def install(peer: str, *packages: str, module: str) -> None:
    """Make the environment of a peer with the packages, where it has not the module that they bring."""
    if installed(peer, module):
        return
    venv.create(home(peer), clear=True, with_pip=True)
    (home(peer) / ".gitignore").write_text("*\n")
    subprocess.run([python_of(peer), "-m", "pip", "install", "--quiet", *packages], check=True)


def why_not(peer: str, work: Mapping[str, Any], module: str) -> str | None:
    """Say that a peer is not there, where the work does not ask to install it."""
    if installed(peer, module) or work["options"].get("install"):
        return None
    return f"it is not installed: python benchmarks/peers/{peer}/adapter.py does that"


def version(peer: str) -> dict[str, str]:
    """Return the version of a peer, a package of the same name, as its environment tells."""
    code = f"import importlib.metadata; print(importlib.metadata.version({peer!r}))"
    done = subprocess.run([python_of(peer), "-c", code], capture_output=True, text=True, check=True)
    return {peer: done.stdout.strip()}


def ask(command: Sequence[object], **environment: str) -> Call:
    """Start a program, and return what asks it once more."""
    child = subprocess.Popen(
        list(map(str, command)), env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, bufsize=1,
    )  # fmt: skip

    def call() -> tuple[float, float | None, int]:
        assert child.stdin
        assert child.stdout
        child.stdin.write("\n")
        answer = child.stdout.readline()
        if not answer:
            raise SystemExit(f"{command[0]} has ended with code {child.wait()}")
        told = json.loads(answer)
        return told["seconds"], told.get("cpu_seconds"), told["matches"]

    return call
