"""What causes excess by the code alone, where it was not counted by instruction: a real recording, hand-made code."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuprof
from gpuprof.diagnose.case import EXECUTED, SAMPLES, opcode_of
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Finding, KernelProfile
from gpuprof.read import source_text
from tests.cuda_tools import needs_cuda_wheels
from tests.kernels import Made, Program, busy, made
from tests.real_sessions import loaded
from tests.table import each_row
from tests.test_access_shape import compiled

RECORDED = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3" / "run-launches"
USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
SURE = "share of the excess that only this pattern can cause, by the code"
TOO_MANY_ADDRESSES = "Let consecutive threads access consecutive addresses"

# Addresses of a thread: R4 is in its row, R8 follows a loaded index, R10 is its own word of an array. A row is longer
# than the code says. R12 was spilled, so that nothing is known of it; R14 is every other word.
INDEX = (
    "S2R R0, SR_TID.X", "IMAD R4, R0, c[0x0][0x168], R2", "LEA R10, P0, R0, c[0x0][0x160], 0x2", "STL [R1], R10",
    "LDL R12, [R1]", "LEA R14, P0, R0, c[0x0][0x160], 0x3",
)  # fmt: skip
COLUMN, ANOTHER, WORD, LOST = (
    "LDG.E R6, [R4.64]",
    "LDG.E R7, [R4.64+0x4000]",
    "LDG.E R5, [R10.64]",
    "LDG.E R6, [R12.64]",
)
LOOK_UP = "IMAD.WIDE R8, R5, 0x4, R2", "LDG.E R6, [R8.64]"
EVERY_OTHER = "LDG.E R6, [R14.64]"
WRITE_COLUMN, WRITE_WORD = "STG.E [R4.64], R6", "STG.E [R10.64], R6"


def moved(kind: str, requests: float, sectors: float, needed: float) -> dict[str, float]:
    """What is counted of all loads or stores together."""
    return {
        SECTORS.format(kind): sectors, REQUESTS.format(kind): requests, USED.format(kind): 32 * needed / sectors,
    }  # fmt: skip


def ran(*lines: str | tuple[str, float], weight: str = EXECUTED) -> Made:
    """A launch of this code behind that of the addresses, each line a thousand times unless it says otherwise."""
    runs = [line if isinstance(line, tuple) else (line, 1000.0) for line in (*INDEX, *lines, "EXIT")]
    code = tuple(
        ProfiledInstruction(pc=16 * at, sass=sass, file="k.cu", line=at - len(INDEX) + 1, counts={weight: count})
        for at, (sass, count) in enumerate(runs)
    )
    return made(
        busy(dram=90), histograms={weight: {item.pc: item.counts[weight] for item in code}}, details=Program(code)
    )


def finding(launch: Made) -> Finding:
    return launch.finding("uncoalesced-global")


def line(launch: Made) -> int | None:
    """The line that the rule names; None where it names none."""
    place = finding(launch).location
    return place.line if place is not None else None


def by_code(told: Finding) -> list[Evidence]:
    return [item for item in told.evidence if "by the code" in item.meaning or "in the code" in item.meaning]


# A run of `gpuprof run`, whose counters tell of all instructions together


def recorded_kernel(path: Path, name: str) -> KernelProfile:
    return next(kernel for kernel in loaded(path).kernels if kernel.name == name)


def test_a_recorded_transpose_is_placed_as_with_counts_of_each_instruction() -> None:
    told, counted = (
        next(item for item in recorded_kernel(path, "transpose").findings if item.rule == "uncoalesced-global")
        for path in (RECORDED / "run" / "profile.ncu-rep", RECORDED / "full.ncu-rep")
    )
    assert told.location is not None and counted.location is not None
    assert (told.location.file or "").endswith("launches.cu") and told.location.line == 58
    assert (told.location.line, told.location.sass) == (counted.location.line, counted.location.sass)
    assert (told.action, told.advice, told.why) == (counted.action, counted.advice, counted.why)
    assert "Reading more bytes per thread does not help" in told.advice


def test_what_was_not_counted_is_said_to_be_of_the_code() -> None:
    kernel = recorded_kernel(RECORDED / "run" / "profile.ncu-rep", "transpose")
    told = next(item for item in kernel.findings if item.rule == "uncoalesced-global")
    assert told.location is not None and told.location.share is None
    assert [(item.value, item.unit) for item in by_code(told)][:2] == [(1, "instruction"), (4, "B")]
    # 524 288 stores touch at most 28 sectors more than they fill. 16 833 533 sectors were counted, 7 of 8 bytes unused.
    share = next(item for item in told.evidence if item.meaning == SURE)
    assert share.value == pytest.approx(100 * 524_288 * 28 / (16_833_533 * 7 / 8))
    assert not any("sectors per request" in item.meaning for item in told.evidence)


def test_a_recorded_kernel_without_excess_has_nothing_to_place() -> None:
    kernel = recorded_kernel(RECORDED / "run" / "profile.ncu-rep", "saxpy")
    assert not [item for item in kernel.findings if item.rule == "uncoalesced-global"]


@each_row("report", ["run/profile.ncu-rep", "full.ncu-rep"])
def test_without_a_disassembler_recorded_findings_keep_file_and_line(
    report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_text, "disassembler_for", lambda target: None)
    places = {
        (kernel.name, finding.rule): (Path(finding.location.file or "").name, finding.location.line)
        for kernel in gpuprof.load(RECORDED / report).kernels
        for finding in kernel.findings
        if finding.location is not None and finding.location.sass is None
    }
    assert places["transpose", "uncoalesced-global"] == ("launches.cu", 58)
    assert places["transpose", "memory-latency"] == ("launches.cu", 58)
    assert places["saxpy", "dram-bandwidth"] == ("launches.cu", 51)


# Which access it is


def test_one_column_among_words_is_named() -> None:
    launch = ran(WORD, COLUMN, WRITE_WORD).plus(moved("ld", 2000, 36e3, 8e3))
    told = finding(launch)
    assert (line(launch), told.action) == (2, TOO_MANY_ADDRESSES)
    # The word can cause a sector of 28 a request, where its row begins inside one.
    assert [item.value for item in told.evidence if item.meaning == SURE] == pytest.approx([100 * 27 / 28])


def test_a_look_up_is_named_and_has_its_own_advice() -> None:
    launch = ran(WORD, *LOOK_UP).plus(moved("ld", 2000, 34e3, 8e3))
    assert line(launch) == 3
    assert finding(launch).action.startswith("Order indices or data")


def test_columns_on_two_lines_tell_the_shape_but_no_line() -> None:
    launch = ran(COLUMN, ANOTHER).plus(moved("ld", 2000, 64e3, 8e3))
    assert line(launch) is None
    assert "Reading more bytes per thread does not help" in finding(launch).advice
    assert by_code(finding(launch))[0].value == 2


def test_of_columns_on_two_lines_one_that_runs_far_more_often_is_named() -> None:
    often = ran((COLUMN, 1000.0), (ANOTHER, 9000.0)).plus(moved("ld", 10e3, 320e3, 40e3))
    assert line(often) == 2
    assert line(ran((COLUMN, 5000.0), (ANOTHER, 5000.0)).plus(moved("ld", 10e3, 320e3, 40e3))) is None


def test_a_column_and_a_look_up_alike_leave_the_advice_to_the_counters() -> None:
    launch = ran(WORD, *LOOK_UP, COLUMN).plus(moved("ld", 3000, 68e3, 12e3))
    assert (line(launch), by_code(finding(launch))) == (None, [])
    assert "swapping the index is wrong" in finding(launch).advice
    # Stores that cause half each: neither is the cause of most.
    halves = ran(WORD, LOOK_UP[0], "STG.E [R8.64], R6", WRITE_COLUMN).plus(moved("st", 2000, 64e3, 8e3))
    assert (line(halves), by_code(finding(halves))) == (None, [])


def test_only_the_direction_that_is_wasteful_is_looked_at() -> None:
    both = ran(COLUMN, WRITE_COLUMN)
    assert line(both.plus(moved("ld", 1000, 4e3, 4e3), moved("st", 1000, 32e3, 4e3))) == 2
    assert line(both.plus(moved("ld", 1000, 32e3, 4e3), moved("st", 1000, 4e3, 4e3))) == 1
    assert line(both.plus(moved("ld", 1000, 32e3, 4e3), moved("st", 1000, 32e3, 4e3))) is None


def test_words_side_by_side_are_not_named() -> None:
    launch = ran(WORD, WRITE_WORD).plus(moved("ld", 1000, 5e3, 4e3))
    assert (line(launch), by_code(finding(launch))) == (None, [])


def test_a_rare_column_is_not_blamed_for_words_that_begin_inside_a_sector() -> None:
    # 10 requests of the column can cause 280 sectors; the words have one more than they need each.
    rare = ran(WORD, (COLUMN, 10.0))
    assert line(rare.plus(moved("ld", 1010, 5.28e3, 4e3))) is None
    # Nor for more than that, whatever else caused it.
    assert line(rare.plus(moved("ld", 1010, 7e3, 4e3))) is None


def test_a_column_whose_excess_words_could_have_caused_is_not_named() -> None:
    # Were the row a word long, the column would be no worse than the words, which run a hundred times as often.
    launch = ran(WORD, (COLUMN, 100.0))
    assert line(launch.plus(moved("ld", 1100, 5.4e3, 4.4e3))) is None
    assert line(launch.plus(moved("ld", 1100, 7.2e3, 4.4e3))) == 2


def test_an_access_that_is_not_understood_may_be_the_cause() -> None:
    excess = moved("ld", 2000, 36e3, 8e3)
    assert line(ran(LOST, COLUMN).plus(excess)) is None
    assert line(ran((LOST, 10.0), COLUMN).plus(excess)) == 2
    assert line(ran(WORD, LOST).plus(excess)) is None


def test_code_that_does_not_run_is_left_out() -> None:
    assert line(ran((ANOTHER, 0.0), COLUMN).plus(moved("ld", 1000, 32e3, 4e3))) == 2


def test_lanes_that_are_known_to_be_near_cannot_cause_what_far_ones_do() -> None:
    # Every other word fills half of 8 sectors. Of 32 sectors too many, a column can have 28, two of them each.
    assert line(ran(EVERY_OTHER, COLUMN).plus(moved("ld", 2000, 40e3, 8e3))) == 2
    assert line(ran(ANOTHER, COLUMN).plus(moved("ld", 2000, 40e3, 8e3))) is None


def test_short_rows_that_are_far_apart_cannot_cause_what_far_lanes_do() -> None:
    # Eight rows of four words each fill half a sector, and may lie in two: 16 of 32 sectors too many remain.
    rows = (
        "SHF.R.U32.HI R16, RZ, 0x2, R0", "LOP3.LUT R17, R0, 0x3, RZ, 0xc0, !PT", "IMAD.SHL.U32 R17, R17, 0x4, RZ",
        "IMAD R18, R16, c[0x0][0x170], R17", "LDG.E R6, [R18.64]",
    )  # fmt: skip
    assert line(ran(*rows, COLUMN).plus(moved("ld", 2000, 40e3, 8e3))) == 6


def test_an_address_of_a_form_that_is_not_known_may_be_the_cause() -> None:
    assert line(ran("LDG.E R6, [R4.64+UR4]", COLUMN).plus(moved("ld", 2000, 36e3, 8e3))) is None
    assert line(ran("LDG.E R6, [R4?]", COLUMN).plus(moved("ld", 2000, 36e3, 8e3))) is None


def test_code_of_which_a_part_is_not_known_leaves_open_what_else_there_is() -> None:
    excess = moved("ld", 1000, 32e3, 4e3)
    assert line(ran("NOP", COLUMN).plus(excess)) == 2
    assert line(ran("", COLUMN).plus(excess)) is None
    assert line(ran("@@", COLUMN).plus(excess)) is None


# Without text, where machine code tells what an instruction is and not which addresses it has

LOAD_CODE, STORE_CODE, FROM_TILE, INTO_TILE, OTHER = 0x7981, 0x7986, 0x7984, 0x7388, 0x7918


def encoded(*code: int | tuple[int, float], called: int = 0, weight: str = EXECUTED) -> Made:
    """A launch of this machine code without text, each instruction on a line of its own, from 1 on.

    The last ones, `called` of them, are of a function elsewhere, whose machine code is not known.
    """
    runs = [each if isinstance(each, tuple) else (each, 1000.0) for each in code]
    own = len(runs) - called
    items = tuple(
        ProfiledInstruction(16 * at + (4096 if at >= own else 0), "", "k.cu", at + 1, {weight: count})
        for at, (_, count) in enumerate(runs)
    )
    machine = b"".join(word.to_bytes(16, "little") for word, _ in runs[:own])
    executed: dict[str | int, float] = {item.pc: item.counts[weight] for item in items}
    return made(busy(dram=90), histograms={weight: executed}, details=Program(items, machine=machine))


def test_without_text_the_only_access_of_the_wasteful_kind_is_named() -> None:
    launch = encoded(LOAD_CODE, STORE_CODE, LOAD_CODE, OTHER)
    assert line(launch.plus(moved("ld", 2000, 8e3, 8e3), moved("st", 1000, 32e3, 4e3))) == 2
    assert line(launch.plus(moved("ld", 2000, 64e3, 8e3), moved("st", 1000, 4e3, 4e3))) is None
    assert by_code(finding(launch.plus(moved("st", 1000, 32e3, 4e3)))) == []


def test_without_text_executions_tell_which_of_two_lines_it_can_be() -> None:
    excess = moved("st", 10e3, 320e3, 40e3)
    assert line(encoded((STORE_CODE, 1000.0), (STORE_CODE, 9000.0)).plus(excess)) == 2
    assert line(encoded((STORE_CODE, 5000.0), (STORE_CODE, 5000.0)).plus(excess)) is None
    assert line(encoded((STORE_CODE, 0.0), (STORE_CODE, 10e3)).plus(excess)) == 2


def test_without_text_and_executions_the_only_access_is_named() -> None:
    excess = moved("st", 1000, 32e3, 4e3)
    assert line(encoded(LOAD_CODE, STORE_CODE, weight=SAMPLES).plus(excess)) == 2
    assert line(encoded(STORE_CODE, STORE_CODE, weight=SAMPLES).plus(excess)) is None


def test_without_text_a_called_function_may_be_the_cause() -> None:
    excess = moved("st", 1000, 32e3, 4e3)
    assert line(encoded(STORE_CODE, OTHER, OTHER).plus(excess)) == 1
    assert line(encoded(STORE_CODE, OTHER, OTHER, called=1).plus(excess)) is None


def test_without_text_the_only_access_of_shared_memory_has_the_conflicts() -> None:
    told = conflicts(encoded(LOAD_CODE, FROM_TILE, STORE_CODE), 31e3, 32e3)
    assert told.location is not None and (told.location.line, told.location.sass) == (2, None)
    assert told.evidence[-1].value == 100
    assert conflicts(encoded(INTO_TILE, FROM_TILE), 31e3, 32e3).location is None
    rare = conflicts(encoded((INTO_TILE, 100.0), FROM_TILE), 31e3, 32e3)
    assert rare.location is not None and rare.location.line == 2


# What a report may lack


def test_without_executions_the_only_candidate_is_named_and_no_share() -> None:
    excess = moved("ld", 2000, 36e3, 8e3)
    alone = ran(WORD, COLUMN, weight=SAMPLES).plus(excess)
    assert line(alone) == 2
    assert not any(item.meaning == SURE for item in finding(alone).evidence)
    assert line(ran(COLUMN, ANOTHER, weight=SAMPLES).plus(excess)) is None
    assert by_code(finding(ran(LOST, COLUMN, weight=SAMPLES).plus(excess))) == []


def test_without_sectors_the_only_candidate_is_named_and_no_share() -> None:
    launch = ran(WORD, COLUMN, WRITE_COLUMN).plus({USED.format("ld"): 7.1})
    assert line(launch) == 2
    assert not any(item.meaning == SURE for item in finding(launch).evidence)


def test_without_sectors_code_that_does_not_run_is_left_out_too() -> None:
    assert line(ran((ANOTHER, 0.0), COLUMN).plus({USED.format("ld"): 7.1})) == 2


def test_sectors_of_a_request_tell_the_direction_too() -> None:
    launch = ran(COLUMN, WRITE_COLUMN).plus({SECTORS.format("st"): 32e3, REQUESTS.format("st"): 1000.0})
    assert line(launch) == 2


def test_without_code_nothing_is_named() -> None:
    launch = made(busy(dram=90), moved("ld", 1000, 32e3, 4e3))
    assert (finding(launch).location, by_code(finding(launch))) == (None, [])


@each_row("broken", ["BRX R2 -0x10", "HFMA2", "BRA 0xffff", "IMAD R4,,", "LDG.E [", "S2R"])
def test_code_that_cannot_be_followed_does_not_stop_the_rule(broken: str) -> None:
    assert finding(ran(broken, COLUMN).plus(moved("ld", 1000, 32e3, 4e3))).gain_kernel is not None


@needs_cuda_wheels
@each_row(
    ("name", "kind", "sectors", "action"),
    [
        ("transposed", "st", 32, TOO_MANY_ADDRESSES),
        ("gather", "ld", 32, "Order indices or data"),
        ("own_part", "st", 32, "Read a thread's neighbouring words"),
        ("divided", "ld", 32, TOO_MANY_ADDRESSES),
        ("quads", "ld", 8, "Give a warp whole rows"),
    ],
)
def test_compiled_kernels_with_one_culprit_have_it_named(name: str, kind: str, sectors: int, action: str) -> None:
    code = tuple(
        ProfiledInstruction(pc=item.address, sass=str(item), file=None, line=None, counts={EXECUTED: 1000.0})
        for item in compiled("sm_80")[name]
    )
    runs: dict[str | int, float] = {item.pc: 1000.0 for item in code}
    launch = made(
        busy(dram=90), moved(kind, 1000, 1e3 * sectors, 4e3), histograms={EXECUTED: runs}, details=Program(code)
    )
    told = finding(launch)
    assert told.action.startswith(action)
    assert told.location is not None
    assert opcode_of(told.location.sass or "").startswith({"ld": "LDG", "st": "STG"}[kind])


# Bank conflicts

TILE = "S2R R0, SR_TID.X", "IMAD.SHL.U32 R2, R0, 0x80, RZ", "IMAD R3, R0, 0x84, RZ"
TILE_COLUMN, PADDED, TILE_ROW, ELSEWHERE = "LDS R6, [R2]", "LDS R7, [R3]", "STS [R0.X4], R6", "LDS R8, [R5]"


def conflicts(launch: Made, extra: float, passes: float) -> Finding:
    counted = launch.plus({CONFLICTS: extra, PASSES: passes}, busy(l1=90))
    return counted.finding("shared-bank-conflict")


def test_the_only_access_with_conflicts_is_named() -> None:
    told = conflicts(ran(*TILE, TILE_ROW, TILE_COLUMN, PADDED), 31e3, 34e3)
    assert told.location is not None
    assert (told.location.line, told.location.sass, told.location.share) == (5, TILE_COLUMN, None)
    assert told.evidence[-1].value == 100
    assert told.evidence[-1].meaning == "share of the conflicts that only this line can cause, by the code"


def test_conflicts_that_the_code_does_not_show_are_not_placed() -> None:
    assert conflicts(ran(*TILE, TILE_ROW, PADDED), 1e3, 3e3).location is None
    # A request of the column that is rare cannot cause so many.
    assert conflicts(ran(*TILE, TILE_ROW, (TILE_COLUMN, 10.0)), 1e3, 3e3).location is None


def test_conflicts_that_two_lines_can_cause_are_not_placed() -> None:
    assert conflicts(ran(*TILE, TILE_COLUMN, TILE_COLUMN), 62e3, 64e3).location is None
    for other in (ELSEWHERE, "LD.E R8, [R4.64]"):
        lost = "LDL R5, [R1]", other
        assert conflicts(ran(*TILE, *lost, TILE_COLUMN), 31e3, 33e3).location is None


def test_an_access_that_is_known_in_the_first_turn_of_a_loop_may_cause_conflicts_in_others() -> None:
    follow = "IMAD.SHL.U32 R9, R0, 0x4, RZ", "LDS R9, [R9]"
    back = f"@P1 BRA {16 * (len(INDEX) + len(TILE) + 1):#x}"
    assert conflicts(ran(*TILE, *follow, TILE_COLUMN), 31e3, 33e3).location is not None
    assert conflicts(ran(*TILE, *follow, back, TILE_COLUMN), 31e3, 33e3).location is None


def test_conflicts_are_placed_by_the_executions_of_two_lines() -> None:
    told = conflicts(ran(*TILE, (TILE_COLUMN, 100.0), (TILE_COLUMN, 900.0)), 31e3, 32e3)
    assert told.location is not None and told.location.line == 5


def test_without_executions_conflicts_are_not_placed() -> None:
    assert conflicts(ran(*TILE, TILE_COLUMN, weight=SAMPLES), 31e3, 32e3).location is None
