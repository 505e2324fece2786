"""SQL with MATCH_RECOGNIZE: find the clauses of a statement, parse them, bind them to their input."""

from cerise.lang.match_recognize.bind import bind_rows
from cerise.lang.match_recognize.columns import Host
from cerise.lang.match_recognize.statement import (
    Clause,
    Cut,
    Statement,
    mentions_match_recognize,
    parse_alone,
    parse_statement,
)

__all__ = [
    "Clause", "Cut", "Host", "Statement", "bind_rows", "mentions_match_recognize", "parse_alone",
    "parse_statement",
]  # fmt: skip
