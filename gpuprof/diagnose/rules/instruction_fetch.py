"""Warps wait for instructions."""

from __future__ import annotations

from gpuprof.diagnose.wait_findings import rule_on_misses

RULE = rule_on_misses("instruction-fetch", "no_instruction", "branch_resolving")
