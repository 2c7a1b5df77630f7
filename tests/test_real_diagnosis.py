"""Properties of the findings of every report: order, gains as fractions, whole texts, and the JSON schema."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuprof.diagnose.calibration import expected_saving
from gpuprof.diagnose.ranking import in_order
from gpuprof.diagnose.recommendations import is_recommendation
from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.thresholds import LOW
from gpuprof.model.session import Session
from gpuprof.store.write import session_lines
from tests.readings import session_of
from tests.worded import grouped

SCHEMA = Path(__file__).resolve().parents[1] / "docs" / "reference" / "session.schema.json"


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def assert_by_the_schema(session: Session) -> None:
    document = json.loads("\n".join(session_lines(session)))
    assert [error.message for error in validator().iter_errors(document)] == []


def test_findings_are_in_order_whole_and_their_gains_are_fractions(real_report: Path) -> None:
    run = session_of(real_report)
    assert_by_the_schema(run)
    for kernel in run.kernels:
        assert in_order(kernel.findings) == kernel.findings
        for finding in kernel.findings:
            assert rule_named(finding.rule) is not None
            assert finding.cause is None or finding.severity == "info"
            assert finding.confidence != "guess" or finding.severity in ("low", "info")
            if (gain := finding.gain_kernel) is not None:
                share = kernel.time_share
                assert 0 <= gain <= 1
                assert finding.gain_total == (pytest.approx(gain * share) if share is not None else None)
            texts = f"{finding.headline} {finding.why} {finding.advice}".split()
            assert finding.why.endswith(".") and not {*texts} & {"None", "nan", "inf"}
            assert finding.evidence and all(item.unit for item in finding.evidence)
            if finding.place is not None and finding.place.share is not None:
                assert 0 < finding.place.share <= 1 + 1e-9
        for language in ("source", "sass"):
            lines = [line for part in kernel.excerpts if part.language == language for line in part.lines]
            assert sum(line.share for line in lines) <= 1 + 1e-9
            assert all(sum(stall.share for stall in line.stalls) <= 1 + 1e-9 for line in lines)
        assert all(max((line.share for line in part.lines), default=0.0) > 0 for part in kernel.excerpts)


def test_fixes_come_by_expected_saving_the_verdict_is_of_a_kernel_and_groups_keep_the_time(real_report: Path) -> None:
    run = session_of(real_report)
    told = Counter(name for item in run.recommendations for name in item.findings)
    able = {finding.id for kernel in run.kernels for finding in kernel.findings if is_recommendation(kernel, finding)}
    assert set(told) <= able and set(told.values()) <= {1}
    tiers = [(item.set_up, item.rule != "debug-build") for item in run.recommendations]
    assert tiers == sorted(tiers)
    proven = [item for item in run.recommendations if item.confidence != "guess" and item.gain_total is not None]
    for first, later in combinations(proven, 2):
        if first.set_up == later.set_up and first.rule != "debug-build":
            savings = [expected_saving(item.gain_total, item.confidence) for item in (first, later)]
            assert savings[0] >= savings[1] - LOW
    verdict = run.verdict
    assert verdict is not None and verdict.kernel in {kernel.id for kernel in run.kernels}
    assert verdict.sentence.endswith(".") and not {"None", "nan", "inf"} & set(verdict.sentence.split())
    assert (verdict.fraction is None) is (verdict.ceiling is None)
    assert verdict.fraction is None or 0 <= verdict.fraction < 1.1
    together = grouped(run)
    for amount in ("launches", "time_total_s", "time_share"):
        before, after = (sum(getattr(kernel, amount) or 0 for kernel in some.kernels) for some in (run, together))
        assert after == pytest.approx(before)
    if together is not run:
        assert_by_the_schema(together)
