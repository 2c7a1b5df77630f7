"""What is wrong with a text of ncu that has no launch to read."""

from __future__ import annotations

import re
import shlex

from gpuprof.errors import InputError
from gpuprof.read.details_labels import counter_labels

HINT = "export a report with `ncu --import FILE.ncu-rep --page raw --csv > FILE.csv`"
_LONGEST_PATH = 300
_WRITTEN = re.compile(r"^==PROF== Report: (\S[^\r\n]*)", re.MULTILINE)
_OTHER_PAGES = (
    (
        "a summary of ncu without kernels: per NVTX range, it has those inside a range",
        re.compile(r"^  Note: The shown averages are calculated", re.MULTILINE),
    ),
    (
        "ncu's page of source, without the kernels' numbers",
        re.compile(r'^"(?:Address|Line No)","Source"|^ *(?:# +)?(?:Address|Line No) +Source ', re.MULTILINE),
    ),
    (
        "ncu's page of the session, without kernels",
        re.compile(r'^"Launch Attribute","Value"|^ *Launch Attribute +Value *$', re.MULTILINE),
    ),
)
"""What else ncu prints, and how it is told."""
_SECTION = re.compile(r"^.{0,40}Section: (?:GPU Speed Of Light|Launch Statistics|Occupancy|Command line)", re.MULTILINE)

_NO_LAUNCH = (
    'no line starts with "ID","Process ID", none names a launch as ncu does, kernel(float *) (16, 1, 1)x(256, 1, 1), '
    "Context 1, Stream 7, Device 0, CC 9.0, and there is no Section: GPU Speed Of Light Throughput with its table"
)
_HINT_REWRITTEN = f"paste what `ncu --import FILE.ncu-rep --page details` prints, or {HINT}"
_SIGN = re.compile(
    r"==(?:ERROR|WARNING|PROF)==|No kernels were profiled|\bncu\b|Nsight Compute|Metric[ .]Name"
    r"|[a-z0-9]__\w{1,99}\.(?:sum|avg|min|max|ratio|pct)\b",
    re.MULTILINE,
)
"""Words of ncu, and its names of counters."""
_LONGEST_DOCUMENT = 2**20
_BETWEEN_CELLS = re.compile(r"[|:,;\t]")
_UNIT_BEHIND = re.compile(r" ?[(\[].*")


def ncu_messages(text: str, level: str) -> list[str]:
    """Return what ncu itself says at a level: ERROR or WARNING."""
    messages = re.finditer(rf"^.{{0,100}}?=={level}==[ \t]*(?P<said>.*)$", text, re.MULTILINE)
    return [message["said"].strip() for message in messages]


def other_page(text: str) -> str | None:
    """Return what page of ncu a text is that has no launches; None for what is none of those."""
    return next((page for page, told in _OTHER_PAGES if told.search(text)), None)


def is_of_ncu(text: str) -> bool:
    """Return whether any sign of ncu is in a text that has no launch to read."""
    has_part = _SIGN.search(text) or _SECTION.search(text) or other_page(text) or _rewritten_label(text)
    return has_part is not None


def refusal(text: str, file: str) -> InputError:
    """Return what is wrong with a text of ncu that has no launch to read, and what to do."""
    errors = ncu_messages(text, "ERROR")
    if errors:
        return InputError(f"{file} has no kernels, only ncu's error {errors[0]!r}", HINT)
    if "No kernels were profiled" in text:
        return InputError(f"{file} has no kernels: ncu says 'No kernels were profiled'", HINT)
    if not text.strip():
        return InputError(f"{file} is empty", HINT)
    written = _WRITTEN.search(text)
    if written is not None:
        report = written[1][:_LONGEST_PATH].rstrip()
        return InputError(f"{file} has no kernels: ncu wrote them to {report}", f"gpuprof show {shlex.quote(report)}")
    page = other_page(text)
    if page is None and _SECTION.search(text):
        page = "part of ncu's output: it has sections, and no number of theirs that can be read"
    rewritten = _rewritten_label(text) if page is None else None
    if rewritten is not None:
        line, label = rewritten
        found = f"ncu's {label!r} in line {line}, but not as ncu prints it"
        return InputError(f"{file} has {found}: only ncu's own output is read", _HINT_REWRITTEN)
    said = f"is {page}" if page is not None else f"is not output of ncu: {_NO_LAUNCH}"
    return InputError(f"{file} {said}", HINT)


def _rewritten_label(text: str) -> tuple[int, str] | None:
    """Return line and label of the first ncu counter in a table or list of label and value; None if there is none."""
    labels = {label.casefold(): label for label in sorted(counter_labels())}
    for number, line in enumerate(text[:_LONGEST_DOCUMENT].splitlines(), start=1):
        cells = _BETWEEN_CELLS.split(line)
        for cell in cells if len(cells) > 1 else ():
            label = _UNIT_BEHIND.sub("", cell.strip(' \t>*`-"')).casefold()
            if label in labels:
                return number, labels[label]
    return None
