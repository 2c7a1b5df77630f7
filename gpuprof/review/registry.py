"""All rules on compiled code, in the order of the reference."""

from __future__ import annotations

from gpuprof.review.rules import (
    atomic_contention,
    block_size,
    debug_build,
    divergent_barrier,
    fp64_bound,
    integer_bound,
    local_memory_spill,
    low_occupancy,
    narrow_access,
    no_line_info,
    no_sass_for_target,
    non_fused_fp,
    old_architecture,
    shared_bank_conflict,
    special_function_bound,
    tensor_cores_idle,
    uncoalesced_global,
)
from gpuprof.review.rules.rule import CodeRule, FileRule

CODE_RULES: tuple[CodeRule, ...] = (
    uncoalesced_global.RULE,
    shared_bank_conflict.RULE,
    narrow_access.RULE,
    atomic_contention.RULE,
    local_memory_spill.RULE,
    low_occupancy.RULE,
    block_size.RULE,
    fp64_bound.RULE,
    special_function_bound.RULE,
    integer_bound.RULE,
    non_fused_fp.RULE,
    tensor_cores_idle.RULE,
    divergent_barrier.RULE,
    debug_build.RULE,
    old_architecture.RULE,
)

FILE_RULES: tuple[FileRule, ...] = (no_sass_for_target.RULE, no_line_info.RULE)
"""Rules on files."""
