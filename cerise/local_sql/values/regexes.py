"""Regular expressions that Java, which Spark uses, and RE2, which DuckDB uses, read alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cerise.errors import BindError, Span
from cerise.local_sql.values.call_arguments import BOOL, TEXT, literal_number, literal_text
from cerise.local_sql.values.operators import as_text
from cerise.local_sql.values.typed_value import Typed, quote, refuse

Args = list[Typed]
_BEYOND = re.compile(r"\(\?(?!:|i\))|\\[1-9kGZbBpPXRuhHvVQE]|[*+?}]\+|&&|\[[^\]]*\[")
_OF_LINES = re.compile(r"(?<!\\)[.$]|\\[sSDWd]|\[\^")


def like_regex(value: Typed, pattern: Typed, span: Span | None) -> Typed:
    """Return `value RLIKE pattern`; the pattern is one that Java and RE2 read alike."""
    text, subject = check_regex(pattern, span), guard_lines(value, pattern, span)
    name = None if value.name is None or pattern.name is None else f"RLIKE({value.name}, {pattern.name})"
    return Typed(f"regexp_matches({subject}, {quote(text)})", BOOL, name)


def check_regex(pattern: Typed, span: Span | None) -> str:
    """Return a pattern that both read alike."""
    text = literal_text(pattern, "a pattern", span)
    if _BEYOND.search(text) or not text.isascii():
        raise refuse(f"the pattern {text!r}", pattern.span or span)
    try:
        re.compile(text)
    except re.error as error:
        raise BindError(f"the pattern {text!r} is wrong: {error}", span=pattern.span or span) from None
    return text


def guard_lines(value: Typed, pattern: Typed, span: Span | None) -> str:
    """Return a text; one of several lines is an error, where the two read the pattern differently."""
    sql = as_text(value, span).sql
    return f"_one_line({sql})" if _OF_LINES.search(pattern.text or "") else sql


def _rlike(args: Args, span: Span | None) -> Typed:
    value, pattern = args
    return like_regex(value, pattern, span)


def _regexp_replace(args: Args, span: Span | None) -> Typed:
    value, pattern, new = args
    made = literal_text(new, "a replacement", span)
    if "$" in made or "\\" in made or re.compile(check_regex(pattern, span)).match(""):
        raise refuse(f"the replacement {made!r}", span)
    text = check_regex(pattern, span)
    return Typed(f"regexp_replace({guard_lines(value, pattern, span)}, {quote(text)}, {new.sql}, 'g')", TEXT)


def _regexp_extract(args: Args, span: Span | None) -> Typed:
    value, pattern, *given = args
    text = check_regex(pattern, span)
    group = literal_number(given[0], "a group", span) if given else 1
    if not 0 <= group <= re.compile(text).groups:
        raise BindError(f"the pattern {text!r} has no group {group}", span=span)
    subject = guard_lines(value, pattern, span)
    return Typed(f"regexp_extract({subject}, {quote(text)}, {group})", TEXT)


REGEX_FUNCTIONS: Mapping[str, Callable[[Args, Span | None], Typed]] = {
    "regexp_like": _rlike, "rlike": _rlike, "regexp": _rlike, "regexp_replace": _regexp_replace,
    "regexp_extract": _regexp_extract,
}  # fmt: skip
