"""Numbers out of the messages of NVIDIA's rules: a text export has those where it lacks the metrics behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpuprof.model.recorded import RuleResult

STALLS_TOLD, PIPE_TOLD, LIGHT_TOLD = "rule CPIStall", "rule HighPipeUtilization", "rule SOLBottleneck"
"""What evidence names in place of a metric where such a message tells it."""
_STALL_WORDS = {
    "scoreboard dependency on a L1TEX": "long_scoreboard",
    "after an EXIT instruction": "drain",
    "immediate constant cache": "imc_miss",
    "math execution pipe": "math_pipe_throttle",
    "sibling warps at a CTA barrier": "barrier",
    "local and global": "lg_throttle",
    "scoreboard dependency on a MIO": "short_scoreboard",
    "MIO (memory input/output) instruction queue": "mio_throttle",
    "L1 instruction queue for texture": "tex_throttle",
    "branch target": "branch_resolving",
    "on a memory barrier": "membar",
    "instruction cache miss": "no_instruction",
    "fixed latency execution dependency": "wait",
}
"""How the stall rule describes a reason (its messages in reports of ncu 2020 to 2025)."""
_STALL = re.compile(
    r"being stalled (?P<what>[^.]{0,400})\..{0,2000}?"
    r"\bThis (?:stall type )?represents about (?P<percent>\d+(?:\.\d+)?)%",
    re.DOTALL | re.IGNORECASE,
)
"""Newer messages say "this stall type", and explain the reason before it: its name is in the first sentence."""
_LANES = re.compile(
    r"an average of (?P<active>\d+(?:\.\d+)?) threads being active per cycle"
    r"(?:\. This is further reduced to (?P<on>\d+(?:\.\d+)?) threads per warp due to predication)?"
)
_SECTORS = re.compile(
    r"total of (?P<excess>\d[\d,]*) excessive sectors \(\d+% of the total (?P<total>\d[\d,]*) sectors\)"
)
_FUSED = re.compile(r"executes (?P<fused>\d[\d,]*) fused and (?P<alone>\d[\d,]*) non-fused (?P<type>FP32|FP64)")
_WAVEFRONTS = re.compile(
    r"total of (?P<excess>\d[\d,]*) excessive wavefronts \(\d+% of the total (?P<total>\d[\d,]*) wavefronts\)"
)
_CONFLICTS = re.compile(
    r"results in (?P<excess>\d[\d,]*) bank conflicts,\s+(?:which represent )?[\d.]+% of the overall "
    r"(?P<total>\d[\d,]*) wavefronts"
)
_LOCAL = re.compile(
    r"local memory\b[^,]{0,200}, accounting for (?P<percent>\d+(?:\.\d+)?)% of all sectors requested in L1TEX"
)
_PIPE = re.compile(
    r"\b(?P<name>[A-Z0-9]+)(?: \([A-Za-z0-9]+\))? is the highest-utilized pipeline \((?P<percent>\d+(?:\.\d+)?)%\)"
)
_PIPE_NAMES = ("fma", "alu", "fp64", "xu", "lsu", "tensor", "tex")

_WAVES = re.compile(
    r"grid is too small to fill the available resources .{0,80}?only (?P<waves>\d+(?:\.\d+)?) full waves"
)
_SECTOR_BYTES = 32
_USED = re.compile(
    r"pattern for global loads from (?:L1|L1TEX|L2|DRAM) .{0,40}?"
    r"only (?P<used>\d+(?:\.\d+)?) of the 32 bytes transmitted per sector"
)
_REQUESTED = re.compile(
    r"pattern for global loads in L1TEX .{0,250}?"
    r"results in (?P<sectors>\d+(?:\.\d+)?) sectors per request.{0,250}? would result in (?P<ideal>\d+(?:\.\d+)?)\*32 "
)
"""Until 2022: sectors of a request, and as many as its bytes need: bytes per thread × 32 threads ÷ 32 bytes."""


class Sectors(NamedTuple):
    """L2 sectors of global accesses, and those beyond need."""

    excess: float
    total: float


class LoadSectors(NamedTuple):
    """Bytes of a sector that global loads use, and the sectors of a request where those tell it."""

    used: float
    per_request: float | None = None


class Wavefronts(NamedTuple):
    """Wavefronts of shared-memory accesses, and those that come from conflicts."""

    excess: float
    total: float


class BusiestPipe(NamedTuple):
    """The execution pipe that is used most, as a fraction of its peak over the SM's active cycles."""

    name: str
    fraction: float


class Lanes(NamedTuple):
    """Active threads of an average instruction, and those of them that predicates leave switched on."""

    active: float
    on: float


class Fused(NamedTuple):
    """Fused and other floating-point instructions of a type."""

    fused: float
    alone: float


def stall_shares(messages: Iterable[RuleResult]) -> Mapping[str, float]:
    """Return the shares of the stall reasons that the stall rule names."""
    shares = {}
    for message in messages:
        match = _STALL.search(message.message) if _may_be(message, "CPIStall") else None
        reason = next((name for phrase, name in _STALL_WORDS.items() if match and phrase in match["what"]), None)
        if match and reason is not None:
            shares[reason] = min(1.0, float(match["percent"]) / 100)
    return shares


def excess_sectors(messages: Iterable[RuleResult]) -> Sectors | None:
    """Return the sectors that the rule on uncoalesced accesses counts."""
    matches = (_SECTORS.search(message.message) for message in messages if _may_be(message, "UncoalescedGlobalAccess"))
    return next((Sectors(_count(match["excess"]), _count(match["total"])) for match in matches if match), None)


def conflict_wavefronts(messages: Iterable[RuleResult]) -> Wavefronts | None:
    """Return what the rule on shared accesses counts; else the sums of those on conflicts of loads and of stores."""
    texts = [message.message for message in messages]
    counted = [match for match in map(_WAVEFRONTS.search, texts) if match]
    told = counted[:1] or [match for match in map(_CONFLICTS.search, texts) if match]
    if not told:
        return None
    return Wavefronts(sum(_count(match["excess"]) for match in told), sum(_count(match["total"]) for match in told))


def busiest_pipe(messages: Iterable[RuleResult]) -> BusiestPipe | None:
    """Return the pipe that the rule on utilisation names; None for one that has no name here."""
    matches = (_PIPE.search(message.message) for message in messages)
    match = next((match for match in matches if match and match["name"].lower() in _PIPE_NAMES), None)
    if match is None:
        return None
    return BusiestPipe(match["name"].lower(), min(1.0, float(match["percent"]) / 100))


def fused_instructions(messages: Iterable[RuleResult], kind: str) -> Fused | None:
    """Return the instructions that the rule on floating-point instructions counts, of FP32 or FP64."""
    matches = (_FUSED.search(message.message) for message in messages if _may_be(message, "FPInstructions"))
    return next(
        (Fused(_count(match["fused"]), _count(match["alone"])) for match in matches if match and match["type"] == kind),
        None,
    )


def local_share(messages: Iterable[RuleResult]) -> float | None:
    """Return the share of local memory in the sectors that L1 is asked for."""
    matches = (_LOCAL.search(message.message) for message in messages if _may_be(message, "MemoryLocalAccess"))
    return next((min(1.0, float(match["percent"]) / 100) for match in matches if match), None)


def active_lanes(messages: Iterable[RuleResult]) -> Lanes | None:
    """Return the threads of a warp that the rule on divergence counts."""
    matches = (_LANES.search(message.message) for message in messages if _may_be(message, "ThreadDivergence"))
    return next((Lanes(float(m["active"]), float(m["on"] or m["active"])) for m in matches if m), None)


def full_waves(messages: Iterable[RuleResult]) -> float | None:
    """Return the waves of a grid that the rule on speed of light calls too small, rounded to a tenth."""
    matches = (_WAVES.search(message.message) for message in messages)
    return next((float(match["waves"]) for match in matches if match), None)


def load_sectors(messages: Iterable[RuleResult]) -> LoadSectors | None:
    """Return how many bytes of a sector global loads use, where the rule on access patterns complains of that.

    As the message says, or by the sectors that a request takes and needs. What it says of stores is left alone: it does
    not tell how many there are, and a block that stores one result complains as loudly.
    """
    for message in messages:
        used, requested = _USED.search(message.message), _REQUESTED.search(message.message)
        if used is not None:
            return LoadSectors(float(used["used"]))
        if requested is not None and (sectors := float(requested["sectors"])):
            return LoadSectors(min(1.0, float(requested["ideal"]) / sectors) * _SECTOR_BYTES, sectors)
    return None


def estimated_gain(messages: Iterable[RuleResult], number_in: Callable[[Iterable[RuleResult]], object]) -> float | None:
    """Return what NVIDIA estimates that a repair saves of the kernel's time, beside what `number_in` reads."""
    for message in messages:
        percent = message.speedup_percent if message.speedup_scope == "global" else None
        if percent is not None and number_in((message,)) is not None:
            return min(1.0, percent / 100)
    return None


def _may_be(message: RuleResult, rule: str) -> bool:
    """Tell whether a rule said it; text without --csv has no rules' names."""
    return message.rule in (rule, "")


def _count(text: str) -> float:
    return float(text.replace(",", ""))
