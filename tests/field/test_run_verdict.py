"""Verdicts on reports and traces of other people's programs."""

from __future__ import annotations

import pytest

from gpuprof.model.run_totals import busy_share
from gpuprof.words.findings import run_sentence
from tests.field.folder import report
from tests.readings import session_of
from tests.table import each_row

BASELINE, DIV_TO_MULT = "gpu_workshop-MW_Baseline.ncu-rep", "gpu_workshop-MW_DivToMult.ncu-rep"
TRACE = "traces/miniweather-gp100.nsys.sqlite"
RESNET = "traces/resnet50-v100.pt.trace.json.gz"


@each_row(
    ("file", "state", "shows", "command"),
    [
        (BASELINE, "limited", ("compute_tendencies_x_279_gpu (40 %", "70 %"), ""),
        ("cutlass-384.ncu-rep", "unfilled", ("54 %", "22 %"), ""),
        ("cutlass-report80.ncu-rep", "void", (), ""),
        ("sglang-profile.ncu-rep", "open", (), "--kernel-name flash_fwd_kernel --launch-count 1 "),
        ("esmm-research-profile.ncu-rep", "open", ("basic (70 %",), "--launch-count 1 -o basic-full"),
        ("csv/rtx5090-roofline-section.csv", "open", ("54 %",), "--launch-count 1 -o kernel-full PROGRAM"),
        # Idle time comes first if it exceeds every kernel's time.
        (TRACE, "unfilled", ("68 % of the 189 ms", "compute_tendencies_z_334_gpu (41 %"), "gpuprof run --survey"),
        (RESNET, "open", ("43 % of a step", "178 ms"), "gpuprof run --survey"),
    ],
)  # fmt: skip
def test_reports_have_their_states_and_commands(file: str, state: str, shows: tuple[str, ...], command: str) -> None:
    verdict = session_of(report(file)).verdict
    assert verdict is not None and verdict.state == state
    assert [text for text in shows if text not in verdict.sentence] == []
    assert (verdict.command is None) is (command == "") and command in (verdict.command or "")
    # V100, whose DRAM has one clock: 612 of 1295 MHz, and 416 of 877 MHz in launches of 11 µs and of 6 ms: no note.
    if file in (BASELINE, TRACE):
        assert verdict.notes == ()


@each_row(
    ("file", "idle", "before", "span_s", "before_s", "what"),
    [
        (TRACE, 0.675, 0.573, 0.1890, 0.0731, "before launches of set_halo_values_x_395_gpu"),
        (RESNET, 0.434, 0.768, 1.0656 / 6, 0.3548 / 6, "before host-to-device copies"),
    ],
)
def test_idle_time_of_a_run_is_given_to_what_follows_it(
    file: str, idle: float, before: float, span_s: float, before_s: float, what: str
) -> None:
    kernels = session_of(report(file)).kernels
    ((label, finding),) = ((one.label, item) for one in kernels for item in one.findings if item.rule == "launch-gaps")
    amounts = {amount.name: amount.value for amount in finding.amounts}
    names = ("idle", "idle_before", "span", "time_before")
    assert [amounts[name] for name in names] == pytest.approx([idle, before, span_s, before_s], rel=2e-3)
    assert what in run_sentence(finding, label, file)


def test_a_gemm_that_stores_nothing_and_a_debug_build_come_before_all_else() -> None:
    assert [item.rule for item in session_of(report("cutlass-report80.ncu-rep")).recommendations] == ["stores-nothing"]
    debug = session_of(report("cudacode-profile.ncu-rep"))
    assert [item.rule for item in debug.recommendations] == ["debug-build"]
    # What NVIDIA's ncu lists of them: 34 of 109 instructions and 63 of 184, without padding.
    assert [round(kernel.findings[0].evidence[0].value) for kernel in debug.kernels] == [31, 34]
    for file in (BASELINE, "cutlass-384.ncu-rep", "sglang-profile.ncu-rep"):
        rules = {finding.rule for kernel in session_of(report(file)).kernels for finding in kernel.findings}
        assert rules and not rules & {"debug-build", "old-architecture", "reduction-tree"}


def test_gains_of_a_trace_are_of_the_traced_time() -> None:
    session = session_of(report(TRACE))
    # After its start-up the kernels take 59.9 of 189 ms: none of their fixes saves more, and all together no more
    # than there is.
    busy = busy_share(session)
    assert busy == pytest.approx(0.3169, rel=0.01)
    of_kernels = [item for item in session.recommendations if item.rule != "launch-gaps"]
    assert of_kernels and all((item.gain_total or 0.0) <= busy for item in of_kernels)
    assert sum(item.gain_after or 0.0 for item in session.recommendations) <= 1.0
    assert session.recommendations[0].rule == "launch-gaps"


def test_versions_of_a_program_have_shares_of_their_own_and_are_compared_in_cycles() -> None:
    verdict = session_of(report(BASELINE), report(DIV_TO_MULT)).verdict
    # 5.62 and 5.59 of 28.2 ms: 20 % in each report, 40 % in both.
    assert verdict is not None and "semi_discrete_step_232_gpu (20 %" in verdict.sentence
    # 11.4 and 12.8 µs of one code, 8930 and 9079 cycles; DRAM's cycles at 481 and 532 MHz.
    assert "710 MHz" in verdict.notes[-1] and "784 MHz" in verdict.notes[-1]
