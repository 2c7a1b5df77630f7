"""Warps wait for constants."""

from __future__ import annotations

from gpuprof.diagnose.wait_findings import rule_on_misses

RULE = rule_on_misses("constant-miss", "imc_miss")
