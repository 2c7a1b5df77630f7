"""All rules: limits, defects, and symptoms that are reported only if nothing else explains them."""

from __future__ import annotations

from gpuprof.diagnose.rule import AT_KERNEL, Rule
from gpuprof.diagnose.rules import (
    atomic_contention,
    barrier_wait,
    block_size,
    branch_divergence,
    constant_miss,
    debug_build,
    dependency_latency,
    dram_bandwidth,
    elementwise_chain,
    exposed_communication,
    exposed_copies,
    fp32_compute_bound,
    fp64_bound,
    host_memory_traffic,
    instruction_fetch,
    integer_bound,
    issue_bound,
    l1_bandwidth,
    l2_bandwidth,
    latency_bound,
    launch_configurations,
    launch_gaps,
    load_imbalance,
    local_memory_spill,
    low_occupancy,
    memory_latency,
    narrow_access,
    non_fused_fp,
    old_architecture,
    reduction_tree,
    shared_bandwidth,
    shared_bank_conflict,
    short_blocks,
    short_kernel,
    small_grid,
    special_function_bound,
    stores_nothing,
    tail_effect,
    tensor_compute_bound,
    tensor_cores_idle,
    unaligned_product,
    uncoalesced_global,
    unfused_attention,
    waiting_for_ranks,
)
from gpuprof.model.session import Finding

_MODULES = (
    stores_nothing,
    debug_build,
    old_architecture,
    dram_bandwidth,
    l2_bandwidth,
    l1_bandwidth,
    shared_bandwidth,
    host_memory_traffic,
    uncoalesced_global,
    shared_bank_conflict,
    local_memory_spill,
    narrow_access,
    atomic_contention,
    fp64_bound,
    fp32_compute_bound,
    integer_bound,
    issue_bound,
    special_function_bound,
    tensor_compute_bound,
    non_fused_fp,
    tensor_cores_idle,
    unaligned_product,
    unfused_attention,
    elementwise_chain,
    block_size,
    short_blocks,
    load_imbalance,
    small_grid,
    tail_effect,
    low_occupancy,
    short_kernel,
    launch_configurations,
    branch_divergence,
    memory_latency,
    dependency_latency,
    barrier_wait,
    instruction_fetch,
    constant_miss,
    latency_bound,
    reduction_tree,
    launch_gaps,
    exposed_copies,
    exposed_communication,
    waiting_for_ranks,
)
RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)

_BY_ID = {rule.id: rule for rule in RULES}
_UNKNOWN = Rule("", check=lambda _: iter(()), place=AT_KERNEL)


def rule_named(rule_id: str) -> Rule | None:
    """Return the rule of that id; None for one that this version does not know."""
    return _BY_ID.get(rule_id)


def rule_of(finding: Finding) -> Rule:
    """Return the rule of a finding; a plain defect for one that this version does not know."""
    return _BY_ID.get(finding.rule, _UNKNOWN)


def is_of_run(finding: Finding) -> bool:
    """Return whether a finding is about the run on a timeline, not about the kernel that has it."""
    return rule_of(finding).of_run
