"""The sentence on the kernels that were excluded."""

from __future__ import annotations

import shlex

from gpuprof.model.session import Exclusion
from gpuprof.units import format_percent

_SHOWN, _LONGEST = 5, 80
"""Maximum number of patterns to show, and of characters of each."""


def exclusion_text(excluded: Exclusion) -> str:
    """Write how many kernels are excluded, their share of the time, and by which options."""
    which = "1 kernel is" if excluded.kernels == 1 else f"{excluded.kernels} kernels are"
    patterns = excluded.patterns
    options = [f"--exclude {shlex.quote(_short(pattern))}" for pattern in patterns[:_SHOWN]]
    more = len(patterns) - _SHOWN
    if more > 0:
        options.append(f"and {more} more")
    return f"{which} excluded ({_time_text(excluded)}): {' '.join(options)}"


def _short(pattern: str) -> str:
    return pattern if len(pattern) <= _LONGEST else f"{pattern[:_LONGEST]}…"


def _time_text(excluded: Exclusion) -> str:
    untimed = f"{excluded.untimed} launch{'es' if excluded.untimed > 1 else ''} without a duration"
    if excluded.time_share is None:
        return untimed
    share = f"{format_percent(excluded.time_share)} of the time"
    return f"{share} and {untimed}" if excluded.untimed else share
