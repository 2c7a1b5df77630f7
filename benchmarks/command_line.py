"""How the benchmarks with several commands end: with an exit code, and errors as two lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpuprof.errors import GpuprofError


def run(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> int:
    """Run the command that the words name, the default `run` of its parser; return its exit code or an error's."""
    options = parser.parse_args(words)
    try:
        return int(options.run(options))
    except GpuprofError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
