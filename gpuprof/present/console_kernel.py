"""One kernel in the terminal: its facts, its findings, its hot code, and what was not collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.model.headline import main_point, stalls_of
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.path_names import path_name
from gpuprof.model.recorded import Missing
from gpuprof.model.session import CodeLine, Excerpt, KernelProfile, Traffic
from gpuprof.model.stalls import stall_name
from gpuprof.present.console_findings import finding_lines
from gpuprof.present.console_parts import LABEL_WIDTH, Sheet
from gpuprof.text import printable
from gpuprof.units import format_percent, format_si, format_waves
from gpuprof.words.collected import counter_row, counters_left_out
from gpuprof.words.file_names import file_name
from gpuprof.words.flop import operator_bytes_text, operator_flop_text
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    block_text,
    clock_text,
    count_text,
    cycles_of_pipes,
    dims_text,
    duration_text,
    grid_text,
    issue_text,
    occupancy_text,
    point_text,
    range_text,
    rate_text,
    shared_text,
    throughput_text,
    work_text,
)
from gpuprof.words.unit_names import pipe_name

if TYPE_CHECKING:
    from rich.text import Text

_STALLS_SHOWN = 5
_PIPES_SHOWN = 4
_COUNTERS_SHOWN = 30
_NAME_SHOWN, _WHOLE_NAME_SHOWN = 150, 700
_SHARE_WIDTH = 7


def kernel_lines(kernel: KernelProfile, sheet: Sheet, *, whole: bool, source: str = "") -> Iterator[Text]:
    """Yield every finding and figure of a kernel; `whole` adds its full name, hot code and all of each finding.

    `source` stands behind the kernel's name where there are several files: " in NAME".
    """
    from rich.text import Text

    yield sheet.paragraph(f"#{kernel.id} {kernel.label}{source}", "bold")
    if kernel.demangled != kernel.label:
        name = printable(kernel.demangled)
        kept = _WHOLE_NAME_SHOWN if whole else _NAME_SHOWN
        yield sheet.paragraph(f"{name[:kept]}…" if len(name) > kept else name, "dim", indent=3)
    findings = list(finding_lines(kernel, sheet, whole=whole))
    yield from findings
    if whole and kernel.excerpts:
        yield Text("")
        yield _code(kernel.excerpts[0], sheet) if kernel.excerpts[0].has_text else _hot_lines(kernel, sheet)
    if findings or (whole and kernel.excerpts):
        yield Text("")
    for label, text in _facts(kernel):
        yield sheet.field(label, text)
    if whole:
        for label, text in _collected(kernel):
            yield sheet.field(label, text)
    if kernel.missing:
        yield Text("")
    for text in _missing_texts(kernel):
        yield sheet.field("missing", text, "dim")


def _missing_texts(kernel: KernelProfile) -> Iterator[str]:
    """Write what is missing, by what to do about it. A reason of all of them is given; JSON has that of each."""
    groups: dict[str, list[Missing]] = {}
    for gap in kernel.missing:
        groups.setdefault(gap.how, []).append(gap)
    for how, gaps in groups.items():
        reasons = {gap.why for gap in gaps}
        why = f"{reasons.pop()}; " if len(reasons) == 1 else ""
        yield f"{', '.join(gap.what for gap in gaps)}: {why}{how}"


def _facts(kernel: KernelProfile) -> Iterator[tuple[str, str]]:
    kind = kind_named(kernel.kind)
    if kind is not None:
        yield "kind", kind.title
    yield "launch", _launch_text(kernel)
    if kernel.launches > 1:
        yield "launches", _launches_text(kernel)
    if kernel.ranges:
        yield "ranges", " / ".join(kernel.ranges)
    yield from _roofline_facts(kernel)
    work = [work_text(item) for item in kernel.work if item.flop or item.flop_per_s]
    if work:
        yield "work", ", ".join(work)
    if kernel.own_flop is not None:
        yield "model FLOP", operator_flop_text(kernel.own_flop)
    if kernel.operator_bytes is not None:
        yield "operands", operator_bytes_text(kernel.operator_bytes)
    for index, traffic in enumerate(kernel.traffic):
        yield ("traffic" if index == 0 else ""), _traffic_text(traffic)
    if kernel.throughput:
        yield "of peak", ", ".join(map(throughput_text, kernel.throughput))
    busiest = sorted((pipe for pipe in kernel.pipes if pipe.fraction > 0), key=lambda pipe: -pipe.fraction)
    if busiest:
        pipes = ", ".join(f"{pipe_name(pipe.name)} {format_percent(pipe.fraction)}" for pipe in busiest[:_PIPES_SHOWN])
        cycles = cycles_of_pipes(kernel)
        yield "pipes busy", f"{pipes} of active cycles" if cycles == "of active cycles" else pipes
    yield "occupancy", occupancy_text(kernel.occupancy)
    if issue := issue_text(kernel):
        yield "schedulers", issue
    if states := _states_text(kernel):
        yield "warp states", states
    for place, answer in enumerate(kernel.answers):
        yield "" if place else "answers", answer.text


def _collected(kernel: KernelProfile) -> Iterator[tuple[str, str]]:
    """Yield the counters that nothing else shows, and where those are that are left out."""
    shown = kernel.collected[:_COUNTERS_SHOWN]
    texts = [" ".join(counter_row(counter)).rstrip() for counter in shown]
    texts += filter(None, [counters_left_out(kernel, len(shown))])
    for place, text in enumerate(texts):
        yield "" if place else "collected", text


def _roofline_facts(kernel: KernelProfile) -> Iterator[tuple[str, str]]:
    point = main_point(kernel)
    for level in ("dram", "l2", "l1"):
        at_level = main_point(kernel, level, path=point.path) if point is not None else main_point(kernel, level)
        if at_level is not None:
            yield (
                ("roofline" if level == "dram" else ""),
                f"{path_name(at_level.path)} {point_text(at_level)}",
            )
    rated = main_point(kernel, ceiling="rated", path=point.path) if point is not None else None
    if rated is not None:
        allowed = rate_text(rated.path, rated.roof_flop_per_s)
        yield "", f"{format_percent(rated.fraction_of_roof)} of the rated DRAM roofline, {allowed}"


def _states_text(kernel: KernelProfile) -> str:
    """Write the largest shares of what warps did: "barrier 14 %, wait 12 %"; empty where that was not collected."""
    stalls = [stall for stall in stalls_of(kernel) if stall.share >= 0.005][:_STALLS_SHOWN]
    return ", ".join(f"{stall_name(stall.reason)} {format_percent(stall.share)}" for stall in stalls)


def _traffic_text(traffic: Traffic) -> str:
    total = format_si(traffic.bytes, "B") if traffic.bytes is not None else None
    rate = format_si(traffic.bytes_per_s, "B/s") if traffic.bytes_per_s is not None else None
    mark = " (estimated)" if traffic.basis == "estimated" else ""
    hits = f"{format_percent(traffic.hit_rate)} hit" if traffic.hit_rate is not None else None
    amounts = ", ".join(amount for amount in (total, rate, hits) if amount is not None)
    return f"{LEVEL_NAMES[traffic.level]} {amounts}{mark}: {traffic.definition}"


def _launch_text(kernel: KernelProfile) -> str:
    parts = [f"grid {grid_text(kernel)}", f"block {block_text(kernel)}"]
    if kernel.grid is None and kernel.block is None and kernel.grid_size is None and kernel.block_size is None:
        parts = [f"grid and block {dims_text(None)}"]
    if kernel.registers_per_thread is not None:
        parts.append(f"{kernel.registers_per_thread} registers per thread")
    if kernel.shared_memory_per_block is not None:
        parts.append(shared_text(kernel, " shared memory"))
    if kernel.waves is not None:
        parts.append(format_waves(kernel.waves))
    parts.append(duration_text(kernel.duration_s) if kernel.duration_s is not None else "duration not collected")
    if kernel.sm_clock_hz is not None:
        parts.append(f"SM clock {clock_text(kernel)}")
    return ", ".join(parts)


def _launches_text(kernel: KernelProfile) -> str:
    """Write what the launches of a group took together, how they differ, and of which one the other figures are."""
    launches = count_text(kernel.launches, "equal launch", "es")
    spread = kernel.duration_percentiles_s
    total = f", {duration_text(kernel.time_total_s)} in all" if kernel.time_total_s is not None else ""
    if kernel.averages is not None:
        return f"{launches}{total}{range_text(kernel.averages)}; figures are averages"
    if kernel.time_total_s is None and spread is None:
        return f"{launches}; figures are of the first"
    if spread is None:
        return f"{launches}{total}; figures are of the median"
    timed = f"{spread.count} of them timed, " if spread.count < kernel.launches else ""
    least, most = format_si(spread.min, "s"), format_si(spread.max, "s")
    differ = f"{timed}{least} to {most} each" if least != most else f"{timed}{least} each"
    whose = "the median" if kernel.duration_s == spread.p50 else f"one that took {duration_text(kernel.duration_s)}"
    return f"{launches}{total}, {differ}; figures are of {whose}"


def _code(excerpt: Excerpt, sheet: Sheet) -> Text:
    """The code around the hottest place: each line's share of the samples, its number and what its warps wait for."""
    head = f"{file_name(excerpt.file or '') or 'instructions'}, share of {excerpt.weight}"
    hottest = max(excerpt.lines, key=lambda line: line.share, default=None)
    numbers = max((len(_line_number(line)) for line in excerpt.lines), default=0)
    lines = [_code_line(line, sheet, numbers, hottest=line is hottest) for line in excerpt.lines]
    return sheet.labelled("code", [sheet.legible(head)[: sheet.width - LABEL_WIDTH], *lines])


def _hot_lines(kernel: KernelProfile, sheet: Sheet) -> Text:
    """The lines with most samples of a report that knows files and lines and has no text, hottest first."""
    lines = [(line, excerpt.file) for excerpt in kernel.excerpts for line in excerpt.lines]
    lines.sort(key=lambda pair: -pair[0].share)
    texts = (_hot_line(line, file, sheet) for line, file in lines)
    head = f"share of {kernel.excerpts[0].weight}; the report has no text"
    return sheet.labelled("code", [sheet.legible(head)[: sheet.width - LABEL_WIDTH], *texts])


def _hot_line(line: CodeLine, file: str | None, sheet: Sheet) -> str:
    """A line with its share and as many states of its warps as there is room for."""
    room, place = sheet.width - LABEL_WIDTH, f"{file_name(file or '')}:{line.number}"
    text = sheet.legible(f"{format_percent(line.share).rjust(_SHARE_WIDTH)}  {place}")[:room]
    for index, stall in enumerate(line.stalls):
        state = sheet.legible(f"{stall_name(stall.reason)} {format_percent(stall.share)}")
        longer = f"{text}{', ' if index else '  '}{state}"
        if len(longer) > room:
            break
        text = longer
    return text


def _line_number(line: CodeLine) -> str:
    return "" if line.pc is not None or line.number is None else str(line.number)


def _code_line(line: CodeLine, sheet: Sheet, numbers: int, *, hottest: bool) -> str:
    share = format_percent(line.share) if line.share >= 0.001 else ""
    states = ""
    if hottest and line.stalls:
        states = f"  ({stall_name(line.stalls[0].reason)} {format_percent(line.stalls[0].share)})"
    start = f"{share.rjust(_SHARE_WIDTH)}  {_line_number(line).rjust(numbers)}  "
    kept = sheet.width - LABEL_WIDTH - len(start) - len(states)
    code, more = sheet.legible(line.text.expandtabs(4)), sheet.legible("…")
    return f"{start}{code if len(code) <= kept else code[: kept - len(more)] + more}{states}"
