"""A timeline as text: what each GPU did of its time, copies, communication, steps, and their rates and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.model.field_types import JudgedPart
from gpuprof.model.groups import by_key
from gpuprof.model.headline import listed
from gpuprof.model.run_totals import are_ranks, begins_with_start_up, loading_s, running_s, start_up_s, step_s
from gpuprof.model.session import (
    Communication,
    Copies,
    DeviceTimeline,
    LeftOut,
    LongPause,
    Session,
    StepTimes,
    Timeline,
)
from gpuprof.timeline.trace import GRAPH, KERNEL, SET, TRY
from gpuprof.units import format_binary, format_percent, format_si, significant, spaced
from gpuprof.words.flop import measured_text, model_facts
from gpuprof.words.profile_values import count_text
from gpuprof.words.source_names import short_names
from gpuprof.words.whole_graphs import graphs_text

NOT_JUDGED = ("start-up", "before", "warm-up", "between", "the end", "profiler")
"""The names of facts on what is not judged."""
_MILLION = 1e6
_HOUR_S = 3600.0
_WORTH_SAYING = 0.01
"""Of the time that is judged: what is shorter changes no share that is shown."""
_SAME_STEP = 0.05
"""A step takes as long in the program as on the GPU if it differs by no more."""
_UNTIL: dict[JudgedPart | None, str] = {
    "steps": "before the first step",
    "repetition": "before the kernels repeat",
}
_CAUSES = {
    "start-up": "start-up",
    "waited": "the program waits for the GPU",
    "in-graph": "between nodes of a CUDA graph",
}


class Rates(NamedTuple):
    """What the user knows of a step: the items in it (tokens, images), and what an hour of the machine costs."""

    items_per_step: float | None = None
    cost_per_hour: float | None = None


NO_RATES = Rates()


def timeline_facts(
    session: Session, rates: Rates = NO_RATES, gpu: DeviceTimeline | None = None
) -> Iterator[tuple[str, str]]:
    """Yield name and value of everything that the timeline shows; nothing for a session without one.

    With `gpu` only those of this GPU and of its file.
    """
    timeline = session.timeline
    if timeline is None:
        return
    for device in (gpu,) if gpu is not None else timeline.devices:
        yield from _device_facts(session, device)
    for slowed_by in dict.fromkeys(device.slowed_by for device in timeline.devices if device.slowed_by):
        yield "profiler", f"it also recorded {listed(slowed_by)}: pauses are longer than without"
    sources = range(len(session.sources)) if gpu is None else (gpu.source,)
    for step in timeline.steps:
        if step.source not in sources:
            continue
        own = [device for device in timeline.devices if step.loop and device.source == step.source]
        yield "steps", f"{_of_source(session, step.source)}{_step_text(step, step_s(own), rates)}"
    for model_flop in timeline.model_flop:
        if model_flop.source not in sources:
            continue
        loop = next((step for step in timeline.steps if step.loop and step.source == model_flop.source), None)
        of = _of_source(session, model_flop.source)
        yield from ((name, f"{of}{text}") for name, text in model_facts(model_flop, loop))
    if timeline.measured_flop:
        yield "FLOP on GPU", measured_text(timeline.measured_flop)
    yield from _ranks_facts(timeline)
    if timeline.peak_memory_bytes is not None:
        yield "peak memory", format_binary(timeline.peak_memory_bytes)


def _device_facts(session: Session, device: DeviceTimeline) -> Iterator[tuple[str, str]]:
    """Yield name and value of everything that one GPU did."""
    yield device_fact(session, device)
    yield from _left_out_facts(device)
    if device.gaps is not None and device.gaps.profiler_s:
        yield "profiler", f"{format_si(device.gaps.profiler_s, 's')} of pauses are its own work; not judged"
    if device.graphs is not None:
        yield "CUDA graphs", graphs_text(device.graphs)
    if device.gaps is not None:
        yield "pauses", _gaps_text(device)
    for copies in device.copies:
        yield "copies", _copies_text(copies)
    if device.communication is not None:
        yield "exchange", _communication_text(device)
    if device.untimed:
        yield (
            "untimed",
            f"{count_text(device.untimed, 'launch', 'es')} and copies without a time; they count as instants",
        )


def _ranks_facts(timeline: Timeline) -> Iterator[tuple[str, str]]:
    """Yield which rank of how many was traced, or how many of them."""
    of_all = f" of {timeline.ranks}" if timeline.ranks is not None else ""
    if timeline.rank is not None:
        yield "rank", f"{timeline.rank}{of_all}"
    shown = {rank for rank in timeline.source_ranks if rank is not None}
    if timeline.ranks is not None and 1 < len(shown) < timeline.ranks:
        yield "ranks", f"{len(shown)}{of_all}: the traces of the others are not here"


def busy_share(device: DeviceTimeline) -> float:
    """Return for which part of its judged time a GPU was busy, as far as is known."""
    return device.busy_s / running_s(device) if device.span_s > 0 else 1.0


class _OfRank(NamedTuple):
    """A line of one rank, and what ranks are compared by: a number that grows with it, its text and its adjective."""

    rank: int | None
    text: str
    slowness: float
    measure: str
    worst: str


def rank_facts(session: Session, rates: Rates) -> Iterator[tuple[str, str]]:
    """Yield what ranks of one run did, a line for each thing: of all ranks if they agree, else of the slowest one."""
    timeline = session.timeline
    assert timeline is not None
    for name, entries in by_key(_of_ranks(timeline, rates)).items():
        yield name, _line_of_ranks(entries)


def _of_ranks(timeline: Timeline, rates: Rates) -> Iterator[tuple[str, _OfRank]]:
    ranks = timeline.source_ranks
    for device in timeline.devices:
        busy = busy_share(device)
        text, share = _device_text(device), _share_text(device, busy)
        yield f"GPU {device.ordinal}", _OfRank(ranks[device.source], text, -busy, share, "least busy")
    flop_of = {flop.source: flop for flop in timeline.model_flop}
    for step in timeline.steps:
        if not step.loop:
            continue
        mean_s = step_s(device for device in timeline.devices if device.source == step.source)
        length_s = mean_s or step.duration_percentiles_s.p50
        text = _step_text(step, mean_s, rates)
        of_rank = _OfRank(ranks[step.source], text, length_s, format_si(length_s, "s"), "slowest")
        yield "steps", of_rank
        if step.source in flop_of:
            for name, text in model_facts(flop_of[step.source], step):
                yield name, of_rank._replace(text=text)


def _line_of_ranks(entries: Sequence[_OfRank]) -> str:
    least = min(entries, key=lambda entry: entry.slowness)
    most = max(entries, key=lambda entry: entry.slowness)
    if len(entries) == 1:
        return f"rank {most.rank}: {most.text}"
    if len({entry.text for entry in entries}) == 1:
        return f"each of {len(entries)} ranks: {most.text}"
    if least.measure == most.measure:
        return f"rank {most.rank}, like all {len(entries)} ({most.measure}): {most.text}"
    return f"rank {most.rank}, the {most.worst} of {len(entries)} ({least.measure} to {most.measure}): {most.text}"


def device_fact(session: Session, device: DeviceTimeline) -> tuple[str, str]:
    """Return name and value of what is said first of a GPU: for how much of its time it was busy."""
    several = session.timeline is not None and len(session.timeline.devices) > 1
    name = f"GPU {device.ordinal}" if several else "GPU time"
    return name, f"{_of_source(session, device.source)}{_device_text(device)}"


def pause_text(pause: LongPause) -> str:
    """Return how long a pause was, and why, as far as the trace shows."""
    before = pause.before if pause.before in (SET, TRY) else f"copying {pause.before}"
    before = f"a {pause.before}" if pause.before in (KERNEL, GRAPH) else before
    return f"idle {format_si(pause.length_s, 's')}, {_CAUSES.get(pause.cause, f'before {before}')}"


def _of_source(session: Session, source: int) -> str:
    """Return "rank 3: " for what one of several files says, or "base: " where they do not each have their own rank."""
    files = tuple(entry.file for entry in session.sources)
    if session.timeline is None or len({device.source for device in session.timeline.devices}) < 2:
        return ""
    if are_ranks(session):
        return f"rank {session.timeline.source_ranks[source]}: "
    return f"{short_names(files)[source]}: "


def _device_text(device: DeviceTimeline) -> str:
    if device.span_s <= 0:
        return "an instant: no activity has a duration"
    span_s = running_s(device)
    busy, idle_s = device.busy_s / span_s, span_s - device.busy_s
    of, each = format_si(span_s, "s"), ""
    if device.steps == 1:
        of = f"a step of {of}"
    elif device.steps:
        of += f" ({device.steps} steps of {format_si(span_s / device.steps, 's')})"
        each = f", {format_si(idle_s / device.steps, 's')} a step"
    elif start_up_s(device):
        of += " after start-up"
    idle = f"idle {'at most ' if _is_unsure(device) else ''}{format_si(idle_s, 's')}{each}"
    return f"busy {_share_text(device, busy)} of {of}, {_kernel_share(device, span_s)}; {idle}"


def _is_unsure(device: DeviceTimeline) -> bool:
    """Return whether a GPU may have been busy in its pauses, with what the trace has no times of."""
    return device.gaps is not None and device.gaps.unsure_s > 0


def _share_text(device: DeviceTimeline, fraction: float) -> str:
    """Write the share of a GPU's time that something is known to take."""
    share = format_percent(fraction)
    if not _is_unsure(device):
        return share
    return f"at least {'0 %' if share.startswith('<') else share.lstrip('>')}"


def _kernel_share(device: DeviceTimeline, span_s: float) -> str:
    kernels = _share_text(device, device.kernel_s / span_s)
    if device.graphs is None:
        return f"{kernels} with kernels"
    graphs = _share_text(device, device.graphs.time_s / span_s)
    return f"{graphs} in whole CUDA graphs whose kernels were not recorded, {kernels} with other kernels"


def _left_out_facts(device: DeviceTimeline) -> Iterator[tuple[str, str]]:
    """Yield what is not judged, because the program does it only when it starts, between steps or at the end."""
    if device.judged is None and not loading_s(device):
        old = "judged with the rest, as an older gpuprof wrote this session; read the trace again to see it apart"
        yield "start-up", old
    if device.start_up is not None:
        name = "start-up" if begins_with_start_up(device) else "before"
        yield name, _left_out_text(device.start_up, _UNTIL.get(device.judged, "before"))
    if loading_s(device):
        loading = format_si(loading_s(device), "s")
        yield "start-up", f"{loading} in pauses before first launches, to load and compile; not judged"
    if device.warm_up is not None:
        first = "step" if device.warm_up.steps == 1 else f"{device.warm_up.steps} steps"
        where = f"in the first {first}, the GPU waits there far longer than any later step takes"
        yield "warm-up", _left_out_text(device.warm_up, where)
    if device.between is not None:
        yield "between", _left_out_text(device.between, "between steps, unlike other pauses between them")
    if device.after_s >= _WORTH_SAYING * device.span_s:
        yield "the end", f"{format_si(device.after_s, 's')} after the last step; not judged"


def _left_out_text(part: LeftOut, where: str) -> str:
    kernels = f"{count_text(part.launches, 'kernel')}, " if part.launches is not None else ""
    busy = f"GPU busy {format_si(part.busy_s, 's')}"
    return f"{format_si(part.time_s, 's')} {where}, {kernels}{busy}; not judged"


def _gaps_text(device: DeviceTimeline) -> str:
    gaps = device.gaps
    assert gaps is not None
    span_s = running_s(device)
    of = f" ({format_percent(gaps.total_s / span_s)})" if span_s > 0 else ""
    in_graphs = f"{format_si(gaps.in_graph_s, 's')} between nodes of CUDA graphs, " if gaps.in_graph_s else ""
    unsure = ""
    if gaps.unsure_s:
        unsure = f"; up to {format_si(gaps.unsure_s, 's')} of it may be work that the trace has no times of"
    return (
        f"{count_text(gaps.count, 'pause')}, {format_si(gaps.total_s, 's')} in all{of}: median "
        f"{format_si(gaps.median_s, 's')}, longest {format_si(gaps.longest_s, 's')}; {in_graphs}"
        f"{format_si(gaps.short_s, 's')} in {'other ' if in_graphs else ''}pauses under 20 µs, "
        f"{format_si(gaps.long_s, 's')} in pauses of 1 ms and longer{unsure}"
    )


def _copies_text(copies: Copies) -> str:
    memory = f" ({copies.memory})" if copies.memory is not None else ""
    parts = [f"{copies.direction}{memory}: {count_text(copies.count, 'time')}"]
    if copies.bytes is not None:
        parts.append(format_si(copies.bytes, "B"))
    if copies.time_s is not None:
        parts.append(format_si(copies.time_s, "s"))
    if copies.bytes_per_s is not None:
        parts.append(format_si(copies.bytes_per_s, "B/s"))
    if copies.exposed_s is not None:
        parts.append(f"exposed {format_si(copies.exposed_s, 's')}")
    return ", ".join(parts)


def _communication_text(device: DeviceTimeline) -> str:
    talk = device.communication
    assert talk is not None
    exposed = waits = ""
    if talk.exposed_s is not None:
        hidden = 1 - talk.exposed_s / talk.time_s if talk.time_s > 0 else 0.0
        exposed = f", {format_percent(hidden)} of it beside other kernels; exposed {format_si(talk.exposed_s, 's')}"
    if talk.waiting_s is not None:
        waits = f", {format_si(talk.waiting_s, 's') if talk.waiting_s else 'none'} of it waiting for other ranks"
    return f"{count_text(talk.launches, 'kernel')}, {format_si(talk.time_s, 's')}{exposed}{waits}{_bus_text(talk)}"


def _bus_text(talk: Communication) -> str:
    if talk.bus_bytes_per_s is None:
        return ""
    text = f"; bus bandwidth {format_si(talk.bus_bytes_per_s, 'B/s')}, waits included"
    if talk.transfer_bytes_per_s is None:
        return text
    return f"{text}, {format_si(talk.transfer_bytes_per_s, 'B/s')} without"


def _step_text(step: StepTimes, mean_s: float | None, rates: Rates) -> str:
    """Write how long a step takes on the GPU, if known, and in the program, if that differs."""
    times = step.duration_percentiles_s
    spread = f"p95 {format_si(times.p95, 's')}, p99 {format_si(times.p99, 's')}"
    rate = f"{_rate_text(step)}{_items_text(step, rates)}"
    if mean_s is None:
        return f"{step.name}: {step.count}, median {format_si(times.p50, 's')}, {spread}; {rate}"
    text = f"{step.name}: {step.count} of {format_si(mean_s, 's')}; {rate}"
    if max(abs(mean_s - times.p50), abs(mean_s - times.p99)) <= _SAME_STEP * mean_s:
        return text
    return f"{text}; launched in {format_si(times.p50, 's')} (median), {spread}"


def _rate_text(step: StepTimes) -> str:
    if step.per_s is None:
        return "rate unknown: it takes two steps in a row"
    each = f" on each of {step.threads} threads" if step.threads > 1 else ""
    return f"{_grouped(step.per_s)} a second{each}"


def _items_text(step: StepTimes, rates: Rates) -> str:
    """Return what the rate of the loop is in items, and what they cost."""
    if rates.items_per_step is None or step.per_s is None or not step.loop:
        return ""
    items = rates.items_per_step * step.per_s
    text = f", taken as the step: {_grouped(items)} items a second"
    if rates.cost_per_hour is not None and items > 0:
        text += f", {significant(rates.cost_per_hour / (items * _HOUR_S) * _MILLION)} for a million items"
    return text


def _grouped(value: float) -> str:
    """Write three digits of a number, those of thousands apart."""
    text = significant(value)
    return spaced(float(text)) if value >= 1000 else text
