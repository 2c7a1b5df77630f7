"""A review in the terminal: what was read, then each kernel with what it takes, what was found and what to change.

With more asked for, kernels in depth: loops, accesses, and findings with what they rest on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.present.check_blocks import Block, BlockFinding, blocks_of, ranked
from gpuprof.present.check_console_kernel import Brief, brief_lines, deep_lines, finding_lines, limited
from gpuprof.present.check_text import headline
from gpuprof.present.console_parts import Sheet
from gpuprof.review.contract import Review
from gpuprof.views.terminal import print_blocks
from gpuprof.words.profile_values import count_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SCREEN, _LEAST = 29, 3
"""Lines of a screen, but for the one that says what to type next; kernels that it has in any case."""
_BREVITIES = (Brief(findings=None), Brief(findings=3), Brief(findings=2, cut=True), Brief(findings=1, cut=True))
"""From the most to the least; the first is taken that fits a screen."""
_OF_TOP = Brief(findings=3)
_MOST_NOTES, _NOTE_LINES = 3, 2


def print_review(
    console: Console, review: Review, *, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> None:
    """Print what was found, kernels with findings in the deepest loops first.

    Without `top` it has as many kernels as a screen of 30 lines leaves; 0 is all. With `verbose` each kernel is told in
    depth and nothing is left out; with `chosen`, where the user named kernels, too.
    """
    sheet = Sheet.of(console)
    blocks = ranked(blocks_of(review))
    if verbose or chosen:
        print_blocks(console, _whole(review, blocks[:top] if top else blocks, len(blocks), sheet, number=not chosen))
    else:
        print_blocks(console, _screen(review, blocks, sheet, top))


def _screen(review: Review, blocks: Sequence[Block], sheet: Sheet, top: int | None) -> Iterator[Text]:
    above, notes = list(_above(review, sheet, whole=False)), list(_notes(review, sheet, whole=False))
    room = _SCREEN - _height(above) - _height(notes)
    if top is not None:
        shown = [_brief(block, sheet, _OF_TOP) for block in (blocks[:top] if top else blocks)]
    else:
        shown = _fitting(blocks, sheet, room)
    yield from above
    for lines in shown:
        yield sheet.paragraph("")
        yield from lines
    yield from _rest(blocks[len(shown) :], sheet)
    if notes:
        yield sheet.paragraph("")
        yield from notes


def _fitting(blocks: Sequence[Block], sheet: Sheet, room: int) -> list[list[Text]]:
    """Return kernels that fit: all of them as fully as that goes, else the first ones."""
    for brief in _BREVITIES:
        made = [_brief(block, sheet, brief) for block in blocks[:_SCREEN]]
        if len(blocks) <= _SCREEN and sum(map(_height, made)) <= room:
            return made
    left, number = room - 1, 0  # a line says how many are left out
    for lines in made:
        left -= _height(lines)
        if left < 0 and number >= _LEAST:
            break
        number += 1
    return made[:number]


def _brief(block: Block, sheet: Sheet, brief: Brief) -> list[Text]:
    return list(brief_lines(block, sheet, brief, number=True))


def _rest(blocks: Sequence[Block], sheet: Sheet) -> Iterator[Text]:
    """Say how many kernels are left out, and how many of those have findings."""
    if not blocks:
        return
    told = sum(bool(block.findings) for block in blocks)
    having = f", {told} with findings" if told else ", without findings"
    yield sheet.paragraph("")
    yield sheet.paragraph(f"… and {count_text(len(blocks), 'more kernel')}{having}: --top 0 shows all", "dim")


def _whole(review: Review, blocks: Sequence[Block], every: int, sheet: Sheet, *, number: bool) -> Iterator[Text]:
    yield from _above(review, sheet, whole=True)
    for block in blocks:
        yield sheet.paragraph("")
        yield from deep_lines(block, sheet, number=number)
    if every > len(blocks):
        yield sheet.paragraph("")
        yield sheet.paragraph(f"… and {count_text(every - len(blocks), 'more kernel')}: --top 0 shows all", "dim")
    notes = list(_notes(review, sheet, whole=True))
    if notes or review.tools:
        yield sheet.paragraph("")
    yield from notes
    if review.tools:
        yield sheet.hanging("Tools   ", ", ".join(review.tools))


def _above(review: Review, sheet: Sheet, *, whole: bool) -> Iterator[Text]:
    """Yield what comes before the kernels: what was read, and what was found on the files as a whole."""
    yield limited(sheet, headline(review), None if whole else 3, "bold")
    for finding in review.findings:
        yield from finding_lines(BlockFinding(finding=finding, only=()), sheet, cut=not whole)
    if not review.kernels:
        yield sheet.paragraph("no kernel with machine code", "dim")


def _notes(review: Review, sheet: Sheet, *, whole: bool) -> Iterator[Text]:
    """Yield what was left out and why."""
    shown = review.notes if whole else review.notes[:_MOST_NOTES]
    for note in shown:
        yield limited(sheet, note, None if whole else _NOTE_LINES, "dim")
    if len(review.notes) > len(shown):
        yield sheet.paragraph(f"… and {count_text(len(review.notes) - len(shown), 'more note')}: -v shows all", "dim")


def _height(lines: Sequence[Text]) -> int:
    """Return how many lines texts take with an empty one behind them; 0 for none."""
    return sum(line.plain.count("\n") + 1 for line in lines) + 1 if lines else 0
