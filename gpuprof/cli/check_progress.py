"""How far a review is, on stderr where that is a terminal: one line that is rewritten and goes at the end."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType
from typing import IO

_EVERY_S = 0.1
_FROM_S = 0.5
"""What is done by then needs no line."""
_CLEAR = "\r\x1b[K"


class CodeProgress:
    """Told how many bytes of code are reviewed, of how many."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        """Begin; nothing is shown where the stream is not a terminal."""
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._next = time.monotonic() + _FROM_S
        self._shown = False

    def __enter__(self) -> CodeProgress:
        """Return itself."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        if self._shown:
            self._write(_CLEAR)

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, at most ten times a second."""
        now = time.monotonic()
        if not self._live or total <= 0 or now < self._next:
            return
        self._next = now + _EVERY_S
        self._shown = True
        percent = min(max(100 * done // total, 0), 100)
        self._write(f"{_CLEAR}reviewing code: {percent} % of {total / 2**20:.1f} MiB")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # where stderr takes nothing, the review goes on
            self._stream.write(text)
            self._stream.flush()
