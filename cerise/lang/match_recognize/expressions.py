"""Parses the expressions of a clause into sqlglot trees whose leaves know their position in the statement.

Function names are marked, so that sqlglot knows none of them: FIRST and LAST take the arguments of row
patterns, and Spark gets its functions back as the user wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotError
from sqlglot.errors import TokenError

from cerise.errors import CeriseError, ParseError, Span
from cerise.lang.match_recognize.clause import ExprText
from cerise.lang.match_recognize.tokens import misspelt

Node = exp.Expression
CACHED = 1024  # parsed expressions that stay in memory
SPARK = Dialect.get_or_raise("spark")
SPARK_FUNCTIONS = frozenset(SPARK.parser_class.FUNCTIONS) | frozenset(
    """AES_DECRYPT AES_ENCRYPT ATAN2 BASE64 BIN BROUND CBRT CONV CRC32 E FACTORIAL FORMAT_NUMBER HASH HYPOT
    INPUT_FILE_NAME LUHN_CHECK MASK NANVL NEGATIVE PI PMOD POSITIVE RINT SIGNUM TRY_ADD TRY_DIVIDE
    TRY_MULTIPLY TRY_SUBTRACT TYPEOF UUID WIDTH_BUCKET XXHASH64""".split()
)
MARK = "f:"  # before the name of a function: f:RUNNING:name, f:FINAL:name or f::name
_SYNTAX = frozenset(
    """AND OR NOT IN EXISTS ANY ALL SOME BETWEEN LIKE ILIKE RLIKE REGEXP IS CASE WHEN THEN ELSE END FILTER
    WHERE OVER DISTINCT DIV AS ESCAPE INTERVAL CAST TRY_CAST EXTRACT TRIM SUBSTRING SUBSTR POSITION OVERLAY
    STRUCT DECIMAL DEC NUMERIC CHAR VARCHAR CHARACTER COLLATE BY WITHIN GROUP""".split()
)
_COLUMN = "c:"  # before a name that [ follows, lest sqlglot read list[0] as a list that holds 0
QUERY = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
_NOT_ONE = "this is not an expression"
_QUOTE = "if it is the name of a column, write it in backticks"
_PREFIXES = frozenset({"RUNNING", "FINAL"})


@lru_cache(maxsize=CACHED)
def parse_expression(piece: ExprText) -> Node:
    """Parse an expression; callers share the tree and do not change it.

    Raises:
        ParseError: with the position in the statement.
    """
    return parse_sql(piece.text, piece.span, piece)


def parse_sql(text: str, span: Span, piece: ExprText | None = None) -> Node:
    """Parse a span of a text as an expression."""
    try:
        tokens = list(_tokens(SPARK.tokenize(text[span.start : span.end]), text, span.start))
        parser = SPARK.parser(error_message_context=len(text))
        tree = parser.parse_into(exp.Condition, tokens, text)[0]
    except (SqlglotError, TokenError) as error:
        near = misspelt(piece.words) if piece else None
        raise near or _explain(error, span) from None
    except RecursionError:
        raise ParseError("the expression nests too deeply", span=span) from None
    except CeriseError:
        raise
    except Exception as error:  # on keywords in odd places, sqlglot raises errors of any type
        near = misspelt(piece.words) if piece else None
        raise near or ParseError(_NOT_ONE, span=span, hint=_QUOTE) from error
    if not isinstance(tree, Node) or tree.find(exp.Command):
        raise ParseError(_NOT_ONE, span=span, hint=_QUOTE)
    for name in tree.find_all(exp.Identifier):
        name.set("this", name.this.removeprefix(_COLUMN))
    return tree


def _explain(error: Exception, span: Span) -> ParseError:
    found = error.errors[0] if isinstance(error, SqlglotError) and error.errors else None
    if not found:
        return ParseError(_NOT_ONE, span=span)
    start = len(found.get("start_context") or "")
    highlight = str(found.get("highlight") or "")
    if not span.start <= start < span.end:
        return ParseError(_NOT_ONE, span=span)
    return ParseError(
        f"did not expect '{highlight}'" if highlight else _NOT_ONE,
        span=Span(start, start + max(1, len(highlight))),
        hint=_QUOTE if highlight.isidentifier() else None,
    )


# ---- tokens


def _tokens(found: Sequence[Token], text: str, base: int) -> Iterator[Token]:
    """Yield tokens with their positions in the statement, functions under their marked names."""
    prefix, closings = "", 0
    for i, token in enumerate(found):
        key = _key(token)
        if closings:  # inside a subquery, which stays as it is
            closings += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            yield _move(token, base)
        elif key in _PREFIXES and _is_prefix(found, i, base):
            prefix = key
        elif prefix or (_calls(found, i) and key and key not in _SYNTAX):
            yield _move(token, base, f"{MARK}{prefix}:{token.text}", TokenType.VAR)
            prefix = ""
        elif _type_at(found, i + 1) is TokenType.L_BRACKET and (
            key or token.token_type is TokenType.IDENTIFIER
        ):
            yield _move(token, base, f"{_COLUMN}{token.text}", TokenType.IDENTIFIER)
        elif text[base + token.start] == '"' and _is_name(found, i):
            yield _move(token, base, kind=TokenType.IDENTIFIER)
        else:
            yield _move(token, base)
            closings = int(token.token_type is TokenType.L_PAREN and _key_at(found, i + 1) in QUERY)


def _move(token: Token, base: int, text: str | None = None, kind: TokenType | None = None) -> Token:
    return Token(
        kind or token.token_type, text or token.text, token.line, token.col, base + token.start,
        base + token.end, None,
    )  # fmt: skip


def _key(token: Token) -> str:
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER):
        return ""
    return token.text.upper() if token.text[:1].isalpha() or token.text[:1] == "_" else ""


def _key_at(found: Sequence[Token], i: int) -> str:
    return _key(found[i]) if 0 <= i < len(found) else ""


def _type_at(found: Sequence[Token], i: int) -> TokenType | None:
    return found[i].token_type if 0 <= i < len(found) else None


def _calls(found: Sequence[Token], i: int) -> bool:
    """Whether a word is the name of a function; `db.f(x)` stays as it is, for Spark."""
    return _type_at(found, i + 1) is TokenType.L_PAREN and _type_at(found, i - 1) is not TokenType.DOT


def _is_prefix(found: Sequence[Token], i: int, base: int) -> bool:
    """Whether RUNNING or FINAL is the prefix of a call, and not a column."""
    after = _key_at(found, i + 1)
    if not after or after in _SYNTAX or _type_at(found, i - 1) is TokenType.DOT:
        return False
    if _type_at(found, i + 2) is TokenType.L_PAREN:
        return True
    if _type_at(found, i + 2) is TokenType.DOT:
        raise ParseError(
            f"{found[i].text} stands before no FIRST, LAST or aggregate",
            span=Span(base + found[i].start, base + found[i].end + 1),
            hint=f"write {found[i].text} LAST({found[i + 1].text}.…)",
        )
    return False


def _is_name(found: Sequence[Token], i: int) -> bool:
    """Whether a text in double quotes is a name: beside a dot, or the argument of CLASSIFIER."""
    near = (_type_at(found, i - 1), _type_at(found, i + 1))
    alone = near == (TokenType.L_PAREN, TokenType.R_PAREN) and _key_at(found, i - 2) == "CLASSIFIER"
    return found[i].token_type is TokenType.STRING and (TokenType.DOT in near or alone)
