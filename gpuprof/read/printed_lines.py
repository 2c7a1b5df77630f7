"""The lines of a text that ncu has printed into: without what logs put before them, and those that name a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
_TIME = r"\d{4}-\d\d-\d\dT[\d:.]+Z?\s"
_BEFORE_LINES = re.compile(rf"\s*(?:{_TIME}|[>|#*/]\s*)*\s*")
"""What documents and logs put in front of each line: marks of a quotation or a comment, and the time."""
_RANK = r"(?:\[\d+,\d+\]<std(?:out|err)>:|\[(?:rank|default)?\d+\]:|\d{1,6}:|[\w.-]{1,60} +\|) ?"
"""What `srun --label`, `mpirun --tag-output`, torchrun and `docker compose` put before each line of a process."""
LABEL = re.compile(rf"(?:{_TIME})?(?P<rank>{_RANK})?(?:{_TIME})?")
_LABELLED = re.compile(
    rf"^(?={_TIME}|{_RANK}){LABEL.pattern}(?:[ \t](?:\s*(?:Section: |Metric Name )|.*, Context \d)"
    r'|"?(?:ID|Process ID|Domain)"?,.*Kernel Name)',
    re.MULTILINE,
)
"""What shows that lines have labels: one of ncu's behind it."""
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
    lines = by_rank([*enumerate(text.splitlines(), start=1)], text)
    return ((number, before, line) for (_, before), (number, line) in pairwise(chain([(0, "")], lines)))


def by_rank(lines: Sequence[tuple[int, str]], text: str) -> Sequence[tuple[int, str]]:
    """Return the numbered lines of a text; if they have labels, without these, and those of each rank together."""
    if _LABELLED.search(text) is None:
        return lines
    ranks: dict[str, list[tuple[int, str]]] = {}
    for number, line in lines:
        label = LABEL.match(line)
        rank, end = (label["rank"] or "", label.end()) if label is not None else ("", 0)
        ranks.setdefault(rank, []).append((number, line[end:]))
    return [*chain.from_iterable(ranks.values())]


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
    match = _BEFORE_LINES.match(line)
    return (line[match.end() :] if match is not None else line).rstrip()
