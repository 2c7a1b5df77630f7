"""A compared kernel in depth: time with its interval, counters, causes, findings and lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.comparison.contract import ComparedKernel, Comparison, FindingChange, KernelChange, LineChange, TimeChange
from gpuprof.present.compare_text import (
    both_text,
    change_text,
    count_name,
    count_values,
    interval_text,
    match_text,
    signed_percent,
    value_text,
)
from gpuprof.present.console_parts import Sheet, aligned
from gpuprof.present.session_text import count_text, dims_text
from gpuprof.units import format_percent, spaced

if TYPE_CHECKING:
    from rich.text import Text

_MOST_COUNTS, _MOST_LINES = 24, 12
_WORDS = {"went": "went", "came": "came", "stayed": "stays"}


def change_lines(change: KernelChange, comparison: Comparison, sheet: Sheet) -> Iterator[Text]:
    """Yield everything about a kernel that the comparison has."""
    yield sheet.paragraph(f"#{change.id} {change.label}", "bold cyan")
    yield sheet.paragraph(change.sentence, indent=3)
    yield from _identity(change, comparison, sheet)
    yield sheet.field("time", list(_time(change.time)))
    if change.effect_s is not None and change.effect is not None:
        text = f"{signed_percent(change.effect)} of the base's GPU time"
        yield sheet.field("effect", text)
    for number, cause in enumerate(change.causes):
        place = f" ({file_name(cause.location)})" if cause.location else ""
        yield sheet.field("why" if number == 0 else "", f"{cause.sentence}{place}: {cause.certainty}")
    yield from _counts(change, sheet)
    for number, finding in enumerate(change.findings):
        yield sheet.field("findings" if number == 0 else "", _finding(finding))
    yield from _lines(change, sheet)


def file_name(path: str) -> str:
    """Return a file, or a file and line, without its folders."""
    return path.replace("\\", "/").rpartition("/")[2]


def _identity(change: KernelChange, comparison: Comparison, sheet: Sheet) -> Iterator[Text]:
    told = match_text(change)
    if told:
        yield sheet.field("matched", told)
    for name, side, files in (
        ("base", change.base, comparison.base.files),
        ("new", change.new, comparison.new.files),
    ):
        for kernel in side:
            yield sheet.field(name, _launch(kernel, files[kernel.run] if kernel.run < len(files) else ""))


def _launch(kernel: ComparedKernel, file: str) -> str:
    parts = [f"#{kernel.id} {kernel.label}"]
    if kernel.grid is not None and kernel.block is not None:
        parts.append(f"grid {dims_text(kernel.grid)}, block {dims_text(kernel.block)}")
    if kernel.ranges:
        parts.append(f"in {' / '.join(kernel.ranges)}")
    parts.append(count_text(kernel.launches, "launch", "es"))
    return f"{', '.join(parts)} ({file})" if file else ", ".join(parts)


def _time(time: TimeChange) -> Iterator[str]:
    """Yield the verdict on time in seconds and in cycles, from how many runs, at which noise, and why it is unclear."""
    if time.base_s is not None or time.new_s is not None:
        values = both_text(time.base_s, time.new_s, "s")
        yield f"{time.verdict}: {values}{_change(time.ratio, interval_text(time.interval))}"
    else:
        yield time.verdict
    if time.base_cycles is not None and time.new_cycles is not None:
        interval = interval_text(time.cycles_interval)
        yield f"in SM cycles {both_text(time.base_cycles, time.new_cycles, '')}{_change(time.cycles_ratio, interval)}"
    if time.base_launches or time.new_launches:
        sides = (
            f"{count_text(runs, 'run')} with {count_text(launches, 'launch', 'es')}"
            for runs, launches in ((time.base_runs, time.base_launches), (time.new_runs, time.new_launches))
        )
        noise = f"; noise {format_percent(time.noise)}, {time.noise_source}" if time.noise is not None else ""
        yield f"{' against '.join(sides)}{noise}"
    if time.reason:
        yield time.reason
    if time.runs_needed is not None:
        yield f"{count_text(time.runs_needed, 'run')} a side would settle it at this noise"


def _change(ratio: float | None, interval: str) -> str:
    if ratio is None:
        return ""
    return f" ({change_text(ratio)}{f'; {interval} at 99 %' if interval else ''})"


def _counts(change: KernelChange, sheet: Sheet) -> Iterator[Text]:
    """Yield the counters of both sides, those that changed first."""
    from rich.text import Text

    counts = change.work.counts
    if change.work.reason:
        yield sheet.field("work", f"{change.work.verdict}: {change.work.reason}")
    elif not counts:
        yield sheet.field("work", change.work.verdict)
    if not counts:
        return
    shown = counts[:_MOST_COUNTS]
    rows = [("", "base → new", "change", "")]
    for count in shown:
        band = " (data-dependent)" if count.data_dependent else ""
        rows.append(
            (
                count_name(count.name),
                count_values(count),
                change_text(count.ratio) if count.ratio is not None else "–",
                f"{count.word.replace('-', ' ')}{band}",
            )
        )
    for index, line in enumerate(aligned([tuple(map(sheet.legible, row)) for row in rows], right=(1, 2))):
        style = "bold" if index == 0 else "dim" if shown[index - 1].word == "same" else ""
        yield Text(f"   {line}", style=style, no_wrap=True, overflow="ignore")
    if len(counts) > len(shown):
        yield Text(
            sheet.legible(f"   … and {spaced(len(counts) - len(shown))} more: --format json has all"), style="dim"
        )


def _finding(finding: FindingChange) -> str:
    headline = finding.new or finding.base
    if finding.word == "stayed" and finding.base and finding.new and finding.base != finding.new:
        headline = f"{finding.new} (was: {finding.base})"
    parts = [f"{_WORDS[finding.word]}: {headline}"]
    if finding.location:
        parts.append(f"at {file_name(finding.location)}")
    if finding.promised is not None and finding.word == "went":
        gained = f", gained {value_text(finding.gained, 'fraction', 2)}" if finding.gained is not None else ""
        parts.append(f"promised at most {format_percent(finding.promised)}{gained}")
    return "; ".join(parts)


def _lines(change: KernelChange, sheet: Sheet) -> Iterator[Text]:
    for number, line in enumerate(change.lines[:_MOST_LINES]):
        yield sheet.field("lines" if number == 0 else "", _line(line))
    if len(change.lines) > _MOST_LINES:
        yield sheet.field("", f"… and {spaced(len(change.lines) - _MOST_LINES)} more")


def _line(line: LineChange) -> str:
    number = line.new_line if line.new_line is not None else line.base_line
    moved = (
        f" (was {line.base_line})" if line.new_line is not None and line.base_line not in (None, line.new_line) else ""
    )
    unit = "local accesses" if line.what == "local" else line.what
    name = file_name(line.file)
    text = f": {line.text.strip()}" if line.text.strip() else ""
    return f"{name}:{number}{moved} {unit} {both_text(line.base, line.new, '')}{text}"
