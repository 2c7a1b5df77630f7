"""Results to stdout as UTF-8, whatever the locale says."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout; characters that UTF-8 cannot hold are escaped."""
    sys.stdout.flush()
    out = sys.stdout.buffer
    out.writelines(f"{line}\n".encode("utf-8", "backslashreplace") for line in lines)
    out.flush()
