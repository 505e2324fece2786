"""The loop of `cerise watch`: take events, feed the queries, write matches, save the state."""

from __future__ import annotations

import signal
import sys
import threading
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import typer

from cerise.cli.inputs import is_untyped
from cerise.cli.terminal import errors
from cerise.cli.watch_sinks import MatchSink, StandardOutput
from cerise.cli.watch_sources import EventSource, FolderSource, NewEvents, TopicSource
from cerise.cli.watch_state import BatchNote, RunProgress, StateFile
from cerise.errors import StoreError
from cerise.streaming.limits.state_limits import show_size
from cerise.streaming.reports.figures import StreamFigures, say_count, show_gap, show_moment
from cerise.watcher import Watcher

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REPEATABLE = (FolderSource, TopicSource)  # sources that can be read again after a crash
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Manner:
    """How the loop runs.

    Attributes:
        poll: for how many seconds to wait where no event has come.
        once: whether to end where no further event is there.
        flush: whether to give the matches that the end of the stream makes final.
        beats: whether the clock alone can move the watermark.
        replaced: the names of queries whose saved state is dropped.
    """

    poll: float = 1.0
    once: bool = False
    flush: bool = False
    beats: bool = False
    replaced: tuple[str, ...] = ()


@dataclass
class Following:
    """A run of queries over events that keep coming.

    Attributes:
        source: where events come from.
        start: makes the queries, given the columns of the events.
        sinks: where matches go ("to"), and events that are set aside ("late").
        state: where the state is saved.
        manner: how the loop runs.
        schema: the columns of the events; None: those of the first events.
    """

    source: EventSource
    start: Callable[[pa.Schema], Watcher]
    sinks: dict[str, MatchSink]
    state: StateFile
    manner: Manner
    schema: pa.Schema | None = None
    watcher: Watcher | None = None
    progress: RunProgress = RunProgress()
    state_bytes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _speed: float = 0.0

    def run(self) -> None:
        """Follow the events until they end, or until a signal asks to stop."""
        with self._stop_by_signals(), self._show_live() as show:
            repeated = self._open()
            if repeated is not None:
                self._step(repeated[0], repeated[1], show)
            while not self._stop.is_set():
                arrived = self.source.take()
                if arrived is not None or (self.manner.beats and self.watcher is not None):
                    self._step(arrived, clock.time_ns() // 1_000, show)
                if arrived is None and (self.source.is_over or self.manner.once):
                    break
                if arrived is None and isinstance(self.source, REPEATABLE):
                    self._stop.wait(self.manner.poll)
            if self.manner.flush and self.watcher is not None:
                self.sinks["to"].write(self.progress.batch, self.watcher.flush())

    def _open(self) -> tuple[NewEvents, int] | None:
        """Go on from the saved state; return the batch that was interrupted, and its clock."""
        saved = self.state.load()
        if saved is not None:
            self.progress, self.schema = saved.progress, saved.schema
            self._start_queries(saved.watcher)
        elif self.schema is not None:
            self._start_queries(None)
        note = self.state.read_note(self.progress.batch)
        known = saved is not None or note is not None
        for name, sink in self.sinks.items():
            sink.open(self.progress.written.get(name, 0) if known else None)
        if not isinstance(self.source, REPEATABLE):
            return None
        self.source.taken.update(self.progress.files)
        return None if note is None else (self.source.again(note.files), note.now)

    def _start_queries(self, state: bytes | None) -> None:
        assert self.schema is not None
        self.watcher = self.start(self.schema)
        if state is None:
            return
        try:
            self.watcher.load(state, replace=self.manner.replaced)
        except StoreError as error:
            hint = (error.hint or "").replace("replace=['", "--replace ").replace("']", "")
            raise StoreError(error.problem, hint=hint.replace("checkpoint", "--state")) from error

    # ---- one batch

    def _step(self, arrived: NewEvents | None, now: int, show: Show) -> None:
        """Take one batch: note it, read it, write its rows, and save the state."""
        begun, files = clock.perf_counter(), {} if arrived is None else arrived.files
        if isinstance(self.source, REPEATABLE):
            self.state.note(BatchNote(self.progress.batch, files, now))
        try:
            events, rows = self._run_queries(arrived, now)
        except BaseException:
            self.state.drop_note()
            raise
        if isinstance(self.source, REPEATABLE):
            self.source.taken.update(files)
        if self.watcher is None or rows is None:
            self.state.drop_note()
            return
        self._keep(files, rows)
        self._speed = events / max(clock.perf_counter() - begun, 1e-9)
        show(self._say_live())

    def _run_queries(self, arrived: NewEvents | None, now: int) -> tuple[int, dict[str, pa.Table] | None]:
        """Return the number of events, and the rows for each sink; None: nothing has changed."""
        if arrived is None:
            assert self.watcher is not None
            before = self.watcher.watermark
            matches = self.watcher.advance(now=now)
            moved = self.watcher.watermark != before or len(matches)
            return 0, self._rows(matches) if moved else None
        table = arrived.read(self.schema)
        if is_untyped(table) and self.watcher is None:
            return 0, None
        if self.watcher is None:
            self.schema = table.schema
            self._start_queries(None)
        assert self.watcher is not None
        matches = self.watcher.feed(table, now=now) if len(table) else self.watcher.advance(now=now)
        return len(table), self._rows(matches)

    def _rows(self, matches: pa.Table) -> dict[str, pa.Table]:
        assert self.watcher is not None
        late = self.watcher.late
        return {"to": matches, **({} if late is None else {"late": late})}

    def _keep(self, files: dict[str, tuple[int, int]], rows: dict[str, pa.Table]) -> None:
        """Write the rows of a batch, then the state after it."""
        assert self.watcher is not None
        assert self.schema is not None
        before = self.progress
        written = dict(before.written)
        for name, sink in self.sinks.items():
            if name in rows:
                written[name] = sink.write(before.batch, rows[name])
        self.progress = RunProgress(
            before.batch + 1, {**before.files, **files}, written, self.watcher.figures
        )
        if self.state.path is not None:
            self.state_bytes = self.state.save(self.progress, self.schema, self.watcher.save())

    # ---- people

    @contextmanager
    def _stop_by_signals(self) -> Iterator[None]:
        """End after the batch at hand when a signal comes; at once when it comes again."""

        def stop(number: int, frame: Any) -> None:
            del frame
            if self._stop.is_set():
                raise KeyboardInterrupt(number)
            self._stop.set()

        before = {each: signal.signal(each, stop) for each in SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    @contextmanager
    def _show_live(self) -> Iterator[Show]:
        """Show a line on a terminal that tells how the stream is doing."""
        mixed = isinstance(self.sinks["to"], StandardOutput) and sys.stdout.isatty()
        if not sys.stderr.isatty() or mixed:
            yield lambda text: None
            return
        with errors().status("waiting for events …") as spinner:
            yield spinner.update

    @property
    def figures(self) -> StreamFigures | None:
        """The figures of the queries; None: there were no events yet."""
        if self.watcher is None:
            return None
        return StreamFigures([self.watcher.figures], clock.time_ns() // 1_000)

    def _say_live(self) -> str:
        figures = self.figures
        assert figures is not None
        known = figures.figures
        parts = [
            f"{say_count(known['events'], 'event')}, {self._speed:,.0f}/s",
            f"watermark {show_moment(figures.watermark)}",
            *([] if figures.lag is None else [f"{show_gap(figures.lag)} behind"]),
            *([f"state {show_size(self.state_bytes)}"] if self.state_bytes else []),
            say_count(sum(figures.matches.values()), "match"),
        ]
        return " · ".join(parts)

    def summarize(self) -> None:
        """Print how far the run has come, to standard error."""
        figures = self.figures
        if figures is None:
            typer.echo("no events have come", err=True)
            return
        known = figures.figures
        aside = [f"{source}: {reasons}" for source, reasons in _show_aside(figures)]
        nulls = sum(figures.nulls.values())
        parts = [
            f"{say_count(known['events'], 'event')} in {say_count(self.progress.batch, 'batch')}",
            say_count(sum(figures.matches.values()), "match"),
            f"{known['held']:,} held for the watermark, {show_moment(figures.watermark)}",
            *([f"set aside {'; '.join(aside)}"] if aside else []),
            *([f"{say_count(nulls, 'value')} could not be computed"] if nulls else []),
            *([f"evicted {'; '.join(evicted)}"] if (evicted := [*figures.list_evictions()]) else []),
            *([f"the state is in {self.state.path}"] if self.state.path else []),
        ]
        typer.echo(", ".join(parts), err=True)


def _show_aside(figures: StreamFigures) -> Iterator[tuple[str, str]]:
    for source, reasons in figures.aside.items():
        yield source, ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
