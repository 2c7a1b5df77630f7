"""A comparison in the terminal: verdict, what is not alike, the gate, and the kernels that changed.

With more asked for, kernels in depth: causes, the interval of the time, counters, findings, lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import (
    ComparedSide,
    Comparison,
    Gate,
    GateCheck,
    KernelChange,
    RunCondition,
    figures_to_show,
)
from gpuprof.present.compare_console_kernel import change_lines
from gpuprof.present.compare_console_table import folded, limited, rows_of, table_lines
from gpuprof.present.console_parts import Sheet
from gpuprof.units import format_si
from gpuprof.views.terminal import print_blocks
from gpuprof.words.comparison_gate import CHECK_WORDS, gate_text
from gpuprof.words.comparison_values import gpu_texts
from gpuprof.words.comparison_verdicts import quantity_text
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import count_text

_SCREEN, _LEAST_ROWS = 29, 3
"""Lines of a screen without the one with the next command; kernels that it shows at least, if that is possible."""
_SIDE, _LEAST_FILE = 6, 24
"""Columns of the name of a side, and of a file if there is little room."""


_STYLES = {"regression": "red", "unclear": "yellow", "not-compared": "yellow", "accepted": "dim"}
_NAME, _NAMED, _LIMIT = 40, 2, 40
"""Columns of a kernel's name; up to how many kernels are named together; columns of a limit."""


class _Brief(Struct, frozen=True):
    """How many conditions, failed limits, notes and totals a screen has, and lines of a text; -v has all."""

    conditions: int
    checks: int
    notes: int
    totals: int
    lines: int


_BREVITIES = (
    _Brief(conditions=3, checks=5, notes=2, totals=4, lines=4),
    _Brief(conditions=2, checks=4, notes=2, totals=3, lines=2),
    _Brief(conditions=1, checks=3, notes=1, totals=2, lines=2),
    _Brief(conditions=1, checks=2, notes=1, totals=1, lines=1),
)
"""From the most to the least; the first is taken that leaves room for kernels."""
_REASONS = (3, 2, 1)
"""Lines of reasons below the figures of a kernel, from the most to the least."""


def print_comparison(
    console: Console, compared: Compared, *, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> None:
    """Print the verdict and a table of the first `top` kernels that changed (0: of all kernels).

    Without `top` it has as many rows as a screen of 30 lines leaves. With `verbose` nothing is left out, and each
    kernel that changed follows in depth; with `chosen`, if the user named kernels, each of them.
    """
    sheet, comparison = Sheet.of(console), compared.comparison
    in_depth = verbose or chosen
    blocks = _whole(comparison, sheet, top, chosen=chosen) if in_depth else _screen(comparison, sheet, top)
    print_blocks(console, blocks)


def _screen(comparison: Comparison, sheet: Sheet, top: int | None) -> Iterator[Text]:
    kernels = folded(comparison.kernels)
    rows = rows_of(kernels)
    if top is not None:
        rows = rows[:top] if top else kernels
    above: list[Text] = []
    table: list[Text] = []
    notes: list[Text] = []
    for brief in _BREVITIES:
        above = list(_above(comparison, sheet, brief))
        notes = list(_notes(comparison, sheet, brief))
        room = _SCREEN - _height(above) - _height(notes)
        if top is not None:
            table = list(table_lines(kernels, rows, sheet, 1))
            break
        table = _table(kernels, rows, sheet, room)
        if _height(table) - 1 <= room and _rows_of(table) >= min(_LEAST_ROWS, len(rows)):
            break
    yield from above
    yield Text("")
    yield from table
    if notes:
        yield Text("")
        yield from notes


def _table(kernels: Sequence[KernelChange], rows: Sequence[KernelChange], sheet: Sheet, room: int) -> list[Text]:
    """Return a table that fits: with long reasons, else with short ones, else of fewer kernels."""
    for lines in _REASONS:
        table = list(table_lines(kernels, rows[: 2 * _SCREEN], sheet, lines))
        if _height(table) - 1 <= room and len(rows) <= 2 * _SCREEN:
            return table
    most = min(len(rows), max(room, 1))
    while True:
        table = list(table_lines(kernels, rows[:most], sheet, 1))
        if _height(table) - 1 <= room or most <= 1:
            return table
        most -= 1


def _rows_of(table: Sequence[Text]) -> int:
    """Return how many kernels a table has: their lines are never broken, nor are the two above them."""
    return max(0, sum(bool(line.no_wrap) for line in table) - 2)


def _whole(comparison: Comparison, sheet: Sheet, top: int | None, *, chosen: bool) -> Iterator[Text]:
    yield from _above(comparison, sheet, None)
    changed = rows_of(comparison.kernels)
    shown: Sequence[KernelChange] = comparison.kernels if chosen or top == 0 else changed
    shown = shown[:top] if top else shown
    yield Text("")
    # What is told of each kernel in depth is not told in the table, too.
    yield from table_lines(comparison.kernels, shown, sheet, 0)
    for change in shown:
        yield Text("")
        yield from change_lines(change, comparison, sheet)
    if comparison.notes:
        yield Text("")
        yield from _notes(comparison, sheet, None)


def _notes(comparison: Comparison, sheet: Sheet, brief: _Brief | None) -> Iterator[Text]:
    for note in comparison.notes[: brief.notes if brief else None]:
        yield limited(sheet, note, brief.lines if brief else None, "dim")


def _above(comparison: Comparison, sheet: Sheet, brief: _Brief | None) -> Iterator[Text]:
    """Yield what comes before the kernels: the verdict, the sides, what is not alike, totals and the gate."""
    yield limited(sheet, comparison.sentence, brief.lines + 1 if brief else None, "bold")
    yield from _sides(comparison, sheet, brief)
    yield from _totals(comparison, sheet, brief)
    yield from _conditions(comparison.conditions, sheet, brief)
    if comparison.gate is not None:
        yield from _gate(comparison, comparison.gate, sheet, brief)


def _sides(comparison: Comparison, sheet: Sheet, brief: _Brief | None) -> Iterator[Text]:
    sides = {"base": comparison.base, "new": comparison.new}
    named = {name: _names(comparison, side) for name, side in sides.items()}
    for name, side in sides.items():
        label, room, told = name.ljust(_SIDE), sheet.width - _SIDE, _told(side)
        if brief is None:
            yield sheet.hanging(label, f"{', '.join(side.files)}: {told}")
            continue
        files = named[name]
        other = next(iter(named["new" if name == "base" else "base"]), "")
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        beside = room - len(more) - len(told) - 2
        lines = 1 if beside >= _LEAST_FILE else min(brief.lines, 2)
        width = max(beside, _LEAST_FILE) if lines == 1 else room - len(more) - 1
        file = sheet.fitted_apart(files[0] if files else "nothing", other, width)
        yield sheet.hanging(label, sheet.clipped(f"{file}{more}: {told}", lines * (room - 2) if lines > 1 else room))


def _names(comparison: Comparison, side: ComparedSide) -> list[str]:
    """Return the files of a side without their folders, if no two have the same name then."""
    every = dict.fromkeys((*comparison.base.files, *comparison.new.files))
    names = {file_name(file) for file in every}
    return [file_name(file) for file in side.files] if len(names) == len(every) else list(side.files)


def _told(side: ComparedSide) -> str:
    parts = gpu_texts(side.gpus)
    if len(side.files) > 1:
        parts.append(count_text(len(side.files), "run"))
    parts.append(count_text(side.kernels, "kernel"))
    parts.append(count_text(side.launches, "launch", "es"))
    if side.time_s is not None:
        parts.append(format_si(side.time_s, "s"))
    return ", ".join(parts)


def _totals(comparison: Comparison, sheet: Sheet, brief: _Brief | None) -> Iterator[Text]:
    """Yield the step and the figures of the run that changed, beside the time that the sentence has."""
    texts = [*map(quantity_text, figures_to_show(comparison.total)[: brief.totals if brief else None])]
    names = {quantity.name for quantity in comparison.total}
    if "span" in names and "step" not in names:
        texts.append("no GPU is judged by steps")
    if not texts:
        return
    text = ", ".join(texts)
    if brief is not None:
        text = sheet.clipped(text, 2 * (sheet.width - _SIDE) - _SIDE)
    yield sheet.hanging("run".ljust(_SIDE), text)


def _conditions(conditions: Sequence[RunCondition], sheet: Sheet, brief: _Brief | None) -> Iterator[Text]:
    """Yield what is not alike: what forbids a verdict in any case, the rest with -v."""
    told = [condition for condition in conditions if condition.affects is not None or brief is None]
    told = told[: brief.conditions if brief else None]
    for condition in told:
        style = "yellow" if condition.affects is not None else "dim"
        yield limited(sheet, condition.sentence, brief.lines if brief else None, style)
    hidden = len(conditions) - len(told)
    if hidden:
        other = "other " if told else ""
        yield sheet.paragraph(f"{count_text(hidden, f'{other}note')} on the runs: -v shows all", "dim")


def _height(lines: Sequence[Text]) -> int:
    """Return how many lines texts take with an empty one behind them; 0 for none."""
    return sum(line.plain.count("\n") + 1 for line in lines) + 1 if lines else 0


def _gate(comparison: Comparison, gate: Gate, sheet: Sheet, brief: _Brief | None) -> Iterator[Text]:
    """Yield an empty line, the result and, one by one, what it comes from; of the rest how many kernels they are of."""
    yield Text("")
    yield sheet.paragraph(gate_text(gate), "bold green" if gate.passed else "bold red")
    labels: dict[int | None, str] = {kernel.id: kernel.label for kernel in comparison.kernels}
    telling = _telling(gate)
    told = [check for check in gate.checks if brief is None or check.word in telling]
    for check in told[: brief.checks if brief else None]:
        text = _check_text(check, labels, sheet)
        yield limited(sheet, text, brief.lines if brief else None, _STYLES[check.word], 2, hang=2)
    if brief is None:
        return
    if len(told) > brief.checks:
        yield sheet.paragraph(f"… and {count_text(len(told) - brief.checks, 'more check')}: -v shows all", "dim", 2)
    for word in ("unclear", "not-compared"):
        doubted = [check for check in gate.checks if check.word == word and word not in telling]
        if doubted:
            text = f"{CHECK_WORDS[word]}: {_folded(doubted, labels, sheet)}; -v says why"
            yield limited(sheet, text, brief.lines, "yellow", 2, hang=2)


def _telling(gate: Gate) -> tuple[str, ...]:
    """Return the results of the checks to list: regressions, or else what failed in their place."""
    is_regression = any(check.word == "regression" for check in gate.checks)
    return ("regression", "accepted") if gate.passed or is_regression else ("unclear", "not-compared", "accepted")


def _check_text(check: GateCheck, labels: Mapping[int | None, str], sheet: Sheet) -> str:
    kernel = f"{_kernel_name(check, labels, sheet)}: " if check.kernel is not None else ""
    reason = f"; {check.accepted}" if check.accepted else ""
    return f"{CHECK_WORDS.get(check.word, check.word)}: {kernel}{check.sentence}{reason}"


def _kernel_name(check: GateCheck, labels: Mapping[int | None, str], sheet: Sheet) -> str:
    if check.kernel is None:  # a limit for some kernels, of which there are none, or one on the run
        return "no kernel" if check.pattern is not None else "the run"
    return sheet.fitted(labels.get(check.kernel, f"#{check.kernel}"), min(_NAME, sheet.width // 3))


def _folded(checks: Sequence[GateCheck], labels: Mapping[int | None, str], sheet: Sheet) -> str:
    """Write which limits are in doubt for what: "time:3% of 4 kernels, total-time:1% of the run"."""
    limits: dict[str, list[GateCheck]] = {}
    for check in checks:
        limits.setdefault(check.limit, []).append(check)
    return ", ".join(
        f"{sheet.fitted(limit, _LIMIT)} of {_whose(held, labels, sheet)}" for limit, held in limits.items()
    )


def _whose(checks: Sequence[GateCheck], labels: Mapping[int | None, str], sheet: Sheet) -> str:
    if len(checks) <= _NAMED:
        return " and ".join(_kernel_name(check, labels, sheet) for check in checks)
    return count_text(len(checks), "kernel")
