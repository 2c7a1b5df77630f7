"""All rules on compiled code, in the order of the reference."""

from __future__ import annotations

from gpuprof.review.rules import (
    debug_build,
    divergent_barrier,
    fp64_bound,
    integer_bound,
    memory,
    no_line_info,
    no_sass_for_target,
    non_fused_fp,
    old_architecture,
    resources,
    special_function_bound,
    tensor_cores_idle,
)
from gpuprof.review.rules.rule import CodeRule, FileRule

CODE_RULES: tuple[CodeRule, ...] = (
    *memory.RULES,
    *resources.RULES,
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
