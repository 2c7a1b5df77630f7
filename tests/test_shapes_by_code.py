"""What causes excess by the code alone, where it was not counted by instruction: a real recording, hand-made code."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.annotated.counts import EXECUTED
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import LaunchDetails, ProfiledInstruction, Report
from gpuprof.model.session import Evidence, Finding
from gpuprof.read.files import read_file
from tests.kernels import Made, Program, busy, made
from tests.real_sessions import loaded
from tests.table import each_row

RECORDED = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3" / "run-launches"
USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
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
    return {
        SECTORS.format(kind): sectors, REQUESTS.format(kind): requests, USED.format(kind): 32 * needed / sectors,
    }  # fmt: skip


def ran(*lines: str | tuple[str, float]) -> Made:
    """A launch of this code behind that of the addresses, each line a thousand times unless it says otherwise."""
    runs = [line if isinstance(line, tuple) else (line, 1000.0) for line in (*INDEX, *lines, "EXIT")]
    code = tuple(
        ProfiledInstruction(pc=16 * at, sass=sass, file="k.cu", line=at - len(INDEX) + 1, counts={EXECUTED: count})
        for at, (sass, count) in enumerate(runs)
    )
    return made(
        busy(dram=90), histograms={EXECUTED: {item.pc: item.counts[EXECUTED] for item in code}}, details=Program(code)
    )


def finding(launch: Made) -> Finding:
    return launch.finding("uncoalesced-global")


def line(launch: Made) -> int | None:
    """The line that the rule names; None where it names none."""
    place = finding(launch).place
    return place.line if place is not None else None


def by_code(told: Finding) -> list[Evidence]:
    return [item for item in told.evidence if "by the code" in item.meaning or "in the code" in item.meaning]


@pytest.mark.compilers
def test_a_recorded_transpose_is_placed_as_with_counts_of_each_instruction() -> None:
    (told, saxpy), (counted, _) = (
        tuple(
            [item for item in kernel.findings if item.rule == "uncoalesced-global"]
            for name in ("transpose", "saxpy")
            for kernel in loaded(path).kernels
            if kernel.name == name
        )
        for path in (RECORDED / "run" / "profile.ncu-rep", RECORDED / "full.ncu-rep")
    )
    assert len(told) == len(counted) == 1 and saxpy == []
    by_place, by_count = told[0].place, counted[0].place
    assert by_place is not None and by_count is not None
    assert ((by_place.file or "").rpartition("/")[2], by_place.line, by_place.share) == ("launches.cu", 58, None)
    assert (by_place.line, by_place.sass) == (by_count.line, by_count.sass)
    assert (told[0].action, told[0].advice) == (counted[0].action, counted[0].advice)
    assert told[0].cases.why == counted[0].cases.why
    assert [(item.value, item.unit) for item in by_code(told[0])][:1] == [(1, "instruction")]
    # 524 288 stores touch at most 28 sectors more than they fill. 16 833 533 sectors were counted, 7 of 8 bytes unused.
    share = next(item for item in told[0].evidence if item.meaning == SURE)
    assert share.value == pytest.approx(100 * 524_288 * 28 / (16_833_533 * 7 / 8))


class WithoutTexts(LaunchDetails, frozen=True):
    """What is read of a launch without nvdisasm: machine code and lines, but no text of an instruction."""

    of: LaunchDetails

    def instructions(self, counts: tuple[str, ...] | None = None) -> tuple[ProfiledInstruction, ...]:
        return tuple(replace(item, sass="") for item in self.of.instructions(counts))

    def machine_code(self) -> bytes:
        return self.of.machine_code()


def test_the_only_line_that_stores_is_named_without_nvdisasm() -> None:
    report = read_file(str(RECORDED / "run" / "profile.ncu-rep"))
    assert isinstance(report, Report)
    (launch,) = (item for item in report.launches if item.name == "transpose")
    alone = replace(report, launches=(replace(launch, details=WithoutTexts(launch.details)),))
    (kernel,) = diagnose(analyse([alone], HardwareFinder(None), "9.9")).kernels
    place = kernel.findings[0].place
    assert kernel.findings[0].rule == "uncoalesced-global" and place is not None
    assert ((place.file or "").rpartition("/")[2], place.line, place.sass) == ("launches.cu", 58, None)


# Eight rows of four words each fill half a sector, and may span two.
SHORT_ROWS = (
    "SHF.R.U32.HI R16, RZ, 0x2, R0", "LOP3.LUT R17, R0, 0x3, RZ, 0xc0, !PT", "IMAD.SHL.U32 R17, R17, 0x4, RZ",
    "IMAD R18, R16, c[0x0][0x170], R17", "LDG.E R6, [R18.64]",
)  # fmt: skip
MANY, HALF = moved("ld", 1000, 32e3, 4e3), moved("ld", 2000, 36e3, 8e3)
NEARLY_ALL = moved("ld", 2000, 40e3, 8e3)
OFTEN = moved("ld", 10e3, 320e3, 40e3)


@each_row(("lines", "counters", "named"), [
    ((WORD, COLUMN, WRITE_WORD), HALF, 2), ((WORD, *LOOK_UP), moved("ld", 2000, 34e3, 8e3), 3),
    # Of columns on two lines one is named if it runs far more often.
    ((COLUMN, ANOTHER), moved("ld", 2000, 64e3, 8e3), None), (((COLUMN, 1000.0), (ANOTHER, 9000.0)), OFTEN, 2),
    (((COLUMN, 5000.0), (ANOTHER, 5000.0)), OFTEN, None),
    # A column and a look-up alike, or stores that cause half each: neither is the cause of most.
    ((WORD, *LOOK_UP, COLUMN), moved("ld", 3000, 68e3, 12e3), None),
    # Only the direction that is wasteful is looked at.
    ((COLUMN, WRITE_COLUMN), moved("ld", 1000, 4e3, 4e3) | moved("st", 1000, 32e3, 4e3), 2),
    ((COLUMN, WRITE_COLUMN), MANY | moved("st", 1000, 4e3, 4e3), 1),
    ((COLUMN, WRITE_COLUMN), MANY | moved("st", 1000, 32e3, 4e3), None),
    # All loads are on one line, whatever their shape.
    ((WORD, WRITE_WORD), moved("ld", 1000, 5e3, 4e3), 1), ((LOST, WRITE_WORD), MANY, 1),
    # Words side by side on two lines.
    ((WORD, WORD), moved("ld", 2000, 10e3, 8e3), None),
    # 10 requests of the column can cause 280 sectors; the words have one more than they need each, or more.
    ((WORD, (COLUMN, 10.0)), moved("ld", 1010, 5.28e3, 4e3), None),
    # Were the row a word long, the column would be no worse than the words, which run ten times as often.
    ((WORD, (COLUMN, 100.0)), moved("ld", 1100, 5.4e3, 4.4e3), None),
    ((WORD, (COLUMN, 100.0)), moved("ld", 1100, 7.2e3, 4.4e3), 2),
    # An access that is not understood may be the cause.
    ((LOST, COLUMN), HALF, None), (((LOST, 10.0), COLUMN), HALF, 2), ((WORD, LOST), HALF, None),
    # Code that does not run is left out; code that is not known leaves open what else there is.
    (((ANOTHER, 0.0), COLUMN), MANY, 2), (("", COLUMN), MANY, None),
    # Every other word fills half of 8 sectors. Of 32 sectors too many, a column can have 28, two of them each.
    ((EVERY_OTHER, COLUMN), NEARLY_ALL, 2), ((ANOTHER, COLUMN), NEARLY_ALL, None),
    # 16 of 32 sectors too many remain for the column.
    ((*SHORT_ROWS, COLUMN), NEARLY_ALL, 6),
    # Without sectors none is named.
    ((WORD, COLUMN, WRITE_COLUMN), {USED.format("ld"): 7.1}, None),
])  # fmt: skip
def test_the_access_is_named_that_alone_can_cause_most_of_the_excess(
    lines: tuple[str | tuple[str, float], ...], counters: dict[str, float], named: int | None
) -> None:
    assert line(ran(*lines).plus(counters)) == named


def test_the_shape_of_an_access_decides_the_advice() -> None:
    column, look_up = finding(ran(WORD, COLUMN).plus(HALF)), finding(ran(WORD, *LOOK_UP).plus(HALF))
    assert column.action == TOO_MANY_ADDRESSES and look_up.action.startswith("Order indices")
    # The word can cause a sector of 28 a request, where its row begins inside one.
    assert [item.value for item in column.evidence if item.meaning == SURE] == pytest.approx([100 * 27 / 28])
    columns = finding(ran(COLUMN, ANOTHER).plus(moved("ld", 2000, 64e3, 8e3)))
    assert by_code(columns)[0].value == 2 and columns.action == TOO_MANY_ADDRESSES


@each_row("broken", ["BRX R2 -0x10", "HFMA2", "BRA 0xffff", "IMAD R4,,", "LDG.E [", "S2R"])
def test_code_that_cannot_be_followed_does_not_stop_the_rule(broken: str) -> None:
    assert finding(ran(broken, COLUMN).plus(moved("ld", 1000, 32e3, 4e3))).gain_kernel is not None
