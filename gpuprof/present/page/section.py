"""The section of one kernel: its facts, and everything that the other modules make of it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.path_names import path_name
from gpuprof.model.session import KernelProfile, Pipe, Session, Throughput
from gpuprof.present.page.charts import kernel_chart
from gpuprof.present.page.code import CodeTable, code_places, code_tables
from gpuprof.present.page.findings import Card, cards
from gpuprof.present.page.memory_path import MemoryPath, memory_path
from gpuprof.present.page.parts import Bar, Chart, KernelLabel, LabelledText, bar, label
from gpuprof.present.page.stalls import StallPart, stall_parts
from gpuprof.units import format_percent, format_si, format_waves
from gpuprof.words.collected import counter_row, counters_left_out
from gpuprof.words.file_names import file_name
from gpuprof.words.flop import operator_bytes_text, operator_flop_text
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    NOT_COLLECTED,
    UNIT_NAMES,
    block_text,
    clock_text,
    count_text,
    cycles_of_pipes,
    duration_text,
    grid_text,
    intensity_text,
    issue_text,
    occupancy_text,
    range_text,
    rate_text,
    registers_text,
    shared_text,
    stall_family_text,
    time_text,
)
from gpuprof.words.sentences import capital, full_stop

_LEAST_PIPE = 0.001
_PIPES = {
    "fp64": "FP64", "fp32": "FP32", "fp16": "FP16", "fma": "FMA", "fmaheavy": "FMA heavy", "fmalite": "FMA light",
    "tensor": "Tensor", "alu": "ALU (integer and logic)", "xu": "XU (special functions)",
    "lsu": "LSU (loads and stores)", "tex": "TEX (texture)", "cbu": "CBU (branches)", "adu": "ADU (addresses)",
    "uniform": "Uniform (once per warp)",
}  # fmt: skip


class Meter(Struct, frozen=True):
    """A unit or pipe, how busy it was, and the metric that says so."""

    name: str
    amount: Bar
    metric: str


class Section(Struct, frozen=True):
    """Everything about one kernel."""

    id: int
    label: KernelLabel
    full_name: str | None
    facts: tuple[LabelledText, ...]
    chart: Chart
    points: tuple[tuple[str, ...], ...]
    memory: MemoryPath | None
    traffic: tuple[tuple[str, ...], ...]
    throughput: tuple[Meter, ...]
    pipes: tuple[Meter, ...]
    pipes_of: str
    idle_pipes: str
    stalls: tuple[StallPart, ...]
    stall_family: str
    issue: str
    findings: tuple[Card, ...]
    code: tuple[CodeTable, ...]
    collected: tuple[tuple[str, ...], ...]
    collected_elsewhere: str
    missing: tuple[tuple[str, ...], ...]


def kernel_section(session: Session, kernel: KernelProfile, ceiling: str) -> Section:
    """Return the section of a kernel of this session."""
    return Section(
        id=kernel.id,
        label=label(kernel.label),
        full_name=kernel.demangled if kernel.demangled != kernel.label or label(kernel.label).whole else None,
        facts=(*_file_facts(session, kernel), *_facts(kernel)),
        chart=kernel_chart(session, kernel, ceiling),
        points=tuple(_point_rows(kernel, ceiling)),
        memory=memory_path(kernel),
        traffic=tuple(_traffic_rows(kernel)),
        throughput=tuple(Meter(_unit_name(unit), bar(unit.fraction), "") for unit in kernel.throughput),
        pipes=tuple(_pipe_meters(kernel)),
        pipes_of=_pipes_of(kernel),
        idle_pipes=", ".join(_pipe_name(pipe) for pipe in kernel.pipes if pipe.fraction < _LEAST_PIPE),
        stalls=tuple(stall_parts(kernel)),
        stall_family=stall_family_text(kernel),
        issue=full_stop(capital(issue_text(kernel))),
        findings=tuple(cards(kernel, code_places(kernel))),
        code=tuple(code_tables(kernel)),
        collected=tuple(map(counter_row, kernel.collected)),
        collected_elsewhere=full_stop(counters_left_out(kernel, len(kernel.collected))),
        missing=tuple((gap.what, gap.why, gap.how) for gap in kernel.missing),
    )


def _file_facts(session: Session, kernel: KernelProfile) -> Iterator[LabelledText]:
    """Name the kernel's file where there are several, with its number among them."""
    if len(session.sources) > 1:
        file = file_name(session.sources[kernel.source].file)
        yield LabelledText("File", f"{file} ({kernel.source + 1} of {len(session.sources)})")


def _facts(kernel: KernelProfile) -> Iterator[LabelledText]:
    kind = kind_named(kernel.kind)
    if kind is not None:
        yield LabelledText("Kind", kind.title)
    share = f", {format_percent(kernel.time_share)} of the time" if kernel.time_share is not None else ""
    if kernel.launches == 1:
        yield LabelledText("Duration", duration_text(kernel.duration_s) + share)
    else:
        yield LabelledText("Launches", count_text(kernel.launches, "launch", "es"))
        yield LabelledText("Total time", time_text(kernel) + share)
        yield LabelledText("Duration", _typical_duration(kernel))
    if kernel.ranges:
        yield LabelledText("Ranges", " / ".join(kernel.ranges))
    waves = f", {format_waves(kernel.waves)}" if kernel.waves is not None else ""
    yield LabelledText("Grid", grid_text(kernel) + waves)
    yield LabelledText("Block", block_text(kernel))
    yield LabelledText("Registers per thread", registers_text(kernel))
    yield LabelledText("Shared memory per block", shared_text(kernel))
    clock = clock_text(kernel) if kernel.sm_clock_hz else NOT_COLLECTED
    yield LabelledText("SM clock", f"{clock}, throttled" if kernel.throttled else clock)
    yield LabelledText("Occupancy", occupancy_text(kernel.occupancy))
    if kernel.answers:
        yield LabelledText("Answers", " ".join(full_stop(answer.text) for answer in kernel.answers))
    if kernel.own_flop is not None:
        yield LabelledText("Model FLOP", operator_flop_text(kernel.own_flop))
    if kernel.operator_bytes is not None:
        yield LabelledText("Operands and result", operator_bytes_text(kernel.operator_bytes))


def _typical_duration(kernel: KernelProfile) -> str:
    """Write how long a launch of a group takes, and how much that differs."""
    if kernel.duration_s is None:
        return NOT_COLLECTED
    text, spread = duration_text(kernel.duration_s), kernel.duration_percentiles_s
    if kernel.averages is not None:
        return f"{text} on average{range_text(kernel.averages)}"
    if spread is None or spread.min == spread.max:
        return f"{text} each"
    between = f"{format_si(spread.min, 's')} to {format_si(spread.max, 's')}"
    median = "median" if kernel.duration_s == spread.p50 else f"here, median {duration_text(spread.p50)}"
    return f"{text} {median}, {between}, p95 {format_si(spread.p95, 's')}"


def _unit_name(unit: Throughput) -> str:
    return UNIT_NAMES[unit.unit] + (f", {unit.note}" if unit.note else "")


def _pipes_of(kernel: KernelProfile) -> str:
    cycles = cycles_of_pipes(kernel)
    return f", % {cycles}" if cycles else ""


def _pipe_meters(kernel: KernelProfile) -> Iterator[Meter]:
    for pipe in sorted(kernel.pipes, key=lambda pipe: (-pipe.fraction, pipe.name)):
        if pipe.fraction >= _LEAST_PIPE:
            yield Meter(_pipe_name(pipe), bar(pipe.fraction), pipe.metric)


def _pipe_name(pipe: Pipe) -> str:
    """Write a pipe's name, and what it does where the letters do not say it."""
    return _PIPES.get(pipe.name, pipe.name)


def _point_rows(kernel: KernelProfile, ceiling: str) -> Iterator[tuple[str, ...]]:
    """Path, level, intensity, achieved, roofline, fraction, bound: of the kernel's points under one kind of ceiling."""
    for point in kernel.roofline:
        if point.ceiling != ceiling:
            continue
        yield (
            path_name(point.path),
            LEVEL_NAMES[point.level],
            intensity_text(point.path, point.intensity),
            rate_text(point.path, point.flop_per_s),
            rate_text(point.path, point.roof_flop_per_s),
            format_percent(point.fraction_of_roof),
            f"{point.bound}-bound",
        )


def _traffic_rows(kernel: KernelProfile) -> Iterator[tuple[str, ...]]:
    for traffic in kernel.traffic:
        rate = format_si(traffic.bytes_per_s, "B/s") if traffic.bytes_per_s is not None else NOT_COLLECTED
        total = format_si(traffic.bytes, "B") if traffic.bytes is not None else NOT_COLLECTED
        hits = format_percent(traffic.hit_rate) if traffic.hit_rate is not None else NOT_COLLECTED
        yield LEVEL_NAMES[traffic.level], total, rate, hits, traffic.definition, traffic.basis
