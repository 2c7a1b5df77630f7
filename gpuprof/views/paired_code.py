"""The source of a kernel on both sides as one listing: lines that are alike once, others of the base and of the new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import KernelChange, LineChange
from gpuprof.comparison.lines import FEW_LINES
from gpuprof.model.session import KernelProfile
from gpuprof.units import format_percent, format_si, signed_percent, spaced
from gpuprof.views.document import Block, Code, CodeLine, Inline, Note
from gpuprof.words.file_names import file_name

_TAB = 4
_LINE_LENGTH = 200
_MOST_ROWS = 80
_CONTEXT = 2
# Lines of a file that are aligned: those behind them are counted as left out.
_MOST_ALIGNED = 2000
_SPELT_OUT = 1e4
_WHAT = {"local": "local accesses"}


class _Line(Struct, frozen=True):
    """A line of one side as it was collected."""

    number: int
    text: str
    instructions: float | None
    share: float | None


_Row = tuple[_Line | None, _Line | None]
# Changes of lines by the number on the new side, or on the base side if the line is gone.
_Changes = defaultdict[tuple[str, int | None], list[LineChange]]


def paired_code(change: KernelChange, base: KernelProfile, new: KernelProfile) -> Iterator[Block]:
    """Yield the files that both sides have, in the order of the new side; else why there are none."""
    before = _lines(base)
    after = _lines(new)
    matched = {file: file for file in after if file in before}
    if not matched and len(before) == len(after) == 1:
        matched = dict(zip(after, before, strict=True))
    for file, old in matched.items():
        changes: _Changes = defaultdict(list)
        for line in change.lines:
            if file_name(line.file) == file:
                key = ("new", line.new_line) if line.new_line is not None else ("base", line.base_line)
                changes[key].append(line)
        yield _listing(file, before[old], after[file], changes)
    if before and after and not matched:
        yield Note("Source: the two sides share no file.", "muted")
    elif not matched:
        sides = "either side" if not before and not after else "the new side" if before else "the base side"
        text = f"Source: not collected on {sides}; ncu's --import-source yes and a build with -lineinfo bring it."
        yield Note(text, "muted")


def _lines(kernel: KernelProfile) -> dict[str, list[_Line]]:
    """Return the lines with text of a kernel by the name of their file, in order."""
    lines: defaultdict[str, dict[int, _Line]] = defaultdict(dict)
    for excerpt in kernel.excerpts:
        if excerpt.language == "source" and excerpt.file:
            for line in excerpt.lines:
                if line.number is not None and line.text.strip():
                    found = _Line(line.number, line.text, instructions=None, share=line.share)
                    lines[file_name(excerpt.file)][line.number] = found
    for work in kernel.lines:
        known = lines[file_name(work.file)].get(work.number)
        text = known.text if known is not None else work.text
        share = known.share if known is not None else None
        if text.strip():
            counted = _Line(work.number, text, instructions=work.instructions, share=share)
            lines[file_name(work.file)][work.number] = counted
    return {file: [numbered[number] for number in sorted(numbered)] for file, numbered in lines.items() if numbered}


def _listing(file: str, base: Sequence[_Line], new: Sequence[_Line], changes: _Changes) -> Code:
    is_counted = all(any(line.instructions is not None for line in side) for side in (base, new))
    if not is_counted:
        base = [replace(line, instructions=None) for line in base]
        new = [replace(line, instructions=None) for line in new]
    most = max((_weight(line) for line in (*base, *new)), default=0.0)
    behind = max(len(base), len(new), _MOST_ALIGNED) - _MOST_ALIGNED
    rows = list(_aligned(base[:_MOST_ALIGNED], new[:_MOST_ALIGNED]))
    indent = min((_indent(line) for row in rows for line in row if line is not None), default=0)
    shown = _telling(rows, changes)
    lines = []
    last = -1
    for place in shown:
        if place != last + 1:
            lines.append(CodeLine("⋯", ""))
        lines += _code_lines(rows[place], changes, most, indent)
        last = place
    left_out = len(rows) - len(shown) + behind
    more = f", {spaced(left_out)} lines left out" if left_out else ""
    what = "instructions" if is_counted else "samples"
    return Code(f"{file}, {what} of both sides{more}", tuple(lines), ("base", "new", "gained", ""))


def _weight(line: _Line) -> float:
    return (line.instructions if line.instructions is not None else line.share) or 0.0


def _aligned(base: Sequence[_Line], new: Sequence[_Line]) -> Iterator[_Row]:
    """Yield the lines of both sides in order, those of equal text together."""
    before = [" ".join(line.text.split()) for line in base]
    after = [" ".join(line.text.split()) for line in new]
    matcher = SequenceMatcher(None, before, after, autojunk=len(after) > FEW_LINES)
    for word, i1, i2, j1, j2 in matcher.get_opcodes():
        if word == "equal":
            yield from zip(base[i1:i2], new[j1:j2], strict=True)
        else:
            for line in base[i1:i2]:
                yield line, None
            for line in new[j1:j2]:
                yield None, line


def _telling(rows: Sequence[_Row], changes: _Changes) -> list[int]:
    """Return the places of the rows to show: all of a few, else those that changed with their neighbours."""
    if len(rows) <= _MOST_ROWS:
        return list(range(len(rows)))
    near: set[int] = set()
    for place, row in enumerate(rows):
        if None in row or _key(row) in changes:
            near.update(range(place - _CONTEXT, place + _CONTEXT + 1))
    return sorted(near & set(range(len(rows))))[:_MOST_ROWS] or list(range(_MOST_ROWS))


def _key(row: _Row) -> tuple[str, int | None]:
    base, new = row
    if new is not None:
        return "new", new.number
    return "base", base.number if base is not None else None


def _code_lines(row: _Row, changes: _Changes, most: float, indent: int) -> Iterator[CodeLine]:
    """Yield a row as a line: with a mark if only one side has it."""
    base, new = row
    line = new or base
    if line is None:
        return
    mark = "" if base and new else "+" if new else "−"
    weights = [_weight_text(side) if side is not None else "" for side in row]
    notes: tuple[Inline, ...] = (*weights, ", ".join(map(_gain, changes.get(_key(row), ()))), mark)
    weight = max(_weight(side) for side in row if side is not None)
    text = line.text.expandtabs(_TAB)[indent : indent + _LINE_LENGTH].rstrip()
    yield CodeLine(str(line.number), text, heat=weight / most if most else 0.0, notes=notes, marked=bool(mark))


def _indent(line: _Line) -> int:
    text = line.text.expandtabs(_TAB)
    return len(text) - len(text.lstrip(" "))


def _weight_text(line: _Line) -> str:
    if line.instructions:
        return _number(line.instructions)
    return format_percent(line.share) if line.share and line.instructions is None else ""


def _number(value: float) -> str:
    return spaced(value) if abs(value) < _SPELT_OUT else format_si(value, "")


def _gain(line: LineChange) -> str:
    """Write by how much the work of a line changed: "+12.0 M (+5 %)"."""
    base = line.base or 0.0
    new = line.new or 0.0
    sign = "+" if new >= base else "−"
    share = f" ({signed_percent(new / base - 1)})" if base and new else ""
    what = f" {_WHAT[line.what]}" if line.what in _WHAT else ""
    return f"{sign}{_number(abs(new - base))}{what}{share}"
