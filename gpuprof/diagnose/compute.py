"""Rules on arithmetic: the full pipe, and the precision that fills it.

A full pipe is a roof only if its work is useful: multiply-adds of the needed type, and tensor instructions. A program
can do without integer instructions, special functions and issue slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
"""Opcode prefixes of integer instructions that change bits or clamp values; index arithmetic has few of them."""

NARROWER = dict.fromkeys(("dram", "l2", "l1"), 0.5)
"""The least part of each memory level's need that stays with values of half the size."""


def _full_pipe(
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
    """Return a finding on a full pipe. `change` is the case of the action, `roof` the part that its work can fill."""
    busy, rate = case.pipe(pipe) or 0.0, None
    if pipe == "fma":
        rate = rate_of(case, "fp32") or None
    parts = [headline]
    if roof < 1.0:
        parts.append("half-rate")
    if rate is not None:
        parts.append("shared/rate")
    if is_near:
        parts.append("shared/near-ceiling")
    return finding(
        case,
        cases_of(change, tuple(parts), ("shared/pipe-full", *why)),
        amounts=(
            *amounts_of(busy=min(1.0, busy), possible=roof),
            *amounts,
            *amounts_of("FLOP/s", rate=rate),
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
    """Return whether a pipe is the limit: busy, or the busiest pipe of a busy SM or while warps wait for pipes."""
    if PIPE_BUSY.is_reached(fraction):
        return True
    if fraction < max(_rivals(case), default=0.0):
        return False
    return _throttled(case) or _in_busy_sm(case, fraction)


def _rivals(case: Case) -> Iterator[float]:
    """Yield the utilization of the pipes that can keep the SM busy.

    Pipes for memory accesses cannot if the SM is clearly busier than they are.
    """
    sm = case.utilisation.get("sm")
    for pipe in case.kernel.pipes:
        if pipe.name not in ("lsu", "tex") or sm is None or pipe.fraction >= sm - TWO_PASSES:
            yield pipe.fraction


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
    """Return the saving if the same instructions fill their pipe; fewer or narrower ones can save more."""
    gone = {pipe: 0.0, ISSUE: 0.0}
    same = min(1.0 - min(1.0, use), case.saving(gone).fraction)
    return case.saving({**gone, **NARROWER}).if_held(same, "same-instructions")


def _with_full_sm(case: Case, *pipes: str) -> Saving:
    """Return the saving if the same instructions fill the SM."""
    return case.saving(dict.fromkeys((*pipes, ISSUE), 0.0)).if_held(1.0 - case.utilisation["sm"], "same-instructions")


def _fp32(case: Case) -> Findings:
    """Report FP32 arithmetic as the limit, with the types that have a higher rate on this GPU."""
    faster = _faster_than_fp32(case)
    for found in _fp32_at_its_limit(case):
        yield replace(found, cases=replace(found.cases, advice=(*found.cases.advice, *faster)))


def _faster_than_fp32(case: Case) -> tuple[str, ...]:
    """Return the cases of the advice on packed FP16 and on tensor cores, if the GPU has them at a higher rate."""
    rates = case.hardware.rates
    if not rates and not case.arch.compute:
        return ("on-any-gpu",)
    fp32, fp16 = rates.get(ComputeKey("fp32")), rates.get(ComputeKey("fp16"))
    packed = fp32 is not None and fp16 is not None and fp16.value > fp32.value
    tensor = any(key.path in TENSOR_INPUTS for key in rates)
    return (*(("packed",) if packed else ()), *(("tensor",) if tensor else ()))


def _fp32_at_its_limit(case: Case) -> Findings:
    if _is_integer_work(case):
        return
    work = fraction_of_peak(case, "fp32")
    is_floating = FMA_WORK.is_reached(work) if work is not None else _is_product_by_name(case)
    if is_floating:
        yield from _busy_sm(case, "sm", "main")
    use = case.pipe("fma")
    if use is None or not is_limit(case, use):
        return
    if _is_issue_bound(case, use):
        yield _issue_bound(case, "fma", "main", _with_full_sm(case, "fma"))
        return
    is_full = work is not None and PIPE_NEAR_ROOF.is_reached(use)
    is_near = is_full and ROOF_WORK.is_reached(work)
    yield _full_pipe(
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
    if work is None and not _is_product_by_name(case):
        yield from _busy_sm(case, "any-instructions", "any-instructions")
    elif work is not None and not FMA_WORK.is_reached(work):
        yield from _busy_sm(case, "no-floating-point", "main")


def _integer_pipe(case: Case, pipe: str, headline: str, confidence: Confidence) -> Findings:
    use = case.pipe(pipe)
    if use is None or not is_limit(case, use):
        return
    saving, bits = _without_integers(case), _bit_share(case)
    of_bits = 100 * bits > BIT_WORK.value
    change = "bits" if of_bits else "main"
    if _is_issue_bound(case, use):
        yield _issue_bound(case, pipe, change, saving)
        return
    yield _full_pipe(
        case,
        pipe,
        saving,
        headline=headline,
        why=("bits",) if of_bits else ("overhead",),
        change=change,
        amounts=amounts_of(bits=bits),
        confidence=confidence,
    )


def _bit_share(case: Case) -> float:
    """Return the share of the executed integer instructions that change bits; 0 if opcodes were not counted."""
    integers = executed(case, *_INTEGER)
    return executed(case, *_BITS) / integers if integers else 0.0


def _without_integers(case: Case) -> Saving:
    """Bound the gain without integer instructions: memory, floating-point and matrix instructions stay.

    A division by a variable also converts and takes a reciprocal on the XU, and wider accesses are fewer. The lesser
    saving leaves all of those unchanged.
    """
    relieved = dict.fromkeys(INTEGER_PIPES, 0.0)
    relieved["fma"] = _floating_part(case)
    relieved[ISSUE] = 1.0 - share_of_opcodes(case, *_INTEGER, "MOV") if case.opcodes() else 0.0
    bound = case.saving({**relieved, ISSUE: 0.0, "xu": 0.0, "lsu": 0.0, "l1": 0.0})
    return bound.if_held(case.saving(relieved).fraction, "same-loads-and-conversions")


def _floating_part(case: Case) -> float:
    """Return the part of the FMA pipe's time that is certainly floating-point work, by opcodes or else by its FLOP."""
    floating = executed(case, *_OPCODES["fma"])
    integer = executed(case, *_OPCODES["fmaheavy"])
    if floating + integer:
        return floating / (floating + integer)
    work, busy = fraction_of_peak(case, "fp32"), case.pipe("fma")
    return min(1.0, work / busy) if work is not None and busy else 0.0


def _busy_sm(case: Case, headline: str, change: str) -> Findings:
    """Yield a finding if the SM is the busiest unit and the report has no pipes: the FLOP suggest what fills it.

    The load/store unit is part of the SM, too. If memory is as busy as the SM, that unit is the reason.
    """
    sm = _sm_without_pipes(case)
    by_name = multiplies_on_tensor_cores(case.kernel.demangled)
    if sm is None or by_name or _cycles_an_instruction(case, sm) > SCALAR_CYCLES.value:
        # Matrix instructions keep it busy, which `tensor-compute-bound` reports.
        return
    work = _most_work(case)
    yield finding(
        case,
        cases_of(change, (headline, "shared/no-pipe"), ("shared/no-pipe",)),
        amounts=(*amounts_of(sm=sm), _of_ceiling(sm)),
        subject="sm",
        confidence="guess",
        saving=_with_full_sm(case, *SCALAR_PIPES),
        evidence=(
            _sm_evidence(case, sm),
            *((FMA_WORK.evidence(100 * work, "floating-point-work"),) if work is not None else ()),
        ),
    )


def _sm_without_pipes(case: Case) -> float | None:
    """Return the SM's utilization if it is the limit, memory is less busy and no pipe was collected; else None."""
    sm, memory = case.utilisation.get("sm"), case.memory_utilisation
    if case.kernel.pipes or sm is None or not PIPE_BUSY.is_reached(sm):
        return None
    return sm if memory is None or sm > memory + TWO_PASSES else None


def _cycles_an_instruction(case: Case, sm: float) -> float:
    """Return the cycles that an issued instruction keeps the SM busy on average; 0 if issue slots are not known."""
    issued = case.needs.get(ISSUE)
    return sm / issued if issued else 0.0


def _is_product_by_name(case: Case) -> bool:
    """Return whether a kernel is a matrix product by its name; False if floating-point work was counted."""
    return _most_work(case) is None and is_product_by_name(case.kernel.demangled)


def _most_work(case: Case) -> float | None:
    """Return the largest fraction of a path's peak that floating-point work reaches; None if none was counted."""
    paths = {work.path for work in case.kernel.work if "int32" not in work.path}
    fractions = [fraction for path in paths if (fraction := fraction_of_peak(case, path)) is not None]
    return min(1.0, max(fractions)) if fractions else None


def _is_integer_work(case: Case) -> bool:
    """Return whether integers fill the FMA pipe: by opcodes, or if only the half that multiplies integers is busy.

    Floating-point work uses both halves alike.
    """
    if case.opcodes():
        # Moves and shifts by IMAD go to whichever pipe is free.
        integer = executed(case, *_OPCODES["fmaheavy"]) - executed(case, "IMAD.MOV", "IMAD.SHL")
        return integer > executed(case, *_OPCODES["fma"])
    both = case.pipe("fma")
    heavy = case.pipe("fmaheavy")
    lite = case.pipe("fmalite")
    if heavy is None:
        return False
    if lite is None and both is not None:
        # The utilization of the whole pipe is the mean of its halves.
        lite = max(0.0, 2.0 * both - heavy)
    return lite is not None and PIPE_BUSY.is_reached(heavy) and lite < heavy / 2


def _special(case: Case) -> Findings:
    use = case.pipe("xu")
    if use is None or not is_limit(case, use):
        return
    # The instructions around a function go with it.
    saving = case.saving({**dict.fromkeys(SCALAR_PIPES, 0.0), ISSUE: 0.0})
    saving = saving.if_held(case.saving({"xu": 0.0}).fraction, "other-instructions-unchanged")
    if _is_issue_bound(case, use):
        yield _issue_bound(case, "xu", "main", saving)
        return
    yield _full_pipe(case, "xu", saving)


def _tensor(case: Case) -> Findings:
    busy = case.pipe("tensor")
    if busy is None:
        yield from _long_instructions(case)
        return
    roof = _tensor_roof(case)
    use = min(1.0, busy / roof)
    is_full = PIPE_BUSY.is_reached(use)
    if not is_full and not is_limit(case, busy):
        return
    if not is_full and _is_issue_bound(case, busy):
        found = _issue_bound(case, "tensor", "less", _with_full_sm(case, "tensor"))
        yield _with_tensor_change(case, found, "shared/fewer-instructions")
        return
    found = _full_pipe(
        case,
        "tensor",
        _with_full_pipe(case, use, "tensor"),
        why=("half-rate",) if roof < 1.0 else (),
        roof=roof,
        is_near=PIPE_NEAR_ROOF.is_reached(use),
        confidence="measured" if roof == 1.0 else "inferred",
    )
    yield _with_tensor_change(case, found)


def _with_tensor_change(case: Case, found: Finding, *before: CaseName) -> Finding:
    """Return a finding with the changes that this architecture allows and that the kernel's instructions leave."""
    keys = case.arch.compute
    if not keys:
        cases = replace(found.cases, action=("narrower",), advice=(*before, "on-any-gpu", "less"))
        return replace(found, cases=cases)
    used = [known.key for opcode in case.opcodes() if (known := matrix_opcode(opcode)) is not None]
    narrower = next((name for name in ("fp8", "int8") if any(key.path == f"tensor.{name}" for key in keys)), None)
    newer = next((name for name in ("tcgen05", "wgmma") if any(key.instruction == name for key in keys)), None)
    advice: list[CaseName] = []
    if narrower is not None and not any(key.path == f"tensor.{narrower}" for key in used):
        advice.append(narrower)
    action = "narrower" if advice else "less"
    if newer is not None and not any(key.instruction == newer for key in used):
        advice.append(newer)
        action = "main"
    if any(key.path == "tensor.bf16" for key in keys):
        # Both came with Ampere.
        advice.append("sparsity")
    return replace(found, cases=replace(found.cases, action=(action,), advice=(*before, *advice, "less")))


def _long_instructions(case: Case) -> Findings:
    """Yield a finding if the SM is busy but issues few instructions: only matrix instructions take so long.

    FP64 instructions do, too, on a GPU with few FP64 units. If instructions are not long, the kernel's name decides.
    """
    sm = _sm_without_pipes(case)
    cycles = _cycles_an_instruction(case, sm) if sm is not None else 0.0
    has_them = any(key.path.startswith("tensor") for key in case.arch.compute)
    are_long = cycles > SCALAR_CYCLES.value
    by_name = multiplies_on_tensor_cores(case.kernel.demangled)
    if sm is None or not has_them or not (are_long or by_name):
        return
    ratio = fp64_over_fp32(case)
    is_near = PIPE_NEAR_ROOF.is_reached(sm)
    is_sure = (ratio or 0.0) >= _FP64_IS_FAST or by_name
    seen = "by-name"
    if are_long:
        seen = "long-instructions" if is_sure else "long-or-fp64"
    found = finding(
        case,
        Cases(headline=(seen, "shared/near-ceiling") if is_near else (seen,), why=(seen,)),
        amounts=(*amounts_of(sm=sm), Amount("cycles", cycles, "cycle/inst"), _of_ceiling(sm)),
        subject="tensor",
        confidence="inferred" if seen == "long-instructions" else "guess",
        saving=_with_full_sm(case, "tensor"),
        is_fact=is_near,
        evidence=(
            _sm_evidence(case, sm),
            *case.issue_evidence(),
            *((SCALAR_CYCLES.evidence(cycles),) if cycles else ()),
        ),
    )
    yield _with_tensor_change(case, found)


_FP64_IS_FAST = 0.25
"""A fraction of the FP32 rate. From here on, FP64 instructions take at most 8 cycles, as special functions do."""


def _tensor_roof(case: Case) -> float:
    """Return the part of the tensor pipe's cycles that the kernel's matrix instructions can fill.

    If sums in FP32 have half the rate, the pipe is half busy at the roof. Without known instructions, return 1.
    """
    flop = slowed = 0.0
    for opcode, count in case.opcodes().items():
        matrix = matrix_opcode(opcode)
        if matrix is not None and matrix.flop is not None:
            flop += matrix.flop * count
            slowed += matrix.flop * count / _part_of_full_rate(case, matrix.key)
    return flop / slowed if slowed else 1.0


def _part_of_full_rate(case: Case, key: ComputeKey) -> float:
    """Return the rate with sums in FP32 over that with sums in FP16; BF16 and TF32 take the ratio of FP16."""
    if key.accumulator != "fp32" or key.path not in TENSOR_INPUTS:
        return 1.0
    rates = case.hardware.rates
    slow = rates.get(ComputeKey("tensor.fp16", "fp32", key.instruction))
    full = rates.get(ComputeKey("tensor.fp16", "fp16", key.instruction))
    return min(1.0, slow.value / full.value) if slow is not None and full is not None and full.value else 1.0


_WASTED = (Cause("branch-divergence"), Cause("block-size", leaves_lanes_empty))
"""Partly filled warps execute instructions for nothing; matrix instructions use whole warps."""


def _pipe_rule(
    rule_id: str,
    check: Callable[[Case], Findings],
    thresholds: tuple[Threshold, ...] = (),
    causes: tuple[Cause, ...] = (),
    place: TreePlace = AT_MATH,
) -> Rule:
    return Rule(
        rule_id,
        kind="limit",
        thresholds=(PIPE_BUSY, *thresholds, SM_PIPE, THROTTLED),
        check=check,
        causes=causes,
        place=place,
    )


RULES = (
    _pipe_rule(
        "fp32-compute-bound",
        _fp32,
        (PIPE_NEAR_ROOF, ROOF_WORK),
        (Cause("tensor-cores-idle"), Cause("non-fused-fp"), *_WASTED),
    ),
    _pipe_rule("integer-bound", _integer, (BIT_WORK,), _WASTED),
    _pipe_rule(
        "special-function-bound",
        _special,
        causes=_WASTED,
        place=TreePlace(("math_pipe_throttle", *SHARED_STALLS), "unit"),
    ),
    _pipe_rule("tensor-compute-bound", _tensor, (PIPE_NEAR_ROOF, SCALAR_CYCLES), (Cause("old-architecture"),)),
)
