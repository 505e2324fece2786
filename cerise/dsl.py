"""Queries in Python: every name that `docs/python.md` uses, in one place.

Example:
    >>> from cerise.dsl import count, many, seq, var
    >>> a, b = var("Stock", "a"), many(var("Stock", "b"))
    >>> print(seq(a, b).where(a.price < b.price).within("1 hour").totals(n=count()))
    PATTERN SEQ(Stock a, Stock+ b[])
    WHERE a.price < b.price
    WITHIN 1 hour
    RETURN COUNT(*) AS n
"""

from __future__ import annotations

from cerise.lang.builder import (
    Draft,
    Step,
    Term,
    Variable,
    aggregate,
    all_of,
    any_of,
    avg,
    call,
    count,
    i,
    largest,
    many,
    maybe,
    no,
    param,
    seq,
    smallest,
    stddev,
    total,
    var,
)

__all__ = [
    "Draft", "Step", "Term", "Variable", "aggregate", "all_of", "any_of", "avg", "call", "count", "i",
    "largest", "many", "maybe", "no", "param", "seq", "smallest", "stddev", "total", "var",
]  # fmt: skip
