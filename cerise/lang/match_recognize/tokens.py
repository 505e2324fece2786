"""The words of an SQL text with their positions, by which clauses are cut out without parsing the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cerise.errors import CeriseError, ParseError, Span, closest
from cerise.lang.sase.expressions import Name

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = {closing: opening for opening, closing in OPEN.items()}
CLAUSE_WORDS = (
    "PARTITION", "ORDER", "MEASURES", "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "AFTER", "MATCH", "SKIP",
    "PATTERN", "WITHIN", "SUBSET", "DEFINE",
)  # fmt: skip

# Spark's lexer: strings escape ' by \' and '', raw strings escape nothing; names stand in backticks.
_LEXER = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<comment>/\*)
      | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*')
      | (?P<quoted>"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)
      | (?P<word>\w+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_UNCLOSED = {"'": "string", '"': "name", "`": "name"}


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a number, a quoted name, a string or a mark; `key` is its text to compare with keywords."""

    kind: str
    text: str
    start: int
    key: str

    @property
    def end(self) -> int:
        """The position after the word."""
        return self.start + len(self.text)

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


Words = tuple[Word, ...]


def read_words(text: str) -> Words:
    """Return the words of a text, without comments.

    Raises:
        ParseError: a string, a name or a comment is not closed.
    """
    found, position = [], 0
    while match := _LEXER.match(text, position):
        kind, piece = str(match.lastgroup), match.group()
        if kind == "comment":
            position = _end_of_comment(text, position)
            continue
        if kind == "mark" and piece in _UNCLOSED:
            raise _open_error(_UNCLOSED[piece], piece, position, text)
        if kind != "space":
            key = piece.upper() if kind == "word" else piece if kind == "mark" else ""
            found.append(Word(kind, piece, position, key))
        position = match.end()
    return tuple(found)


def _end_of_comment(text: str, start: int) -> int:
    """Return the position after a comment; in Spark, comments nest."""
    depth = 0
    for match in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return start + match.end()
    raise _open_error("comment", "*/", start, text)


def _open_error(what: str, closing: str, start: int, text: str) -> ParseError:
    position = Span(start, len(text))
    return ParseError(f"the {what} is not closed", span=position, text=text, hint=f"close it with {closing}")


def pair_brackets(words: Words) -> dict[int, int]:
    """Return the closing bracket of each opening bracket, and the opening of each closing one."""
    partners: dict[int, int] = {}
    waiting: dict[str, list[int]] = {opening: [] for opening in OPEN}
    for i, word in enumerate(words):
        if word.key in OPEN:
            waiting[word.key].append(i)
        elif word.key in CLOSE and waiting[CLOSE[word.key]]:
            opening = waiting[CLOSE[word.key]].pop()
            partners[opening], partners[i] = i, opening
    return partners


def outside_brackets(words: Words) -> Iterator[int]:
    """Yield the numbers of the words outside brackets, and of the outermost brackets."""
    partners = pair_brackets(words)
    i = 0
    while i < len(words):
        yield i
        i = partners[i] if words[i].key in OPEN and i in partners else i + 1


def split_at_commas(words: Words) -> list[Words]:
    """Split words at the commas outside brackets."""
    commas = [i for i in outside_brackets(words) if words[i].key == ","]
    starts = [0, *(i + 1 for i in commas)]
    return [words[start:end] for start, end in zip(starts, [*commas, len(words)], strict=True)]


def span_of_words(words: Words) -> Span:
    """Return the span from the first to the last word."""
    return Span(words[0].start, words[-1].end)


def name_of(word: Word) -> Name | None:
    """Return a word as a name; None if it is not a word or a quoted name."""
    if word.kind == "quoted":
        mark = word.text[0]
        return Name(word.text[1:-1].replace(mark * 2, mark), True, word.span)
    if word.kind == "word" and not word.text[0].isdigit():
        return Name(word.text, False, word.span)
    return None


def fold(name: Name) -> str:
    """Return the variable that a name means: upper case unless quoted (M22)."""
    return name.text if name.quoted else name.text.upper()


def misspelt(words: Words) -> ParseError | None:
    """Return the error for the first word that looks like a misspelt keyword; None if none does."""
    for i in outside_brackets(words):
        word = words[i]
        meant = closest(word.text, CLAUSE_WORDS) if word.kind == "word" and len(word.text) > 3 else None
        if meant is not None and word.key not in CLAUSE_WORDS:
            return ParseError(
                f"did not expect '{word.text}'", span=word.span, hint=f"did you mean '{meant}'?"
            )
    return None


def add_span(error: CeriseError, span: Span) -> CeriseError:
    """Return an error with a position if it has none yet."""
    if error.span is not None:
        return error
    return type(error)(error.problem, span=span, text=error.text, hint=error.hint)


@contextmanager
def locate_errors(span: Span) -> Iterator[None]:
    """Add the position of an expression to errors that have none."""
    try:
        yield
    except CeriseError as error:
        raise add_span(error, span) from None


class WordReader:
    """Reads words one after another; its errors point at the next word."""

    def __init__(self, words: Words, end: int) -> None:
        self.words = words
        self.position = 0
        self.end = end  # the position after the last word

    @property
    def rest(self) -> Words:
        return self.words[self.position :]

    def take(self, *keys: str) -> bool:
        found = tuple(word.key for word in self.rest[: len(keys)]) == keys
        self.position += len(keys) if found else 0
        return found

    def name(self, what: str) -> Name:
        found = name_of(self.rest[0]) if self.rest else None
        if found is None:
            raise self.error(f"expected {what}")
        self.position += 1
        return found

    def error(self, expected: str, hint: str | None = None) -> ParseError:
        """Return the error that the next word is not the expected one."""
        if not self.rest:
            return ParseError(expected, span=Span(self.end - 1, self.end), hint=hint)
        word = self.rest[0]
        near = misspelt((word,))
        return ParseError(
            f"did not expect '{word.text}': {expected}", span=word.span, hint=near.hint if near else hint
        )
