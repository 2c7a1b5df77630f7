"""What ncu is doing, read from its log while it runs: kernels done, passes, time gone and time left."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import IO

_PROFILED = re.compile(rb"==PROF== Profiling .*100% - (\d+) pass")
_EVERY_S = 1.0


class Progress:
    """Follows ncu's log and tells of it on stderr: rewriting one line of a terminal, else a line now and then."""

    def __init__(
        self, stage: str, log: Path, planned: int | None = None, stream: IO[str] | None = None, *, live: bool = True
    ) -> None:
        self.passes: list[int] = []
        self._stage, self._log, self._planned = stage, log, planned
        self._stream = stream if stream is not None else sys.stderr
        self._live = live and self._stream.isatty()
        self._started = self._told = time.monotonic()
        self._read = 0
        self._rest = b""
        self._width = 0

    @property
    def done(self) -> int:
        """Return how many launches ncu has finished."""
        return len(self.passes)

    def tick(self) -> None:
        """Look at the log, and tell if a second has passed."""
        self.look()
        now = time.monotonic()
        if self._live and now - self._told >= _EVERY_S:
            self._told = now
            self._rewrite(self.text())

    def look(self) -> None:
        """Read what ncu has written since the last look."""
        try:
            with self._log.open("rb") as log:
                log.seek(self._read)
                data = log.read()
        except OSError:
            return
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.passes += [int(match[1]) for line in lines if (match := _PROFILED.match(line)) is not None]

    def text(self, *, ended: bool = False) -> str:
        """Write stage, launches done of planned, time gone and, unless it has ended, time left."""
        gone = time.monotonic() - self._started
        of = f" of {self._planned}" if self._planned is not None else ""
        left = ""
        if not ended and self._planned is not None and 0 < self.done < self._planned:
            left = f", about {_clock(gone / self.done * (self._planned - self.done))} left"
        return f"{self._stage}: {self.done}{of} launch{'' if self.done == 1 and not of else 'es'}, {_clock(gone)}{left}"

    def finish(self) -> None:
        """Take the line back, and tell how it ended if anything was profiled."""
        self.look()
        if self._live:
            self._rewrite("")
        if self.done:
            print(f"{self.text(ended=True)}, {_passes_text(self.passes)}", file=self._stream)

    def _rewrite(self, text: str) -> None:
        self._stream.write(f"\r{text.ljust(self._width)}\r{text}")
        self._stream.flush()
        self._width = len(text)


def _clock(seconds: float) -> str:
    """Write a time of waiting: 7 s, 3:05 min."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f}:{seconds % 60:02.0f} min"


def _passes_text(passes: list[int]) -> str:
    """Write how often a launch was repeated: "1 pass each", "8 to 11 passes each"."""
    low, high = min(passes), max(passes)
    return f"{high} pass{'' if high == 1 else 'es'} each" if low == high else f"{low} to {high} passes each"
