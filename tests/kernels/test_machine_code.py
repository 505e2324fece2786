"""Machine code computes what the Python it is made from computes, and that is what the law says."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import inspect
import itertools
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.match_ids import match_ids
from cerise.events import EventBatch
from cerise.kernels import jit, machine_code, values
from cerise.kinds import Kind
from cerise.pattern import values as law
from cerise.pattern.bind import bind
from tests.support.strategies.pairs import QUERY, Pair, most_events
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, shape_of, table_of
from tests.tiers import AT_LENGTH

ROOT = Path(__file__).parents[2]
NFA = tuple(name for name in ENGINES if name.startswith("nfa"))
PAIRS = 300 if AT_LENGTH else 60
C_TYPES: dict[str, Any] = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_int64}


# ---- whole queries


def pair_of(seed: int) -> Pair:
    """A random query with a random stream."""
    rng = random.Random(seed)
    dice = Dice(rng.randbytes(QUERY))
    shape = shape_of(dice)
    query = query_of(dice, shape, returns=False)
    size = most_events(query)
    table = table_of(Dice(rng.randbytes(ROW * size)), shape, size)
    return Pair(query, shape.schema, table, {name: PARAMS[name] for name in params_of(query)})


def answer(seed: int) -> str:
    """What the engines say about a pair: their matches and what they counted, as a digest."""
    pair = pair_of(seed)
    bound = bind(pair.query, pair.schema, pair.params)
    said: list[Any] = []
    for engine in NFA:
        if ENGINES[engine].why_not(bound) is None:
            matcher = ENGINES[engine].start(bound, Options())
            events = EventBatch.of(pair.table, bound.schema, reads=bound.ties)
            parts = chain(matcher.feed(events), matcher.flush())
            ids = sorted(chain.from_iterable(match_ids(each, bound).to_pylist() for each in parts))
            counted = dataclasses.replace(matcher.report, matching_seconds=0.0, construction_seconds=0.0)
            said.append((engine, ids, dataclasses.astuple(counted)))
    return hashlib.blake2b(repr(said).encode(), digest_size=8).hexdigest()


def answers() -> list[str]:
    return [answer(seed) for seed in range(PAIRS)]


def test_compiled_and_interpreted_queries_give_the_same_answers() -> None:
    script = "import json; from tests.kernels.test_machine_code import answers; print(json.dumps(answers()))"
    env = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1" if jit.COMPILED else "0"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wrong = [
        s
        for s, (one, other) in enumerate(zip(answers(), json.loads(done.stdout), strict=True))
        if one != other
    ]
    assert not wrong, f"pairs of seeds {wrong}\n{pair_of(wrong[0])!r}"


# ---- single functions

INTS = (
    0, 1, -1, 2, -2, 3, 7, -7, 10, 2**31, -(2**31), 2**32, 2**32 - 1, -(2**32), 3037000499, 3037000500,
    2**53 + 1, 2**62, -(2**62), 2**62 + 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1,
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-320, 5e-324, 1e16, 2.0**53, 2.0**63, -(2.0**63), 2.0**63 - 1024,
    1e300, -1e300, 709.0, 710.0, -746.0, math.inf, -math.inf, math.nan,
)  # fmt: skip


def faults(function: Callable[..., Any], *args: Any) -> bool:
    try:
        function(*args)
    except law.Fault:
        return True
    return False


def _exact(high: int, low: int) -> int:
    return high * 2**32 + low


def _mix(x: int, factor: int) -> int:
    z = (x + 1) % 2**32 * factor
    for multiplier in (668265263, 374761393):
        z = sum(reversed(divmod(z, 2**31))) * multiplier
    return z // 2**16


def _less(x: float, y: float) -> bool:
    return bool(law.rank(x) < law.rank(y))


LAWS: dict[str, Callable[..., Any]] = {
    "add_faults": lambda x, y: faults(law.INT_ARITHMETIC["+"], x, y),
    "subtract_faults": lambda x, y: faults(law.INT_ARITHMETIC["-"], x, y),
    "multiply_faults": lambda x, y: faults(law.INT_ARITHMETIC["*"], x, y),
    "negate_faults": lambda x: faults(law.fit, -x),
    "remainder_int": law.remainder,
    "equal": lambda x, y: law.rank(x) == law.rank(y),
    "less": _less,
    "remainder_float": law.remainder,
    "whole_faults": lambda x: faults(law.cast, x, Kind.INT),
    "exponential": law.STRICT_FUNCTIONS["exp"],
    "power": law.STRICT_FUNCTIONS["pow"],
    "square_root": law.STRICT_FUNCTIONS["sqrt"],
    "logarithm": law.STRICT_FUNCTIONS["ln"],
    "sum_faults": lambda high, low: faults(law.fit, _exact(high, low)),
    "sum_value": _exact,
    "mix": _mix,
}
HALVES = ((0, 2**31, -(2**31), 2**31 - 1, -(2**31) - 1, 5, -5, 2**40), (0, 1, 2**32 - 1, 2**32, 2**40, 2**62))
ASKED: dict[str, Callable[..., bool]] = {  # what the generated code asks before it calls
    "remainder_int": lambda x, y: y != 0,
    "remainder_float": lambda x, y: y != 0,
    "logarithm": lambda x: x > 0 or x != x,
    "mix": lambda x, factor: 0 < factor < 2**30,
    "sum_value": lambda high, low: -(2**63) <= _exact(high, low) < 2**63,
}
ROUNDED = {"exponential", "power", "logarithm"}  # the last bit is the C library's affair


def arguments(name: str) -> list[tuple[Any, ...]]:
    """All the edges that a function may be asked for."""
    if name.startswith("sum_"):
        ways = list(itertools.product(*HALVES))
    else:
        kinds = [each.annotation for each in signature(name).parameters.values()]
        ways = list(itertools.product(*(INTS if kind == "int" else FLOATS for kind in kinds)))
    return [way for way in ways if name not in ASKED or ASKED[name](*way)]


def plain(name: str) -> Callable[..., Any]:
    """A function of `kernels.values` as it runs where nothing is compiled."""
    function = getattr(values, name)
    return getattr(function, "py_func", function)  # type: ignore[no-any-return]


def signature(name: str) -> inspect.Signature:
    return inspect.signature(plain(name))


def as_machine_code(name: str) -> Callable[..., Any]:
    """A function of `kernels.values`, called by a function that was compiled."""
    here = signature(name)
    kinds = [each.annotation for each in here.parameters.values()]
    names = "xyz"[: len(kinds)]
    given = ", ".join(f"{each}: {kind}" for each, kind in zip(names, kinds, strict=True))
    result = here.return_annotation
    head = f"def outer({given}) -> {'int' if result == 'bool' else result}:"
    source = f"{head}\n    return {name}({', '.join(names)})\n"
    code = machine_code.compile_source(source, values)
    called = ctypes.CFUNCTYPE(C_TYPES[result], *(C_TYPES[kind] for kind in kinds))(code.addresses["outer"])
    return lambda *args: (called(*args), code)[0]


def same(name: str, one: Any, other: Any) -> bool:
    if isinstance(other, float):
        close = math.isclose(one, other, rel_tol=3e-16) if name in ROUNDED else one == other
        return (math.isnan(one) and math.isnan(other)) or (
            close and math.copysign(1, one) == math.copysign(1, other)
        )
    return bool(one == other)


def test_every_function_has_a_law() -> None:
    functions = {
        name for name, value in vars(values).items() if getattr(value, "__module__", "") == values.__name__
    }
    assert set(LAWS) == functions


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("how", ["called", "as machine code"])
def test_a_function_computes_what_the_law_says(name: str, how: str) -> None:
    function = plain(name) if how == "called" else as_machine_code(name)
    ways = arguments(name)
    assert ways
    with np.errstate(all="ignore"):
        answers = [(way, function(*way), LAWS[name](*way)) for way in ways]
    assert not [each for each in answers if not same(name, *each[1:])]


# ---- the language


def compiled(body: str, given: str = "x: int, y: int", result: str = "int") -> Callable[..., Any]:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    code = machine_code.compile_source(f"def f({given}) -> {result}:\n{lines}\n", values)
    kinds = [C_TYPES[each.split(": ")[1]] for each in given.split(", ")]
    called = ctypes.CFUNCTYPE(C_TYPES[result], *kinds)(code.addresses["f"])
    return lambda *args: (called(*args), code)[0]


BODIES = (
    "return x // y", "return x % y", "return x + y * 3 - 1", "return (x & 255) | (y & 3)", "return x >> 3",
    "return -x if x < y else abs(y)", "return max(x, y)", "return 1 if 0 < x <= y else 0",
    "return int(x == y) + 2 * (x != y)",
    "z = 0\nfor i in range(5):\n    z += i * y\n    if z > x:\n        return z\nreturn -z",
    "z = 0\nwhile z * z < 50:\n    z += 1\nreturn z + y",
    "z = 1\nif x > y:\n    z = 2\nelse:\n    if x == y:\n        z = 3\nreturn z",
    "return 1 if (x > 0 and y > 0) or not x else 0",
    "z = x\nz -= y\nz *= 2\nreturn z", "return int(float(x) / 4.0)",
)  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_statements_mean_what_they_mean_in_python(body: str) -> None:
    names: dict[str, Any] = {}
    exec("def f(x, y):\n" + "\n".join(f"    {line}" for line in body.splitlines()), names)
    function = compiled(body)
    for x, y in itertools.product((-100, -9, -1, 0, 1, 4, 9, 77, 10**12), (-7, -2, -1, 1, 2, 5, 10**6)):
        assert function(x, y) == names["f"](x, y), (x, y)


@pytest.mark.parametrize("op", ["<", "<=", "==", "!=", ">", ">="])
def test_doubles_compare_as_in_python(op: str) -> None:
    function = compiled(f"return 1 if x {op} y else 0", "x: float, y: float")
    for x, y in itertools.product(FLOATS, repeat=2):
        assert function(x, y) == int(eval(f"x {op} y"))


@pytest.mark.parametrize("op", ["<", "<=", "==", "!=", ">", ">="])
def test_truths_compare_as_in_python(op: str) -> None:
    function = compiled(f"return 1 if (x > 0) {op} (y > 0) else 0")
    for x, y in itertools.product((0, 1), repeat=2):
        assert function(x, y) == int(eval(f"(x > 0) {op} (y > 0)"))


def test_a_truth_is_a_number_where_numbers_are_added() -> None:
    assert compiled("return (x > 0) + 2 * (y > 0)")(1, 1) == 3


@pytest.mark.parametrize(
    "body",
    [
        "return x ** y", "return x << y", "return x ^ y", "return ~x", "return +x", "return [x]",
        "return 'x'",
        "z = [x, y]\nreturn z[0]", "x, y = y, x\nreturn x", "z: int = 3\nreturn z", "return (lambda: x)()",
        "for i in range(1, 5):\n    x += i\nreturn x", "for i in (1, 2):\n    x += i\nreturn x",
        "while True:\n    break\nreturn x", "for i in range(3):\n    continue\nreturn x",
        "with x:\n    return y", "try:\n    return x\nexcept ValueError:\n    return y", "assert x\nreturn y",
        "raise ValueError", "del x\nreturn y", "return x.real", "return f'{x}'",
        "z = 0.5\nz = z\nx = z\nreturn x",
        "return 1.5 % 1.0", "return 1.5 // 1.0", "return (y := x)", "import math\nreturn x",
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_is_an_error(body: str) -> None:
    with pytest.raises(NotImplementedError):
        compiled(body)


@pytest.mark.parametrize(
    "body",
    [
        "return unknown(x)", "return unknown", "return min(x, y)", "return 1 if x in y else 0",
        "return 1 if x is y else 0", "return math.sin(1.0)", "return math.unknown",
        "while x > 0:\n    x -= 1\nelse:\n    x = 7\nreturn x",
        "for i in range(3):\n    y += 1\nelse:\n    x = 7\nreturn x", "return max(x, y, key=abs)",
    ],
)  # fmt: skip
def test_unknown_names_and_clauses_are_errors_of_the_same_kind(body: str) -> None:
    with pytest.raises(NotImplementedError):
        compiled(body)
