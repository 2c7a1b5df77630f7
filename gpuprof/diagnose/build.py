"""Rules on builds: without the compiler's optimisation, or for an older architecture.

Without optimisation, ptxas emits moves of a register onto itself, which it never does with it. With
`-G`, accesses also name no memory space (LD, ST); those of optimised code do (LDG, STS).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.code.binary.encodings import moves_of
from gpuprof.diagnose.arithmetic import opcode_counts, sm_cycles
from gpuprof.diagnose.case import EXECUTED, Case
from gpuprof.diagnose.needs import ISSUE
from gpuprof.diagnose.rule import (
    AT_KERNEL,
    AT_MATH,
    Findings,
    Rule,
    amounts_of,
    cases_named,
    finding,
    labels_of,
    percent,
)
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases
from gpuprof.model.product_names import newest_generation
from gpuprof.model.quantities import tensor_split
from gpuprof.model.session import Evidence, Finding

SELF_MOVES = percent("self-moves", 5.0)
MOVES = percent("moves", 30.0)

_SELF_MOVE = re.compile(r"(?:@!?U?P\w+\s+)?MOV(?:\.64)?\s+(U?R\d+)(?:\.64)?\s*,\s*\1(?:\.64)?\s*;?\s*")
_GENERIC, _OF_A_SPACE = ("LD", "ST"), ("LDG", "STG", "LDS", "STS", "LDL", "STL")
_NOT_OF_BUILD = {"dram", "fp64", "tensor", "xu", "launch"}
"""Units that optimised code keeps as busy, because the bytes and the results are the same."""


def _debug(case: Case) -> Findings:
    found = _self_moves(case) or _many_moves(case)
    if found is not None:
        yield found


def _self_moves(case: Case) -> Finding | None:
    """Return a finding by the share of moves onto themselves, as executed or in the code."""
    counted = sum(instruction.counts.get(EXECUTED, 0.0) for instruction in case.code if instruction.sass)
    if counted:
        headline = "self-moves-executed"
        metric = EXECUTED
        moves = sum(case.code[place].counts.get(EXECUTED, 0.0) for place in _self_moves_in(case.sass))
        share = moves / counted
    else:
        headline = "self-moves-in-code"
        metric = ""
        in_code = _moves_of(case.machine_code)
        if not in_code.instructions:
            return None
        share = in_code.onto_itself / in_code.instructions
    if not SELF_MOVES.is_reached(share):
        return None
    evidence = SELF_MOVES.evidence(100 * share, metric=metric)
    return _unoptimised(case, share, (headline,), "measured", evidence)


_moves_of = lru_cache(maxsize=64)(moves_of)


@lru_cache(maxsize=256)
def _self_moves_in(code: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of the moves of a register onto itself."""
    return tuple(place for place, sass in enumerate(code) if _SELF_MOVE.fullmatch(sass))


def _many_moves(case: Case) -> Finding | None:
    """Return a finding by the share of moves: a guess unless most accesses name no memory space."""
    if case.has_sass or case.machine_code:
        return None
    opcodes = opcode_counts(case)
    total = sum(opcodes.values())
    share = opcodes.get("MOV", 0.0) / total if total else 0.0
    if not MOVES.is_reached(share):
        return None
    evidence = MOVES.evidence(100 * share, metric=WARP_OPCODES)
    generic = sum(opcodes.get(name, 0.0) for name in _GENERIC)
    known = sum(opcodes.get(name, 0.0) for name in _OF_A_SPACE)
    if generic <= known:
        return _unoptimised(case, share, ("moves",), "guess", evidence)
    unspecific = 100 * generic / (generic + known)
    accesses = Evidence(WARP_OPCODES, unspecific, "%", 50.0, role="generic-accesses")
    return _unoptimised(case, share, ("moves", "generic-accesses"), "inferred", evidence, accesses)


def _unoptimised(
    case: Case, share: float, headline: tuple[str, ...], confidence: Confidence, *evidence: Evidence
) -> Finding:
    saving = None
    if case.busiest_need is not None:
        # Results and bytes stay the same; optimised code can also do without some of these.
        relieved = dict.fromkeys(case.needs.keys() - _NOT_OF_BUILD, 0.0)
        saving = case.saving(relieved).no_more_than(1.0 - case.arithmetic_fraction)
        saving = saving.only_if("same-floating-point-work-and-bytes")
    return finding(
        case,
        Cases(headline=headline),
        amounts=amounts_of(share=share),
        confidence=confidence,
        saving=saving,
        evidence=evidence,
    )


_MMA_SYNC = 2 / 3
"""The rate of mma.sync over that of the newer instruction if the spec has none for the type.

It is that of 9.0, the highest known, which gives the smallest gain."""
OLD_BUSY = percent("mma-sync-limit", 60.0)
OLD_USED = percent("mma-sync-guess", 30.0)

_OLD = "mma.sync"
_MATRIX_OPCODES = ("HMMA", "IMMA", "QMMA", "BMMA")
_GMMA = "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active"
"""Counts wgmma only."""
_OLD_NAME = re.compile(
    # Kernel names of cuBLAS, cuDNN and CUTLASS contain the architecture that the kernel was written
    # for. Those of tensor kernels contain the shape of their instruction (h884, s1688, s16816,
    # i16832), or xmma or tensorop.
    r"(?:volta|turing|ampere)_(?:\w{0,40}_)?[his](?:884|1688|16816|8816|16832|16864)\w{0,40}(?:gemm|cudnn)"
    r"|(?<![A-Za-z0-9])sm(?:7[025]|8[0679])_xmma_|cutlass(?:__\d+x?_\w{0,20})?_(?:7[025]|8[0679])_(?:wmma_)?tensorop"
)
_FORWARD = "forwardCompat"
_OF_OPERANDS = ("lsu", "l1", "alu", "uniform", "adu", "cbu", ISSUE)
"""Units that load operands, which the newer instructions read from shared memory themselves."""
_REST_AS_IS = "same-bytes-and-other-arithmetic"


class _OldMatrixUse(NamedTuple):
    """The use of older matrix instructions, and the newer ones of the architecture.

    `used` is a fraction of the older ones' rate. `work` is the counted work over the newer ones'
    rate; None if it was not counted. `rate` is the older ones' rate over that of the newer.
    """

    newer: str
    used: float
    work: float | None
    rate: float
    evidence: tuple[Evidence, ...]


def _architecture(case: Case) -> Findings:
    old = _old_instructions(case)
    if old is not None and OLD_USED.is_reached(old.used):
        yield _of_instructions(case, old)
    if old is None and _is_forward(case):
        yield finding(case, cases_named("forward-compatible"), confidence="guess", evidence=())


def _of_instructions(case: Case, old: _OldMatrixUse) -> Finding:
    relieved = dict.fromkeys((*_OF_OPERANDS, "tensor"), 0.0)
    evidence = old.evidence
    if old.work is None:
        headline = "by-pipe"
        saving = case.saving({**relieved, "tensor": old.rate})
    else:
        headline = "by-work"
        saving = case.saving(relieved).if_held(1.0 - old.work, _REST_AS_IS)
        evidence += case.pipe_evidence("tensor")
    return finding(
        case,
        Cases(headline=(headline,)),
        amounts=amounts_of(used=old.used, work=old.work, rate=old.rate),
        labels=labels_of(newer=(old.newer,)),
        confidence="inferred" if OLD_BUSY.is_reached(old.used) else "guess",
        saving=saving.only_if(_REST_AS_IS),
        evidence=evidence,
        place=case.place_of_opcode(*_MATRIX_OPCODES),
    )


def _is_forward(case: Case) -> bool:
    """Return whether a library's kernel name shows that it was built for an older generation."""
    name = case.kernel.demangled
    if _FORWARD not in name:
        return False
    made_for = newest_generation(name)
    major = (case.hardware.device.compute_capability or "").partition(".")[0]
    return made_for is not None and major.isdecimal() and made_for < int(major)


def _old_instructions(case: Case) -> _OldMatrixUse | None:
    """Return the use of mma.sync if the architecture has a faster instruction.

    Decide by opcodes, else by the pipe of wgmma, else by the name that a library gave the kernel.
    """
    split = tensor_split(case.metrics)
    if split is not None:
        replaced: dict[ComputeKey, float | None] = {}
        for key, flop in split.items():
            if flop is not None and flop <= 0:
                continue
            if key.instruction != _OLD:
                return None
            if _newer(case, key) is not None:
                replaced[key] = flop
        return _by_work(case, replaced) or _by_pipe(case, list(replaced))
    executed = case.number(_GMMA)
    if executed == 0 or (executed is None and _has_old_name(case.kernel.demangled)):
        kinds = [key for key in case.arch.compute if key.path.startswith("tensor.")]
        return _by_pipe(case, [key for key in kinds if _newer(case, key._replace(instruction=_OLD)) is not None])
    return None


@lru_cache(maxsize=4096)
def _has_old_name(demangled: str) -> bool:
    return _OLD_NAME.search(demangled) is not None


def _newer(case: Case, key: ComputeKey) -> float | None:
    """Return the fastest rate of another instruction for the same types; None if none is faster."""
    rates = case.hardware.rates
    own = rates.get(key)
    least = own.value if own is not None else 0.0
    fastest = None
    for other, rate in rates.items():
        is_alike = other.path == key.path and other.accumulator == key.accumulator
        if is_alike and other.instruction not in (None, _OLD) and rate.value > least:
            fastest = least = rate.value
    return fastest


def _rate(case: Case, key: ComputeKey) -> float:
    """Return the rate of mma.sync over that of the newer instruction."""
    own = case.hardware.rates.get(key)
    newer = _newer(case, key)
    return own.value / newer if own is not None and newer is not None else _MMA_SYNC


def _by_work(case: Case, used: Mapping[ComputeKey, float | None]) -> _OldMatrixUse | None:
    """Return the use of the older instructions by the FLOP of the opcodes.

    None if something is not known.
    """
    cycles = sm_cycles(case)
    work = busy = 0.0
    for key, flop in used.items():
        newer = _newer(case, key)
        if flop is None or newer is None or cycles is None:
            return None
        part = flop / (newer * cycles)
        work += part
        busy += part / _rate(case, key)
    if not work:
        return None
    evidence = OLD_BUSY.evidence(100 * busy, "matrix-work", metric=WARP_OPCODES)
    return _OldMatrixUse(_family(case, used), used=busy, work=min(1.0, work), rate=work / busy, evidence=(evidence,))


def _by_pipe(case: Case, kinds: Sequence[ComputeKey]) -> _OldMatrixUse | None:
    """Return the use of the older instructions by the tensor pipe.

    None if that was not collected.
    """
    pipe = case.pipe("tensor")
    if not pipe or not kinds:
        return None
    # If several types are possible, the fastest one gives the smallest gain.
    rate = max(_rate(case, key._replace(instruction=_OLD)) for key in kinds)
    evidence = case.pipe_evidence("tensor", OLD_BUSY.value)
    return _OldMatrixUse(_family(case, kinds), used=min(1.0, pipe), work=None, rate=rate, evidence=evidence)


def _family(case: Case, kinds: Iterable[ComputeKey]) -> str:
    """Return the name of the newer instruction for these types."""
    paths = {key.path for key in kinds}
    families = (key.instruction for key in case.hardware.rates if key.path in paths)
    return next(family for family in families if family not in (None, _OLD))


RULES = (
    Rule(
        "debug-build",
        thresholds=(SELF_MOVES, MOVES),
        check=_debug,
        metrics=(WARP_OPCODES,),
        place=AT_KERNEL,
        invalidates="code",
    ),
    Rule(
        "old-architecture",
        thresholds=(OLD_BUSY, OLD_USED),
        check=_architecture,
        metrics=(WARP_OPCODES,),
        place=AT_MATH,
    ),
)
