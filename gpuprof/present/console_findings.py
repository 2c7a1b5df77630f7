"""Findings in the terminal: the verdict and what to fix first over all kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.present.console_parts import SEVERITY_STYLES, Sheet
from gpuprof.words.recommendations import RecommendationText, Summary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_BAR_WIDTH = 8
_GAIN_WIDTH = len("~ 0.50–0.82 %")
_INDENT = 2
_DOT = " · "
_SPREAD_PART = 2
"""The part of a line, one in so many, in which it is said whole in what files or launches a kernel is."""
_TEXT_COLUMN = _INDENT + _BAR_WIDTH + _GAIN_WIDTH + 2
_WORD = re.compile(r"""(?:\\.|[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*")+""")
"""A word of a command line, with what is quoted in it."""


def verdict_lines(summary: Summary, sheet: Sheet, notes: int | None = None) -> Iterator[Text]:
    """Yield the state of what takes the time, how the time is spread, and what else a reader should know of both.

    `notes` says how many of the notes are given, None for all.
    """
    if summary.headline:
        yield sheet.paragraph(summary.headline, "bold")
    yield sheet.paragraph(summary.spread, "" if summary.headline else "bold")
    for note in summary.notes[:notes]:
        yield sheet.paragraph(note)


class Brevity(Struct, frozen=True):
    """How short the list of what to fix first is: how many there are, and whether actions and places are cut."""

    most: int
    cut_places: bool = False
    cut_actions: bool = False


def fix_first_lines(summary: Summary, sheet: Sheet, brief: Brevity | None = None) -> Iterator[RenderableType]:
    """Yield what to fix first, in full unless `brief` says otherwise, or that there is nothing.

    Nothing is said without kernels.
    """
    from rich.text import Text

    if summary.nothing:
        yield sheet.paragraph(summary.nothing)
    if not summary.fixes:
        return
    yield _heading(summary.legend, sheet)
    for item in summary.fixes[: brief.most] if brief is not None else summary.fixes:
        yield _fix(item, sheet) if brief is None else _brief_fix(item, sheet, brief)
    if brief is None and summary.left_out:
        yield Text(f"{' ' * _TEXT_COLUMN}and {summary.left_out}", style="dim")


def unknown_lines(summary: Summary, sheet: Sheet) -> Iterator[RenderableType]:
    """Yield what is not known, and how to collect it; nothing where all is."""
    if summary.unknown:
        yield sheet.paragraph(summary.unknown)
    if summary.command:
        yield _command(summary.command, sheet)


def _heading(legend: str, sheet: Sheet) -> Text:
    from rich.text import Text

    first, *rest = sheet.wrapped(legend, _LEGEND_COLUMN)
    heading = Text(_FIX_FIRST, style="bold")
    heading.append(f"\n{' ' * _LEGEND_COLUMN}".join((first, *rest)), style="not bold dim")
    return heading


_FIX_FIRST = "Fix first  "
_LEGEND_COLUMN = len(_FIX_FIRST)


def _gain(item: RecommendationText, sheet: Sheet) -> Text:
    """The gain as a bar and a number."""
    from rich.text import Text

    line = Text(" " * _INDENT, no_wrap=True, overflow="ignore")
    bar = sheet.bar(item.bar or 0.0, _BAR_WIDTH)
    line.append(bar, "dim" if item.doubt else SEVERITY_STYLES[item.severity])
    line.append(f"{sheet.legible(item.gain).rjust(_GAIN_WIDTH)}  ", "dim" if item.doubt else "bold")
    return line


def _fix(item: RecommendationText, sheet: Sheet) -> Text:
    """The gain, the headline, how far the gain holds, what to change, and where."""
    line, margin = _gain(item, sheet), f"\n{' ' * _TEXT_COLUMN}"
    line.append(margin.join(sheet.wrapped(item.headline, _TEXT_COLUMN)))
    if item.limits:
        line.append(margin + margin.join(sheet.wrapped(item.limits, _TEXT_COLUMN)), "dim")
    if item.action:
        line.append(margin + margin.join(sheet.wrapped(f"→ {item.action}", _TEXT_COLUMN)), "bold")
    about = ", ".join(part for part in (item.where, item.kernels, item.rule, item.confidence) if part)
    line.append(margin + margin.join(sheet.wrapped(about, _TEXT_COLUMN)), "dim")
    return line


def _brief_fix(item: RecommendationText, sheet: Sheet, brief: Brevity) -> Text:
    """The gain and what it is of in one line, what to change, and where, how sure, and how far the gain holds."""
    line, room, margin = _gain(item, sheet), sheet.width - _TEXT_COLUMN, f"\n{' ' * _TEXT_COLUMN}"
    line.append(sheet.clipped(item.headline, room))
    if item.action:
        action = f"→ {item.action}"
        lines = [sheet.clipped(action, room)] if brief.cut_actions else sheet.wrapped(action, _TEXT_COLUMN)
        line.append(margin + margin.join(lines), "bold")
    line.append(margin + margin.join(_places(item, sheet, cut=brief.cut_places)), "dim")
    return line


def _places(item: RecommendationText, sheet: Sheet, *, cut: bool) -> list[str]:
    """Join kernels, place and how sure it is; with `cut` in one line, which has the limits only where there is room.

    What a gain holds with comes before what is left of it. How sure it is always stays whole, as does in how many
    launches it is.
    """
    dot, room = sheet.legible(_DOT), sheet.width - _TEXT_COLUMN
    where, sure = sheet.legible(item.where), sheet.legible(item.doubt or item.confidence)
    limits = [sheet.legible(part) for part in (item.held, item.after) if part]
    name, spread = item.name, sheet.legible(item.spread)
    if sheet.cells(spread) > room // _SPREAD_PART:
        name, spread = item.kernels, ""
    least = min(sheet.cells(name), room // 3) + sheet.cells(spread)

    def rest() -> int:
        return sum(len(dot) + sheet.cells(part) for part in (where, sure, *limits) if part)

    while cut and limits and rest() + least > room:
        limits.pop()
    if cut and where and (over := rest() + least - room) > 0:
        where = sheet.fitted(where, max(sheet.cells(where) - over, 1))
    left = max(room - rest(), least)
    kernels = sheet.fitted(name, left - sheet.cells(spread)) + spread
    text = dot.join(part for part in (kernels, where, sure, *limits) if part)
    return [sheet.clipped(text, room)] if cut else sheet.wrapped(text, _TEXT_COLUMN)


def _command(command: str, sheet: Sheet) -> RenderableType:
    """A command line to be copied: broken only where a shell reads on, and no line of it is filled or folded."""
    from rich.console import Group
    from rich.text import Text

    margin, shown = " " * 3, sheet.legible(command)
    lines = [""]
    for word in _options(_words(shown), sheet.width - len(margin) - len(" \\")):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and len(margin) + len(longer) + len(" \\") > sheet.width:
            lines.append(word)
        else:
            lines[-1] = longer
    text = " \\\n".join(f"{margin}{line}" for line in lines)
    # A text that is printed by itself loses how it is to be laid out.
    return Group(Text(text, style="cyan", no_wrap=True, overflow="ignore"))


def _options(command: Sequence[str], room: int) -> list[str]:
    """Join options with the word behind them, where both fit into a line."""
    joined: list[str] = []
    for word in command:
        last = joined[-1] if joined else ""
        is_value = last.startswith("-") and " " not in last and not word.startswith("-")
        if is_value and len(last) + 1 + len(word) <= room:
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def _words(command: str) -> list[str]:
    """Split a command line where a shell would; a command whose quotes do not match stays whole."""
    return [command] if _WORD.sub("", command).strip() else _WORD.findall(command)
