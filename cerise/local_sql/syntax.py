"""Parses Spark's SQL into trees: sqlglot reads the text, and leaves functions as the user calls them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotError
from sqlglot.errors import TokenError

from cerise.errors import CeriseError, ParseError, Span
from cerise.lang.match_recognize.tokens import pair_brackets, read_words

SPARK = Dialect.get_or_raise("spark")
CACHED = 256
HINT = "is a comma or a closing parenthesis missing before it?"
_NAMES = frozenset(
    "ALTER CREATE DROP GLOB GRANT INSERT NOTNULL RETURNING REVOKE ROLLBACK UNCACHE XOR".split()
)
_PARSER: Any = SPARK.parser_class


class _Parser(_PARSER):  # type: ignore[misc]
    """Spark's parser without functions: the text says which function is meant, and with which arguments."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    STRICT_CAST: ClassVar[bool] = True
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(False),
        "EXTRACT": _PARSER.FUNCTION_PARSERS["EXTRACT"],
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: _PARSER.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }


@lru_cache(maxsize=CACHED)
def parse_query(sql: str) -> exp.Expression:
    """Parse a query; callers share the tree and do not change it.

    Raises:
        ParseError: the text is not SQL; the place is one in `sql`.
    """
    return _parse(sql, None)


@lru_cache(maxsize=4 * CACHED)
def parse_scalar(sql: str) -> exp.Expression:
    """Parse an expression, as `parse_query` does."""
    return _parse(sql, exp.Condition)


def _parse(sql: str, into: Any) -> exp.Expression:
    _check_brackets(sql)
    try:
        tokens = _read_tokens(sql)
        parser = _Parser(dialect=SPARK, error_message_context=len(sql))
        trees = parser.parse_into(into, tokens, sql) if into else parser.parse(tokens, sql)
    except (SqlglotError, TokenError) as error:
        raise _explain(error, sql) from None
    except RecursionError:
        raise ParseError("the statement nests too deeply") from None
    except CeriseError:
        raise
    except Exception as error:  # on keywords in odd places, sqlglot raises errors of any type
        raise ParseError("this is not SQL") from error
    found = [each for each in trees if each is not None]
    if len(found) != 1 or not isinstance(found[0], exp.Expression):
        raise ParseError("one statement is expected", hint="give statements one by one")
    return found[0]


def _read_tokens(sql: str) -> list[Token]:
    """Return the tokens of a text; words that only begin statements are names elsewhere."""
    found = SPARK.tokenize(sql)
    return [
        Token(TokenType.VAR, each.text, each.line, each.col, each.start, each.end, list(each.comments))
        if i and each.text.upper() in _NAMES and each.token_type is not TokenType.STRING
        else each
        for i, each in enumerate(found)
    ]


def _check_brackets(sql: str) -> None:
    words = read_words(sql)
    partners = pair_brackets(words)
    for number, word in enumerate(words):
        if word.kind == "mark" and word.text in "()[]" and number not in partners:
            closing = word.text in ")]"
            hint = "leave it out, or open it before" if closing else "close it"
            raise ParseError(f"'{word.text}' has no partner", span=word.span, hint=hint)


def _explain(error: Exception, sql: str) -> ParseError:
    found = error.errors[0] if isinstance(error, SqlglotError) and error.errors else None
    if not found:
        return ParseError("this is not SQL")
    highlight = str(found.get("highlight") or "")
    start = len(found.get("start_context") or "")
    if not highlight or not sql.startswith(highlight, start):
        return ParseError("this is not SQL")
    return ParseError(f"did not expect '{highlight}'", span=Span(start, start + len(highlight)), hint=HINT)


def place_of(node: exp.Expression) -> Span | None:
    """Return the place of a node in its text, from the positions of its leaves; None if no leaf has one."""
    places = [each.meta for each in node.walk() if "start" in each.meta]
    if not places:
        return None
    return Span(min(each["start"] for each in places), max(each["end"] for each in places) + 1)
