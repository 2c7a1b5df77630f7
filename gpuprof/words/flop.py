"""FLOP of a timeline as text: what the model asks for, what of the GPU's ceilings that is, and what counters saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.headline import asked_of_peak
from gpuprof.model.session import (
    MeasuredFlop,
    ModelFlop,
    OperatorBytes,
    OperatorFlop,
    PathFlop,
    StepFlop,
    StepTimes,
    Uncounted,
    Utilisation,
)
from gpuprof.units import format_percent, format_si
from gpuprof.words.profile_values import count_text

_BEHIND = 1.02
"""A GPU that takes this much longer than the program's step is named: launching runs ahead of it."""
_VARIES = 1.01
_NAMED = 3


def model_facts(model_flop: ModelFlop, loop: StepTimes | None) -> Iterator[tuple[str, str]]:
    """Yield name and value of the model FLOP of a source, whose loop has these times, and of what is not in them."""
    gap = model_flop.missing[0] if model_flop.missing else None
    if model_flop.total is None:
        yield "model FLOP", f"not known: {gap.why}; {gap.how}" if gap is not None else "not known"
        return
    least = "at least " if model_flop.uncounted else ""
    total = f"{least}{format_si(sum(work.flop for work in model_flop.total), 'FLOP')} in the trace"
    if model_flop.step is not None:
        yield "model FLOP", f"{_step_text(model_flop.step, loop, least)}; {total}"
    else:
        yield "model FLOP", f"{total} from operator shapes ({_types(model_flop.total)})"
    if gap is not None:
        yield "no MFU", f"{gap.why}; {gap.how}"
    if model_flop.uncounted:
        yield "not counted", _uncounted_text(model_flop.uncounted, model_flop.uncounted_share)


def measured_text(flop: Sequence[MeasuredFlop]) -> str:
    """Write what counters saw: "3.40 TFLOP tensor.bf16 in kernels with 93 % of the time"."""
    counted = [work for work in flop if work.flop] or flop[:1]
    return f"counted: {'; '.join(map(_measured_text, counted))}"


def operator_flop_text(asked: OperatorFlop) -> str:
    """Write what an operator asks for: "4.29 GFLOP by the operator's shapes, 35.6 TFLOP/s: 53 % of rated fp32 (66.9
    TFLOP/s)"."""
    flop, rate = format_si(asked.flop, "FLOP"), format_si(asked.flop_per_s, "FLOP/s")
    of_rated = ", ".join(_of_ceiling(part, 1) for part in asked.utilisation)
    half = " (half of the scores: it is causal)" if asked.causal else ""
    text = f"{flop} by the operator's shapes{half}, {rate}{f': {of_rated}' if of_rated else ''}"
    if asked.operand_bytes is None:
        return text
    of_dram = f", {format_percent(asked.dram_fraction)} of rated DRAM" if asked.dram_fraction is not None else ""
    return f"{text}; operands and result once {format_si(asked.operand_bytes, 'B')}{of_dram}"


def operator_bytes_text(moved: OperatorBytes) -> str:
    """Write what a point-wise operator moves: "1.61 GB if each is touched once, 2.01 TB/s: 60 % of rated DRAM"."""
    of_dram = f": {format_percent(moved.dram_fraction)} of rated DRAM" if moved.dram_fraction is not None else ""
    rate = format_si(moved.bytes_per_s, "B/s")
    return f"{format_si(moved.bytes, 'B')} by the operator's shapes if each is touched once, {rate}{of_dram}"


def of_peak_text(asked: OperatorFlop | None, moved: OperatorBytes | None = None) -> str:
    """Write what part of the rated peak that is, of arithmetic or of DRAM, whichever is nearer: "fp32 53 %".

    "fp32 5.9–44 %" where it may run on two paths.
    """
    nearer = asked_of_peak(asked, moved)
    return peak_part_text(nearer.of, nearer.least, nearer.most) if nearer is not None else ""


def peak_part_text(of: str, least: float, most: float, mark: str = "") -> str:
    """Write a part of a peak, with a mark before its number: "DRAM 83 %", "bf16 ≥ 41 %", "fp32 5.9–44 %"."""
    low, high = format_percent(least), format_percent(most)
    text = low if low == high else f"{low.removesuffix(' %')}–{high}"
    return f"{of.replace('dram', 'DRAM')} {mark}{text}"


def _measured_text(work: MeasuredFlop) -> str:
    share = f" in kernels with {format_percent(work.time_share)} of the time" if work.time_share is not None else ""
    return f"{format_si(work.flop, 'FLOP')} {work.path}{share}"


def _step_text(step: StepFlop, loop: StepTimes | None, least: str) -> str:
    """Write time, FLOP, rate and utilisation of the step that speaks for all."""
    name = loop.name if loop is not None else "step"
    behind = loop is not None and step.time_s > loop.duration_percentiles_s.p50 * _BEHIND
    flop = sum(work.flop for work in step.flop)
    text = (
        f"{name} of {format_si(step.time_s, 's')}{' on the GPU' if behind else ''} (mean of {step.count}): "
        f"{least}{format_si(flop, 'FLOP')} from operator shapes ({_types(step.flop)}), "
        f"{format_si(step.flop_per_s, 'FLOP/s')}"
    )
    if step.max_flop > step.min_flop * _VARIES:
        text += f", {format_si(step.min_flop, 'FLOP')} to {format_si(step.max_flop, 'FLOP')} from step to step"
    if step.utilisation:
        text += f"; MFU {least}{', '.join(_of_ceiling(mfu, step.gpus) for mfu in step.utilisation)}"
    return text


def _types(flop: Sequence[PathFlop]) -> str:
    """Write data types, each with its FLOP where there are several: "bf16", "3.00 TFLOP bf16, 2.00 GFLOP fp32"."""
    names = [work.path.removeprefix("tensor.") for work in flop]
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{format_si(work.flop, 'FLOP')} {name}" for work, name in zip(flop, names, strict=True))


def _of_ceiling(mfu: Utilisation, gpus: int) -> str:
    of_gpus = f" of {gpus} GPUs" if gpus > 1 else ""
    ceiling = format_si(mfu.ceiling_flop_per_s, "FLOP/s")
    return f"{format_percent(mfu.fraction)} of {mfu.origin} {mfu.ceiling_path} ({ceiling}{of_gpus})"


def _uncounted_text(uncounted: Sequence[Uncounted], share: float | None) -> str:
    """Write by reason what is not counted, the names with most time."""
    reasons: dict[str, list[Uncounted]] = {}
    for operator in uncounted:
        reasons.setdefault(operator.why, []).append(operator)
    parts = [f"{_names(operators)}: {why}" for why, operators in reasons.items()]
    of_time = f"; {format_percent(share)} of kernel time" if share is not None else ""
    return "; ".join(parts) + of_time


def _names(operators: Sequence[Uncounted]) -> str:
    named = [f"{operator.name} ({count_text(operator.count, '', '').strip()})" for operator in operators[:_NAMED]]
    more = [f"{len(operators) - _NAMED} more"] if len(operators) > _NAMED else []
    return ", ".join([*named, *more])
