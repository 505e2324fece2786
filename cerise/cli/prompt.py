"""The prompt of `cerise sql`: it reads statements that end with ;, prints results and errors, and goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import typer

from cerise.cli.output import OutputTarget
from cerise.cli.sql import SqlSession, show, statements
from cerise.cli.terminal import complain
from cerise.errors import BindError, CeriseError, did_you_mean

FIRST, MORE = "cerise> ", "     -> "
NO_TABLES = "no tables yet: start with --table name=path"
KEPT = 1_000  # lines of history
BETWEEN = " \t\n,;()=<>+-*/|.{}'\""  # the characters between words that Tab completes
HELP = r"""Statements end with ; and may span lines. Tab completes words, the arrow keys recall lines.
  \d        the tables and their columns
  \d NAME   the columns of one table
  \e        explain the next statements instead of running them, or run them again
  \?        this help
  \q        leave, as Ctrl-D does; Ctrl-C drops the statement typed so far"""
WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "MATCH_RECOGNIZE (", "PARTITION BY", "ORDER BY", "MEASURES",
    "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES",
    "WITH UNMATCHED ROWS", "AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW",
    "AFTER MATCH SKIP TO FIRST", "AFTER MATCH SKIP TO LAST", "PATTERN (", "PERMUTE(", "WITHIN INTERVAL",
    "EMIT TIMEOUTS", "SUBSET", "DEFINE", "RUNNING", "FINAL", "FIRST(", "LAST(", "PREV(", "NEXT(",
    "CLASSIFIER()", "MATCH_NUMBER()", "MATCH_STATUS()",
)  # fmt: skip


def talk(session: SqlSession, target: OutputTarget, *, explain: bool = False) -> None:
    """Read statements and answer them, until the user leaves."""
    if target.output is not None:
        raise typer.BadParameter("--output needs a STATEMENT")
    for name in session.sources:
        session.schema(name)
    typer.echo(f"cerise {import_module('cerise').__version__}, SQL with MATCH_RECOGNIZE; \\? helps", err=True)
    if not session.sources:
        typer.echo(NO_TABLES, err=True)
    with _edit_lines(session):
        Talk(session, target, explain).go_on()


class Talk:
    """The loop of the prompt, with the text of the statement typed so far."""

    def __init__(self, session: SqlSession, target: OutputTarget, explain: bool = False) -> None:
        self.session, self.target, self.explain = session, target, explain
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
        """Take a line; return False if it is a command to leave."""
        word, _, rest = line.strip().partition(" ")
        if not self.text.strip() and (word.startswith("\\") or word.lower() in ("quit", "exit")):
            return self._obey(word.removesuffix(";").lower(), rest.strip().rstrip(";"))
        complete, self.text = statements(f"{self.text}{line}\n")
        for each in complete:
            self._answer(each)
        return True

    def _answer(self, text: str) -> None:
        try:
            show(self.session, text, self.target, explain=self.explain)
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
                    typer.echo(describe(self.session, name))
                case "\\e":
                    self.explain = not self.explain
                    typer.echo(f"statements are {'explained' if self.explain else 'run'}", err=True)
                case _:
                    typer.echo(HELP, err=True)
        except CeriseError as error:
            complain(error)
        return True


def describe(session: SqlSession, name: str = "") -> str:
    """Return the tables, or one table, with the types of their columns, as text."""
    chosen = [each for each in session.sources if not name or each.lower() == name.lower()]
    if name and not chosen:
        raise BindError(f"unknown table '{name}'", hint=did_you_mean(name, session.sources))
    lines = []
    for each in chosen:
        lines.append(f"{each}  ({session.sources[each].path})")
        schema = session.schema(each)
        width = max(map(len, schema.names), default=0)
        lines.extend(f"  {field.name:<{width}}  {field.type}" for field in schema)
    return "\n".join(lines) or NO_TABLES


# ---- the line editor, if Python has readline


@contextmanager
def _edit_lines(session: SqlSession) -> Iterator[None]:
    """Enable editing, completion and history of lines, which is saved for the next session."""
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
        with suppress(OSError):  # without write access to the home directory, no history is saved
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)


def history_file() -> Path:
    """Return the file of the prompt's history."""
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state or Path.home() / ".local" / "state") / "cerise" / "sql_history"


class Completer:
    """Completes keywords of a clause, and names of tables and columns."""

    def __init__(self, session: SqlSession) -> None:
        self.session = session

    def __call__(self, text: str, number: int) -> str | None:
        """Return the completion of a word with this number; None after the last."""
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
