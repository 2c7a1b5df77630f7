"""What ncu is doing, read from its log while it runs; and the line that tells of it: launches, passes, time left."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import IO

from gpuprof.collect.events import ProfileEvent, RunEnded, RunProgressed, RunStarted, TellEvent
from gpuprof.collect.survey_tools import NCU
from gpuprof.own_files import open_plain

_PROFILED = re.compile(rb"==PROF== Profiling .*100% - (\d+) pass")
_EVERY_S = 1.0
_COLUMNS = 80


class LaunchLog:
    """Follows one run, by ncu's log where it has one, and tells of it once a second."""

    def __init__(self, stage: str, log: Path | None, planned: int | None, tell: TellEvent) -> None:
        self._stage, self._log, self._planned, self._tell = stage, log, planned, tell
        self._started = self._told = time.monotonic()
        self._passes: tuple[int, ...] = ()
        self._read = 0
        self._rest = b""

    def tick(self) -> None:
        """Look at the log and tell, if a second has passed."""
        now = time.monotonic()
        if now - self._told >= _EVERY_S:
            self._told = now
            self._look()
            seconds = now - self._started
            self._tell(RunProgressed(stage=self._stage, planned=self._planned, passes=self._passes, seconds=seconds))

    def end(self, stopped_by: str | None) -> None:
        """Tell how the run ended."""
        self._look()
        self._tell(
            RunEnded(
                stage=self._stage,
                planned=self._planned,
                passes=self._passes,
                seconds=time.monotonic() - self._started,
                stopped_by=stopped_by,
            )
        )

    def _look(self) -> None:
        """Read what ncu has written since the last look."""
        if self._log is None:
            return
        try:
            with open_plain(self._log, "rb") as log:
                log.seek(self._read)
                data = log.read()
        except OSError:
            return
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._passes += tuple(int(match[1]) for line in lines if (match := _PROFILED.match(line)) is not None)


class ProgressLine:
    """Tells of runs under ncu on stderr: by rewriting one line of a terminal, and a line when each has ended.

    A line that is rewritten would be in the way of what the program prints and asks in its first run.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._live = False
        self._width = 0

    def __call__(self, event: ProfileEvent) -> None:
        """Show an event, if it is of a run."""
        if isinstance(event, RunStarted):
            # Launches are known of runs under ncu alone.
            self._live = event.by == NCU and event.number > 1 and self._stream.isatty()
            self._width = 0
        elif isinstance(event, RunProgressed) and self._live:
            self._rewrite(progress_text(event))
        elif isinstance(event, RunEnded):
            if self._width:
                self._rewrite("")
            if event.passes:
                print(f"{progress_text(event)}, {_passes_text(event.passes)}", file=self._stream)

    def _rewrite(self, text: str) -> None:
        text = text[: _columns(self._stream) - 1]  # a line that the terminal breaks cannot be rewritten
        self._stream.write(f"\r{text.ljust(self._width)}\r{text}")
        self._stream.flush()
        self._width = len(text)


def _columns(terminal: IO[str]) -> int:
    """Return the width of a terminal; the usual one if it says none, or has been closed."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def progress_text(event: RunProgressed | RunEnded) -> str:
    """Write stage, launches done of planned, time gone and, unless it has ended, time left."""
    done, planned, gone = len(event.passes), event.planned, event.seconds
    of = f" of {planned}" if planned is not None else ""
    left = ""
    if isinstance(event, RunProgressed) and planned is not None and 0 < done < planned:
        left = f", about {_clock(gone / done * (planned - done))} left"
    return f"{event.stage}: {done}{of} launch{'' if done == 1 and not of else 'es'}, {_clock(gone)}{left}"


def _clock(seconds: float) -> str:
    """Write a time of waiting: 7 s, 3:05 min."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f}:{seconds % 60:02.0f} min"


def _passes_text(passes: tuple[int, ...]) -> str:
    """Write how often a launch was repeated: "1 pass each", "8 to 11 passes each"."""
    low, high = min(passes), max(passes)
    return f"{high} pass{'' if high == 1 else 'es'} each" if low == high else f"{low} to {high} passes each"
