"""A compared kernel in depth: verdict, causes, time with its interval, launch, counters, findings and lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from gpuprof.comparison.contract import (
    SIDES,
    ComparedKernel,
    Comparison,
    CountChange,
    FindingChange,
    KernelChange,
    TimeChange,
)
from gpuprof.present.compare_console_table import TIME_STYLES
from gpuprof.present.console_parts import LABEL_WIDTH, Sheet, aligned
from gpuprof.units import ARROW, format_percent, signed_percent, spaced
from gpuprof.words.comparison_causes import names_its_file
from gpuprof.words.comparison_values import both_text, change_text, count_name, interval_text, side_texts, value_text
from gpuprof.words.comparison_verdicts import (
    gain_text,
    kernel_verdict,
    line_text,
    match_text,
    per_step_text,
    runs_needed_text,
    samples_text,
)
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import count_text, dims_text

_MOST_LINES, _MOST_OPCODES, _MOST_LISTED = 12, 6, 16
_NAME = 40
_WORDS = {"went": "went", "came": "came", "stayed": "stays"}
_OPCODE = "opcode."


def change_lines(change: KernelChange, comparison: Comparison, sheet: Sheet) -> Iterator[Text]:
    """Yield everything about a kernel: verdict, why, time, launch, counters, findings, lines."""
    yield sheet.paragraph(f"#{change.id} {change.label}", "bold cyan")
    yield sheet.paragraph(_verdict(change), TIME_STYLES.get(change.time.verdict, ""), indent=3)
    yield from _fields("why", _causes(change), sheet)
    if not change.is_one_sided:
        yield sheet.field("time", list(_time(change.time)))
    yield from _identity(change, comparison, sheet)
    yield from _counts(change, sheet)
    yield from _fields("findings", map(_finding, change.findings), sheet)
    yield from _lines(change, sheet)


def _verdict(change: KernelChange) -> str:
    """Write what became of the kernel, and what that is of the run."""
    verdict = change.sentence if change.is_one_sided else kernel_verdict(change)
    if change.effect is None or not math.isfinite(change.effect):
        return verdict
    return f"{verdict}; {signed_percent(change.effect)} of the base's GPU time"


def _fields(name: str, texts: Iterable[str], sheet: Sheet) -> Iterator[Text]:
    """Yield a field for each text, the first with the name."""
    for number, text in enumerate(texts):
        yield sheet.field(name if number == 0 else "", text)


def _causes(change: KernelChange) -> Iterator[str]:
    """Yield the causes, with their certainty unless they are counted."""
    for cause in change.causes:
        line = cause.location
        place = f"{file_name(line.file)}:{line.line}" if line is not None and not names_its_file(change) else ""
        doubt = cause.certainty if cause.certainty != "counted" else ""
        known = ", ".join(filter(None, (place, doubt)))
        yield f"{cause.sentence}{f' ({known})' if known else ''}"


def _identity(change: KernelChange, comparison: Comparison, sheet: Sheet) -> Iterator[Text]:
    told = match_text(change)
    if told:
        yield sheet.field("matched", told)
    sides = [
        [_launch(kernel, files, change) for kernel in kernels]
        for kernels, files in ((change.base, comparison.base.files), (change.new, comparison.new.files))
    ]
    if sides[0] == sides[1] and len(sides[0]) == 1:
        yield sheet.field("launch", f"{sides[0][0]}, on both sides")
        return
    for name, texts in zip(SIDES, sides, strict=True):
        for text in texts:
            yield sheet.field(name, text)


def _launch(kernel: ComparedKernel, files: Sequence[str], change: KernelChange) -> str:
    """Write how a kernel was launched; its name if that is not the change's, its file if the side has several."""
    parts = [kernel.label] if kernel.label != change.label else []
    if kernel.grid is not None and kernel.block is not None:
        parts.append(f"grid {dims_text(kernel.grid)}, block {dims_text(kernel.block)}")
    if kernel.ranges:
        parts.append(f"in {' / '.join(kernel.ranges)}")
    parts.append(f"{value_text(kernel.launches)} launch{'es' * (kernel.launches != 1)}{per_step_text(change)}")
    if len(files) > 1 and kernel.run < len(files):
        parts.append(f"as in {file_name(files[kernel.run])}")
    return ", ".join(parts)


def _time(time: TimeChange) -> Iterator[str]:
    """Yield the verdict on time in seconds and in cycles, from how many runs, at which noise, and why it is unclear."""
    if time.base_s is not None or time.new_s is not None:
        values = both_text(time.base_s, time.new_s, "s")
        yield f"{time.verdict}: {values}{_change(time.ratio, interval_text(time.interval))}"
    else:
        yield time.verdict
    if time.base_cycles is not None and time.new_cycles is not None:
        interval = interval_text(time.cycles_interval)
        yield f"SM cycles {both_text(time.base_cycles, time.new_cycles, '')}{_change(time.cycles_ratio, interval)}"
    samples = samples_text(time)
    if samples:
        yield f"measured: {samples}"
    if time.noise is not None:
        yield f"noise {format_percent(time.noise)}{f' ({time.noise_source})' if time.noise_source else ''}"
    if time.reason:
        yield time.reason
    if time.runs_needed is not None:
        yield f"{runs_needed_text(time)} at this noise"


def _change(ratio: float | None, interval: str) -> str:
    if ratio is None:
        return ""
    return f" ({change_text(ratio)}{f'; {interval} at 99 %' if interval else ''})"


def _counts(change: KernelChange, sheet: Sheet) -> Iterator[Text]:
    """Yield the verdict on work, the counters that are not the same, the opcodes that moved most, and the others."""
    work = change.work
    if not change.is_one_sided:
        yield sheet.field("work", f"{work.verdict}: {work.reason}" if work.reason else work.verdict)
    moved = [count for count in work.counts if count.word != "same"]
    opcodes = sorted((count for count in moved if count.name.startswith(_OPCODE)), key=_size, reverse=True)
    shown = [*(count for count in moved if not count.name.startswith(_OPCODE)), *opcodes[:_MOST_OPCODES]]
    if shown:
        rows = [("counter", "base", "", "new", "change", "", ""), *(_row(count, sheet) for count in shown)]
        for index, line in enumerate(aligned([tuple(map(sheet.legible, row)) for row in rows], right=(1, 3, 4))):
            yield Text(f"   {line}", style="bold" if index == 0 else "", no_wrap=True, overflow="ignore")
    more = len(opcodes) - _MOST_OPCODES
    if more > 0:
        text = f"… and {count_text(more, 'more opcode')} that changed less: --format json has all"
        yield sheet.paragraph(text, "dim", indent=3)
    same = [count_name(count.name) for count in work.counts if count.word == "same"]
    if same:
        rest = len(same) - _MOST_LISTED
        listed = ", ".join(same[:_MOST_LISTED]) + (f" and {spaced(rest)} more" if rest > 0 else "")
        yield sheet.field("unchanged", listed, "dim")


def _size(count: CountChange) -> float:
    """Return by how much a counter changed."""
    size = abs((count.new or 0.0) - (count.base or 0.0))
    return size if math.isfinite(size) else 0.0


def _row(count: CountChange, sheet: Sheet) -> tuple[str, ...]:
    base, new = side_texts(count.base, count.new, count.unit, count.name)
    return (
        sheet.fitted(count_name(count.name), _NAME),
        base,
        ARROW,
        new,
        change_text(count.ratio, "–"),
        count.word.replace("-", " "),
        "depends on the data" if count.data_dependent else "",
    )


def _finding(finding: FindingChange) -> str:
    headline = finding.new or finding.base
    if finding.word == "stayed" and finding.base and finding.new and finding.base != finding.new:
        headline = f"{finding.new} (was: {finding.base})"
    parts = [f"{_WORDS[finding.word]}: {headline}"]
    if finding.location is not None:
        parts.append(f"at {file_name(finding.location.file)}:{finding.location.line}")
    if finding.word == "went":
        parts.append(gain_text(finding))
    return "; ".join(filter(None, parts))


def _lines(change: KernelChange, sheet: Sheet) -> Iterator[Text]:
    for number, line in enumerate(change.lines[:_MOST_LINES]):
        code = f": {line.text.strip()}" if line.text.strip() else ""
        text = sheet.clipped(f"{line_text(line, file_name(line.file))}{code}", sheet.width - LABEL_WIDTH)
        yield sheet.labelled("lines" if number == 0 else "", [text])
    if len(change.lines) > _MOST_LINES:
        yield sheet.field("", f"… and {spaced(len(change.lines) - _MOST_LINES)} more", "dim")
