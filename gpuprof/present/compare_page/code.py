"""The source of a kernel side by side: lines of both sides aligned by their text, with what each gained or lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import KernelChange, LineChange
from gpuprof.comparison.lines import FEW_LINES
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import KernelProfile
from gpuprof.present.compare_page.parts import representative_of
from gpuprof.present.page.parts import percent_number
from gpuprof.text import printable
from gpuprof.units import format_percent, format_si, signed_percent, spaced
from gpuprof.words.comparison_values import side_texts
from gpuprof.words.file_names import file_name

_TAB, _LINE_LENGTH, _MOST_ROWS, _CONTEXT = 4, 200, 60, 2
_FEW_LINES = 3
"""So many changed lines are seen at once in the source."""
_MOST_MATCHED = 2000
"""Lines of a file that are aligned: what lies behind them is counted as left out."""
_WHAT = {"instructions": "instructions", "local": "local accesses", "samples": "samples"}


class CodeCell(Struct, frozen=True):
    """A line on one side: `weight` is its instructions, or else its share of samples; `heat` is percent of the most."""

    number: str
    text: str
    weight: str
    heat: str


class CodePair(Struct, frozen=True):
    """A row: the line on both sides, None if a side lacks it. `gap`: lines are left out before it."""

    base: CodeCell | None
    new: CodeCell | None
    gains: tuple[str, ...]
    changed: bool
    gap: bool


class PairedCode(Struct, frozen=True):
    """The lines of a file."""

    title: str
    weight: str
    rows: tuple[CodePair, ...]
    has_gains: bool
    left_out: int


class LineRow(Struct, frozen=True):
    """A line whose work changed."""

    place: str
    text: str
    what: str
    base: str
    new: str
    gain: str


class _Line(Struct, frozen=True):
    """A line of one side as it was collected."""

    number: int
    text: str
    instructions: float | None
    share: float | None


def line_rows(change: KernelChange, shown: Sequence[PairedCode]) -> Iterator[LineRow]:
    """Yield the lines whose work changed, in the order of the comparison; none if the source has them all."""
    if sum(len(row.gains) for code in shown for row in code.rows) == len(change.lines) <= _FEW_LINES:
        return
    for line in change.lines:
        base, new = side_texts(line.base, line.new)
        yield LineRow(
            place=_place(line),
            text=_code(line.text).strip(),
            what=_WHAT.get(line.what, printable(line.what)),
            base=base,
            new=new,
            gain=_gain(line, with_what=False),
        )


def code_note(pair: Pair) -> str:
    """Write why no source stands side by side; empty for a kernel on one side alone."""
    base, new = representative_of(pair.base), representative_of(pair.new)
    if base is None or new is None:
        return ""
    lacking = [name for name, kernel in (("base", base), ("new", new)) if not _lines(kernel)]
    if not lacking:
        return "Source: the two sides share no file."
    sides = "either side" if len(lacking) == 2 else f"the {lacking[0]} side"
    return f"Source: not collected on {sides}; ncu's --import-source yes and a build with -lineinfo bring it."


def paired_code(change: KernelChange, pair: Pair) -> Iterator[PairedCode]:
    """Yield the files that both sides have, in the order of the new side."""
    base, new = representative_of(pair.base), representative_of(pair.new)
    if base is None or new is None:
        return
    before, after = _lines(base), _lines(new)
    matched = {file: file for file in after if file in before}
    if not matched and len(before) == len(after) == 1:
        matched = dict(zip(after, before, strict=True))
    for file, old in matched.items():
        yield _paired(file, before[old], after[file], [line for line in change.lines if _file(line.file) == file])


def _paired(file: str, base: Sequence[_Line], new: Sequence[_Line], changes: Sequence[LineChange]) -> PairedCode:
    counted = all(any(line.instructions is not None for line in side) for side in (base, new))
    weights = [(line.instructions if counted else line.share) or 0.0 for line in (*base, *new)]
    cell = partial(_cell, counted=counted, most=max(weights, default=0.0))
    gains: defaultdict[tuple[int | None, int | None], list[LineChange]] = defaultdict(list)
    for line in changes:
        gains[line.base_line, line.new_line].append(line)
    behind = max(len(base), len(new), _MOST_MATCHED) - _MOST_MATCHED
    base, new = _dedented(base[:_MOST_MATCHED], new[:_MOST_MATCHED])
    rows = []
    for old, fresh in _aligned(base, new):
        of_row = gains[old.number if old else None, fresh.number if fresh else None]
        rows.append(_row(old, fresh, of_row, cell))
    shown = _shown(rows)
    weight = "Instr." if counted else "Samples"
    return PairedCode(
        title=file,
        weight=weight,
        rows=tuple(_with_gaps(rows, shown)),
        has_gains=any(row.gains for row in rows),
        left_out=len(rows) - len(shown) + behind,
    )


def _lines(kernel: KernelProfile) -> dict[str, list[_Line]]:
    """Return the lines with text of a kernel by the name of their file, in order."""
    lines: dict[str, dict[int, _Line]] = {}
    for excerpt in kernel.excerpts:
        if excerpt.language == "source" and excerpt.file:
            for line in excerpt.lines:
                if line.number is not None and line.text.strip():
                    mine = lines.setdefault(_file(excerpt.file), {})
                    mine[line.number] = _Line(line.number, line.text, instructions=None, share=line.share)
    for work in kernel.lines:
        mine = lines.setdefault(_file(work.file), {})
        known = mine.get(work.number)
        text = known.text if known is not None else work.text
        if text.strip():
            share = known.share if known is not None else None
            mine[work.number] = _Line(work.number, text, instructions=work.instructions, share=share)
    return {file: [mine[number] for number in sorted(mine)] for file, mine in lines.items() if mine}


def _dedented(*sides: Sequence[_Line]) -> list[list[_Line]]:
    """Drop the indentation that all lines of both sides share."""
    texts = [[line.text.expandtabs(_TAB) for line in side] for side in sides]
    common = min((len(text) - len(text.lstrip(" ")) for side in texts for text in side), default=0)
    return [
        [replace(line, text=text[common:]) for line, text in zip(side, cut, strict=True)]
        for side, cut in zip(sides, texts, strict=True)
    ]


def _file(path: str) -> str:
    return printable(file_name(path))


def _aligned(base: Sequence[_Line], new: Sequence[_Line]) -> Iterator[tuple[_Line | None, _Line | None]]:
    """Yield the lines of both sides in order, those of equal text together."""
    before, after = ([" ".join(line.text.split()) for line in side] for side in (base, new))
    for word, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=len(after) > FEW_LINES).get_opcodes():
        if word == "equal" or i2 - i1 == j2 - j1:
            yield from zip(base[i1:i2], new[j1:j2], strict=True)
        else:
            yield from zip_longest(base[i1:i2], new[j1:j2])


def _row(
    old: _Line | None, fresh: _Line | None, changes: Sequence[LineChange], cell: Callable[[_Line], CodeCell]
) -> CodePair:
    cells = [cell(line) if line is not None else None for line in (old, fresh)]
    same = old is not None and fresh is not None and old.text.split() == fresh.text.split()
    gains = tuple(_gain(line, with_what=True) for line in changes)
    return CodePair(cells[0], cells[1], gains=gains, changed=not same, gap=False)


def _cell(line: _Line, *, counted: bool, most: float) -> CodeCell:
    weight = line.instructions if counted else line.share
    text = "" if not weight else _number(weight) if counted else format_percent(weight)
    heat = percent_number(weight / most) if weight and most > 0 else "0"
    return CodeCell(str(line.number), _code(line.text), weight=text, heat=heat)


def _number(value: float) -> str:
    return spaced(value) if abs(value) < 1e4 else format_si(value, "")


def _code(text: str) -> str:
    return printable(text.expandtabs(_TAB))[:_LINE_LENGTH].rstrip()


def _gain(line: LineChange, *, with_what: bool) -> str:
    """Write what a line gained or lost: "+12.0 M instructions"; as a share if both sides are known."""
    base, new = line.base or 0.0, line.new or 0.0
    what = f" {_WHAT.get(line.what, printable(line.what))}" if with_what else ""
    size = f"{'+' if new >= base else '−'}{_number(abs(new - base))}"
    share = f" ({signed_percent(new / base - 1)})" if base and new else ""
    return f"{size}{what}{share}"


def _place(line: LineChange) -> str:
    before, after = line.base_line, line.new_line
    numbers = f"{before} → {after}" if before is not None and after is not None and before != after else ""
    number = numbers or str(after if after is not None else before if before is not None else "?")
    return f"{_file(line.file)}:{number}" + (" (gone)" if after is None else " (new)" if before is None else "")


def _shown(rows: Sequence[CodePair]) -> list[int]:
    """Return the places of the rows to show: all of a few, else what changed with its neighbours."""
    if len(rows) <= _MOST_ROWS:
        return list(range(len(rows)))
    telling = [place for place, row in enumerate(rows) if row.changed or row.gains]
    near = {place for mark in telling for place in range(mark - _CONTEXT, mark + _CONTEXT + 1)}
    return sorted(near & set(range(len(rows))))[:_MOST_ROWS] or list(range(_MOST_ROWS))


def _with_gaps(rows: Sequence[CodePair], shown: Sequence[int]) -> Iterator[CodePair]:
    last: CodePair | None = None
    for place in shown:
        row = rows[place]
        yield replace(row, gap=last is not None and _jumps(last, row))
        last = row


def _jumps(last: CodePair, row: CodePair) -> bool:
    """Return whether lines are missing between two rows, on every side that both have."""
    sides = ((last.base, row.base), (last.new, row.new))
    steps = [int(after.number) - int(before.number) for before, after in sides if before and after]
    return bool(steps) and min(steps) > 1
