"""The kernel uses matrix instructions of an older architecture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.waits import GMMA
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import percent
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey, Fact
from gpuprof.model.findings import Cases
from gpuprof.model.product_names import multiplies_on_tensor_cores, newest_generation
from gpuprof.model.quantities import tensor_split

OLD_BUSY = percent("mma-sync-limit", 60.0)

OLD_USED = percent("mma-sync-guess", 30.0)

_MMA_SYNC = 2 / 3
"""The rate of mma.sync over that of the newer instruction if the spec has none for the type.

It is that of 9.0, the highest known, which gives the smallest gain."""

OLD_INSTRUCTION = "mma.sync"

_HOPPER = 9
"""The first generation with a faster instruction than mma.sync."""

_OF_OPERANDS = ("lsu", "l1", "alu", "uniform", "adu", "cbu", ISSUE)
"""Units that load operands, which the newer instructions read from shared memory themselves."""


def _architecture(facts: KernelFacts) -> Findings:
    """Report mma.sync that keeps the tensor pipe busy although the GPU has a faster instruction."""
    used = facts.pipe("tensor")
    # If several types are possible, the fastest one gives the smallest gain.
    rate, newer = max(_newer(facts), default=(None, ""))
    if used is None or rate is None or not OLD_USED.is_reached(used):
        return
    saving = speedup_bound(facts, {**dict.fromkeys(_OF_OPERANDS, 0.0), "tensor": rate})
    yield finding(
        facts,
        Cases(advice=("library", "target")),
        amounts=amounts_of(used=min(1.0, used), rate=rate),
        labels=labels_of(newer=(newer,)),
        confidence="inferred" if OLD_BUSY.is_reached(used) else "guess",
        saving=saving.only_if("same-bytes-and-other-arithmetic"),
        evidence=facts.pipe_evidence("tensor", OLD_BUSY.value),
        place=facts.code.place_of_opcode("HMMA", "IMMA", "QMMA", "BMMA"),
    )


def _newer(facts: KernelFacts) -> Iterator[tuple[float, str]]:
    """Yield the newer instructions for all types that it multiplies by mma.sync."""
    split = tensor_split(facts.metrics)
    if split is None and not _is_old_without_opcodes(facts):
        return iter(())
    if any(key.instruction != OLD_INSTRUCTION for key in split or ()):
        return iter(())
    return newer_instructions(facts.hardware.rates, split)


def newer_instructions(
    rates: Mapping[ComputeKey, Fact], used: Collection[ComputeKey] | None
) -> Iterator[tuple[float, str]]:
    """Yield for each type that is multiplied by mma.sync the rate over that of a faster instruction, and its name.

    `used` are the keys of the executed instructions; None if they are not known.
    """
    for key, rate in rates.items():
        old = key._replace(instruction=OLD_INSTRUCTION)
        if key.instruction and (used is None or old in used):
            part = rates[old].value / rate.value if old in rates else _MMA_SYNC
            if part < 1.0:
                yield part, key.instruction


def _is_old_without_opcodes(facts: KernelFacts) -> bool:
    """Return whether the wgmma pipe was idle, or, if that was not collected, whether the name is of an older kernel."""
    executed, name = facts.number(GMMA), facts.kernel.demangled
    if executed is not None:
        return executed == 0
    return multiplies_on_tensor_cores(name) and (newest_generation(name) or _HOPPER) < _HOPPER


RULE = Rule(
    "old-architecture",
    thresholds=(OLD_BUSY, OLD_USED),
    check=_architecture,
    metrics=(WARP_OPCODES,),
    place=AT_MATH,
)
