"""The glossary: terms of the field, explained where a document uses them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import astuple

from gpuprof.model.stalls import stall_name
from gpuprof.words.explain import STALL_MEANINGS


class Term(Struct, frozen=True):
    """A word with its meaning, and the pattern of texts that use it (None: every text does)."""

    name: str
    meaning: str
    pattern: str | None = None


_TERMS = (
    Term("roofline", "The most FLOP/s that a kernel can reach at its arithmetic intensity: memory bandwidth × "
         "intensity, up to the peak of the arithmetic units.", r"roofline"),
    Term("ceiling", "A limit of the GPU: the peak of a kind of arithmetic, or the bandwidth of a memory level. Rated "
         "is the datasheet's, at clock is what the GPU can do at the clock that the kernel ran at, measured is what "
         "micro-kernels reached on it.", r"ceiling|roofline"),
    Term("arithmetic intensity", "FLOP per byte moved at one memory level.", r"intensity|roofline of"),
    Term("ridge", "The arithmetic intensity at which the bandwidth and the compute ceiling meet. Left of it "
         "the bandwidth is the lower one, right of it the peak.", r"\bridge\b|roofline of"),
    Term("MFU", "Model FLOP utilisation: the FLOP that the shapes of PyTorch's operators ask for in a step, divided "
         "by the time of the step, as a share of a peak.", r"MFU|model FLOP"),
    Term("throughput", "How busy a unit was over the whole time of the kernel, as a share of its peak: Nsight "
         "Compute's speed of light. The busiest unit has the highest one.", r"of peak|busiest"),
    Term("warp", "32 threads that run the same instruction together.", r"\bwarps?\b"),
    Term("warp slots", "As many warps as can be resident on an SM at once.", r"\bslots?\b"),
    Term("occupancy", "Resident warps as a share of the warp slots. Theoretical: what the launch configuration allows. "
         "Achieved: the average over the cycles in which an SM had work.", r"occupancy"),
    Term("launch configuration", "Grid, block, registers, shared memory and ranges of a launch. Launches of a kernel "
         "with the same configuration, on one GPU and in one report, are one row; a launch of unknown grid or block "
         "has a row of its own.", r"launch|configuration|\bkernels?\b"),
    Term("wave", "As many blocks as the GPU holds at once. A grid of 1.1 waves takes about as long as one of 2.",
         r"\bwaves?\b"),
    Term("issue slots", "Each scheduler can issue one instruction per cycle. A slot in which no warp is eligible is "
         "lost.", r"\bissue"),
    Term("eligible warp", "A resident warp that can issue its next instruction in this cycle.", r"eligible"),
    Term("stall reason", "Why a warp cannot issue. Its share is of all warp cycles, not of time: removing it shortens "
         "the kernel only if no other warp fills the gap.", r"stall|hardware counters|PC samples"),
    Term("request", "One memory instruction of a warp.", r"\brequests?\b"),
    Term("sector", "32 bytes, the unit in which caches are filled and read. A warp that reads 32 neighbouring floats "
         "needs four.", r"\bsectors?\b|_sectors"),
    Term("wavefront", "One pass of the L1 or of shared memory over a request. A request that needs several passes "
         "keeps the unit busy for as many cycles.", r"wavefront"),
    Term("coalesced", "An access whose threads use neighbouring addresses, so that few sectors serve a warp.",
         r"coalesc"),
    Term("bank conflict", "Threads of a warp use different addresses in one of the 32 banks of shared memory; their "
         "accesses take turns.", r"bank[ -]conflict|bank_conflict"),
    Term("spill", "Registers that did not fit and are kept in local memory, which is DRAM behind the caches.",
         r"spill|local memory"),
    Term("divergence", "Threads of a warp take different branches, which then run one after the other.", r"diverg"),
    Term("tail", "The last wave, in which some SMs have no block left.", r"\btail\b"),
    Term("hit rate", "The share of a cache's lookups that hit.", r"hit rate"),
    Term("pipe", "A group of execution units of the SM: FMA, ALU, load and store, tensor and others.",
         r"\bpipes?\b|_pipe_"),
    Term("SASS", "The GPU's machine code.", r"\bSASS\b"),
    Term("shown by the code", "The instructions show it. What is a guess, they show a sign of. Neither says how long "
         "anything takes: profile the kernel for that.", r"shown by the code"),
    Term("trips", "Iterations of a loop each time it is entered, if they are a constant of the code.", r"\btrips\b"),
    Term("lane to lane", "Bytes from the address of a lane of the warp to that of the next one, if all lanes have the "
         "same.", r"lane to lane"),
    Term("scoreboard", "The SM's list of registers that still wait for a result.", r"scoreboard"),
)  # fmt: skip


def glossary(content: object, own: Sequence[Term] = ()) -> tuple[Term, ...]:
    """Return the terms that the texts of a document use, its `own` first, then the states of warps that occur."""
    text = "\n".join(_texts(content))
    found = []
    for term in (*own, *_TERMS):
        if term.pattern is None or re.search(term.pattern, text, re.IGNORECASE):
            found.append(term)
    for reason, meaning in STALL_MEANINGS.items():
        name = stall_name(reason)
        if name in text and re.search(rf"(?<![\w-]){re.escape(name)} \S+ ?%|(?m:^{re.escape(name)}$)", text):
            found.append(Term(name, f"A warp in this state {meaning}."))
    return tuple(found)


def _texts(content: object) -> set[str]:
    """Return every text below a value, but not those of drawings."""
    texts = set()
    waiting = [content]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.add(item)
        elif isinstance(item, tuple | list):
            waiting.extend(item)
        elif isinstance(item, Struct):
            waiting.extend(astuple(item))
    return texts
