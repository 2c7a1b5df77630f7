"""The terminal view, in the page's order: verdict, what to fix first, kernels; with more asked for, kernels in depth.

Colour only on a terminal; a pipe gets 80 columns and no space at the end of a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuprof.model.run_totals import are_ranks
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.time_by import TimeBy
from gpuprof.present.console_findings import Brevity, fix_first_lines, unknown_lines, verdict_lines
from gpuprof.present.console_kernel import kernel_lines
from gpuprof.present.console_parts import Sheet
from gpuprof.present.console_table import table_lines
from gpuprof.present.console_tree import tree_lines
from gpuprof.present.time_by_text import rows_of, times_blocks
from gpuprof.views.terminal import print_blocks
from gpuprof.words.explain_node import ExplanationNode
from gpuprof.words.profile_values import count_text, device_text, samples_text, source_text
from gpuprof.words.recommendations import summary_of
from gpuprof.words.source_names import in_source
from gpuprof.words.timeline import (
    NO_RATES,
    NOT_JUDGED,
    Rates,
    busy_share,
    rank_facts,
    timeline_facts,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_SCREEN, _TABLE = 29, 3
"""Lines of a screen, but for the one that says what to type next; those of a table beside its rows."""
_LEAST_KERNELS, _LEAST_OPERATORS = 3, 5
"""The least rows of a table."""
_TOP = 20
_NOTES, _WARNINGS = 2, 2
"""How many of each a screen has; -v has all."""
_MOST_FACTS = 3
_BREVITIES = (
    Brevity(5), Brevity(5, cut_places=True), Brevity(5, cut_places=True, cut_actions=True),
    *(Brevity(most, cut_places=True, cut_actions=True) for most in (4, 3, 2)),
)  # fmt: skip
"""The first that leaves the table its least rows is taken."""

Depth = Literal["none", "longest", "all"]
"""Which kernels are shown with all their figures and findings."""


def print_session(
    console: Console,
    session: Session,
    kernels: Sequence[KernelProfile],
    *,
    times: TimeBy | None = None,
    top: int | None = None,
    depth: Depth = "none",
    rates: Rates = NO_RATES,
) -> None:
    """Print the verdict, what to fix first and a table of the first `top` kernels (0: all), or of operators by `times`.

    Without `top` the table has as many rows as a screen of 30 lines leaves. `depth` says of which kernels all figures
    and findings follow: of none, of the first one, or of each in the table; with any, what to fix first and the
    timeline are shown in full, too. The kernels come in the order in which they are shown. `rates` are what the user
    knows of a step of a timeline.
    """
    table = _Table(session, kernels, times, Sheet.of(console))
    if depth == "none":
        print_blocks(console, _screen(session, table, top, rates))
    else:
        print_blocks(console, _whole(session, table, top, rates, depth))


def print_tree(console: Console, session: Session, tree: ExplanationNode) -> None:
    """Print why a kernel takes its time, and where the numbers come from."""
    from rich.text import Text

    sheet = Sheet.of(console)
    print_blocks(console, (*tree_lines(tree, sheet), Text(""), *_provenance(session, sheet)))


class _Table(NamedTuple):
    """A table of kernels, or of operators where `times` has them, in their order."""

    session: Session
    kernels: Sequence[KernelProfile]
    times: TimeBy | None
    sheet: Sheet

    @property
    def most(self) -> int:
        """Return how many rows it has where there is room."""
        return rows_of(self.times) if self.times is not None else len(self.kernels)

    @property
    def least(self) -> int:
        """Return how many rows it has at least."""
        return min(self.most, _LEAST_OPERATORS if self.times is not None else _LEAST_KERNELS)

    def lines(self, rows: int) -> list[Text]:
        """Return its first rows (0: all), and what is to be known of them."""
        if self.times is not None:
            return list(times_blocks(self.sheet, self.times, rows))
        shown = rows or len(self.kernels)
        return list(
            table_lines(self.session, self.kernels[:shown], self.kernels[shown:], self.sheet, "--top 0 shows all")
        )

    def fitting(self, height: int) -> list[Text]:
        """Return it with as many rows as fit, but at least a few."""
        rows = min(max(height - _TABLE + 1, self.least), self.most)
        while rows > self.least and len(self.lines(rows)) > height:
            rows -= 1
        return self.lines(rows)


def _screen(session: Session, table: _Table, top: int | None, rates: Rates) -> Iterator[RenderableType]:
    """What a screen has room for: verdict, what to fix first, what takes most time."""
    from rich.text import Text

    summary, sheet = summary_of(session), table.sheet
    above: list[RenderableType] = [*verdict_lines(summary, sheet, _NOTES), *_warnings(session, sheet, _WARNINGS)]
    facts: list[RenderableType] = [sheet.field(label, text) for label, text in _brief_facts(session, rates)]
    unknown = list(unknown_lines(summary, sheet))
    room = _SCREEN - _height(above) - _height(facts) - _height(unknown)
    fix_first: list[RenderableType] = []
    for brief in _BREVITIES:
        fix_first = list(fix_first_lines(summary, sheet, brief))
        if room - _height(fix_first) >= _TABLE + table.least:
            break
    for part in (above, fix_first, facts, unknown):
        yield from part
        if part:
            yield Text("")
    yield from table.fitting(room - _height(fix_first)) if top is None else table.lines(top)


def _height(blocks: Sequence[RenderableType]) -> int:
    """Return how many lines blocks take with an empty one behind them; 0 for none."""
    texts = [text for block in blocks for text in getattr(block, "renderables", [block])]
    return sum(str(text).count("\n") + 1 for text in texts) + 1 if texts else 0


def _brief_facts(session: Session, rates: Rates) -> Iterator[tuple[str, str]]:
    """Yield how many ranks are shown, the steps, MFU if it is known and, unless a fix has it, the GPU's time.

    If no kernel ran, copies take that time. If there is no room for all of several GPUs, the least busy one
    is shown.
    """
    idle = any(item.rule == "launch-gaps" for item in session.recommendations)
    labels = ("steps",) if idle else ("GPU", "steps") if session.kernels else ("GPU", "copies")
    every = list(timeline_facts(session, rates))
    shown = rank_facts(session, rates) if are_ranks(session) else every
    facts = _chosen(shown, labels)
    devices = session.timeline.devices if session.timeline is not None else ()
    if len(facts) > _MOST_FACTS and len(devices) > 1 and not are_ranks(session):
        gpu = min(devices, key=busy_share)
        (name, text), *others = timeline_facts(session, rates, gpu)
        facts = [(name, f"the least busy of {len(devices)}: {text}"), *_chosen(others, labels)]
    yield from [*(fact for fact in every if fact[0] == "ranks"), *facts][:_MOST_FACTS]
    yield from [fact for fact in every if fact[0] in NOT_JUDGED][: len(NOT_JUDGED)]


def _chosen(facts: Iterable[tuple[str, str]], labels: Sequence[str]) -> list[tuple[str, str]]:
    return [fact for fact in facts if fact[0].startswith((*labels, "CUDA graphs")) or "MFU" in fact[1]]


def _whole(session: Session, table: _Table, top: int | None, rates: Rates, depth: Depth) -> Iterator[RenderableType]:
    """Everything: what is known of the run, kernels in depth, and where the numbers come from."""
    from rich.text import Text

    summary, sheet = summary_of(session), table.sheet
    yield from verdict_lines(summary, sheet)
    yield from _warnings(session, sheet)
    yield Text("")
    rows = _TOP if top is None else top
    shown = table.kernels[: rows or None]
    blocks = list(fix_first_lines(summary, sheet)) if depth != "all" or len(shown) > 1 else []
    for part in (blocks, list(unknown_lines(summary, sheet))):
        yield from part
        if part:
            yield Text("")
    if session.timeline is not None:
        for label, text in timeline_facts(session, rates):
            yield sheet.field(label, text)
        yield Text("")
    if table.times is not None:
        yield from table.lines(rows_of(table.times, top))
        yield Text("")
    yield from table._replace(times=None).lines(rows)
    for kernel in shown if depth == "all" else shown[:1]:
        yield Text("")
        yield from kernel_lines(kernel, sheet, whole=depth == "all", source=in_source(session, kernel))
    yield Text("")
    yield from _provenance(session, sheet)


def _warnings(session: Session, sheet: Sheet, most: int | None = None) -> Iterator[Text]:
    """Yield the first `most` warnings of the sources (None: all), and how many are left out."""
    warnings = [f"warning: {source.file}: {warning}" for source in session.sources for warning in source.warnings]
    for warning in warnings[:most]:
        yield sheet.paragraph(warning, "yellow")
    if most is not None and len(warnings) > most:
        yield sheet.paragraph(f"… and {count_text(len(warnings) - most, 'more warning')}: -v shows all", "yellow")


def _provenance(session: Session, sheet: Sheet) -> Iterator[Text]:
    """Say which GPU, which files and which tool the numbers come from."""
    for device in session.devices:
        yield sheet.hanging("GPU     ", device_text(device))
    for source in session.sources:
        yield sheet.hanging("Report  ", f"{source.file}: {source_text(source)}")
        for sampled in source.samples:
            yield sheet.hanging("        ", f"meanwhile GPU {sampled.gpu}, {samples_text(sampled)}")
