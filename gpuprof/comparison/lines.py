"""Source lines that do more or less than before, if both sides have the work of their lines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain

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
"""Samples scatter like random counts, by their root: less than four roots may be chance."""
_ALIKE = 0.5
"""Two texts at one place are the same line, changed, if they share half of their characters."""
_LONGEST = 2000
"""Most lines of a file and characters of a line: difflib takes their square in the worst case."""
_MATCHED_TEXT = 300
FEW_LINES = 500
"""Of longer files difflib leaves out texts that recur in more than 1 % of the lines: if every other
line has one, it takes the cube of their number otherwise, 48 s for 2,000 lines."""


class _Match(Struct, frozen=True):
    """A line on both sides, or on one."""

    base: LineWork | None
    new: LineWork | None


def line_changes(pair: Pair) -> tuple[LineChange, ...]:
    """Return the lines whose work changed, largest change first.

    Lines are matched by their text, in order, or by their number if neither side has text. A line
    that one side lacks did nothing there, unless that side kept only a part of its lines: then its
    work is not known.
    """
    if not pair.is_one_to_one:
        return ()
    base, new = pair.representatives
    if not base.lines or not new.lines:
        return ()
    matches = list(_matches(base.lines, new.lines))
    ranked: list[tuple[float, LineChange]] = []
    for what in _quantities(base, new):
        ranked += _changes(what, matches, base, new)
    ranked.sort(key=lambda item: -item[0])
    return tuple(change for _, change in ranked[:_MOST])


def _quantities(base: KernelProfile, new: KernelProfile) -> list[str]:
    """Return the quantities of lines that both sides have; samples only without instructions."""
    known = [what for what in ("local", "instructions", "samples") if _is_known(base, what) and _is_known(new, what)]
    if "instructions" in known and "samples" in known:
        known.remove("samples")
    return known


def _is_known(kernel: KernelProfile, what: str) -> bool:
    return any(getattr(line, what) is not None for line in kernel.lines)


def _matches(base: Sequence[LineWork], new: Sequence[LineWork]) -> Iterator[_Match]:
    """Match the lines file by file: files of the same path, or of the same name if each side has one file of it."""
    before = _by_file(base)
    after = _by_file(new)
    base_names = Counter(map(_name, before))
    new_names = Counter(map(_name, after))
    paths = {_name(path): path for path in after}
    for path, lines in before.items():
        name = _name(path)
        partner = path
        if path not in after and base_names[name] == new_names[name] == 1:
            partner = paths[name]
        yield from _in_file(lines, after.pop(partner, []))
    for lines in after.values():
        yield from _of_one_side((), lines)


def _of_one_side(base: Iterable[LineWork], new: Iterable[LineWork]) -> Iterator[_Match]:
    for line in base:
        yield _Match(line, None)
    for line in new:
        yield _Match(None, line)


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
    yield from _of_one_side((), chain.from_iterable(numbers.values()))


def _by_text(base: Sequence[LineWork], new: Sequence[LineWork]) -> Iterator[_Match]:
    base_texts = [_flat(line.text) for line in base]
    new_texts = [_flat(line.text) for line in new]
    matcher = SequenceMatcher(None, base_texts, new_texts, autojunk=len(new) > FEW_LINES)
    for word, first, last, begin, end in matcher.get_opcodes():
        if word != "equal" and (word != "replace" or last - first != end - begin):
            yield from _of_one_side(base[first:last], new[begin:end])
            continue
        for before, after in zip(range(first, last), range(begin, end), strict=True):
            alike = SequenceMatcher(None, base_texts[before], new_texts[after], autojunk=False)
            if word == "equal" or alike.ratio() >= _ALIKE:
                yield _Match(base[before], new[after])
            else:
                yield from _of_one_side([base[before]], [new[after]])


def _flat(text: str) -> str:
    """Return a text with single spaces and without indentation, which editors change."""
    return " ".join(text[:_MATCHED_TEXT].split())


def _changes(
    what: str, matches: Sequence[_Match], base: KernelProfile, new: KernelProfile
) -> Iterator[tuple[float, LineChange]]:
    """Yield the lines that changed, each with its change as a fraction of the kernel's work."""
    total = max(_total(base, what), _total(new, what))
    whole = total
    if what == "local":
        whole = max(_total(base, "instructions"), _total(new, "instructions")) or total
    if whole <= 0 or not math.isfinite(whole):
        return
    base_hidden = _hidden(base, what)
    new_hidden = _hidden(new, what)
    for match in matches:
        was = _value(match.base, what) if match.base is not None else base_hidden
        now = _value(match.new, what) if match.new is not None else new_hidden
        if was is None or now is None:
            continue
        if (match.base is None and now <= was) or (match.new is None and was <= now):
            continue
        change = abs(now - was)
        if change >= _threshold(what, was, now, whole, total):
            before = None if match.base is None and base.lines_dropped else was
            after = None if match.new is None and new.lines_dropped else now
            yield change / whole, _line_change(match, what, before, after)


def _total(kernel: KernelProfile, what: str) -> float:
    return sum(_value(line, what) or 0.0 for line in kernel.lines)


def _threshold(what: str, was: float, now: float, whole: float, total: float) -> float:
    if what == "samples":
        return max(_NOTED_SAMPLES * whole, _DEVIATIONS * math.sqrt(was + now))
    if what == "local":
        whole = total
    return max(_NOTED * whole, 1.0)


def _hidden(kernel: KernelProfile, what: str) -> float | None:
    """Return a bound on the work of an unlisted line: nothing, or that of the least listed line.

    The kept lines are those with most work, after all that access local memory: how much one of
    these executes does not bound the others.
    """
    if not kernel.lines_dropped:
        return 0.0
    values = [_value(line, what) for line in kernel.lines if what == "local" or not line.local]
    return min((value for value in values if value is not None), default=None)


def _line_change(match: _Match, what: str, was: float | None, now: float | None) -> LineChange:
    line = match.new or match.base
    assert line is not None, "a match has a line"
    return LineChange(
        file=line.file,
        base_line=match.base.number if match.base is not None else None,
        new_line=match.new.number if match.new is not None else None,
        text=line.text or (match.base.text if match.base is not None else ""),
        what=what,
        base=was,
        new=now,
    )


def _value(line: LineWork, what: str) -> float | None:
    value: float | None = getattr(line, what)
    if value is None or not math.isfinite(value):
        return None
    return value
