"""Counters of a hand-picked set: all of them are shown, and a few answer what was asked."""

from __future__ import annotations

from pathlib import Path

from gpuprof.model.collected import MOST_COLLECTED
from gpuprof.model.session import Answer, KernelProfile
from gpuprof.views.exports.tables import kernel_rows
from gpuprof.views.profile import session_page
from tests.cli import gpuprof
from tests.kernels import Made, Values, busy, made, session
from tests.table import each_row

_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_ACCESSES = "smsp__inst_executed_op_shared_{}.sum"
_ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"
_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
_USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"
_LOCAL = "smsp__inst_executed_op_local_{}.sum"
WIDE_LOADS = {
    # 1000 loads of 16 bytes per thread take 4000 wavefronts, and conflicts 40 more.
    _CONFLICTS.format("ld"): 40.0, _WAVEFRONTS.format("ld"): 4040.0, _ACCESSES.format("ld"): 1000.0,
    _CONFLICTS.format("st"): 0.0, _WAVEFRONTS.format("st"): 4000.0, _ACCESSES.format("st"): 1000.0,
}  # fmt: skip
TEXT = """
  load_tile(const float *, float *) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Command line profiler metrics
    -------------------------------------------------------- ----------- ------------
    Metric Name                                              Metric Unit Metric Value
    -------------------------------------------------------- ----------- ------------
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum                       40
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum                         4040
    lts__t_sectors_op_read.sum                                    sector        12345
    -------------------------------------------------------- ----------- ------------
"""


def kernel(*parts: Values) -> KernelProfile:
    return made(*parts).profile()


def answers(*parts: Values) -> list[str]:
    return [answer.text.replace("\u202f", " ") for answer in kernel(*parts).answers]


def test_every_counter_of_a_hand_picked_set_is_in_the_session_and_in_the_table() -> None:
    collected = {counter.name: counter.value for counter in kernel(WIDE_LOADS).collected}
    assert collected == WIDE_LOADS
    (row,) = kernel_rows(session(made(WIDE_LOADS)))
    assert WIDE_LOADS.items() <= row.items()


def test_they_are_printed_with_their_units_and_are_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(TEXT, encoding="utf-8")
    printed = gpuprof("show", "--kernel", "#0", tmp_path / "log.txt").stdout
    rows = [line.split("  ") for line in printed.splitlines()]
    cells = [[cell.strip() for cell in row if cell] for row in rows]
    assert ["lts__t_sectors_op_read.sum", "12\u202f345", "sector"] in cells
    assert ["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "4\u202f040"] in cells
    assert "a guess: small grid. Hardly any bank conflicts:" in " ".join(printed.split())
    page = session_page(session(made(WIDE_LOADS)))
    assert "Other counters that were collected (6)" in page and "<dd>6 counters</dd>" in page


def test_the_verdict_on_a_timed_launch_has_the_answer_and_does_not_call_it_only_timed() -> None:
    verdict = session(made(WIDE_LOADS, {"gpu__time_duration.sum": 1e-3})).verdict
    assert verdict is not None
    state, _, answer = verdict.sentence.partition(". ")
    assert state.endswith("has no counters that show what limits it")
    assert answer.startswith("Hardly any bank conflicts: 0.99 %")


def test_what_another_part_of_the_profile_shows_is_not_repeated() -> None:
    known = {"gpu__time_duration.sum": 1e-3, "dram__bytes.sum": 1e6, "launch__registers_per_thread": 32.0}
    assert kernel(known, busy(sm=50.0)).collected == ()


def test_more_than_a_hundred_are_of_sections_and_only_counted() -> None:
    many = {f"unit__counter_{number}.sum": 1.0 for number in range(MOST_COLLECTED + 1)}
    profile = kernel(many)
    assert (profile.collected, profile.collected_total) == ((), MOST_COLLECTED + 1)
    assert "101 more counters are in the report" in session_page(session(made(many)))


@each_row(
    ("values", "expected"),
    [
        (
            WIDE_LOADS,
            "Hardly any bank conflicts: 0.99 % of 4 040 load wavefronts; a load takes 4.04 wavefronts, and "
            "needs 4.00 for 16 bytes per thread",
        ),
        ({_CONFLICTS.format("ld"): 0.0}, "No bank conflicts in shared-memory loads"),
        (
            {_ACTIVE: 32.0, _UNIFORM: 0.0},
            "No divergence: 32 of 32 threads active per instruction, and no branch was executed",
        ),
        (
            {_ACTIVE: 28.0, _UNIFORM: 90.0},
            "Little divergence: 28 of 32 threads active per instruction; 90 % of branches are uniform",
        ),
        ({_USED.format("ld"): 32.0}, "Global loads are coalesced: they use 32 of 32 bytes per sector"),
        (
            {_SECTORS.format("st"): 4.0},
            "Global stores take 4 sectors per request, no more than 4 bytes per thread need",
        ),
        ({_LOCAL.format("ld"): 0.0, _LOCAL.format("st"): 0.0}, "No local memory is used, so nothing is spilled"),
    ],
)
def test_a_few_counters_answer_what_they_were_collected_for(values: Values, expected: str) -> None:
    assert answers(values) == [expected]


@each_row(
    ("launch", "rule"),
    [
        (made(WIDE_LOADS, {_CONFLICTS.format("ld"): 2020.0}), "shared-bank-conflict"),
        (made({_ACTIVE: 8.0}), "branch-divergence"),
    ],
)
def test_a_fault_that_they_count_is_a_finding_and_no_answer(launch: Made, rule: str) -> None:
    assert launch.findings(rule)
    assert not launch.profile().answers


@each_row(
    "values",
    [
        {_CONFLICTS.format("ld"): 40.0},
        {_CONFLICTS.format("ld"): 0.0, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 7.0},
        {_UNIFORM: 0.0},
        {_SECTORS.format("ld"): 9.0},
        {_LOCAL.format("ld"): 0.0},
        {**WIDE_LOADS, **busy(sm=50.0)},
    ],
)
def test_nothing_is_answered_that_they_do_not_show_or_that_findings_judge(values: Values) -> None:
    assert answers(values) == []


def test_an_answer_of_a_saved_session_keeps_its_sentence() -> None:
    (answer,) = kernel({_CONFLICTS.format("ld"): 0.0}).answers
    assert answer == Answer(
        rule="shared-bank-conflict",
        text="No bank conflicts in shared-memory loads",
        cases=("no-conflicts",),
        labels=answer.labels,
    )
