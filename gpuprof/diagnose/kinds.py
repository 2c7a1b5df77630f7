"""Consequences of a kernel's kind in a language model: its limit, rules and usual changes.

A kind adds its usual changes to the advice of the finding on the kernel's limit; it makes no
finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import LAUNCH
from gpuprof.diagnose.registry import is_of_run
from gpuprof.diagnose.rule import Rule
from gpuprof.diagnose.thresholds import WELL_USED
from gpuprof.model.findings import Label
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.session import Finding
from gpuprof.model.torch_ranges import innermost_operator

_BYTES = {"dram-bandwidth", "l2-bandwidth"}
_FILL = {"small-grid", "tail-effect", "load-imbalance", "latency-bound"}
_HELPED = {
    "bytes": _BYTES,
    "fill": _FILL,
    "launch": {"short-kernel"},
    "work": {
        "tensor-compute-bound", "fp32-compute-bound", "integer-bound", "issue-bound", "special-function-bound",
        "tensor-cores-idle",
    },
    "tensor": {"tensor-compute-bound"},
    "softmax": {"special-function-bound", "fp32-compute-bound"},
    "unpack": {"integer-bound", "fp32-compute-bound"},
    # Only fewer bytes or fusion make a pass over data faster.
    "fuse": _BYTES | _FILL | {"short-kernel", "memory-latency"},
}  # fmt: skip
"""The rules that a usual change helps, by the last word of its case."""

_FUSED = (
    "attention-combine", "gemm-reduce", "norm", "rotary", "softmax", "kv-write", "activation", "embedding", "sampling",
    "moe-routing", "quantise",
)  # fmt: skip
"""Kinds that are passes over data: fuse them into another kernel."""
_PREFILL = ("attention-prefill-tensor", "attention-prefill-softmax", "attention-prefill-fill")
_USUAL_CHANGES: Mapping[str, tuple[str, ...]] = {
    **{kind: (f"{kind}-fuse",) for kind in _FUSED},
    "attention": (*_PREFILL, "attention-decode-bytes"),
    "attention-decode": (
        "attention-decode-bytes", "attention-decode-fill", "attention-decode-work", "attention-decode-launch",
    ),
    "attention-prefill": _PREFILL,
    "attention-backward": ("attention-backward-fill",),
    "gemm": ("gemm-fill", "gemm-tensor"),
    "gemm-low-reuse": ("few-rows-bytes", "few-rows-fill", "few-rows-launch"),
    "gemv": ("few-rows-bytes", "gemv-fill", "few-rows-launch"),
    "gemm-grouped": ("gemm-grouped-bytes", "gemm-grouped-fill"),
    "gemm-quantised": ("few-rows-fill", "few-rows-launch", "gemm-quantised-bytes", "gemm-quantised-unpack"),
}  # fmt: skip
"""Usual changes of each kind: cases of the wording file `kinds`."""

_BACKWARD = re.compile(r"backward|(?:^|[^a-z])bwd|bprop|gradinput|_grad(?:_|$)", re.IGNORECASE)

_COMPILED_IN_LIBRARY = re.compile(
    r"(?:void )?(?:cutlass::Kernel2?<cutlass_\d+_|cutlass\d*x?_|nvjet|sm\d+_xmma_"
    r"|(?:maxwell|volta|turing|ampere|ada|hopper|blackwell)_\w*gemm)"
)
"""Kernels that cuBLAS and cuDNN contain: names without namespaces and arguments, as no template
has, or with such a name as their only argument."""
_OF_PYTORCH = re.compile(r"(?:void )?at::")
"""Kernels that PyTorch contains; some ncu versions leave `native::` out of their names."""
_FOR_USERS = frozenset(
    {
        "stores-nothing", "debug-build", "old-architecture", "host-memory-traffic", "atomic-contention", "fp64-bound",
        "tensor-compute-bound", "tensor-cores-idle", "short-kernel", "launch-configurations", "unaligned-product",
        "unfused-attention", "elementwise-chain",
    }
)  # fmt: skip
"""Rules on a kernel whose findings need no change of its code or launch."""
_ACTIONS_FOR_USERS = frozenset(
    {
        ("dram-bandwidth", "main"), ("l2-bandwidth", "once"), ("integer-bound", "makes-data"),
        *(("low-occupancy", case) for case in ("few-warps", "few-blocks", "queue", "unit-full")),
    }
)  # fmt: skip
"""Actions of other rules that need no such change, or none at all."""
_FOR_EXCHANGE = frozenset({"short-kernel", "host-memory-traffic"})
"""Rules that also apply to a kernel that waits for other GPUs.

It takes few blocks on purpose: others run beside it.
"""


def rules_of_kind(rules: tuple[Rule, ...], facts: KernelFacts) -> tuple[Rule, ...]:
    """Return the rules that apply to a kernel's kind.

    Exchange between GPUs waits for links and other ranks, unless it keeps a unit of its own GPU
    busy. That unit is then its limit, or the name means something else, such as a sum over a block.
    """
    kind = kind_named(facts.kernel.kind)
    if kind is None or kind.binds != "links":
        return rules
    if any(need >= WELL_USED for unit, need in facts.needs.items() if unit != LAUNCH):
        return rules
    return tuple(rule for rule in rules if rule.of_run or rule.id in _FOR_EXCHANGE)


def with_usual_change(found: Finding, facts: KernelFacts) -> Finding:
    """Return a finding with the changes that usually help a kernel of this kind."""
    kind = kind_named(facts.kernel.kind)
    changes = _USUAL_CHANGES.get(kind.id, ()) if kind is not None else ()
    usual = tuple(f"kinds/{change}" for change in changes if found.rule in _HELPED[change.rpartition("-")[2]])
    if kind is not None and kind.id in _FUSED and _is_backward(facts):
        usual = ()
    cases = found.cases
    change = _change_of_library(facts)
    if change is not None and _needs_code_change(found):
        advice = ("kinds/not-yours", *(usual or (change,)))
        return replace(found, cases=replace(cases, action=(change,), advice=advice))
    if kind is None or not usual:
        return found
    cases = replace(cases, advice=(*cases.advice, "kinds/for-kind", *usual))
    return replace(found, cases=cases, labels=(*found.labels, Label("kind", (kind.title,))))


def _change_of_library(facts: KernelFacts) -> str | None:
    """Return the case of what a user of a library can change of its kernel; None if a library does not contain it."""
    if _COMPILED_IN_LIBRARY.match(facts.kernel.demangled):
        return "kinds/another-algorithm"
    return "kinds/operation" if _OF_PYTORCH.match(facts.kernel.demangled) else None


def _needs_code_change(found: Finding) -> bool:
    """Return whether a finding's action changes the kernel's code or launch."""
    action = found.cases.action[0]
    if found.rule in _FOR_USERS or is_of_run(found):
        return False
    return "/" not in action and (found.rule, action) not in _ACTIONS_FOR_USERS


def _is_backward(facts: KernelFacts) -> bool:
    """Return whether a kernel or its operator computes gradients: what it reads was kept, not just computed."""
    operator = innermost_operator(facts.kernel.ranges)
    return any(map(_BACKWARD.search, (facts.kernel.demangled, operator)))
