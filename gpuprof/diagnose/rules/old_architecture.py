"""The kernel uses matrix instructions of an older architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, cases_named, finding, labels_of
from gpuprof.diagnose.thresholds import percent
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.product_names import newest_generation
from gpuprof.model.quantities import tensor_split

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


def _architecture(facts: KernelFacts) -> Findings:
    """Report mma.sync that keeps the tensor pipe busy, or a library's kernel for an older generation."""
    kinds = _replaced(facts)
    used = facts.pipe("tensor")
    if kinds and used is not None and OLD_USED.is_reached(used):
        # If several types are possible, the fastest one gives the smallest gain.
        rate = max(_rate(facts, key) for key in kinds)
        saving = speedup_bound(facts, {**dict.fromkeys(_OF_OPERANDS, 0.0), "tensor": rate})
        yield finding(
            facts,
            amounts=amounts_of(used=min(1.0, used), rate=rate),
            labels=labels_of(newer=(_family(facts, kinds),)),
            confidence="inferred" if OLD_BUSY.is_reached(used) else "guess",
            saving=saving.only_if("same-bytes-and-other-arithmetic"),
            evidence=facts.pipe_evidence("tensor", OLD_BUSY.value),
            place=facts.place_of_opcode(*_MATRIX_OPCODES),
        )
    elif not (kinds and used is not None) and _is_forward(facts):
        yield finding(facts, cases_named("forward-compatible"), confidence="guess", evidence=())


def _is_forward(facts: KernelFacts) -> bool:
    """Return whether a library's kernel name shows that it was built for an older generation."""
    name = facts.kernel.demangled
    if _FORWARD not in name:
        return False
    made_for = newest_generation(name)
    major = (facts.hardware.device.compute_capability or "").partition(".")[0]
    return made_for is not None and major.isdecimal() and made_for < int(major)


def _replaced(facts: KernelFacts) -> Sequence[ComputeKey]:
    """Return the types that the kernel multiplies by mma.sync although the GPU has a faster instruction.

    Decide by opcodes, else by the pipe of wgmma, else by the name that a library gave the kernel.
    """
    split = tensor_split(facts.metrics)
    if split is not None:
        used = [key for key, flop in split.items() if flop is None or flop > 0]
        if any(key.instruction != _OLD for key in used):
            return ()
    else:
        executed = facts.number(_GMMA)
        is_old = executed == 0 or (executed is None and _has_old_name(facts.kernel.demangled))
        used = [
            key._replace(instruction=_OLD) for key in facts.arch.compute if is_old and key.path.startswith("tensor.")
        ]
    return [key for key in used if _newer(facts, key) is not None]


@lru_cache(maxsize=4096)
def _has_old_name(demangled: str) -> bool:
    return _OLD_NAME.search(demangled) is not None


def _newer(facts: KernelFacts, key: ComputeKey) -> float | None:
    """Return the fastest rate of another instruction for the same types; None if none is faster."""
    rates = facts.hardware.rates
    own = rates.get(key)
    least = own.value if own is not None else 0.0
    fastest = None
    for other, rate in rates.items():
        is_alike = other.path == key.path and other.accumulator == key.accumulator
        if is_alike and other.instruction not in (None, _OLD) and rate.value > least:
            fastest = least = rate.value
    return fastest


def _rate(facts: KernelFacts, key: ComputeKey) -> float:
    """Return the rate of mma.sync over that of the newer instruction."""
    own = facts.hardware.rates.get(key)
    newer = _newer(facts, key)
    return own.value / newer if own is not None and newer is not None else _MMA_SYNC


def _family(facts: KernelFacts, kinds: Iterable[ComputeKey]) -> str:
    """Return the name of the newer instruction for these types."""
    paths = {key.path for key in kinds}
    families = (key.instruction for key in facts.hardware.rates if key.path in paths)
    return next(family for family in families if family not in (None, _OLD))


RULE = Rule(
    "old-architecture",
    thresholds=(OLD_BUSY, OLD_USED),
    check=_architecture,
    metrics=(WARP_OPCODES,),
    place=AT_MATH,
)
