"""All rules on compiled code, in the order of the reference."""

from __future__ import annotations

from gpuprof.review.rules import (
    arithmetic,
    atomic_contention,
    block_size,
    build,
    control,
    local_memory_spill,
    low_occupancy,
    narrow_access,
    shared_bank_conflict,
    uncoalesced_global,
)
from gpuprof.review.rules.rule import CodeRule

CODE_RULES: tuple[CodeRule, ...] = (
    uncoalesced_global.RULE,
    shared_bank_conflict.RULE,
    narrow_access.RULE,
    atomic_contention.RULE,
    local_memory_spill.RULE,
    low_occupancy.RULE,
    block_size.RULE,
    *arithmetic.RULES,
    *control.RULES,
    *build.RULES,
)
