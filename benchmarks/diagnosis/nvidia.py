"""What NVIDIA's own rules say first of a kernel, in the names of ours: the table is here to be read and disputed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks.nvidia_rules import SPEAKS, claim_of
from gpuprof.model.report import RuleResult

_COMPUTE = (
    "fp32-compute-bound", "fp64-bound", "integer-bound", "special-function-bound", "tensor-compute-bound",
    "non-fused-fp", "tensor-cores-idle",
)  # fmt: skip
_MEMORY = ("dram-bandwidth", "l2-bandwidth", "l1-bandwidth", "shared-bandwidth")

MORE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("SOLBottleneck", "identify the DRAM bottleneck", ("dram-bandwidth",)),
    ("SOLBottleneck", "identify the L2 bottleneck", ("l2-bandwidth", "uncoalesced-global")),
    ("SOLBottleneck", "identify the L1 bottleneck", ("l1-bandwidth", "shared-bandwidth", "uncoalesced-global")),
    ("SOLBottleneck", "Memory is more heavily utilized", _MEMORY),
    ("SOLBottleneck", "Compute is more heavily utilized", _COMPUTE),
    ("SOLBottleneck", "low compute throughput and memory bandwidth utilization", ("latency-bound",)),
    ("IssueSlotUtilization", "only issues an instruction every", ("latency-bound",)),
    ("HighPipeUtilization", "under-utilized", ("latency-bound",)),
    ("HighPipeUtilization", "FP64 is the highest", ("fp64-bound",)),
    ("HighPipeUtilization", "XU is the highest", ("special-function-bound",)),
    ("HighPipeUtilization", "ALU is the highest", ("integer-bound",)),
    ("HighPipeUtilization", "Tensor", ("tensor-compute-bound",)),
    ("HighPipeUtilization", "FMA", ("fp32-compute-bound", "integer-bound", "tensor-cores-idle", "non-fused-fp")),
    ("HighPipeUtilization", "FP32 is the highest", ("fp32-compute-bound", "tensor-cores-idle", "non-fused-fp")),
    ("SOLFPRoofline", "fp64", ("fp64-bound",)),
    ("MemoryCacheAccessPattern", "for local", ("local-memory-spill",)),
    ("MemoryCacheAccessPattern", "L1TEX", ("uncoalesced-global",)),
    ("MemoryCacheAccessPattern", "L2", ("uncoalesced-global",)),
    ("MemoryL2Compression", "", ()),
)
"""Rule of NVIDIA's, words of its message, and the rules of ours that say the same; the first row that fits counts.

`benchmarks/nvidia_rules.py` has the others. Where NVIDIA's words cover several of ours, each is right.
"""


class Said(NamedTuple):
    """A message of NVIDIA's: its rule, title, estimated speedup in % (None: none), and which of ours say the same."""

    rule: str
    title: str
    speedup_percent: float | None
    ours: tuple[str, ...]


def said(results: Iterable[RuleResult]) -> tuple[Said, ...]:
    """Return the messages that warn, by their estimated speedup, then in the report's order."""
    found = list(_said(results))
    return tuple(sorted(found, key=lambda one: -(one.speedup_percent or 0.0)))


def _said(results: Iterable[RuleResult]) -> Iterator[Said]:
    for result in results:
        if result.kind not in SPEAKS:
            continue
        ours = _ours(result)
        if ours is not None:
            yield Said(result.rule, result.title, result.speedup_percent, ours)


def _ours(result: RuleResult) -> tuple[str, ...] | None:
    """Return our rules for a message; None where it is about the profile and not about the kernel."""
    text = f"{result.title} {result.message}"
    for rule, words, ours in MORE:
        if result.rule == rule and words in text and not _better(result):
            return ours or None
    claim = claim_of(result)
    return claim.ours if claim is not None else None


def _better(result: RuleResult) -> bool:
    """Tell whether the other table knows the message more exactly than by "latency"."""
    claim = claim_of(result)
    return claim is not None and claim.ours != ("*",)
