"""All rules on compiled code, in the order in which their families stand in the reference."""

from __future__ import annotations

from gpuprof.review.rules import arithmetic, build, control, memory, resources
from gpuprof.review.rules.rule import CodeRule

CODE_RULES: tuple[CodeRule, ...] = (
    *memory.RULES,
    *resources.RULES,
    *arithmetic.RULES,
    *control.RULES,
    *build.RULES,
)
