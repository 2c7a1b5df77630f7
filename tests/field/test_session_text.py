"""Terminal and page on reports of others that lack work, architectures, shapes or durations."""

from __future__ import annotations

from gpuprof.present.figures import overview, without_point
from gpuprof.present.fix_text import fixes
from gpuprof.present.session_text import roof_text, verdict_text
from tests.field.folder import report
from tests.readings import shown_session_of
from tests.table import each_row
from tests.test_console import flat, shown
from tests.test_session_text import numbers, page_facts


@each_row(
    ("name", "counted", "drawn"),
    [
        ("hyper-spec-m-profile.ncu-rep", [1, 8, 2], 2),
        ("sglang-profile.ncu-rep", [1, 4, 2], 3),
        ("csv/bert-torch-details.csv", [9, 12, 91, 178, 26], 26),
    ],
)
def test_kernels_launches_and_configurations_are_counted(name: str, counted: list[float], drawn: int) -> None:
    read = shown_session_of(report(name))
    assert numbers(verdict_text(read))[: len(counted)] == counted
    assert f"of {drawn} " in overview(read).subtitle


@each_row("name", ["nukexc-profile.ncu-rep", "hyper-spec-m-profile.ncu-rep", "csv/rtx5090-details.csv"])
def test_reports_without_work_say_so(name: str) -> None:
    read = shown_session_of(report(name))
    facts = page_facts(read)
    assert "work" not in facts["Collected"].split(", ")
    assert facts["Not collected"].startswith("FP64, FP32, FP16") and "--set full" in facts["Not collected"]
    assert "FP64, FP32" in without_point(read.kernels[0]).why


def test_a_table_without_an_architecture_is_told_as_far_as_it_is_known() -> None:
    read = shown_session_of(report("csv/bert-torch-details.csv"))
    (gap,) = (gap for gap in read.kernels[0].missing if gap.what == "peak.fp32")
    assert "sm_" not in gap.why
    assert {roof_text(item) for item in read.kernels} == {"no ceiling known", "no traffic", "no FLOP"}
    facts = page_facts(read, 18)
    assert facts["Grid"].startswith("16 blocks, ") and facts["Grid"].endswith("0.07 waves")
    assert facts["Block"].startswith("256 threads, ")


def test_equal_launches_without_durations_and_many_launches_of_one_kernel() -> None:
    read = shown_session_of(report("darknet-profile.nsight-cuprof-report"))
    facts = page_facts(read, 0)
    assert facts["Duration"] == "not collected" and facts["Occupancy"].startswith("100 % theoretical")
    assert "launches 7 equal launches" in flat(shown(read))
    read = shown_session_of(report("csv/interpolate-with-program-output.csv"))
    named = [(item.rule, item.action) for item in fixes(read)]
    assert len(set(named)) == len(named) >= 1
