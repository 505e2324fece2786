"""The prompt of `cerise sql`: statements end with ;, mistakes are told, and the prompt goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import typer

from cerise.cli.output import Wanted
from cerise.cli.sql import SqlSession, show, statements
from cerise.cli.terminal import complain
from cerise.errors import BindError, CeriseError, did_you_mean

FIRST, MORE = "cerise> ", "     -> "
KEPT = 1_000  # lines of history
BETWEEN = " \t\n,;()=<>+-*/|.{}'\""  # what ends a word to be completed
HELP = r"""Statements end with ; and may span lines. Tab completes, the arrow keys bring back.
  \d        the tables and their columns
  \d NAME   the columns of one table
  \e        explain the next statements, or no longer
  \?        this help
  \q        leave, as Ctrl-D does; Ctrl-C gives up what was typed"""
WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "MATCH_RECOGNIZE (", "PARTITION BY", "ORDER BY", "MEASURES",
    "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES",
    "WITH UNMATCHED ROWS", "AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW",
    "AFTER MATCH SKIP TO FIRST", "AFTER MATCH SKIP TO LAST", "PATTERN (", "PERMUTE(", "WITHIN INTERVAL",
    "EMIT TIMEOUTS", "SUBSET", "DEFINE", "RUNNING", "FINAL", "FIRST(", "LAST(", "PREV(", "NEXT(",
    "CLASSIFIER()", "MATCH_NUMBER()", "MATCH_STATUS()",
)  # fmt: skip


def talk(session: SqlSession, wanted: Wanted, *, explain: bool = False) -> None:
    """Ask for statements and answer them, until the user leaves."""
    if wanted.output is not None:
        raise typer.BadParameter("--output needs a STATEMENT")
    for name in session.sources:
        session.schema(name)
    typer.echo(f"cerise {import_module('cerise').__version__}, SQL with MATCH_RECOGNIZE; \\? helps", err=True)
    if not session.sources:
        typer.echo("there are no tables: start with --table name=path", err=True)
    with _line_editing(session):
        Talk(session, wanted, explain).go_on()


class Talk:
    """What has been typed of a statement, and what becomes of it."""

    def __init__(self, session: SqlSession, wanted: Wanted, explain: bool = False) -> None:
        self.session, self.wanted, self.explain = session, wanted, explain
        self.text = ""

    def go_on(self) -> None:
        """Read lines until the user leaves."""
        while True:
            try:
                line = input(MORE if self.text.strip() else FIRST)
            except EOFError:
                typer.echo(err=True)
                return
            except KeyboardInterrupt:
                typer.echo(err=True)
                self.text = ""
                continue
            if not self.take(line):
                return

    def take(self, line: str) -> bool:
        """Take a line; return False where it asks to leave."""
        word, _, rest = line.strip().partition(" ")
        if not self.text.strip() and (word.startswith("\\") or word.lower() in ("quit", "exit")):
            return self._obey(word.removesuffix(";").lower(), rest.strip().rstrip(";"))
        complete, self.text = statements(f"{self.text}{line}\n")
        for each in complete:
            self._answer(each)
        return True

    def _answer(self, text: str) -> None:
        try:
            show(self.session, text, self.wanted, explain=self.explain)
        except KeyboardInterrupt:
            typer.echo("given up", err=True)
        except Exception as error:
            if not complain(error):
                raise

    def _obey(self, word: str, name: str) -> bool:
        if word in ("\\q", "quit", "exit"):
            return False
        try:
            match word:
                case "\\d":
                    typer.echo(described(self.session, name))
                case "\\e":
                    self.explain = not self.explain
                    typer.echo(f"statements are {'explained' if self.explain else 'run'}", err=True)
                case _:
                    typer.echo(HELP, err=True)
        except CeriseError as error:
            complain(error)
        return True


def described(session: SqlSession, name: str = "") -> str:
    """Return the tables, or one of them, with the types of their columns."""
    chosen = [each for each in session.sources if not name or each.lower() == name.lower()]
    if name and not chosen:
        raise BindError(f"unknown table '{name}'", hint=did_you_mean(name, session.sources))
    lines = []
    for each in chosen:
        lines.append(f"{each}  ({session.sources[each].path})")
        schema = session.schema(each)
        width = max(map(len, schema.names), default=0)
        lines.extend(f"  {field.name:<{width}}  {field.type}" for field in schema)
    return "\n".join(lines) or "there are no tables: start with --table name=path"


# ---- the line editor, where Python has one


@contextmanager
def _line_editing(session: SqlSession) -> Iterator[None]:
    """Let lines be edited, completed and brought back, also from the last time."""
    try:
        import readline
    except ImportError:
        yield
        return
    readline.set_completer(Completer(session))
    readline.set_completer_delims(BETWEEN)
    edits = "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    readline.parse_and_bind(edits)
    readline.set_history_length(KEPT)
    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        with suppress(OSError):  # a home that cannot be written to has no history
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)


def history_file() -> Path:
    """Return the file that keeps what was typed."""
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state or Path.home() / ".local" / "state") / "cerise" / "sql_history"


class Completer:
    """Completes the words of a clause, and the names of tables and columns."""

    def __init__(self, session: SqlSession) -> None:
        self.session = session

    def __call__(self, text: str, number: int) -> str | None:
        """Return the completion of a word with a number; None where there are no more."""
        found = self.completions(text)
        return found[number] if number < len(found) else None

    def completions(self, text: str) -> list[str]:
        columns = (column for name in self.session.sources for column in self._columns(name))
        words = (word if word.endswith(("(", ")")) else f"{word} " for word in WORDS)
        known = dict.fromkeys([*self.session.sources, *columns, *words])
        return [each for each in known if text and each.lower().startswith(text.lower())]

    def _columns(self, name: str) -> list[str]:
        try:
            return list(self.session.schema(name).names)
        except (CeriseError, OSError):
            return []
