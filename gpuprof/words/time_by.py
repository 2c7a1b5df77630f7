"""Time by operator, module, range or kernel as text: the total, the cells of a group, and notes on the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.model.field_types import Bound
from gpuprof.model.time_by import TimeBy, TimeGroup, nameless
from gpuprof.units import format_percent, format_si, significant
from gpuprof.words.flop import peak_part_text
from gpuprof.words.profile_values import count_text

UNKNOWN = "–"
_WHOLE = 1 - 1e-9
_KERNEL_MARK = "* "
_MARKS: Mapping[Bound | None, str] = {None: "", "at-least": "≥ ", "at-most": "≤ "}


def header_text(times: TimeBy) -> str:
    """Write what there is and what it takes: "Time by operator: 27 operators, 182 ms in 4 350 launches".

    Of operators in steps it describes one: "Time by operator in a step (mean of 5): 93.6 ms of kernels in 96.7 ms".
    """
    launches = count_text(times.launches, "launch", "es")
    if times.time_s is None or times.run_time_s is None:
        return f"Time by {times.by}: {_groups_text(times)}, {launches}, no durations"
    share = times.time_s / times.run_time_s
    part = f", {format_percent(share)} of all kernel time" if share < _WHOLE else ""
    if times.steps is None:
        return f"Time by {times.by}: {_groups_text(times)}, {format_si(times.time_s, 's')} in {launches}{part}"
    steps = times.steps.count
    busy = format_si(times.time_s / steps, "s")
    whole = format_si(times.steps.time_s / steps, "s")
    gpus = times.steps.gpus or 1
    of = f"{steps // gpus} × {gpus} GPUs" if gpus > 1 else f"{steps}"
    step = f"a step (mean of {of})" if steps > 1 else "the step"
    return f"Time by operator in {step}: {busy} of kernels in {whole}{part}"


def _groups_text(times: TimeBy) -> str:
    named = [group for group in times.groups if group.kind == times.by and group.name != nameless(times.by)]
    return count_text(len(named), times.by)


def rest_text(times: TimeBy, shown: int) -> str:
    """Write what the groups after the first ones take: "and 7 more, 1.2 ms, 3.1 %"; empty if there are none."""
    rest = times.groups[shown:]
    if not rest:
        return ""
    parts = [f"and {_count(len(rest))} more"]
    timed = [group.time_s for group in rest if group.time_s is not None]
    if timed:
        parts.append(time_text(times, sum(timed)))
    shares = [share_of(times, group) for group in rest]
    known = [share for share in shares if share is not None]
    if known:
        parts.append(percent_text(sum(known)))
    return ", ".join(parts)


def note_texts(times: TimeBy, top: int = 0) -> Iterator[str]:
    """Yield what a reader has to know of the numbers of the `top` longest groups (0: all)."""
    if times.replays == times.launches:
        yield "the times are those of replays of whole CUDA graphs under ncu"
    elif times.replays:
        graphs = count_text(times.replays, "launch", "es")
        yield f"{graphs} of whole CUDA graphs: replays under ncu are no part of the times"
    if times.untimed_launches > times.replays:
        untimed = count_text(times.untimed_launches - times.replays, "launch", "es")
        yield f"{untimed} without a duration: no part of the times"
    if any(group.kind != times.by for group in times.groups[: top or None]):
        yield "*: a collective, or a kernel that no recorded operator launched"


def name_text(times: TimeBy, group: TimeGroup) -> str:
    """Write the name of a group, with a mark if it is a kernel among operators."""
    return group.name if group.kind == times.by else f"{_KERNEL_MARK}{group.name}"


def launches_text(times: TimeBy, group: TimeGroup) -> str:
    """Write the launches of a group, in steps their mean."""
    steps = _steps(times)
    if group.launches % steps == 0:
        return _count(group.launches // steps)
    return significant(group.launches / steps)


def share_of(times: TimeBy, group: TimeGroup) -> float | None:
    """Return a group's share of the time of all kernels, or of the steps."""
    return group.time_share if times.steps is None else group.share_of_step


def time_text(times: TimeBy, seconds: float | None) -> str:
    """Write a time, in steps its mean."""
    return format_si(seconds / _steps(times), "s") if seconds is not None else UNKNOWN


def flop_text(times: TimeBy, group: TimeGroup) -> str:
    """Write the FLOP of a group, in steps their mean, with a sign if they are a bound."""
    if group.flop is None:
        return UNKNOWN
    return f"{_MARKS[group.flop_bound]}{format_si(group.flop / _steps(times), 'FLOP')}"


def peak_text(group: TimeGroup) -> str:
    """Write the share of the rated peak that a group reaches by its shapes."""
    part = group.of_peak
    if part is None:
        return UNKNOWN
    return peak_part_text(part.of, part.least, part.most, _MARKS[part.bound])


def longest_text(times: TimeBy, group: TimeGroup) -> str:
    """Write the longest kernel of a group, of an operator also its part of the time: "gemm_tn, 71 %"."""
    longest = group.longest
    if longest is None or group.kind != times.by:
        return ""
    if times.by != "operator" or not group.time_s or longest.time_s >= _WHOLE * group.time_s:
        return longest.label
    return f"{longest.label}, {format_percent(longest.time_s / group.time_s)}"


def percent_text(fraction: float | None) -> str:
    """Write a fraction in percent."""
    return format_percent(fraction) if fraction is not None else UNKNOWN


def _steps(times: TimeBy) -> int:
    """Return the number of steps that time, launches and FLOP are the mean of; 1 if they are those of the run."""
    return times.steps.count if times.steps is not None else 1


def _count(number: int) -> str:
    return count_text(number, "", "").strip()
