"""The words of the page, explained: only those that occur on it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass

from gpuprof.present.page.parts import Chart


@dataclass(frozen=True, slots=True)
class Term:
    """A word with its meaning, and the pattern that tells whether a text uses it (None: the page always does)."""

    name: str
    meaning: str
    pattern: str | None = None


_TERMS = (
    Term("roofline", "The most that a kernel can compute per second for each byte it moves: the bandwidth of a memory "
         "level times the FLOP per byte, up to the peak of the arithmetic units."),
    Term("roof", "The line that a kernel's point lies under. Rated is the datasheet's, at clock is what this GPU can "
         "do at the clock the kernel ran at, measured is what micro-kernels reached on it."),
    Term("MFU", "Model FLOP utilisation: the FLOP that the shapes of PyTorch's operators ask for in a step, divided by "
         "the time of the step, as a fraction of a peak.", r"MFU|model FLOP"),
    Term("ridge", "The FLOP per byte at which the roofline turns from its memory side to its compute side."),
    Term("intensity", "FLOP per byte moved at one memory level."),
    Term("speed of light", "The fraction of a unit's peak that Nsight Compute measured, over the whole time of the "
         "kernel; here it is called throughput, and the highest one the nearest limit.", r"of peak|nearest limit"),
    Term("warp", "32 threads that run the same instruction together."),
    Term("occupancy", "Warps resident on an SM as a fraction of the most it can hold. Theoretical: what the launch "
         "allows. Achieved: the average while the kernel ran.", r"occupancy"),
    Term("launch shape", "Grid, block and ranges of a launch. The launches of a kernel that have them in common, on "
         "one GPU and in one report, are one row; a launch of unknown shape is a row of its own."),
    Term("wave", "As many blocks as the GPU holds at once. A grid of 1.1 waves takes about as long as one of 2.",
         r"\bwaves?\b"),
    Term("issue slot", "A scheduler's chance to issue one instruction, once a cycle. An idle slot is lost.",
         r"\bissue"),
    Term("eligible warp", "A resident warp that could issue its next instruction in this cycle.",
         r"eligible|could issue"),
    Term("stall", "A state in which a warp cannot issue. Its share is of all warp cycles, not of time: taking it away "
         "shortens the kernel only where no other warp fills the gap.", r"stall|Where its warps were"),
    Term("request", "One memory instruction of a warp.", r"\brequests?\b"),
    Term("sector", "32 bytes, the piece in which caches are filled and read. A warp that reads 32 neighbouring floats "
         "needs four.", r"\bsectors?\b|_sectors"),
    Term("wavefront", "One pass of the L1 or of shared memory over a request. A request that needs several passes "
         "keeps the unit busy for as many cycles.", r"wavefront"),
    Term("coalesced", "Said of an access whose threads use neighbouring addresses, so that few sectors serve a warp.",
         r"coalesc"),
    Term("bank conflict", "Threads of a warp use different addresses in the same of the 32 banks of shared memory: "
         "their accesses take turns.", r"bank[ -]conflict|bank_conflict"),
    Term("spill", "Registers that did not fit and are kept in local memory, which is DRAM behind the caches.",
         r"spill|local memory"),
    Term("divergence", "Threads of a warp take different branches, which then run one after the other.", r"diverg"),
    Term("tail", "The last wave, in which part of the SMs have no block left.", r"\btail\b"),
    Term("hit rate", "The fraction of a cache's lookups that found their data there.", r"hit rate"),
    Term("pipe", "A group of execution units of the SM: FMA, ALU, load and store, tensor and others.", r"\bpipes?\b"),
    Term("SASS", "The GPU's machine code.", r"\bSASS\b"),
    Term("scoreboard", "The SM's list of registers that still wait for a result.", r"scoreboard"),
)  # fmt: skip

_STALLS = {
    "long scoreboard": "waits for data of global, local, texture or surface memory",
    "short scoreboard": "waits for shared memory or for a special-function result",
    "lg throttle": "waits for room in the queue of global and local memory",
    "mio throttle": "waits for room in the queue of shared memory, special functions and dynamic branches",
    "tex throttle": "waits for room in the queue of the texture unit",
    "math pipe throttle": "waits for an arithmetic pipe that is busy",
    "wait": "waits for the fixed latency of an earlier instruction",
    "barrier": "waits for the other warps of its block at a barrier",
    "membar": "waits for a memory fence",
    "branch resolving": "waits for the target of a branch",
    "no instruction": "waits for its next instruction to be fetched",
    "imc miss": "waits for a constant that was not in its cache",
    "dispatch stall": "was held back by the dispatcher",
    "drain": "has ended and waits for its stores to leave",
    "sleeping": "sleeps because the program said so",
    "gmma": "waits for a warp-group matrix instruction",
    "misc": "is held back for another reason",
    "selected": "issued an instruction: no stall",
    "not selected": "could issue, but another warp did: no stall",
}


def glossary(page: object) -> tuple[Term, ...]:
    """Return the terms that the texts of a page use, then the states of warps that occur on it."""
    text = "\n".join(_texts(page))
    general = [term for term in _TERMS if term.pattern is None or re.search(term.pattern, text, re.IGNORECASE)]
    states = [
        Term(name, f"A warp in this state {meaning}.")
        for name, meaning in _STALLS.items()
        if re.search(rf"(?<![\w-]){name} \S+ ?%|(?m:^{name}$)", text)
    ]
    return (*general, *states)


def _texts(item: object) -> Iterable[str]:
    """Yield every text below a value, but those of drawings."""
    if isinstance(item, str):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from _texts(part)
    elif is_dataclass(item) and not isinstance(item, (type, Chart)):
        for field in fields(item):
            yield from _texts(getattr(item, field.name))
