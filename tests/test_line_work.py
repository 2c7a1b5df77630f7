"""What a kernel's source lines did: executed instructions, those of local memory, and samples, for comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuprof.annotated.counts import EXECUTED, SAMPLES
from gpuprof.annotated.line_work import MOST
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import KernelProfile, LineWork
from tests.kernels import Program, made
from tests.real_sessions import loaded

LAUNCHES = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-launches/full.ncu-rep"
FILE, OTHER = "src/k.cu", "src/a.cuh"
TEXT = "\n".join(f"line {number};" for number in range(1, 101))
LOCAL = "memory_l2_theoretical_sectors_local"
LOADS, STORES = (f"l1tex__t_sectors_pipe_lsu_mem_local_op_{kind}.sum" for kind in ("ld", "st"))
NO_LOCAL = {LOADS: 0.0, STORES: 0.0}


def at(pc: int, line: int | None, sass: str = "FFMA R1, R2, R3, R4", file: str = FILE, **counts: float) -> (
    ProfiledInstruction
):  # fmt: skip
    """An instruction; its counts by short name."""
    names = {"samples": SAMPLES, "executed": EXECUTED, "local": LOCAL}
    values = {names[name]: value for name, value in counts.items()}
    return ProfiledInstruction(pc, sass, file if line is not None else None, line, values)


def kernel(
    *code: ProfiledInstruction,
    values: Mapping[str, float] | None = None,
    sources: Mapping[str, str] | str | None = None,
) -> KernelProfile:
    names = {name for instruction in code for name in instruction.counts}
    per_pc: dict[str, dict[str | int, float]] = {
        name: {each.pc: each.counts[name] for each in code if name in each.counts} for name in names
    }
    totals = {name: sum(by_pc.values()) for name, by_pc in per_pc.items()}
    program = Program(code, {FILE: TEXT} if sources is None else sources)
    return made(totals, values or {}, histograms=per_pc, details=program).profile()


def line(number: int, **changes: object) -> LineWork:
    fields = {"file": FILE, "text": f"line {number};", "instructions": None, "local": None, "samples": None}
    return LineWork(number=number, **(fields | changes))  # type: ignore[arg-type]


def test_instructions_of_a_line_are_added_up_in_the_order_of_files_and_lines() -> None:
    profile = kernel(
        at(0, 9, executed=5.0, samples=1.0), at(16, 3, "LDL R1, [R2]", executed=4.0),
        at(32, 9, executed=6.0, samples=2.0), at(48, 7, file=OTHER, executed=0.0), at(64, None, executed=100.0),
    )  # fmt: skip
    assert profile.lines == (
        line(7, file=OTHER, text="", instructions=0.0, local=0.0, samples=0.0),
        line(3, instructions=4.0, local=4.0, samples=0.0),
        line(9, instructions=11.0, local=0.0, samples=3.0),
    )
    assert profile.lines_dropped == 0


def test_local_memory_is_told_by_opcode_or_by_sectors() -> None:
    def local(*code: ProfiledInstruction, values: Mapping[str, float] | None = None) -> float | None:
        (work,) = kernel(*code, values=values).lines
        return work.local

    guarded = at(0, 3, "@!P0 LDL.LU R1, [R2]", executed=4.0), at(16, 3, "STL.64 [R1], R2", executed=3.0)
    others = at(32, 3, "LDG.E R1, [R2]", executed=9.0), at(48, 3, "LDLX R1", executed=9.0)
    assert local(*guarded, *others) == 7.0
    # Without machine code, the expected sectors decide; without those, only the absence of local memory is known.
    assert local(at(0, 3, "", executed=4.0, local=32.0), at(16, 3, "", executed=5.0, local=0.0)) == 4.0
    assert local(at(0, 3, "", executed=4.0)) is None
    assert local(at(0, 3, "", executed=4.0), values={LOADS: 0.0}) is None
    assert local(at(0, 3, "", executed=4.0), values=NO_LOCAL) == 0.0
    assert local(at(0, 3, samples=4.0), values=NO_LOCAL) == 0.0
    # Samples alone give no instruction counts.
    (work,) = kernel(at(0, 3, "LDL R1, [R2]", samples=4.0)).lines
    assert (work.instructions, work.local, work.samples) == (None, None, 4.0)


def test_the_lines_with_most_work_are_kept_and_first_of_all_those_of_local_memory() -> None:
    code = [at(16 * number, number, executed=1000.0 + number) for number in range(1, 100)]
    profile = kernel(*code, at(16 * 100, 100, "STL [R1], R2", executed=1.0))
    assert [work.number for work in profile.lines] == [*range(37, 100), 100]
    assert (len(profile.lines), profile.lines_dropped) == (MOST, 36)
    # Samples weight lines if instructions were not counted.
    profile = kernel(*(at(16 * number, number, samples=float(number)) for number in range(1, 100)))
    assert [work.number for work in profile.lines] == list(range(36, 100))
    assert (kernel().lines, kernel().lines_dropped) == ((), 0)


def test_lines_of_recorded_kernels_execute_what_the_kernels_did() -> None:
    for profile in loaded(LAUNCHES).kernels:
        total = next(count.value for count in profile.counts if count.name == "instructions")
        executed = sum(work.instructions or 0.0 for work in profile.lines)
        # What the compiler added has no line.
        assert 0.4 * total < executed <= total
        assert all(work.local == 0.0 for work in profile.lines)
