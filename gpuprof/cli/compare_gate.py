"""The gate on the command line: its options, how it is applied to a comparison, and its line on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from gpuprof.cli import patience
from gpuprof.cli.options import Command, was_typed
from gpuprof.cli.output import say, say_unused
from gpuprof.errors import UsageError, hinted

if TYPE_CHECKING:
    from gpuprof.comparison.compare import Compared
    from gpuprof.comparison.contract import Gate, GateCheck
    from gpuprof.comparison.gate.accepted import Accepted
    from gpuprof.comparison.gate.limits import GateLimit
    from gpuprof.comparison.pair import NamedMatch
    from gpuprof.comparison.sides import Run

_LABEL = 60


unclear_option = click.option(
    "--unclear",
    type=click.Choice(["pass", "fail"]),
    default="pass",
    show_default=True,
    help="Whether a limit that cannot be judged exits with 7.",
)


def gate_options(function: Command) -> Command:
    """--fail-on, --unclear, --accept: the limits, and what is let pass."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option(
            "--fail-on", "fail_on", multiple=True, metavar="[KERNEL=]LIMIT",
            help="Exit with 6 where a kernel rises by more: time:3%, instructions:1%, dram-bytes:1%, registers, "
            "spills; total-time:2% is of the run. Repeatable.",
        ),
        unclear_option,
        click.option(
            "--accept", metavar="FILE", help="Let pass the regressions that this TOML file has, with reason and end."
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def accepted_in_time(file: str | None) -> tuple[Accepted, ...]:
    """Return the accepted regressions of a file; none without one."""
    if file is None:
        return ()
    if not file:
        raise UsageError("--accept names no file", "name a TOML file of accepted regressions, or leave the option out")
    from gpuprof.api_compare import accepted_regressions

    slow = UsageError(f"--accept {file:.100} takes longer than {patience.LIMIT_S:g} s to read")
    with patience.within(patience.LIMIT_S, slow), hinted("--accept takes a TOML file of [[accepted]] tables"):
        return accepted_regressions(file)


_CHOOSING = "--kernel and --exclude"


def refuse_without_limits(limits: Sequence[object], unclear: str) -> None:
    """Raise UsageError for options of the gate that were typed without limits: it would pass anything."""
    typed = ["--accept"] if was_typed("accept") else []
    typed += ["--unclear fail"] if unclear == "fail" and was_typed("unclear") else []
    if typed and not limits:
        raise UsageError(f"{typed[0]} is about limits, and there are none", "add --fail-on, such as time:3%")


def match_in_time(base: Sequence[Run], new: Sequence[Run], match: Sequence[NamedMatch]) -> None:
    """Raise UsageError if the expressions of --match take too long on the kernels' names."""
    from gpuprof.model.kernel_match import kernel_pattern

    with _in_time("--match"):
        for runs, texts in ((base, [item.base for item in match]), (new, [item.new for item in match])):
            names = {(kernel.label, kernel.demangled) for run in runs for kernel in run.session.kernels}
            for pattern in [kernel_pattern(text, "--match") for text in texts]:
                for label, demangled in names:
                    pattern.fits(label, demangled)


def narrowed_in_time(compared: Compared, kernels: Sequence[str], exclude: Sequence[str]) -> Compared:
    """Return the comparison of the kernels that are asked for."""
    from gpuprof.comparison.selection import narrowed

    with _in_time(_CHOOSING):
        return narrowed(compared, kernels, exclude)


def tell_unused(compared: Compared, kernels: Sequence[str], exclude: Sequence[str]) -> None:
    """Say on stderr which patterns were typed and name no kernel; a lone one of --kernel is an error elsewhere."""
    from gpuprof.comparison.selection import unused

    with _in_time(_CHOOSING):
        idle = {
            "--kernel": unused(compared, kernels, "--kernel") if len(kernels) > 1 else (),
            "--exclude": unused(compared, exclude, "--exclude") if was_typed("exclude") else (),
        }
    for option, patterns in idle.items():
        say_unused(option, patterns)


def refuse_idle(compared: Compared, limits: Sequence[GateLimit]) -> None:
    """Raise UsageError for a limit that was typed for kernels which no side has."""
    from gpuprof.comparison.selection import fits, nothing_fits
    from gpuprof.model.kernel_match import kernel_pattern

    changes = compared.comparison.kernels
    with _in_time("--fail-on"):
        for limit in limits if was_typed("fail_on") else ():
            pattern = kernel_pattern(limit.pattern, "--fail-on") if limit.pattern is not None else None
            if pattern is not None and not any(fits(pattern, change) for change in changes):
                raise nothing_fits(changes, f"--fail-on {limit.text!r:.80}")


def with_gate(compared: Compared, limits: Sequence[GateLimit], accepted: Sequence[Accepted], unclear: str) -> Compared:
    """Return the comparison with its gate; without limits as it is."""
    if not limits:
        return compared
    from gpuprof.api_compare import today
    from gpuprof.comparison.gate.gate import gated

    with _in_time("--fail-on and --accept"):
        return gated(compared, limits, unclear_fails=unclear == "fail", accepted=accepted, today=today())


@contextlib.contextmanager
def keeping_exit_code(gate: Gate | None) -> Iterator[None]:
    """Let the exit code of a gate that fails be returned if the reader of a pipe (head, less) has gone.

    Rich ends the program by SystemExit there.
    """
    try:
        yield
    except (BrokenPipeError, SystemExit):
        if gate is None or gate.passed:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_result(line: str) -> None:
    """Say the last line on stderr; if that is closed, the exit code is enough."""
    with contextlib.suppress(OSError):
        say(line)


def closing_line(compared: Compared) -> str:
    """Say which limit failed first, and for which kernel; else that the gate has passed, and what it cannot judge."""
    comparison = compared.comparison
    assert comparison.gate is not None
    new = sum(change.match == "new" for change in comparison.kernels)
    same = "; both sides are the same recording" if comparison.identical else ""
    return gate_line(comparison.gate, {change.id: change.label for change in comparison.kernels}, new) + same


def gate_line(gate: Gate, labels: Mapping[int, str], new: int) -> str:
    """Say the same of any gate: `labels` are those of the kernels, of which `new` have no base."""
    checks = [check for check in gate.checks if check.word == "regression"]
    if not checks and not gate.passed:
        checks = [check for check in gate.checks if check.word in ("unclear", "not-compared")]
    if not checks:
        return _passed(gate, new)
    more = f"; {len(checks) - 1} more" if len(checks) > 1 else ""
    return f"gate failed: {_check_text(checks[0], labels)}{more}"


def _passed(gate: Gate, new: int) -> str:
    from gpuprof.words.comparison_gate import kept_text, others_text

    others = others_text(gate)
    if not has_judged(gate):
        return f"gate passed, but no limit could be judged: {others or 'there are no kernels'}"
    text = f"gate passed: {', '.join(filter(None, (kept_text(gate), others)))}"
    return text + (f"; {new} new without a base" if new else "")


def has_judged(gate: Gate) -> bool:
    """Return whether any limit could be checked: one is kept, or a regression that was accepted."""
    return gate.ok > 0 or any(check.word == "accepted" for check in gate.checks)


def _check_text(check: GateCheck, labels: Mapping[int, str]) -> str:
    from gpuprof.text import cut_middle, printable
    from gpuprof.words.comparison_gate import CHECK_WORDS

    label = labels.get(check.kernel) if check.kernel is not None else None
    whose = f" of {cut_middle(printable(label), _LABEL)}" if label is not None else ""
    unclear = "" if check.word == "regression" else f" is {CHECK_WORDS[check.word]}"
    return f"{check.limit[:100]}{whose}{unclear}: {check.sentence}"


def _in_time(what: str) -> contextlib.AbstractContextManager[None]:
    """Raise UsageError if expressions take too long."""
    message = f"{what}: it takes longer than {patience.LIMIT_S:g} s on the kernels' names"
    return patience.within(patience.LIMIT_S, UsageError(message, "write it without a repeat inside a repeat"))
