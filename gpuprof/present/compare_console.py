"""A comparison in the terminal: verdict, what is not alike, the gate, and a line for each kernel that changed.

With more asked for, kernels in depth: the interval of the time, counters, causes, findings, lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import ComparedSide, Comparison, Gate, KernelChange, RunCondition
from gpuprof.present.compare_console_kernel import change_lines, file_name
from gpuprof.present.compare_console_table import rows_of, table_lines
from gpuprof.present.compare_text import gate_text, quantity_text
from gpuprof.present.console import print_blocks
from gpuprof.present.console_parts import Sheet
from gpuprof.present.session_text import count_text
from gpuprof.units import format_si

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SCREEN, _LEAST_ROWS = 29, 3
"""Lines of a screen, but for the one that says what to type next; kernels that it has in any case."""
_CONDITIONS, _CHECKS, _NOTES, _TOTALS = 3, 5, 2, 3
"""How many of each a screen has; -v has all."""
_SIDE = 6
"""Columns of what a side is called."""
_TOLD = ("regression", "accepted")
"""What is told of each check on a screen; of the others how many there are."""
_GATE_STYLES = {"regression": "bold red", "unclear": "yellow", "not-compared": "yellow", "accepted": "dim"}


def print_comparison(
    console: Console, compared: Compared, *, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> None:
    """Print the verdict and a table of the first `top` kernels that changed (0: of all kernels).

    Without `top` it has as many rows as a screen of 30 lines leaves. With `verbose` nothing is left out, and each
    kernel that changed follows in depth; with `chosen`, where the user named kernels, each of them.
    """
    sheet, comparison = Sheet.of(console), compared.comparison
    in_depth = verbose or chosen
    blocks = _whole(comparison, sheet, top, chosen=chosen) if in_depth else _screen(comparison, sheet, top)
    print_blocks(console, blocks)


def _screen(comparison: Comparison, sheet: Sheet, top: int | None) -> Iterator[Text]:
    from rich.text import Text

    above = list(_above(comparison, sheet, brief=True))
    notes = [sheet.paragraph(note, "dim") for note in comparison.notes[:_NOTES]]
    room = _SCREEN - _height(above) - _height(notes)
    yield from above
    yield Text("")
    rows = rows_of(comparison.kernels)
    if top is None:
        most = len(rows)
        table = list(table_lines(comparison, rows, sheet))
        while _height(table) > room and most > _LEAST_ROWS:
            most -= 1 if most < 2 * room else most // 2
            table = list(table_lines(comparison, rows[:most], sheet))
        yield from table
    else:
        shown = rows[:top] if top else comparison.kernels
        yield from table_lines(comparison, shown, sheet)
    if notes:
        yield Text("")
        yield from notes


def _whole(comparison: Comparison, sheet: Sheet, top: int | None, *, chosen: bool) -> Iterator[Text]:
    from rich.text import Text

    yield from _above(comparison, sheet, brief=False)
    yield Text("")
    changed = rows_of(comparison.kernels)
    shown: Sequence[KernelChange] = comparison.kernels if chosen or top == 0 else changed
    shown = shown[:top] if top else shown
    yield from table_lines(comparison, shown, sheet)
    for change in shown:
        yield Text("")
        yield from change_lines(change, comparison, sheet)
    if comparison.notes:
        yield Text("")
        yield from (sheet.paragraph(note, "dim") for note in comparison.notes)


def _above(comparison: Comparison, sheet: Sheet, *, brief: bool) -> Iterator[Text]:
    """Yield what comes before the kernels: the verdict, the sides, what is not alike, totals and the gate."""
    yield sheet.paragraph(comparison.sentence, "bold")
    yield from _sides(comparison, sheet, brief=brief)
    yield from _conditions(comparison.conditions, sheet, brief=brief)
    totals = [quantity for quantity in comparison.total[1:] if quantity.ratio not in (None, 1.0)]
    for quantity in totals[: _TOTALS if brief else None]:
        yield sheet.paragraph(quantity_text(quantity), indent=3)
    if comparison.gate is not None:
        yield from _gate(comparison.gate, comparison.kernels, sheet, brief=brief)


def _sides(comparison: Comparison, sheet: Sheet, *, brief: bool) -> Iterator[Text]:
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        room = sheet.width - _SIDE
        if not brief:
            yield sheet.hanging(name.ljust(_SIDE), f"{', '.join(side.files)}: {_told(side)}")
            continue
        files = _names(comparison, side)
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        told = _told(side)
        file = sheet.fitted(files[0] if files else "", max(room - len(told) - len(more) - 2, room // 2))
        yield sheet.hanging(name.ljust(_SIDE), sheet.clipped(f"{file}{more}: {told}", room))


def _names(comparison: Comparison, side: ComparedSide) -> list[str]:
    """Return the files of a side without their folders, where no two are called the same then."""
    every = [file_name(file) for file in (*comparison.base.files, *comparison.new.files)]
    return [file_name(file) for file in side.files] if len(set(every)) == len(every) else list(side.files)


def _told(side: ComparedSide) -> str:
    parts = [*side.gpus]
    if len(side.files) > 1:
        parts.append(count_text(len(side.files), "run"))
    parts.append(count_text(side.kernels, "kernel"))
    parts.append(count_text(side.launches, "launch", "es"))
    if side.time_s is not None:
        parts.append(format_si(side.time_s, "s"))
    return ", ".join(parts)


def _conditions(conditions: Sequence[RunCondition], sheet: Sheet, *, brief: bool) -> Iterator[Text]:
    """Yield what is not alike: what forbids a verdict in any case, the rest with -v."""
    told = [condition for condition in conditions if condition.affects is not None or not brief]
    for condition in told[: _CONDITIONS if brief else None]:
        yield sheet.paragraph(condition.sentence, "yellow" if condition.affects is not None else "dim")
    hidden = len(conditions) - min(len(told), _CONDITIONS) if brief else 0
    if hidden:
        yield sheet.paragraph(f"{count_text(hidden, 'other difference')} around the runs: -v shows all", "dim")


def _gate(gate: Gate, kernels: Sequence[KernelChange], sheet: Sheet, *, brief: bool) -> Iterator[Text]:
    from rich.text import Text

    yield Text("")
    yield sheet.paragraph(gate_text(gate), "bold green" if gate.passed else "bold red")
    labels = {kernel.id: kernel.label for kernel in kernels}
    told = [check for check in gate.checks if check.word in _TOLD or not brief]
    for check in told[: _CHECKS if brief else None]:
        kernel = f"{labels[check.kernel]}: " if check.kernel in labels else ""
        reason = f"; {check.accepted}" if check.accepted else ""
        text = f"{check.word.replace('-', ' ')}: {kernel}{check.sentence}{reason}"
        yield sheet.paragraph(text, _GATE_STYLES[check.word], indent=2)
    if brief:
        yield from _folded(gate, len(told) - _CHECKS, sheet)


def _folded(gate: Gate, more: int, sheet: Sheet) -> Iterator[Text]:
    """Yield in a line how many checks are not told one by one."""
    if more > 0:
        yield sheet.paragraph(f"… and {count_text(more, 'more check')}: -v shows all", "dim", indent=2)
    for word, what in (("unclear", "unclear"), ("not-compared", "not compared")):
        limits = Counter(check.limit for check in gate.checks if check.word == word)
        if limits:
            listed = ", ".join(f"{limit} of {count_text(number, 'kernel')}" for limit, number in limits.items())
            yield sheet.paragraph(f"{what}: {listed}; -v says why", "yellow", indent=2)


def _height(lines: Sequence[Text]) -> int:
    """Return how many lines texts take with an empty one behind them; 0 for none."""
    return sum(line.plain.count("\n") + 1 for line in lines) + 1 if lines else 0
