"""The loops of a kernel in a review: which is in which, where they begin and end, the loop around an instruction."""

from __future__ import annotations

from gpuprof.review.code import KernelCode
from gpuprof.review.facts.loops import innermost_loops, loops_of
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.binary.cubin_attributes import CubinParameter
from gpuprof.sass.instruction import Instruction, parse_sass


def known(*lines: str, arguments: dict[int, int] | None = None) -> KernelCode:
    kernel = CubinKernel(
        mangled="k",
        code=b"\0" * 16 * len(lines),
        parameters=(CubinParameter(ordinal=0, offset=0, size_bytes=4),),
        parameters_offset=0x160,
    )
    shape = KnownLaunch(arguments=arguments or {})
    compiled = CompiledKernel(name="k", target="sm_80", origin="k.cubin", cubin=b"", kernel=kernel, shape=shape)
    text = "\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(lines))
    code: tuple[Instruction, ...] = parse_sass(text)
    return KernelCode(kernel=compiled, code=code, lines={0x20: ("k.cu", 7)}, arch=None)


NESTED = (
    "MOV R0, RZ",
    "MOV R1, RZ",  # 0x10: the outer loop
    "IADD3 R1, R1, 0x1, RZ",  # 0x20: the inner loop
    "ISETP.LT.AND P0, PT, R1, 0x5, PT",
    "@P0 BRA 0x20",
    "IADD3 R0, R0, 0x1, RZ",
    "ISETP.LT.AND P0, PT, R0, c[0x0][0x160], PT",
    "@P0 BRA 0x10",
    "IADD3 R2, R2, 0x1, RZ",  # 0x80: a loop of its own
    "@P1 BRA 0x80",
    "EXIT",
)


def test_loops_know_the_loop_around_them_and_their_trips() -> None:
    outer, inner, alone = loops_of(known(*NESTED))
    assert [(loop.id, loop.parent, loop.depth) for loop in (outer, inner, alone)] == [
        (0, None, 1),
        (1, 0, 2),
        (2, None, 1),
    ]
    assert (outer.start, outer.end, outer.instructions) == (0x10, 0x80, 7)
    assert (inner.start, inner.end, inner.instructions) == (0x20, 0x50, 3)
    assert (inner.file, inner.line, outer.file) == ("k.cu", 7, None)
    loops = innermost_loops(known(*NESTED))
    assert [loops.get(16 * index) for index in range(11)] == [None, 0, 1, 1, 1, 0, 0, 0, 2, 2, None]
    assert [loop.trips for loop in loops_of(known(*NESTED))] == [None, 5, None]
    assert [loop.trips for loop in loops_of(known(*NESTED, arguments={0: 9}))] == [9, 5, None]
    code = known("MOV R0, RZ", "EXIT")
    assert (loops_of(code), innermost_loops(code)) == ((), {})
    assert loops_of(known()) == ()
