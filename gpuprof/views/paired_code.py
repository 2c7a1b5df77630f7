"""The source of a kernel on both sides as one listing: lines that are alike once, others of the base and of the new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from gpuprof.comparison.contract import SIDES, KernelChange
from gpuprof.comparison.lines import FEW_LINES
from gpuprof.model.session import KernelProfile, LineWork
from gpuprof.units import spaced
from gpuprof.views.document import Block, Code, CodeLine, Note
from gpuprof.words.comparison_values import value_text
from gpuprof.words.file_names import file_name

_TAB = 4
_LINE_LENGTH = 200
_MOST_ROWS = 80
_CONTEXT = 2
# Maximum number of lines of a file that are aligned; the rest is counted as left out.
_MOST_ALIGNED = 2000


_Row = tuple[LineWork | None, LineWork | None]


def paired_code(change: KernelChange, base: KernelProfile, new: KernelProfile) -> Iterator[Block]:
    """Yield the files that both sides have, in the order of the new side, or why there are none."""
    is_counted = all(any(line.instructions is not None for line in side.lines) for side in (base, new))
    before = _lines(base)
    after = _lines(new)
    matched = {file: file for file in after if file in before}
    if not matched and len(before) == len(after) == 1:
        matched = dict(zip(after, before, strict=True))
    for file, old in matched.items():
        changed = {line.new_line for line in change.lines if file_name(line.file) == file}
        yield _listing(file, before[old], after[file], changed, is_counted)
    lacking = [name for name, lines in zip(SIDES, (before, after), strict=True) if not lines]
    if lacking:
        how = "ncu's --import-source yes and a build with -lineinfo bring it"
        yield Note(f"Source: not collected on the {' and the '.join(lacking)} side; {how}.", "muted")
    elif not matched:
        yield Note("Source: the two sides share no file.", "muted")


def _lines(kernel: KernelProfile) -> dict[str, list[LineWork]]:
    """Return the lines with text of a kernel by the name of their file, in order."""
    lines: defaultdict[str, list[LineWork]] = defaultdict(list)
    for line in sorted(kernel.lines, key=lambda line: line.number):
        if line.text.strip():
            lines[file_name(line.file)].append(line)
    return lines


def _listing(
    file: str, base: Sequence[LineWork], new: Sequence[LineWork], changed: set[int | None], is_counted: bool
) -> Code:
    rows = list(_aligned(base[:_MOST_ALIGNED], new[:_MOST_ALIGNED]))
    shown = _near_changes(rows, changed)
    most = max((_weight(line, is_counted) for line in (*base, *new)), default=0.0) or 1.0
    lines = []
    for index, place in enumerate(shown):
        if index and shown[index - 1] != place - 1:
            lines.append(CodeLine("⋯", ""))
        lines.append(_code_line(rows[place], most, is_counted))
    not_aligned = max(len(base) - _MOST_ALIGNED, len(new) - _MOST_ALIGNED, 0)
    left_out = len(rows) - len(shown) + not_aligned
    more = f", {spaced(left_out)} lines left out" if left_out else ""
    what = "instructions" if is_counted else "samples"
    return Code(f"{file}, {what} of both sides{more}", tuple(lines), ("base", "new", ""))


def _aligned(base: Sequence[LineWork], new: Sequence[LineWork]) -> Iterator[_Row]:
    """Yield the lines of both sides in order, those of equal text together."""
    before = [" ".join(line.text.split()) for line in base]
    after = [" ".join(line.text.split()) for line in new]
    matcher = SequenceMatcher(None, before, after, autojunk=len(after) > FEW_LINES)
    for word, i1, i2, j1, j2 in matcher.get_opcodes():
        if word == "equal":
            yield from zip(base[i1:i2], new[j1:j2], strict=True)
        else:
            yield from ((line, None) for line in base[i1:i2])
            yield from ((None, line) for line in new[j1:j2])


def _near_changes(rows: Sequence[_Row], changed: set[int | None]) -> Sequence[int]:
    """Return the places of the rows to show: all of a few, else those that changed with their neighbours."""
    if len(rows) <= _MOST_ROWS:
        return range(len(rows))
    near: set[int] = set()
    for place, (base, new) in enumerate(rows):
        if base is None or new is None or new.number in changed:
            near.update(range(place - _CONTEXT, place + _CONTEXT + 1))
    return sorted(near.intersection(range(len(rows))))[:_MOST_ROWS] or range(_MOST_ROWS)


def _code_line(row: _Row, most: float, is_counted: bool) -> CodeLine:
    """Return a row as a line: with a mark if only one side has it."""
    base, new = row
    sides = [line for line in row if line is not None]
    mark = ""
    if base is None:
        mark = "+"
    elif new is None:
        mark = "−"
    text = sides[-1].text.expandtabs(_TAB)[:_LINE_LENGTH].rstrip()
    heat = max(_weight(line, is_counted) for line in sides) / most
    notes = []
    for line in row:
        weight = _weight(line, is_counted)
        notes.append(value_text(weight) if weight else "")
    return CodeLine(str(sides[-1].number), text, heat=heat, notes=(*notes, mark), marked=bool(mark))


def _weight(line: LineWork | None, is_counted: bool) -> float:
    if line is None:
        return 0.0
    return (line.instructions if is_counted else line.samples) or 0.0
