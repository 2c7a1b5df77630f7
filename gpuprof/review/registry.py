"""All rules on compiled code, in the order in which their families stand in the reference."""

from __future__ import annotations

from gpuprof.review.rules import (
    arithmetic,
    debug_build,
    divergent_barrier,
    memory,
    no_line_info,
    no_sass_for_target,
    old_architecture,
    resources,
)
from gpuprof.review.rules.rule import CodeRule, FileRule

CODE_RULES: tuple[CodeRule, ...] = (
    *memory.RULES,
    *resources.RULES,
    *arithmetic.RULES,
    divergent_barrier.RULE,
    debug_build.RULE,
    old_architecture.RULE,
)

FILE_RULES: tuple[FileRule, ...] = (no_sass_for_target.RULE, no_line_info.RULE)
"""Rules on files."""
