"""The gate of `gpuprof check` on the command line: its options and its line on stderr."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from gpuprof.cli.compare_gate import gate_line, unclear_option
from gpuprof.cli.completion import checkable_files
from gpuprof.cli.options import Command

if TYPE_CHECKING:
    from gpuprof.review.contract import Review


def gate_options(function: Command) -> Command:
    """--base, --fail-on, --unclear: what is compared, and the limits."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option(
            "--base",
            multiple=True,
            metavar="OLD",
            shell_complete=checkable_files,
            help="Show what FILE changes from this build of the same kernels. Repeatable.",
        ),
        click.option(
            "--fail-on",
            "fail_on",
            multiple=True,
            metavar="[KERNEL=]LIMIT",
            help="Exit with 6 if a kernel or file has a finding RULE[:high|medium|low], or a kernel has spills, more "
            "registers:N or sectors:N per request, or less occupancy:P%. With --base, if the findings are new, and if "
            "spills, registers[:N], sectors[:N], conflicts, instructions[:P%] rise by more than that or occupancy[:P%] "
            "falls. Repeatable.",
        ),
        unclear_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def closing_line(review: Review) -> str:
    """Say which limit failed first, and for which kernel; else that the gate has passed, and what it cannot judge."""
    from gpuprof.views.review_groups import kernel_labels

    assert review.gate is not None
    new = 0
    if review.changes is not None:
        new = sum(change.match == "new" for change in review.changes.kernels)
    return gate_line(review.gate, kernel_labels(review.kernels), new)
