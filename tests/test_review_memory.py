"""What a review says that accesses cost: hand-worked kernels, blocks that are not known, and what ncu counted."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.code_against_counters import main
from gpuprof.model.recorded import Dim3
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.memory import accesses_of, assumptions_of
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.binary.cubin_attributes import CubinParameter
from gpuprof.sass.instruction import parse_sass
from tests.conftest import OWN_REPORTS
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

TID = "S2R R1, SR_TID.X"
TID_Y = "S2R R2, SR_TID.Y"
POINTER = CubinParameter(ordinal=0, offset=0, size_bytes=8)
NUMBER = CubinParameter(ordinal=1, offset=8, size_bytes=4)


def known(
    *lines: str,
    block: Dim3 | None = (256, 1, 1),
    target: str = "sm_80",
    arguments: Mapping[int, int] | None = None,
    required: Dim3 | None = None,
) -> CodeFacts:
    """A kernel of these instructions with a pointer and a number as parameters."""
    code = parse_sass("\n".join(f"/*{16 * at:04x}*/ {line} ;" for at, line in enumerate((*lines, "EXIT"))))
    kernel = CubinKernel(
        mangled="k", code=b"", parameters=(POINTER, NUMBER), parameters_offset=0x160, required_block=required
    )
    shape = KnownLaunch(block=block, arguments=arguments or {})
    compiled = CompiledKernel(name="k", target=target, origin="k.cubin", cubin=b"", kernel=kernel, shape=shape)
    return CodeFacts(kernel=compiled, code=code, lines={0x20: ("k.cu", 7)}, arch=None)


def costs(*lines: str, **given: object) -> list[tuple[str, float | None, float | None]]:
    """Space, cost of a request, and what it needs, of each access."""
    return [
        (
            access.space,
            access.wavefronts_per_request if access.space == "shared" else access.sectors_per_request,
            access.needed_per_request,
        )
        for access in accesses_of(known(*lines, **given), {})  # type: ignore[arg-type]
    ]


COLUMN = ("IMAD R3, R1, 0x80, RZ", "LDS R4, [R3]")
ROW = ("IMAD.WIDE.U32 R2, R1, 0x4, c[0x0][0x160]", "LDG.E R9, [R2.64]")


def test_contiguous_words_take_four_sectors_and_need_them() -> None:
    (access,) = accesses_of(known(TID, *ROW), {0x20: 3})
    assert (access.sectors_per_request, access.needed_per_request, access.lane_stride_bytes) == (4.0, 4.0, 4)
    assert (access.wavefronts_per_request, access.unknown, access.loop) == (None, "", 3)
    assert (access.opcode, access.kind, access.width_bytes, access.offset) == ("LDG.E", "load", 4, 0x20)
    assert (access.file, access.line) == ("k.cu", 7)
    # p[tid + 1]: 32 words from byte 4 on span five sectors. A column of shared memory: one wavefront per lane.
    assert costs(TID, ROW[0], "LDG.E R9, [R2.64+0x4]") == [("global", 5.0, 4.0)]
    assert costs(TID, *COLUMN) == [("shared", 32.0, 1.0)]
    (generic,) = accesses_of(known(TID, ROW[0], "LD.E R9, [R2.64]"), {})
    assert (generic.space, generic.sectors_per_request, "generic" in generic.unknown) == ("global", None, True)


def test_a_stride_that_is_an_argument_is_not_known_until_it_is_given() -> None:
    lines = (TID, "IMAD R3, R1, c[0x0][0x168], RZ", "IMAD.WIDE R2, R3, 0x4, c[0x0][0x160]", "LDG.E R9, [R2.64]")
    (access,) = accesses_of(known(*lines), {})
    assert (access.sectors_per_request, access.lane_stride_bytes) == (None, None)
    assert access.unknown
    assert costs(*lines, arguments={1: 8}) == [("global", 32.0, 4.0)]
    assert costs(*lines, arguments={1: 1}) == [("global", 4.0, 4.0)]


def test_a_spill_takes_four_sectors_a_word() -> None:
    stack = ("IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]", "IADD3 R1, R1, -0x10, RZ")
    assert costs(*stack, "STL [R1+0x8], R2", "LDL.64 R2, [R1]", "LDL.U8 R2, [R1+0x3]") == [
        ("local", 4.0, 4.0),
        ("local", 8.0, 8.0),
        ("local", 4.0, 4.0),
    ]
    # Each lane has its own word: each word of eight neighbouring lanes is one sector, and one lane uses a part of it.
    assert costs(TID, "LOP3.LUT R3, R1, 0x1, RZ, 0xc0, !PT", "LDL R4, [R3.X4]") == [("local", 8.0, 4.0)]


def test_a_copy_takes_a_wavefront_for_each_cache_line_that_it_comes_from() -> None:
    """Eight lanes of 16 bytes fill a wavefront; rows of 64 bytes that lie 4096 apart are two lines for each eight."""
    copy = "LDGSTS.E.BYPASS.LTC128B.128 [R5], [R2.64]"
    shared = (TID, "IMAD.SHL.U32 R5, R1, 0x10, RZ")
    together = ("IMAD.WIDE.U32 R2, R1, 0x10, c[0x0][0x160]",)
    rows = (
        "LOP3.LUT R6, R1, 0x3, RZ, 0xc0, !PT", "SHF.R.U32.HI R7, RZ, 0x2, R1", "IMAD.SHL.U32 R6, R6, 0x10, RZ",
        "IMAD R6, R7, 0x1000, R6", "IMAD.WIDE.U32 R2, R6, 0x1, c[0x0][0x160]",
    )  # fmt: skip
    unknown = ("IMAD R6, R1, c[0x0][0x168], RZ", "IMAD.WIDE.U32 R2, R6, 0x1, c[0x0][0x160]")
    assert costs(*shared, *together, copy) == [("shared", 4.0, 4.0), ("global", 16.0, 16.0)]
    assert costs(*shared, *rows, copy) == [("shared", 8.0, 4.0), ("global", 16.0, 16.0)]
    assert costs(*shared, *unknown, copy) == [("shared", None, 4.0), ("global", None, 16.0)]


def test_the_cost_is_the_average_over_the_warps_that_come_to_the_access() -> None:
    """Of 48 threads, 32 contiguous words take four sectors, and 16 take two."""
    assert costs(TID, *ROW, block=(48, 1, 1)) == [("global", 3.0, 3.0)]
    only_the_first = ("ISETP.GT.AND P0, PT, R1, 0xf, PT", "@P0 EXIT")
    assert costs(TID, *only_the_first, *ROW) == [("global", 2.0, 2.0)]


def test_without_a_block_what_two_directions_of_threads_make_is_not_known() -> None:
    code = known(TID, *COLUMN, block=None)
    assert [access.wavefronts_per_request for access in accesses_of(code, {})] == [32.0]
    assert len(assumptions_of(code)) == 2
    lines = (TID, TID_Y, "IMAD R3, R2, 0x80, R1", "LDS R4, [R3.X4]", "LDS R4, [0x10]")
    code = known(*lines, block=None)
    assert [access.wavefronts_per_request for access in accesses_of(code, {})] == [None, 1.0]
    assert any("--block" in note for note in assumptions_of(code))
    # A block that the code asks for is known; one without threads is none.
    required = (TID, TID_Y, "IMAD R3, R2, 0x20, R1", "LDS R4, [R3.X4]")
    assert costs(*required, block=None, required=(32, 4, 1)) == [("shared", 1.0, 1.0)]
    assert costs(TID, *COLUMN, block=(0, 0, 0)) == [("shared", 32.0, 1.0)]


@each_row(
    ("width", "mask", "passes", "needs"),
    [
        ("128", "0x0", 2.0, 2.0), ("128", "0x160", 2.0, 2.0), ("128", "0x150", 2.0, 2.0), ("128", "0x1e0", 4.0, 4.0),
        ("128", "0x1b0", 4.0, 4.0), ("128", "0x70", 4.0, 4.0), ("64", "0x0", 1.0, 1.0), ("64", "0x60", 1.0, 1.0),
        ("64", "0x70", 2.0, 2.0), ("64", "0xf0", 4.0, 2.0),
    ],
)  # fmt: skip
def test_wide_loads_of_neighbours_that_load_the_same_are_served_together(
    width: str, mask: str, passes: float, needs: float
) -> None:
    """Lanes 16 bytes apart, of whose index some bits are masked: without bit 0 or bit 1 they come in pairs."""
    masked = f"LOP3.LUT R3, R3, {mask}, RZ, 0xc0, !PT"
    lines = (TID, "IMAD.SHL.U32 R3, R1, 0x10, RZ", masked, f"LDS.{width} R4, [R3]")
    assert costs(*lines, block=(32, 1, 1)) == [("shared", passes, needs)]


# Against counters


@pytest.mark.compilers
@needs_cuda_wheels
def test_what_is_known_is_what_ncu_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Of our own reports: two loads and a store of saxpy, in two launches."""
    main([str(OWN_REPORTS[0])])
    judged_right(capsys.readouterr().out.splitlines(), "6 of 6")


def judged_right(lines: list[str], right: str | None) -> None:
    """Check that the benchmark finds no access and no launch for which the code says something else than ncu."""
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| all")]
    assert cells and (right is None or right in {row[9] for row in cells})
    assert all(row[9].split(" of ")[0] == row[9].split(" of ")[1] and row[13] == "0" for row in cells)
    told = [line.partition(": ")[2].split(" ") for line in lines if line.endswith("launches as recorded")]
    assert told and all(entry[0] == entry[2] for entry in told)
