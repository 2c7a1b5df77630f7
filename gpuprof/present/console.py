"""The terminal view, in the page's order: verdict, what to fix first, kernels, one kernel in depth, provenance.

Colour only on a terminal; a pipe gets 80 columns and no space at the end of a line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpuprof.diagnose.explain_node import ExplanationNode
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.console_findings import fix_first_lines, verdict_lines
from gpuprof.present.console_kernel import kernel_lines
from gpuprof.present.console_parts import Sheet
from gpuprof.present.console_table import table_parts
from gpuprof.present.console_tree import tree_lines
from gpuprof.present.session_text import device_text, samples_text, source_text
from gpuprof.present.source_names import in_source
from gpuprof.present.timeline_text import NO_RATES, Rates, timeline_facts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_LEAST_WIDTH = 60
_PIPED_WIDTH = 80


def make_console() -> Console:
    """Return a console for stdout: 80 columns when piped, no colour then or with NO_COLOR."""
    from rich.console import Console

    if not os.environ.get("COLUMNS", "0").isascii():
        # "²" is a digit to rich, and no number to Python.
        del os.environ["COLUMNS"]
    fixed = not os.isatty(1) and "COLUMNS" not in os.environ
    console = Console(highlight=False, soft_wrap=False, width=_PIPED_WIDTH if fixed else None)
    if console.width < _LEAST_WIDTH:
        console = Console(highlight=False, width=_LEAST_WIDTH)
    return console


def make_talk_console() -> Console:
    """Return a console for stderr, where progress and remarks go."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_session(
    console: Console,
    session: Session,
    kernels: list[KernelProfile],
    top: int,
    *,
    depth: bool,
    rates: Rates = NO_RATES,
) -> None:
    """Print the verdict, what to fix first, a table of the first `top` kernels (0: all), and the first one in depth.

    With `depth` every kernel of the table is shown in depth. The kernels come in the order in which they are shown.
    `rates` are what the user knows of a step of a timeline.
    """
    print_blocks(console, _blocks(console, session, kernels, top, rates, depth=depth))


def print_tree(console: Console, session: Session, tree: ExplanationNode) -> None:
    """Print why a kernel takes its time, and where the numbers come from."""
    from rich.text import Text

    sheet = Sheet.of(console)
    print_blocks(console, (*tree_lines(tree, sheet), Text(""), *_provenance(session, sheet)))


def print_blocks(console: Console, blocks: Iterable[RenderableType]) -> None:
    """Print blocks: one by one on a terminal, at once elsewhere."""
    if console.is_terminal:
        for block in blocks:
            console.print(block, crop=False)
        return
    with console.capture() as captured:
        for block in blocks:
            console.print(block, crop=False)
    console.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
    console.file.flush()


def _blocks(
    console: Console, session: Session, kernels: list[KernelProfile], top: int, rates: Rates, *, depth: bool
) -> Iterator[RenderableType]:
    from rich.text import Text

    sheet = Sheet.of(console)
    yield from verdict_lines(session, sheet)
    for source in session.sources:
        for warning in source.warnings:
            yield sheet.paragraph(f"warning: {source.file}: {warning}", "yellow")
    yield Text("")
    yield from fix_first_lines(session, sheet)
    if session.timeline is not None:
        for label, text in timeline_facts(session, rates):
            yield sheet.field(label, text)
        yield Text("")
    shown = kernels[:top] if top else kernels
    yield from table_parts(session, shown, kernels[len(shown) :], console)
    for kernel in shown if depth else shown[:1]:
        yield Text("")
        yield from kernel_lines(kernel, sheet, whole=depth, source=in_source(session, kernel))
    yield Text("")
    yield from _provenance(session, sheet)


def _provenance(session: Session, sheet: Sheet) -> Iterator[Text]:
    """Say which GPU, which files and which tool the numbers come from."""
    for device in session.devices:
        yield sheet.hanging("GPU     ", device_text(device))
    for source in session.sources:
        yield sheet.hanging("Report  ", f"{source.file}: {source_text(source)}")
        for sampled in source.samples:
            yield sheet.hanging("        ", f"meanwhile GPU {sampled.gpu}, {samples_text(sampled)}")
