"""Picks the kernels that --kernel asks for and --exclude leaves, in the order that --sort names."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from gpuprof.cli import patience
from gpuprof.cli.options import was_typed
from gpuprof.cli.output import say_unused
from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile, Session


def _fraction_of_roof(kernel: KernelProfile) -> float | None:
    from gpuprof.words.profile_values import roof_point

    point = roof_point(kernel)
    return point.fraction_of_roof if point is not None else None


SORT_KEYS: dict[str, Callable[[KernelProfile], float | None]] = {
    "time": lambda kernel: -kernel.time_total_s if kernel.time_total_s is not None else None,
    "launch": lambda kernel: kernel.id,
    "roof": _fraction_of_roof,
    "occupancy": lambda kernel: kernel.occupancy.achieved,
}
"""What each --sort orders by, smallest first; kernels without the value come last."""


def sort_kernels(kernels: list[KernelProfile], order: str) -> list[KernelProfile]:
    """Sort kernels; equal ones keep the order of their launches."""

    def key(kernel: KernelProfile) -> tuple[bool, float, int]:
        value = SORT_KEYS[order](kernel)
        return value is None, value if value is not None else 0.0, kernel.id

    return sorted(kernels, key=key)


def next_look(session: Session, kernels: Sequence[KernelProfile], order: str = "time", option: str = "--kernel") -> str:
    """Return the option that shows more of what matters most: of the run where it is first to be fixed, else a kernel.

    The kernel is that of the verdict if it has a duration or none has, else the first.
    """
    from gpuprof.diagnose.registry import rule_named

    first = rule_named(session.recommendations[0].rule) if session.recommendations else None
    if first is not None and first.of_run and option == "--kernel":
        return "-v"
    named = session.verdict.kernel if session.verdict is not None and order == "time" else None
    timed = [kernel for kernel in kernels if kernel.time_total_s is not None] or kernels
    return f"{option} '#{named if any(kernel.id == named for kernel in timed) else kernels[0].id}'"


def select_kernels(session: Session, patterns: Sequence[str]) -> list[KernelProfile]:
    """Return the kernels that any of the patterns means, by label, full name or `#N`; without patterns all.

    Which of several mean none is said on stderr. Raises UsageError if no kernel is meant, or for a pattern that is
    no regular expression.
    """
    if not patterns:
        return list(session.kernels)
    from gpuprof.model.exclusion import means
    from gpuprof.model.kernel_match import kernel_pattern

    chosen: dict[str, set[int]] = {}
    for pattern in patterns:
        wanted = kernel_pattern(pattern, "--kernel")
        with _in_time(f"--kernel {pattern!r:.80}"):
            chosen[pattern] = {kernel.id for kernel in session.kernels if means(wanted, kernel)}
    if not any(chosen.values()):
        _none_matches(session, patterns)
    say_unused("--kernel", [pattern for pattern, kernels in chosen.items() if not kernels])
    return [kernel for kernel in session.kernels if any(kernel.id in kernels for kernels in chosen.values())]


def kept(session: Session, exclude: Sequence[str]) -> Session:
    """Return the session without the kernels that --exclude names. A pattern that was typed and names none is told."""
    if not exclude:
        return session
    from gpuprof.diagnose.summary import with_verdict
    from gpuprof.model.exclusion import unused, without_excluded
    from gpuprof.privacy.texts import clean_text
    from gpuprof.words.session import worded

    with _in_time(f"--exclude {' '.join(map(repr, exclude)):.80}"):
        idle = unused(session, exclude) if was_typed("exclude") else ()
        left = worded(with_verdict(without_excluded(session, exclude, clean_text)))
    say_unused("--exclude", idle)
    return left


def tell_excluded(session: Session) -> None:
    """Say on stderr which kernels are excluded, for output that has no place for it."""
    from gpuprof.text import printable
    from gpuprof.words.exclusion import exclusion_text

    if session.excluded is not None:
        click.echo(printable(exclusion_text(session.excluded)), err=True)


def _in_time(what: str) -> contextlib.AbstractContextManager[None]:
    """Raise UsageError where expressions take too long."""
    limit = f"{patience.LIMIT_S:g} s"
    hint = "write it without a repeat inside a repeat"
    return patience.within(
        patience.LIMIT_S, UsageError(f"{what} takes longer than {limit} on the kernels' names", hint)
    )


def _none_matches(session: Session, patterns: Sequence[str]) -> NoReturn:
    asked = " or ".join(f"{pattern!r:.80}" for pattern in patterns)
    if not session.kernels:
        raise UsageError(f"no kernel matches {asked}: no kernel was profiled")
    by_number = all(re.fullmatch(r"#[0-9]+", pattern) for pattern in patterns)
    named = (f"#{kernel.id} {kernel.label}" if by_number else kernel.label for kernel in session.kernels)
    names = list(dict.fromkeys(named))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    without = f"; {session.excluded.kernels} more excluded" if session.excluded is not None else ""
    raise UsageError(f"no kernel matches {asked}", f"there are: {'; '.join(names[:5])}{more}{without}")
