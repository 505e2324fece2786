"""`cerise compile`: fill the cache of compiled engines, each part in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import typer

from cerise.errors import CeriseError, UnsupportedError, did_you_mean
from cerise.kernels import cache

# the modules whose import compiles a part; the slowest first, so that processes end together
PARTS = {
    "plans": ("cerise.plan.multi.walks",),
    "counting": ("cerise.engines.rcep.counting",),
    "automata": ("cerise.engines.nfa.backtrack",),
    "recomputation": ("cerise.engines.rcep.matcher",),
    "index": ("cerise.filters.event_reader", "cerise.kernels.pages.page_values", "cerise.store.index.block"),
    "filters": ("cerise.filters.dual.run_kernels", "cerise.filters.dual.window_kernels"),
    "joins": ("cerise.engines.tree.matcher",),
    "routing": ("cerise.plan.routes.route_index", "cerise.kernels.ranks"),
    "rows": ("cerise.engines.rows.search", "cerise.engines.rows.passes", "cerise.engines.results.computing"),
}
ShowStatus = Callable[[str], AbstractContextManager[None]]


def compile_parts(names: Sequence[str], show_status: ShowStatus) -> None:
    """Compile parts of the engines, as many at a time as there are cores; loading a compiled part is quick.

    Raises:
        UnsupportedError: a part has no such name.
        CeriseError: a part does not compile, or no folder can keep it.
    """
    for name in names:
        if name not in PARTS:
            raise UnsupportedError(f"the engines have no part '{name}'", hint=did_you_mean(name, PARTS))
    if cache.directory() is None:
        raise CeriseError(
            "no folder can keep compiled engines",
            hint="set CERISE_CACHE_DIR to a folder that only you can write",
        )
    begun = clock.perf_counter()
    message = f"compiling the engines, once on this machine: {', '.join(names)}"
    with show_status(message), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        kernels = sum(pool.map(_compile, names))
    seconds = clock.perf_counter() - begun
    done = f"compiled {kernels} kernels" if kernels else "all kernels were compiled before"
    typer.echo(f"Engines ready ({', '.join(names)}): {done}, {seconds:.0f} s.")


def _compile(name: str) -> int:
    """Import the modules of a part in a process of its own; return how many kernels it compiled."""
    code = f"import {', '.join(PARTS[name])}; from cerise.kernels.first_use import FIRST_USE"
    command = [sys.executable, "-c", f"{code}; print(FIRST_USE.compiled)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CeriseError(f"the engines do not compile ({name}):\n{done.stderr}")
    return int(done.stdout.split()[-1])
