"""The expressions of a clause as sqlglot trees whose leaves know their place in the statement.

Every function is read as one that sqlglot does not know: so FIRST and LAST take what row patterns give
them, and functions of Spark go back to Spark as they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotError
from sqlglot.errors import TokenError

from cerise.errors import CeriseError, ParseError, Span
from cerise.lang.match_recognize_clause import Piece
from cerise.lang.match_recognize_words import misspelt, pair_brackets, read_words

Node = exp.Expression
SPARK = Dialect.get_or_raise("spark")
SPARK_FUNCTIONS = frozenset(SPARK.parser_class.FUNCTIONS) | frozenset(
    """AES_DECRYPT AES_ENCRYPT ATAN2 BASE64 BIN BROUND CBRT CONV CRC32 E FACTORIAL FORMAT_NUMBER HASH HYPOT
    INPUT_FILE_NAME LUHN_CHECK MASK NANVL NEGATIVE PI PMOD POSITIVE RINT SIGNUM TRY_ADD TRY_DIVIDE
    TRY_MULTIPLY TRY_SUBTRACT TYPEOF UUID WIDTH_BUCKET XXHASH64""".split()
)
_MARK = "f:"  # how the name of a function starts: then RUNNING, FINAL or nothing, and its name
_SYNTAX = frozenset(
    """AND OR NOT IN EXISTS ANY ALL SOME BETWEEN LIKE ILIKE RLIKE REGEXP IS CASE WHEN THEN ELSE END FILTER
    WHERE OVER DISTINCT DIV AS ESCAPE INTERVAL CAST TRY_CAST EXTRACT TRIM SUBSTRING SUBSTR POSITION OVERLAY
    STRUCT DECIMAL DEC NUMERIC CHAR VARCHAR CHARACTER COLLATE BY WITHIN GROUP""".split()
)
_COLUMN = "c:"  # how a name before [ starts, lest sqlglot take list[0] for a list of 0
_QUERY = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
_QUOTE = "if it is the name of a column, write it in backticks"
_PREFIXES = frozenset({"RUNNING", "FINAL"})


@dataclass(frozen=True, slots=True)
class Function:
    """A call in the text: its name in lower case, and RUNNING, FINAL or nothing before it."""

    name: str
    prefix: str
    args: tuple[Node, ...]


def parse_expression(piece: Piece) -> Node:
    """Parse an expression.

    Raises:
        ParseError: with the place in the statement.
    """
    return parse_sql(piece.text, piece.span, piece)


def parse_sql(text: str, span: Span, piece: Piece | None = None) -> Node:
    """Parse a stretch of a text as an expression."""
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
    except Exception as error:  # sqlglot stumbles over words in odd places, by errors of any kind
        near = misspelt(piece.words) if piece else None
        raise near or ParseError("this is not an expression", span=span, hint=_QUOTE) from error
    if not isinstance(tree, Node) or tree.find(exp.Command):
        raise ParseError("this is no expression", span=span, hint=_QUOTE)
    for name in tree.find_all(exp.Identifier):
        name.set("this", name.this.removeprefix(_COLUMN))
    return tree


def _explain(error: Exception, span: Span) -> ParseError:
    found = error.errors[0] if isinstance(error, SqlglotError) and error.errors else None
    if not found:
        return ParseError("this is no expression", span=span)
    start = len(found.get("start_context") or "")
    highlight = str(found.get("highlight") or "")
    if not span.start <= start < span.end:
        return ParseError("this is no expression", span=span)
    return ParseError(
        f"did not expect '{highlight}'" if highlight else "this is no expression",
        span=Span(start, start + max(1, len(highlight))),
        hint=_QUOTE if highlight.isidentifier() else None,
    )


# ---- tokens


def _tokens(found: Sequence[Token], text: str, base: int) -> Iterator[Token]:
    """Yield tokens with their place in the statement, functions by their marked names."""
    prefix, closings = "", 0
    for i, token in enumerate(found):
        key = _key(token)
        if closings:  # a subquery is Spark's
            closings += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            yield _moved(token, base)
        elif key in _PREFIXES and _is_prefix(found, i, base):
            prefix = key
        elif prefix or (_calls(found, i) and key and key not in _SYNTAX):
            yield _moved(token, base, f"{_MARK}{prefix}:{token.text}", TokenType.VAR)
            prefix = ""
        elif _type_at(found, i + 1) is TokenType.L_BRACKET and (
            key or token.token_type is TokenType.IDENTIFIER
        ):
            yield _moved(token, base, f"{_COLUMN}{token.text}", TokenType.IDENTIFIER)
        elif text[base + token.start] == '"' and _is_name(found, i):
            yield _moved(token, base, kind=TokenType.IDENTIFIER)
        else:
            yield _moved(token, base)
            closings = int(token.token_type is TokenType.L_PAREN and _key_at(found, i + 1) in _QUERY)


def _moved(token: Token, base: int, text: str | None = None, kind: TokenType | None = None) -> Token:
    return Token(
        kind or token.token_type, text or token.text, token.line, token.col, base + token.start,
        base + token.end, None,
    )  # fmt: skip


def _key(token: Token) -> str:
    """Return a word in upper case, nothing for what is no word."""
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER):
        return ""
    return token.text.upper() if token.text[:1].isalpha() or token.text[:1] == "_" else ""


def _key_at(found: Sequence[Token], i: int) -> str:
    return _key(found[i]) if 0 <= i < len(found) else ""


def _type_at(found: Sequence[Token], i: int) -> TokenType | None:
    return found[i].token_type if 0 <= i < len(found) else None


def _calls(found: Sequence[Token], i: int) -> bool:
    """Whether a word is the name of a function; `db.f(x)` is one of Spark's."""
    return _type_at(found, i + 1) is TokenType.L_PAREN and _type_at(found, i - 1) is not TokenType.DOT


def _is_prefix(found: Sequence[Token], i: int, base: int) -> bool:
    """Whether RUNNING or FINAL stands before a call, and is no column."""
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
    """Whether a text in double quotes is the name of a variable or column: a dot stands beside it."""
    near = (_type_at(found, i - 1), _type_at(found, i + 1))
    alone = near == (TokenType.L_PAREN, TokenType.R_PAREN) and _key_at(found, i - 2) == "CLASSIFIER"
    return found[i].token_type is TokenType.STRING and (TokenType.DOT in near or alone)


# ---- trees


def function_of(node: Node) -> Function | None:
    """Return a call, unless it belongs to a subquery or is no call."""
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.startswith(_MARK):
        _, prefix, name = node.this.split(":", 2)
        return Function(name.lower(), prefix, tuple(node.expressions))
    return None


def path_of(node: Node) -> tuple[exp.Identifier, ...] | None:
    """Return the names of a column, as in A.column.field."""
    if isinstance(node, exp.Column):
        parts = tuple(part for part in node.parts if isinstance(part, exp.Identifier))
        return parts if len(parts) == len(node.parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        inner = path_of(node.this)
        return (*inner, node.expression) if inner else None
    return None


def query_text(node: Node, text: str) -> str:
    """Return a subquery as it was written, for nothing in it is ours."""
    place, words = span_of(node, text), read_words(text)
    around = [
        (words[i].end, words[j].start)
        for i, j in pair_brackets(words).items()
        if place and words[i].end <= place.start and place.end - 1 <= words[j].start and i < j
        if words[i + 1].key in _QUERY
    ]
    if not around:
        return node.sql("spark")  # it names nothing that has a place
    start, end = max(around)
    return f"({text[start:end]})" if isinstance(node, exp.Subquery) else text[start:end]


def is_query(node: Node) -> bool:
    """Whether a node is a subquery, whose names are its own."""
    return isinstance(node, exp.Query | exp.Subquery)


def is_constant(tree: Node) -> bool:
    """Whether an expression is a string, a number or another literal."""
    return isinstance(tree, exp.Literal | exp.Boolean | exp.Null)


def inside(node: Node) -> Iterator[Node]:
    """Yield a node and all in it, parents first; not what is inside columns, subqueries and CLASSIFIER."""
    yield node
    function = function_of(node)
    names_variable = function is not None and function.name == "classifier"
    if path_of(node) is None and not is_query(node) and not names_variable:
        for child in node.iter_expressions():
            yield from inside(child)


def span_of(node: Node, text: str) -> Span | None:
    """Return the place of a node, as far as its leaves tell."""
    places = [each.meta for each in node.walk() if "start" in each.meta]
    if not places:
        return None
    start, end = min(each["start"] for each in places), max(each["end"] for each in places) + 1
    end += 2 if text.startswith("()", end) else 0
    while text.count("(", start, end) > text.count(")", start, end) and text[end : end + 1] in (
        ")",
        " ",
        "\n",
    ):
        end += 1
    return Span(start, end)


def render(node: Node, text: str, change: Callable[[Node], Node | None]) -> str:
    """Return a tree as Spark SQL, with some nodes changed, functions and subqueries as they were written."""
    root = exp.Paren(this=node.copy())
    _change(root.this, text, change)
    for call in root.find_all(exp.Anonymous):
        if function_of(call) is not None:
            call.set("this", call.this.split(":", 2)[2])
    return str(root.this.sql("spark", comments=False, normalize_functions=False))


def _change(node: Node, text: str, change: Callable[[Node], Node | None]) -> None:
    new = change(node)
    if new is None and is_query(node):
        new = exp.Var(this=query_text(node, text))
    if new is not None:
        node.replace(new)
        return
    for child in list(node.iter_expressions()):
        _change(child, text, change)


def call(name: str, *args: Node, prefix: str = "") -> Node:
    """Return a call of a function."""
    return exp.Anonymous(this=f"{_MARK}{prefix}:{name}", expressions=list(args))


def column(*names: str) -> Node:
    """Return a column, or a field of one, in backticks."""
    found: Node = exp.Column(this=exp.to_identifier(names[0], quoted=True))
    for name in names[1:]:
        found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    return found
