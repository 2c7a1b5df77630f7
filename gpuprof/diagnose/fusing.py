"""The rule on additions and multiplications that the compiler could fuse."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.arithmetic import (
    OTHER_TIME,
    FloatingPoint,
    fraction_of_peak,
    fused_and_alone,
    opcodes_of,
    share_of_opcodes,
)
from gpuprof.diagnose.case import Case
from gpuprof.diagnose.needs import ISSUE, Saving
from gpuprof.diagnose.rule import Rule, RuleVerdict, TreePlace, percent
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent

NON_FUSED = percent("gain of fusing", 10.0, "half of the share of unfused additions and multiplications")
NEVER_FUSED = percent(
    "fused by the compiler", 10.0, "it fuses what it may by default: where it fused some, the rest mostly cannot be"
)

_OPERATIONS = {
    "FP32": ("ffma", "fadd", "fmul", "fma"),
    "FP64": ("dfma", "dadd", "dmul", "fp64"),
}


_PIPE_OPCODES = {
    "fma": ("FFMA", "FADD", "FMUL", "IMAD", "IMUL", "HFMA2", "HADD2", "HMUL2"),
    "fp64": ("DFMA", "DADD", "DMUL"),
}
"""What the pipes of both types execute; packed FP16 shares the FMA pipe from GA10x on."""


def _non_fused(case: Case) -> Iterator[RuleVerdict]:
    for name, (fused_op, add_op, mul_op, pipe) in _OPERATIONS.items():
        counted = fused_and_alone(case, fused_op, (add_op, mul_op))
        if counted is None or counted.all <= 0:
            continue
        share = counted.alone / counted.all
        if 100 * share / 2 < NON_FUSED.value:
            continue
        fused = counted.fused / counted.all
        fma, add, mul = fused_op.upper(), add_op.upper(), mul_op.upper()
        why = f"{add} and {mul} each take the same slot as {fma}, which does both."
        if 100 * fused >= NEVER_FUSED.value:
            why += " The compiler has fused some: the rest may have no partner."
        yield RuleVerdict(
            headline=f"Unfused {add}/{mul}: {format_percent(share)} of {name} arithmetic instructions",
            why=why,
            advice=(
                "Write a·b + c so that the compiler can fuse it (fma, fmaf; -fmad=true is the default), and "
                "reassociate sums of products. Additions and multiplications that do not belong together cannot be "
                "fused."
            ),
            confidence="inferred" if 100 * fused < NEVER_FUSED.value else "guess",
            saving=_fusing_saving(case, counted, pipe, _pipe_use(case, pipe, name.lower()), (fused_op, add_op, mul_op)),
            evidence=tuple(_evidence(case, name, counted, pipe)),
            action="Let the compiler fuse multiplications and additions into multiply-adds",
            location=case.place_of_opcode(add, mul),
        )


def _evidence(case: Case, name: str, counted: FloatingPoint, pipe: str) -> Iterator[Evidence]:
    yield Evidence(
        counted.fused_metric, counted.fused, counted.unit, threshold=None, meaning=f"fused {name} instructions"
    )
    yield Evidence(
        counted.alone_metric, counted.alone, counted.unit, threshold=None, meaning=f"unfused {name} instructions"
    )
    half, fused = 50 * (counted.alone / counted.all), 100 * (counted.fused / counted.all)
    yield Evidence("", half, "%", threshold=NON_FUSED.value, meaning=f"{name} instructions saved if all paired")
    yield Evidence("", fused, "%", threshold=NEVER_FUSED.value, meaning="fused by the compiler")
    scarcer = 100 * counted.pairs / counted.all
    yield Evidence("", scarcer, "%", threshold=None, meaning=f"{name} instructions saved by the scarcer of both")
    if case.pipe(pipe) is not None:
        yield case.pipe_evidence(pipe)


def _fusing_saving(
    case: Case, counted: FloatingPoint, pipe: str, busy: float | None, operations: tuple[str, ...]
) -> Saving | None:
    """Bound it by what stays of the pipe, and by the pipe's time or the dependent chain that the pairs take now."""
    pairs = counted.pairs / counted.all
    if busy is None and pairs:
        return None
    stays = dict.fromkeys((pipe, "fmaheavy", "fmalite", ISSUE), 1.0 - pairs)
    waits = case.saving_of_wait(case.stall("wait")).fraction
    # The pipe and the waits are of other instructions, too, where the opcodes tell so.
    own = share_of_opcodes(case, tuple(operation.upper() for operation in operations))
    share = own / (share_of_opcodes(case, _PIPE_OPCODES[pipe]) or 1.0) if opcodes_of(case) else 1.0
    taken = max((busy or 0.0) * min(1.0, share), waits * (own if opcodes_of(case) else 1.0))
    return case.saving(stays).if_held(pairs * taken, OTHER_TIME)


def _pipe_use(case: Case, pipe: str, path: str) -> float | None:
    """Return how busy a pipe is at most: as recorded, else twice its FLOP of peak, as if nothing were fused."""
    busy = case.pipe(pipe)
    if busy is not None:
        return min(1.0, busy)
    work = fraction_of_peak(case, path)
    return min(1.0, 2 * work) if work is not None else None


RULES = (
    Rule(
        "non-fused-fp",
        "Unfused additions and multiplications",
        about="defect",
        looks_at="FP32 and FP64 additions and multiplications (FADD, FMUL, DADD, DMUL) against fused multiply-adds.",
        thresholds=(NON_FUSED, NEVER_FUSED),
        gain="The instructions that have a partner (the scarcer of additions and multiplications), of all, times the "
        "busy fraction of the pipe or the share of Stall Wait (of these instructions, where the opcodes tell), with "
        "everything else unchanged; no more than 1 − the largest need that then remains. A guess where the compiler "
        "has fused some.",
        silent="Fusing all of them would save under 10 % of the instructions, or they were not counted.",
        check=_non_fused,
        place=TreePlace(("math_pipe_throttle", "wait", "dispatch_stall"), "unit"),
    ),
)
