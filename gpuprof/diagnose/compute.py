"""Rules on arithmetic: the full pipe, and the precision that fills it.

A full pipe is a roof only if its work is useful: multiply-adds of the needed type, and tensor
instructions. A program can do without integer instructions, special functions and issue slots.
"""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.arithmetic import (
    INTEGER_PIPES,
    SCALAR_PIPES,
    TENSOR_INPUTS,
    executed,
    fp64_over_fp32,
    fraction_of_peak,
    rate_of,
    share_of_opcodes,
)
from gpuprof.diagnose.blocks import leaves_lanes_empty
from gpuprof.diagnose.case import SHARED_STALLS, Case
from gpuprof.diagnose.needs import ISSUE, Saving
from gpuprof.diagnose.rule import (
    AT_MATH,
    Cause,
    Findings,
    Rule,
    Threshold,
    TreePlace,
    amounts_of,
    cases_of,
    finding,
    labels_of,
    percent,
)
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, CaseName, Cases
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.product_names import is_product_by_name, multiplies_on_tensor_cores
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import Evidence, Finding

PIPE_BUSY = percent("busy-pipe", 60.0)
PIPE_NEAR_ROOF = percent("pipe-near-ceiling", 80.0)
THROTTLED = percent("math-pipe-throttle", 30.0)
SM_PIPE = percent("pipe-of-busy-sm", 50.0)
ROOF_WORK = percent("work-at-ceiling", 60.0)
SCALAR_CYCLES = Threshold("cycles-per-instruction", 8.0, "cycle/inst")
BIT_WORK = percent("bit-instructions", 50.0)
FMA_WORK = percent("fp32-work", 30.0)

_OPCODES = {
    "fma": ("FFMA", "FMUL", "FADD"),
    "fmaheavy": ("IMAD", "IMUL"),
    "alu": ("LOP3", "IADD3", "SHF", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "PLOP3"),
    "xu": ("MUFU", "I2F", "F2I", "F2F"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTC"),
}
"""The most frequent instructions of a pipe, to find its place in the code."""
_INTEGER = (
    "IADD", "IMAD", "IMUL", "LOP", "SHF", "SHL", "SHR", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "VIMNMX",
    "PLOP", "POPC", "FLO", "BREV", "SGXT", "BMSK", "IABS", "ISCADD", "I2IP", "UIADD", "UIMAD", "ULOP", "USHF",
    "UISETP", "UPRMT", "ULEA", "USEL", "UMOV", "UPLOP", "R2UR",
)  # fmt: skip
"""Opcode prefixes of integer and logic instructions."""
_BITS = ("LOP", "SHF", "SHL", "SHR", "PRMT", "I2IP", "SGXT", "BMSK", "BREV", "POPC", "FLO", "IMNMX", "VIMNMX")
"""Opcode prefixes of integer instructions that change bits or clamp values, rare in indices."""

NARROWER = dict.fromkeys(("dram", "l2", "l1"), 0.5)
"""The least part of each memory level's need that stays with values of half the size."""


def _limit(
    case: Case,
    pipe: str,
    saving: Saving,
    *,
    headline: str = "main",
    why: tuple[str, ...] = (),
    change: str = "main",
    amounts: tuple[Amount, ...] = (),
    roof: float = 1.0,
    is_near: bool = False,
    confidence: Confidence = "measured",
) -> Finding:
    """Return a finding on a pipe that is the limit, or on the SM if that is busy as a whole.

    `change` is the case of the action. `roof` is the part of the pipe that its work can fill.
    """
    busy = case.pipe(pipe) or 0.0
    if _is_issue_bound(case, busy / roof):
        return _issue_bound(case, pipe, change, saving)
    parts = [headline]
    if roof < 1.0:
        parts.append("half-rate")
    rate = rate_of(case, "fp32") if pipe == "fma" else None
    if rate:
        parts.append("shared/rate")
    if is_near:
        parts.append("shared/near-ceiling")
    return finding(
        case,
        cases_of(change, tuple(parts), ("shared/pipe-full", *why)),
        amounts=(
            *amounts_of(busy=min(1.0, busy), possible=roof),
            *amounts,
            *amounts_of("FLOP/s", rate=rate or None),
            _of_ceiling(busy / roof),
        ),
        labels=labels_of(pipe=(pipe,)),
        subject=pipe,
        confidence=confidence,
        saving=saving,
        is_fact=is_near,
        evidence=(
            *case.pipe_evidence(pipe, roof * PIPE_BUSY.value),
            *case.stall_evidence("math_pipe_throttle", threshold=THROTTLED.value),
        ),
        place=case.place_of_opcode(*_OPCODES[pipe]) or case.place_of_stall("math_pipe_throttle"),
    )


def _of_ceiling(fraction: float) -> Amount:
    return Amount("of-ceiling", min(1.0, fraction), "fraction")


def is_limit(case: Case, fraction: float) -> bool:
    """Return whether a pipe is busy, or the busiest of a busy SM or if warps wait for pipes."""
    if PIPE_BUSY.is_reached(fraction):
        return True
    sm = case.utilisation.get("sm", 0.0)
    for pipe in case.kernel.pipes:
        # Pipes for memory accesses do not keep the SM busy if it is clearly busier than they are.
        keeps_busy = pipe.name not in ("lsu", "tex") or pipe.fraction >= sm - TWO_PASSES
        if keeps_busy and pipe.fraction > fraction:
            return False
    return _throttled(case) or _in_busy_sm(case, fraction)


def _is_issue_bound(case: Case, fraction: float) -> bool:
    """Return whether the SM is busy as a whole, and this pipe is only its busiest one."""
    return not PIPE_BUSY.is_reached(fraction) and not _throttled(case) and _in_busy_sm(case, fraction)


def _throttled(case: Case) -> bool:
    return THROTTLED.is_reached(case.stall("math_pipe_throttle")) and case.issues_rarely


def _in_busy_sm(case: Case, fraction: float) -> bool:
    return PIPE_BUSY.is_reached(case.utilisation.get("sm")) and SM_PIPE.is_reached(fraction)


def _issue_bound(case: Case, pipe: str, change: str, saving: Saving) -> Finding:
    sm, issue_bound = case.utilisation["sm"], ("shared/issue-bound",)
    cases = cases_of(change, issue_bound, issue_bound)
    return finding(
        case,
        replace(cases, advice=("shared/fewer-instructions", change)),
        amounts=(*amounts_of(sm=sm, busy=case.pipe(pipe)), _of_ceiling(sm)),
        labels=labels_of(pipe=(pipe,)),
        subject=pipe,
        confidence="inferred",
        saving=saving,
        evidence=(_sm_evidence(case, sm), *case.pipe_evidence(pipe, SM_PIPE.value)),
        place=case.place_of_opcode(*_OPCODES[pipe]),
    )


def _sm_evidence(case: Case, sm: float) -> Evidence:
    return PIPE_BUSY.evidence(100 * sm, "unit-busy", "sm", metric=case.light_metric("sm"))


def _with_full_pipe(case: Case, use: float, pipe: str) -> Saving:
    """Return the saving if the same instructions fill their pipe or the SM; fewer can save more."""
    if _is_issue_bound(case, use):
        return _with_full_sm(case, pipe)
    gone = {pipe: 0.0, ISSUE: 0.0}
    same = min(1.0 - min(1.0, use), case.saving(gone).fraction)
    return case.saving({**gone, **NARROWER}).if_held(same, "same-instructions")


def _with_full_sm(case: Case, *pipes: str) -> Saving:
    """Return the saving if the same instructions fill the SM."""
    return case.saving(dict.fromkeys((*pipes, ISSUE), 0.0)).if_held(1.0 - case.utilisation["sm"], "same-instructions")


def _fp32(case: Case) -> Findings:
    """Report FP32 arithmetic as the limit, with the types that have a higher rate on this GPU."""
    rates = case.hardware.rates
    faster: list[CaseName] = []
    if not rates and not case.arch.compute:
        faster.append("on-any-gpu")
    fp32, fp16 = rates.get(ComputeKey("fp32")), rates.get(ComputeKey("fp16"))
    if fp32 is not None and fp16 is not None and fp16.value > fp32.value:
        faster.append("packed")
    if any(key.path in TENSOR_INPUTS for key in rates):
        faster.append("tensor")
    for found in _fp32_at_its_limit(case):
        yield replace(found, cases=replace(found.cases, advice=(*found.cases.advice, *faster)))


def _fp32_at_its_limit(case: Case) -> Findings:
    if _is_integer_work(case):
        return
    work = fraction_of_peak(case, "fp32")
    is_counted = work is not None or _most_work(case) is not None
    if FMA_WORK.is_reached(work) or (not is_counted and is_product_by_name(case.kernel.demangled)):
        yield from _busy_sm(case, "sm", "main")
    use = case.pipe("fma")
    if use is None or not is_limit(case, use):
        return
    is_full = work is not None and PIPE_NEAR_ROOF.is_reached(use)
    is_near = is_full and ROOF_WORK.is_reached(work)
    yield _limit(
        case,
        "fma",
        _with_full_pipe(case, use, "fma"),
        why=("other-instructions",) if is_full and not is_near else (),
        amounts=amounts_of(work=work),
        is_near=is_near,
    )


def _integer(case: Case) -> Findings:
    if _is_integer_work(case):
        pipe = "fmaheavy" if case.pipe("fmaheavy") is not None else "fma"
        yield from _integer_pipe(case, pipe, "multiply-adds", "inferred")
    yield from _integer_pipe(case, "alu", "main", "measured")
    work = _most_work(case)
    if work is None and not is_product_by_name(case.kernel.demangled):
        yield from _busy_sm(case, "any-instructions", "any-instructions")
    elif work is not None and not FMA_WORK.is_reached(work):
        yield from _busy_sm(case, "no-floating-point", "main")


def _integer_pipe(case: Case, pipe: str, headline: str, confidence: Confidence) -> Findings:
    use = case.pipe(pipe)
    if use is None or not is_limit(case, use):
        return
    integers = executed(case, *_INTEGER)
    bits = executed(case, *_BITS) / integers if integers else 0.0
    why, change = "overhead", "main"
    if 100 * bits > BIT_WORK.value:
        why = change = "bits"
    yield _limit(
        case,
        pipe,
        _without_integers(case),
        headline=headline,
        why=(why,),
        change=change,
        amounts=amounts_of(bits=bits),
        confidence=confidence,
    )


def _without_integers(case: Case) -> Saving:
    """Bound the gain without integer instructions: memory and other arithmetic stay.

    A division by a variable also converts and takes a reciprocal on the XU, and wider accesses are
    fewer. The lesser saving leaves all of those unchanged.
    """
    relieved = dict.fromkeys(INTEGER_PIPES, 0.0)
    relieved["fma"] = _floating_part(case)
    relieved[ISSUE] = 1.0 - share_of_opcodes(case, *_INTEGER, "MOV") if case.opcodes() else 0.0
    bound = case.saving({**relieved, ISSUE: 0.0, "xu": 0.0, "lsu": 0.0, "l1": 0.0})
    return bound.if_held(case.saving(relieved).fraction, "same-loads-and-conversions")


def _floating_part(case: Case) -> float:
    """Return the floating-point part of the FMA pipe's time, by opcodes or else by its FLOP."""
    floating = executed(case, *_OPCODES["fma"])
    integer = executed(case, *_OPCODES["fmaheavy"])
    if floating + integer:
        return floating / (floating + integer)
    work, busy = fraction_of_peak(case, "fp32"), case.pipe("fma")
    if work is None or not busy:
        return 0.0
    return min(1.0, work / busy)


def _busy_sm(case: Case, headline: str, change: str) -> Findings:
    """Yield a finding if the SM is the busiest unit and the report has no pipes.

    The load/store unit is part of the SM, too. If memory is as busy as the SM, that unit is the
    reason.
    """
    sm = _sm_without_pipes(case)
    if (
        sm is None
        or multiplies_on_tensor_cores(case.kernel.demangled)
        or _cycles_an_instruction(case, sm) > SCALAR_CYCLES.value
    ):
        # Matrix instructions keep it busy, which `tensor-compute-bound` reports.
        return
    evidence = [_sm_evidence(case, sm)]
    work = _most_work(case)
    if work is not None:
        evidence.append(FMA_WORK.evidence(100 * work, "floating-point-work"))
    yield finding(
        case,
        cases_of(change, (headline, "shared/no-pipe"), ("shared/no-pipe",)),
        amounts=(*amounts_of(sm=sm), _of_ceiling(sm)),
        subject="sm",
        confidence="guess",
        saving=_with_full_sm(case, *SCALAR_PIPES),
        evidence=evidence,
    )


def _sm_without_pipes(case: Case) -> float | None:
    """Return the SM's utilization if it is busier than memory and no pipe was collected."""
    sm, memory = case.utilisation.get("sm"), case.memory_utilisation
    if case.kernel.pipes or not PIPE_BUSY.is_reached(sm):
        return None
    if sm is not None and memory is not None and sm <= memory + TWO_PASSES:
        return None
    return sm


def _cycles_an_instruction(case: Case, sm: float) -> float:
    """Return the average cycles of the SM per issued instruction; 0 if unknown."""
    issued = case.need(ISSUE)
    return sm / issued if issued else 0.0


def _most_work(case: Case) -> float | None:
    """Return the largest fraction of a peak that floating-point work reaches, if it was counted."""
    paths = {work.path for work in case.kernel.work if "int32" not in work.path}
    fractions = [fraction for path in paths if (fraction := fraction_of_peak(case, path)) is not None]
    return min(1.0, max(fractions)) if fractions else None


def _is_integer_work(case: Case) -> bool:
    """Return whether integers fill the FMA pipe: by opcodes, or if only the half that multiplies
    integers is busy.

    Floating-point work uses both halves alike.
    """
    if case.opcodes():
        # Moves and shifts by IMAD go to whichever pipe is free.
        integer = executed(case, *_OPCODES["fmaheavy"]) - executed(case, "IMAD.MOV", "IMAD.SHL")
        return integer > executed(case, *_OPCODES["fma"])
    both, heavy, lite = map(case.pipe, ("fma", "fmaheavy", "fmalite"))
    if heavy is None or not PIPE_BUSY.is_reached(heavy):
        return False
    if lite is None and both is not None:
        # The utilization of the whole pipe is the mean of its halves.
        lite = 2.0 * both - heavy
    return lite is not None and lite < heavy / 2


def _special(case: Case) -> Findings:
    use = case.pipe("xu")
    if use is None or not is_limit(case, use):
        return
    # The instructions around a function go with it.
    saving = case.saving({**dict.fromkeys(SCALAR_PIPES, 0.0), ISSUE: 0.0})
    yield _limit(case, "xu", saving.if_held(case.saving({"xu": 0.0}).fraction, "other-instructions-unchanged"))


def _tensor(case: Case) -> Findings:
    busy = case.pipe("tensor")
    if busy is None:
        yield from _long_instructions(case)
        return
    roof = _tensor_roof(case)
    use = min(1.0, busy / roof)
    if not PIPE_BUSY.is_reached(use) and not is_limit(case, busy):
        return
    found = _limit(
        case,
        "tensor",
        _with_full_pipe(case, use, "tensor"),
        why=("half-rate",) if roof < 1.0 else (),
        roof=roof,
        is_near=PIPE_NEAR_ROOF.is_reached(use),
        confidence="measured" if roof == 1.0 else "inferred",
    )
    yield _with_tensor_change(case, found)


def _with_tensor_change(case: Case, found: Finding) -> Finding:
    """Return a finding with the changes that this architecture allows beyond the kernel's own."""
    advice = [*found.cases.advice[:-1]]
    action = "less"
    if not case.arch.compute:
        advice.append("on-any-gpu")
        action = "narrower"
    possible = {name for key in case.arch.compute for name in (key.path, key.instruction)}
    keys = [known.key for opcode in case.opcodes() if (known := matrix_opcode(opcode)) is not None]
    used = {name for key in keys for name in (key.path, key.instruction)}
    narrower = next((name for name in ("fp8", "int8") if f"tensor.{name}" in possible), None)
    if narrower is not None and f"tensor.{narrower}" not in used:
        advice.append(narrower)
        action = "narrower"
    newer = next((name for name in ("tcgen05", "wgmma") if name in possible), None)
    if newer is not None and newer not in used:
        advice.append(newer)
        action = "main"
    if "tensor.bf16" in possible:
        # Both came with Ampere.
        advice.append("sparsity")
    return replace(found, cases=replace(found.cases, action=(action,), advice=(*advice, "less")))


def _long_instructions(case: Case) -> Findings:
    """Yield a finding if a busy SM issues few instructions: matrix instructions take long.

    FP64 instructions do, too, on a GPU with few FP64 units. If instructions are not long, the
    kernel's name decides.
    """
    sm = _sm_without_pipes(case)
    if sm is None or not any(key.path.startswith("tensor") for key in case.arch.compute):
        return
    cycles = _cycles_an_instruction(case, sm)
    are_long = cycles > SCALAR_CYCLES.value
    by_name = multiplies_on_tensor_cores(case.kernel.demangled)
    if not are_long and not by_name:
        return
    ratio = fp64_over_fp32(case)
    is_near = PIPE_NEAR_ROOF.is_reached(sm)
    is_sure = (ratio or 0.0) >= _FP64_IS_FAST or by_name
    seen = "by-name"
    if are_long:
        seen = "long-instructions" if is_sure else "long-or-fp64"
    headline = [seen]
    if is_near:
        headline.append("shared/near-ceiling")
    evidence = [_sm_evidence(case, sm), *case.issue_evidence()]
    if cycles:
        evidence.append(SCALAR_CYCLES.evidence(cycles))
    found = finding(
        case,
        Cases(headline=tuple(headline), why=(seen,)),
        amounts=(*amounts_of(sm=sm), Amount("cycles", cycles, "cycle/inst"), _of_ceiling(sm)),
        subject="tensor",
        confidence="inferred" if seen == "long-instructions" else "guess",
        saving=_with_full_sm(case, "tensor"),
        is_fact=is_near,
        evidence=evidence,
    )
    yield _with_tensor_change(case, found)


_FP64_IS_FAST = 0.25
"""A fraction of the FP32 rate. From here on, FP64 instructions take at most 8 cycles."""


def _tensor_roof(case: Case) -> float:
    """Return the part of the tensor pipe's cycles that the kernel's matrix instructions can fill.

    If sums in FP32 have half the rate, the pipe is half busy at the roof. Without known
    instructions, return 1.
    """
    flop = slowed = 0.0
    for opcode, count in case.opcodes().items():
        matrix = matrix_opcode(opcode)
        if matrix is not None and matrix.flop is not None:
            flop += matrix.flop * count
            slowed += matrix.flop * count / _part_of_full_rate(case, matrix.key)
    return flop / slowed if slowed else 1.0


def _part_of_full_rate(case: Case, key: ComputeKey) -> float:
    """Return the rate with sums in FP32 over that in FP16; BF16 and TF32 take FP16's ratio."""
    if key.accumulator != "fp32" or key.path not in TENSOR_INPUTS:
        return 1.0
    rates = case.hardware.rates
    slow = rates.get(ComputeKey("tensor.fp16", "fp32", key.instruction))
    full = rates.get(ComputeKey("tensor.fp16", "fp16", key.instruction))
    if slow is None or full is None or not full.value:
        return 1.0
    return min(1.0, slow.value / full.value)


_WASTED = (Cause("branch-divergence"), Cause("block-size", leaves_lanes_empty))
"""Partly filled warps execute instructions for nothing; matrix instructions use whole warps."""


RULES = (
    Rule(
        "fp32-compute-bound",
        kind="limit",
        thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, ROOF_WORK, SM_PIPE, THROTTLED),
        check=_fp32,
        causes=(Cause("tensor-cores-idle"), Cause("non-fused-fp"), *_WASTED),
        place=AT_MATH,
    ),
    Rule(
        "integer-bound",
        kind="limit",
        thresholds=(PIPE_BUSY, BIT_WORK, SM_PIPE, THROTTLED),
        check=_integer,
        causes=_WASTED,
        place=AT_MATH,
    ),
    Rule(
        "special-function-bound",
        kind="limit",
        thresholds=(PIPE_BUSY, SM_PIPE, THROTTLED),
        check=_special,
        causes=_WASTED,
        place=TreePlace(("math_pipe_throttle", *SHARED_STALLS), "unit"),
    ),
    Rule(
        "tensor-compute-bound",
        kind="limit",
        thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, SCALAR_CYCLES, SM_PIPE, THROTTLED),
        check=_tensor,
        causes=(Cause("old-architecture"),),
        place=AT_MATH,
    ),
)
