"""Comparisons of reports of others: programs before and after a change, and two that have nothing in common."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len

from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import Comparison
from gpuprof.comparison.pair import NamedMatch
from gpuprof.comparison.sides import Run
from gpuprof.comparison.work.tolerances import tolerance_of
from gpuprof.views.comparison import whole_comparison
from gpuprof.views.document import Code, Fold, Table, text_of
from tests.cli import gpuprof
from tests.field.folder import folder, report
from tests.readings import session_of
from tests.test_compare_screen import lines_of

BASELINE, CHANGED = "gpu_workshop-MW_Baseline.ncu-rep", "gpu_workshop-MW_DivToMult.ncu-rep"
"""A program with FP64 divisions and without: one of five kernels is 1.8x faster without them."""
DIVISIONS = "compute_tendencies_x_279_gpu"


@cache
def compared(base: str, new: str, *matches: NamedMatch) -> Compared:
    sides = [[Run(name, session_of(report(name)))] for name in (base, new)]
    return compare(sides[0], sides[1], "0", matches)


def test_divisions_that_became_multiplications_are_told_in_time_work_and_lines() -> None:
    changed = compared(BASELINE, CHANGED)
    changes = {change.label: change for change in changed.comparison.kernels}
    assert len(changes) == 5 and {change.match for change in changes.values()} == {"exact"}
    assert changed.comparison.conditions == ()
    assert changed.comparison.total[0].ratio == pytest.approx(0.8228, abs=1e-4)
    fixed = changes.pop(DIVISIONS)
    assert (fixed.time.verdict, fixed.work.verdict, fixed.id, fixed.time.base_runs) == ("faster", "less", 0, 1)
    assert fixed.time.ratio == pytest.approx(0.56, abs=0.01)
    assert fixed.time.cycles_ratio == pytest.approx(fixed.time.ratio, rel=0.02)
    assert {change.work.verdict for change in changes.values()} == {"same"}
    # The evidence for the tolerances: no difference is beyond a third of what is allowed but that of DRAM bytes.
    counts = [count for change in changes.values() for count in change.work.counts]
    assert len(counts) > 100
    for count in counts:
        largest = max(count.base or 0.0, count.new or 0.0)
        room = 1.0 if count.name == "dram-bytes" else 2.5
        allowed = tolerance_of(count.name).band(largest)
        assert abs((count.new or 0.0) - (count.base or 0.0)) * room <= allowed + 1e-9 * largest, count
    blocks = whole_comparison(changed).blocks
    table = next(block for block in blocks if isinstance(block, Table) and block.label == "Kernels")
    assert text_of(table.rows[0][1]) == DIVISIONS
    section = next(block for block in blocks if isinstance(block, Fold) and block.anchor == "kernel-0")
    (code,) = (block for block in section.blocks if isinstance(block, Code))
    before, after = (line.text or "" for line in code.lines if line.number == "288")
    assert "/12" in before and "0.0833" in after


def test_the_gate_fails_one_way_round_alone(tmp_path: Path) -> None:
    limits = ("--fail-on", "instructions:1%", "--fail-on", "registers", "--format", "json")
    base, new = str(report(BASELINE)), str(report(CHANGED))
    assert gpuprof("compare", base, new, *limits, cwd=tmp_path).returncode == 0
    assert gpuprof("compare", base, base, *limits, cwd=tmp_path).returncode == 0
    back = gpuprof("compare", new, base, *limits, cwd=tmp_path)
    failed = [check for check in json.loads(back.stdout)["gate"]["checks"] if check["word"] == "regression"]
    assert back.returncode == 6 and {check["limit"] for check in failed} >= {"instructions:1%"}
    assert DIVISIONS in back.stderr.splitlines()[-1]


def matches(comparison: Comparison) -> list[tuple[str, str, str]]:
    return [
        (change.match, ", ".join(item.label for item in change.base), ", ".join(item.label for item in change.new))
        for change in comparison.kernels
    ]


def test_kernels_of_others_are_paired_by_function_and_never_across_programs() -> None:
    esmm = [f"esmm-research-profile{end}.ncu-rep" for end in ("-71fb9e5", "-26b457a", "", "_output")]
    tiles = matches(compared(esmm[0], esmm[1]).comparison)
    before, after = "warptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", "warptiling<128, 128, 32, 64, 32, 1, 8, 4, 256>"
    assert ("reconfigured", before, after) in tiles
    assert Counter(match for match, _, _ in tiles) == {"exact": 3, "reconfigured": 1, "new": 6}
    added = [pair for pair in matches(compared(esmm[1], esmm[2]).comparison) if pair[0] != "exact"]
    assert added == [("new", "", "esmm<128, 128, 16, 32, 64, 4, 1, 8, 256>")]
    steps = compared(esmm[3], esmm[3], NamedMatch("two_blocktiling", "vectorized")).comparison
    assert sorted((change.match, change.time.verdict) for change in steps.kernels) == [
        ("exact", "same"), ("exact", "same"), ("named", "unclear")
    ]  # fmt: skip
    assert set(matches(compared("cutlass-384.ncu-rep", "cutlass-report80.ncu-rep").comparison)) == {
        ("reconfigured", "cutlass B2bGemm 32x384x64 s8", "cutlass B2bGemm 192x384x128 s4"),
        ("gone", "cutlass Gemm 128x96x64 s8", ""),
    }
    for base, new in (
        ("cutlass-report-s8-persist.ncu-rep", "cutlass-384.ncu-rep"),
        ("indexspaces.jl-profile.ncu-rep", "indexspaces.jl-profile-3176628.ncu-rep"),
    ):
        assert {match for match, _, _ in matches(compared(base, new).comparison)} == {"gone", "new"}


def test_any_report_against_another_takes_a_screen() -> None:
    for path in sorted(folder().glob("*rep*")):
        for other in (path.name, BASELINE):
            for width in (60, 100):
                lines = lines_of(compared(path.name, other), width)
                assert len(lines) + 1 <= 30, "\n".join(lines)
                assert max(map(cell_len, lines)) <= width
