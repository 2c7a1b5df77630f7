"""The lines of a text that ncu has printed into: without what logs put before them, and those that name a launch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise

_SIZE = r"(?:\d{1,3}(?:[.,]\d{3}){1,3}|\d{1,10})"
_DIMENSIONS = rf"\({_SIZE}, ?{_SIZE}, ?{_SIZE}\)"
_LAUNCH = re.compile(
    rf"(?P<name>.*?)(?: ?(?P<grid>{_DIMENSIONS})x(?P<block>{_DIMENSIONS})|(?P<date>, \d{{4}}-\w{{3}}-\d\d? [\d:]+))?"
    r", Context (?P<context>\d+)(?:, Stream (?P<stream>\d+))?(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>\d+\.\d+))?`*"
)
_SUMMARY = re.compile(
    rf"(?P<name>\S.*?) ?(?P<grid>{_DIMENSIONS})x(?P<block>{_DIMENSIONS})(?:, Device (?P<device>\d+))?"
    r"(?:, CC (?P<cc>\d+\.\d+))?, Invocations (?P<invocations>[1-9][0-9]{0,8})"
)
"""The launches of a kernel in a summary. One per GPU has the device on a line above."""
_BEFORE_LINES = re.compile(r"[\s>|#*/]*")
"""What documents put in front of each line: marks of a quotation or a comment."""
_OWN_WORDS = ("Section: ", "Metric Name ", "Process ID", '"Domain"')
_MARK = re.compile(
    r"(?P<label>.{0,100}?)(?:(?<! ) {2,}(?:Section: |Metric Name )"
    r'|(?<![,;\t])(?:"ID","Process ID"|ID,Process ID|"Process ID","Process Name"|"Domain","Range:))'
)
"""How lines of ncu start that it always prints alike, with the label before them."""
_MOST_LABELS = 64
"""Maximum labels that differ in more than their numbers."""
_ANY_NUMBER = r" {0,9}\d{1,30}(?!\d)"
"""Ranks and line numbers may be filled with blanks. No text can be split into two in several ways."""
_CLOCK = re.compile(r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?")
_OF_SUMMARY = {
    "Kernel Name": "name", "Block Size": "block", "Grid Size": "grid", "Device": "device", "CC": "cc",
    "Invocations": "invocations",
}  # fmt: skip
_COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_GOES_ON = re.compile(r"(?:Context|Stream|Device) \d")


def lines_of(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line, the line above it and itself, without the colours that logs have.

    Where lines of several ranks are mixed, those of each come together, without what names the rank.
    """
    text = _COLOURS.sub("", text) if "\x1b" in text else text
    lines = by_rank([*enumerate(text.splitlines(), start=1)])
    return ((number, before, line) for (_, before), (number, line) in pairwise(chain([(0, "")], lines)))


def by_rank(lines: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """Return numbered lines; if they have labels, without these, and those of each rank together.

    Schedulers, containers and logs put a label before each line: a rank, a node, a process, the time or several.
    """
    label = _label(lines)
    if label is None:
        return lines
    ranks: dict[str, list[tuple[int, str]]] = {}
    for number, line in lines:
        found = label.match(line)
        rank, end = (_CLOCK.sub("", found[0]), found.end()) if found is not None else ("", 0)
        ranks.setdefault(rank, []).append((number, line[end:]))
    return [*chain.from_iterable(ranks.values())]


def _label(lines: Iterable[tuple[int, str]]) -> re.Pattern[str] | None:
    """Return a pattern of labels, or None: each precedes words of ncu and, with any numbers, the line below."""
    found = []
    for (_, line), (_, below) in pairwise(lines):
        mark = _MARK.match(line) if any(word in line for word in _OWN_WORDS) else None
        if mark is not None and mark["label"].strip():
            found.append((_with_any_numbers(mark["label"]), below))
    every = _one_of({label for label, _ in found})
    if every is None:
        return None
    return _one_of({label for label, below in found if every.match(below) is not None})


def _with_any_numbers(label: str) -> str:
    return _ANY_NUMBER.join(map(re.escape, re.split(_ANY_NUMBER, label)))


def _one_of(labels: Collection[str]) -> re.Pattern[str] | None:
    """Return a pattern of these labels, the longest first; None if they are none or too many."""
    if not 0 < len(labels) <= _MOST_LABELS:
        return None
    return re.compile("|".join(sorted(labels, key=len, reverse=True)))


def launch_in(line: str, before: str) -> dict[str, str] | None:
    """Return the cells of a launch that a line names.

    A document may have the name on the line above, or have broken the line behind a comma.
    """
    if ", Invocations " in line and (summary := _SUMMARY.fullmatch(bare_line(line))) is not None:
        return {column: summary[group] for column, group in _OF_SUMMARY.items() if summary[group] is not None}
    if ", Context " in line and (cells := _launch_cells(bare_line(line), bare_line(before))) is not None:
        return cells
    if not before.rstrip().endswith(",") or _GOES_ON.match(rest := bare_line(line)) is None:
        return None
    return _launch_cells(f"{bare_line(before)} {rest}", "")


def _launch_cells(text: str, above: str) -> dict[str, str] | None:
    """Return the cells of a launch; its name may stand above.

    A kernel has a size or a date, a graph has neither and no stream; with a stream alone, the size is damaged.
    """
    match = _LAUNCH.fullmatch(text)
    if match is None:
        return None
    told = {key: value or "" for key, value in match.groupdict().items()}
    is_kernel = bool(told["stream"] and (told["grid"] or told["date"]))
    if not is_kernel and not (told["device"] and told["cc"]):
        return None
    name = told["name"].strip() or (above if is_kernel else "")
    if not name:
        return None
    return {
        "Kernel Name": name,
        "Stream": told["stream"],
        "Block Size": told["block"],
        "Grid Size": told["grid"],
        "Device": told["device"],
        "CC": told["cc"],
    }


def bare_line(line: str) -> str:
    """Return a line without what logs and documents put before it, and without the spaces that ncu fills it with."""
    return _BEFORE_LINES.sub("", line, count=1).rstrip()
