"""What NVIDIA's own rules say of a kernel, in the names of ours: the tables are here to be read and disputed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks.nvidia_rules import SPEAKS, claim_of
from benchmarks.rule_messages import RuleResult

_COMPUTE = (
    "fp32-compute-bound", "fp64-bound", "integer-bound", "issue-bound", "special-function-bound",
    "tensor-compute-bound", "non-fused-fp", "tensor-cores-idle",
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
    ("HighPipeUtilization", "ALU is the highest", ("integer-bound", "issue-bound")),
    ("HighPipeUtilization", "Tensor", ("tensor-compute-bound",)),
    ("HighPipeUtilization", "FMA", ("fp32-compute-bound", "integer-bound", "tensor-cores-idle", "non-fused-fp")),
    ("HighPipeUtilization", "FP32 is the highest", ("fp32-compute-bound", "tensor-cores-idle", "non-fused-fp")),
    ("SOLFPRoofline", "fused", ("non-fused-fp",)),
    ("MemoryCacheAccessPattern", "for local", ("local-memory-spill",)),
    ("MemoryCacheAccessPattern", "L1TEX", ("uncoalesced-global",)),
    ("MemoryCacheAccessPattern", "L2", ("uncoalesced-global",)),
)
"""Rule of NVIDIA's, words of its message, and the rules of ours that say the same; the first row that fits counts.

`benchmarks/nvidia_rules.py` has the others. Where NVIDIA's words cover several of ours, each is right.
"""
UNSPOKEN = (
    "narrow-access", "atomic-contention", "host-memory-traffic", "short-kernel", "debug-build", "old-architecture",
    "reduction-tree", "launch-configurations", "stores-nothing", "unfused-attention", "elementwise-chain",
    "unaligned-product",
)  # fmt: skip
"""Rules of ours that no message in these tables says."""

_ACHIEVED = re.compile(r"achieved (\d+)% of this device's fp32 peak performance and (\d+)% of its fp64")
_FP64_OF_PEAK = 15
"""Percent: NVIDIA's roofline rule warns of FP64 from here on."""
_SCOPES = ("global", None, "local")
"""How much of the kernel an estimated speedup is of: all of it first."""


class Said(NamedTuple):
    """A message of NVIDIA's: its rule, title, estimated speedup in % (None: none), and which of ours say the same."""

    rule: str
    title: str
    speedup_percent: float | None
    scope: str | None
    ours: tuple[str, ...]


def said(results: Iterable[RuleResult]) -> tuple[Said, ...]:
    """Return the messages that warn: by scope and estimated speedup, then in the report's order.

    A message that says nothing of ours keeps its place; one that is about no defect at all has none.
    """
    messages = list(_said(results))
    return tuple(
        sorted(messages, key=lambda message: (_SCOPES.index(message.scope), -(message.speedup_percent or 0.0)))
    )


def _said(results: Iterable[RuleResult]) -> Iterator[Said]:
    for result in results:
        if result.kind not in SPEAKS:
            continue
        ours = _ours(result)
        if ours is not None:
            scope = result.speedup_scope if result.speedup_percent is not None else None
            yield Said(
                rule=result.rule,
                title=result.title,
                speedup_percent=result.speedup_percent,
                scope=scope if scope in _SCOPES else None,
                ours=ours,
            )


def _ours(result: RuleResult) -> tuple[str, ...] | None:
    """Return our rules for a message, none where it says nothing of ours; None where it is no diagnosis."""
    claim = claim_of(result)
    if claim is not None and claim.left_out is not None:
        return None
    if claim is not None and claim.ours != ("*",):
        return claim.ours
    if result.rule == "PCSamplingData":
        return None
    text = f"{result.title} {result.message}"
    by_phrase = next((ours for rule, phrase, ours in MORE if result.rule == rule and phrase in text), None)
    if by_phrase is None and result.rule == "SOLFPRoofline":
        return _by_peaks(text)
    return by_phrase or ()


def _by_peaks(text: str) -> tuple[str, ...]:
    """Read what NVIDIA's roofline rule warns of: FP64 work on a GPU that has little of it."""
    peaks = _ACHIEVED.search(text)
    return ("fp64-bound",) if peaks and int(peaks[2]) >= max(_FP64_OF_PEAK, int(peaks[1])) else ()
