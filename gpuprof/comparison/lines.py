"""Source lines that do more or less than before, if both sides have the work of their lines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from gpuprof.comparison.contract import LineChange
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import KernelProfile, LineWork

_MOST = 20
"""Lines of a kernel that are listed."""
_NOTED = 0.005
"""A line is listed if its instructions changed by at least this fraction of the kernel's."""
_NOTED_SAMPLES = 0.02
_DEVIATIONS = 4.0
"""Samples scatter as counts of chance do, by their root: what differs by less than four of them may be chance."""
_ALIKE = 0.5
"""Two texts at one place are the same line, changed, if they share half of their characters."""
_LONGEST = 2000
"""Lines of a file that are matched, and characters of a line: difflib takes the square of both in the worst case."""
_MATCHED_TEXT = 300
FEW_LINES = 500
"""Of longer files difflib leaves out texts that recur in more than 1 % of the lines: if every other line has one, it
takes the cube of their number otherwise, 48 s for 2,000 lines."""


class _Match(Struct, frozen=True):
    """A line on both sides, or on one."""

    base: LineWork | None
    new: LineWork | None


def line_changes(pair: Pair) -> tuple[LineChange, ...]:
    """Return the lines whose work changed, by what they add or save of the kernel's, largest first.

    Lines are matched by their text, in order, or by their number if neither side has text. A line that one side
    lacks did nothing there, unless that side kept only a part of its lines: then what it did is not known.
    """
    if not pair.is_one_to_one:
        return ()
    base, new = pair.base[0].representative, pair.new[0].representative
    if not base.lines or not new.lines:
        return ()
    matches = list(_matches(base.lines, new.lines))
    ranked: list[tuple[float, LineChange]] = []
    for what in _told(base, new):
        ranked += _changes(what, matches, base, new)
    ranked.sort(key=lambda item: -item[0])
    return tuple(change for _, change in ranked[:_MOST])


def _told(base: KernelProfile, new: KernelProfile) -> list[str]:
    """Return the quantities that both sides have of their lines; samples only if instructions are not counted."""
    known = [
        what
        for what in ("local", "instructions", "samples")
        if all(any(getattr(line, what) is not None for line in kernel.lines) for kernel in (base, new))
    ]
    return [what for what in known if what != "samples" or "instructions" not in known]


def _matches(base: Sequence[LineWork], new: Sequence[LineWork]) -> Iterator[_Match]:
    """Match the lines file by file: files of the same path, or of the same name if each side has one file of it."""
    before, after = _by_file(base), _by_file(new)
    counts = [Counter(map(_name, side)) for side in (before, after)]
    named = {_name(path): path for path in after}
    for path, lines in before.items():
        name = _name(path)
        partner = path if path in after else named[name] if counts[0][name] == counts[1][name] == 1 else None
        yield from _in_file(lines, after.pop(partner, []) if partner is not None else [])
    for lines in after.values():
        yield from (_Match(None, line) for line in lines)


def _by_file(lines: Sequence[LineWork]) -> dict[str, list[LineWork]]:
    files: defaultdict[str, list[LineWork]] = defaultdict(list)
    for line in lines:
        files[line.file].append(line)
    return {path: sorted(kept, key=lambda line: line.number)[:_LONGEST] for path, kept in files.items()}


def _name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _in_file(base: Sequence[LineWork], new: Sequence[LineWork]) -> Iterator[_Match]:
    if any(line.text.strip() for line in base) and any(line.text.strip() for line in new):
        yield from _by_text(base, new)
        return
    numbers: defaultdict[int, list[LineWork]] = defaultdict(list)
    for line in new:
        numbers[line.number].append(line)
    for line in base:
        partners = numbers[line.number]
        yield _Match(line, partners.pop(0) if partners else None)
    yield from (_Match(None, line) for lines in numbers.values() for line in lines)


def _by_text(base: Sequence[LineWork], new: Sequence[LineWork]) -> Iterator[_Match]:
    texts = [[_flat(line.text) for line in lines] for lines in (base, new)]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=len(new) > FEW_LINES)
    for word, first, last, begin, end in matcher.get_opcodes():
        old, young = base[first:last], new[begin:end]
        if word == "equal" or (word == "replace" and len(old) == len(young)):
            for was, now in zip(old, young, strict=True):
                alike = SequenceMatcher(None, _flat(was.text), _flat(now.text), autojunk=False)
                if word == "equal" or alike.ratio() >= _ALIKE:
                    yield _Match(was, now)
                else:
                    yield from (_Match(was, None), _Match(None, now))
        else:
            yield from (_Match(line, None) for line in old)
            yield from (_Match(None, line) for line in young)


def _flat(text: str) -> str:
    """Return a text without what an editor changes: indentation and spaces."""
    return " ".join(text[:_MATCHED_TEXT].split())


def _changes(
    what: str, matches: Sequence[_Match], base: KernelProfile, new: KernelProfile
) -> Iterator[tuple[float, LineChange]]:
    """Yield the lines that changed, each with its change as a fraction of the kernel's."""
    totals = [sum(_value(line, what) or 0.0 for line in kernel.lines) for kernel in (base, new)]
    instructions = [sum(line.instructions or 0.0 for line in kernel.lines) for kernel in (base, new)]
    whole = max(instructions) if what == "local" and max(instructions) > 0 else max(totals)
    if whole <= 0 or not math.isfinite(whole):
        return
    hidden = [_hidden(kernel, what) for kernel in (base, new)]
    for match in matches:
        was = _value(match.base, what) if match.base is not None else hidden[0]
        now = _value(match.new, what) if match.new is not None else hidden[1]
        if was is None or now is None:
            continue
        if (match.base is None and now <= was) or (match.new is None and was <= now):
            continue
        change = abs(now - was)
        if change >= _threshold(what, was, now, whole, max(totals)):
            before = None if match.base is None and base.lines_dropped else was
            after = None if match.new is None and new.lines_dropped else now
            yield change / whole, _line_change(match, what, before, after)


def _threshold(what: str, was: float, now: float, whole: float, total: float) -> float:
    if what == "samples":
        return max(_NOTED_SAMPLES * whole, _DEVIATIONS * math.sqrt(was + now))
    return max(_NOTED * (total if what == "local" else whole), 1.0)


def _hidden(kernel: KernelProfile, what: str) -> float | None:
    """Return the most that a line does which a side does not list: nothing, or what its least line does.

    The lines that are kept are those with most work, and before them all that access local memory: what such a line
    executes is no bound for the others.
    """
    if not kernel.lines_dropped:
        return 0.0
    lines = [line for line in kernel.lines if what == "local" or not line.local]
    known = [value for line in lines if (value := _value(line, what)) is not None]
    return min(known, default=None)


def _line_change(match: _Match, what: str, was: float | None, now: float | None) -> LineChange:
    told = match.new or match.base
    assert told is not None, "a match has a line"
    return LineChange(
        file=told.file,
        base_line=match.base.number if match.base is not None else None,
        new_line=match.new.number if match.new is not None else None,
        text=told.text or (match.base.text if match.base is not None else ""),
        what=what,
        base=was,
        new=now,
    )


def _value(line: LineWork, what: str) -> float | None:
    value: float | None = getattr(line, what)
    return value if value is not None and math.isfinite(value) else None
