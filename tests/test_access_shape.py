"""In which shape lanes touch memory: hand-written code, kernels as NVRTC compiles them, the planted cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Finding
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress, addresses_of
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.instruction import Instruction, parse_sass
from gpuprof.sass.patterns.lane_shapes import LaneShape, LaunchedCode, global_requests
from tests.cuda_tools import needs_cuda_wheels
from tests.followed_code import solution_of
from tests.kernels import Made, busy, counted_code, made
from tests.reviewed_code import compiled_cases
from tests.table import each_row

BLOCK = (256, 1, 1)

SOURCE = r"""
#define KERNEL extern "C" __global__ void
struct Body { float x, y, z, vx, vy, vz, mass, charge, spin; };
struct Pair { float re, im; };
__device__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

KERNEL row_sums(const float *in, float *out, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++) sum += in[(long long)thread() * n + k];
    out[thread()] = sum;
}
KERNEL four_words(const float *in, float *out, int n) {
    const float *mine = in + 4 * thread();
    out[thread()] = mine[0] + mine[1] * mine[2] + mine[3] * n;
}
KERNEL own_part(float *in, float *out, int n) {
    #pragma unroll 1
    for (int k = thread() * n; k < thread() * n + n; k++) in[k] = in[k] * 2;
}
KERNEL bodies(const Body *in, float *out, int n) {
    const Body *mine = in + thread();
    out[thread()] = mine->x * mine->vx + mine->y * mine->vy + mine->mass;
}
KERNEL pairs(const Pair *in, float *out, int n) { out[thread()] = in[thread()].re * in[thread()].im; }
KERNEL halves(const Pair *in, float *out, int n) { out[thread()] = in[thread()].re * n; }
KERNEL column_sums(const float *in, float *out, int n) {
    float sum = 0;
    for (int row = threadIdx.x; row < n; row += blockDim.x) sum += in[(long long)row * n + blockIdx.x];
    out[thread()] = sum;
}
KERNEL transposed(const float *in, float *out, int n) {
    out[(long long)(blockIdx.x * 32 + threadIdx.x) * n + blockIdx.y] = in[thread()];
}
KERNEL gather(const float *in, float *out, int n) { out[thread()] = in[((const int *)out)[thread() + n]]; }
KERNEL pointers(const float *in, float *out, int n) { out[thread()] = *((const float **)in)[thread()]; }
KERNEL sparse_rows(const float *in, float *out, int n) {
    const int *starts = (const int *)in, *columns = (const int *)out;
    float sum = 0;
    #pragma unroll 1
    for (int k = starts[thread()]; k < starts[thread() + 1]; k++) sum += in[columns[k]];
    out[thread()] = sum;
}
KERNEL shifted(const float *in, float *out, int n) { out[thread()] = in[thread() + 1]; }
KERNEL same(const float *in, float *out, int n) { out[thread()] = in[blockIdx.x] + in[n]; }
KERNEL tiles(const float *in, float *out, int n) {
    out[thread()] = in[(long long)threadIdx.y * n + threadIdx.x];
}
KERNEL quads(const float *in, float *out, int n) { out[thread()] = in[threadIdx.x / 4 * n + threadIdx.x % 4]; }
KERNEL list(const float *in, float *out, int n) {
    float sum = 0;
    for (int at = thread(); at >= 0; at = ((const int *)out)[at]) sum += in[at];
    out[thread()] = sum;
}
KERNEL divided(const float *in, float *out, int n) { out[thread()] = in[thread() % n * 32 + thread() / n]; }
"""


def compiled(target: str) -> Mapping[str, tuple[Instruction, ...]]:
    """The code of the kernels by name."""
    return {name: case.code for name, case in compiled_cases(SOURCE, target).items()}


def shapes_of(target: str, name: str, kind: str, block: Dim3 = BLOCK) -> list[LaneShape | None]:
    code = compiled(target)[name]
    known = global_requests(LaunchedCode(tuple(code), target, block, None))
    return [request.shape for request in known.values() if request.kind == kind]


def names(shapes: Sequence[LaneShape | None]) -> set[str | None]:
    return {shape.name if shape is not None else None for shape in shapes}


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_shapes_of_compiled_kernels(target: str) -> None:
    for name, kind, expected in (
        ("row_sums", "load", {"neighbours"}),
        ("row_sums", "store", {"misaligned"}),
        ("four_words", "load", {"neighbours"}),
        ("own_part", "load", {"neighbours"}),
        ("own_part", "store", {"neighbours"}),
        ("bodies", "load", {"structure"}),
        ("pairs", "load", {"neighbours"}),
        ("halves", "load", {"stride"}),
        ("column_sums", "load", {"stride"}),
        ("transposed", "store", {"stride"}),
        ("gather", "load", {"misaligned", "scatter"}),
        ("pointers", "load", {"misaligned", "scatter"}),
        ("sparse_rows", "load", {"misaligned", "neighbours", "scatter"}),
        ("shifted", "load", {"misaligned"}),
        ("same", "load", {None}),
        ("quads", "load", {"partial"}),
        ("list", "load", {"scatter"}),
        ("divided", "load", {"stride"}),
    ):
        assert names(shapes_of(target, name, kind)) == expected, name
    # Rows of half a warp, and of two rows the distance of most lanes.
    assert names(shapes_of(target, "tiles", "load", (16, 16, 1))) == {"partial"}
    assert names(shapes_of(target, "tiles", "load", (32, 8, 1))) == {"misaligned"}
    assert {shape.apart for shape in shapes_of(target, "bodies", "load", (16, 16, 1)) if shape is not None} == {36}
    assert names(shapes_of(target, "pairs", "load", (16, 16, 1))) == {"neighbours"}
    # Nine floats of a body, of which x and y are neighbours; y, vx and the mass are not read one after the other.
    bodies = [shape for shape in shapes_of(target, "bodies", "load") if shape is not None]
    assert {(shape.width_bytes, shape.apart) for shape in bodies} == {(4, 36)}
    assert max(shape.beside for shape in bodies) == 2
    four_words = LaneShape("neighbours", width_bytes=4, apart=16, beside=4)
    assert shapes_of(target, "four_words", "load") == [four_words] * 4
    own_part = LaneShape("neighbours", width_bytes=4, apart=None, beside=1, step=4)
    assert shapes_of(target, "own_part", "load") == [own_part]


# What addresses are made of


def lines_of(*lines: str) -> tuple[Instruction, ...]:
    """Some code, and the end of the kernel behind it."""
    return parse_sass("\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate((*lines, "EXIT"))))


def of(*lines: str, block: Dim3 = BLOCK) -> tuple[KernelAddresses, LaneAddress]:
    """The addresses of some code, and the last one that ends it."""
    addresses = addresses_of(solution_of(lines_of(*lines), ThreadBlock(block), {}), frozenset({"global"}))
    assert addresses is not None
    return addresses, list(addresses.by_request.values())[-1]


@each_row(
    ("lines", "offset", "stride"),
    [
        (["IMAD R4, R0, 0xc, R2"], 8, 12),
        (["LEA R4, P0, R0, c[0x0][0x160], 0x2"], 8, 4),
        (["IADD3 R4, P1, -R0, R2, 0x10"], 24, -1),
        (["SHF.L.U32 R4, R0, 0x3, RZ"], 8, 8),
        (["HFMA2.MMA R3, -RZ, RZ, 0, 2.384185791015625e-07", "IMAD.WIDE R4, R0, R3, c[0x0][0x168]"], 8, 4),
        (["LDG.E R3, [R2.64]", "IMAD R4, R3, 0x4, RZ"], 8, 0),
    ],
)
def test_an_address_is_a_sum_of_what_is_not_known(lines: list[str], offset: int, stride: int) -> None:
    _, access = of("S2R R0, SR_TID.X", *lines, "LDG.E R6, [R4.64+0x8]")
    assert (access.offset, access.stride) == (offset, stride)


def test_what_is_set_under_a_predicate_is_known_where_it_holds() -> None:
    under = "S2R R0, SR_TID.X", "@!P0 IMAD R4, R0, 0x8, RZ"
    _, held = of(*under, "@!P0 LDG.E R6, [R4.64]")
    _, lost = of(*under, "ISETP.GE P0, PT, R0, R2, PT", "@!P0 LDG.E R6, [R4.64]")
    assert (held.stride, lost.stride) == (8, None)


def test_a_loop_is_known_by_how_far_it_moves_an_address() -> None:
    # The inner loop moves R4 by 12 bytes; the outer one begins it anew from R2, which it moves by a row.
    _, access = of(
        "IMAD.MOV.U32 R4, RZ, RZ, R2",
        "LDG.E R6, [R4.64]",
        "IADD3 R4, P0, R4, 0xc, RZ",
        "@P1 BRA 0x10",
        "IADD3 R2, R2, c[0x0][0x170], RZ",
        "@P2 BRA 0x0",
    )
    assert (access.step, access.loop) == (12, 1)


# What the rule says


def rule_of(launch: Made) -> Finding:
    return launch.finding("uncoalesced-global")


def advised(launch: Made) -> str:
    """The shape whose fix the rule names."""
    return rule_of(launch).cases.action[0]


def request(load: str, sectors: float, excess: float) -> tuple[str, float, float]:
    """An instruction that a thousand warps execute, with what a request takes."""
    return load, 1000 * sectors, 1000 * excess


ROW = ("S2R R0, SR_TID.X", 0.0, 0.0), ("IMAD R4, R0, c[0x0][0x168], R2", 0.0, 0.0)
WALK = counted_code(
    *ROW, *(request(f"LDG.E R6, [R4.64+{at:#x}]", 32, 28) for at in (0, 4, 8, 12)), request("EXIT", 0, 0)
)
COLUMN = counted_code(*ROW, request("LDG.E R6, [R4.64]", 32, 28), request("EXIT", 0, 0))


def test_the_shape_of_what_is_counted_tells_which_fix_is_named() -> None:
    walk, column = rule_of(WALK), rule_of(COLUMN)
    assert (advised(WALK), advised(COLUMN)) == ("neighbours", "stride")
    assert "float4" in walk.advice and "float4" not in column.advice
    assert [(item.value, item.unit, item.threshold) for item in walk.evidence if not item.metric][1:] == [
        (32, "sector/request", 4), (4, "B", None), (4, "word", None), (100, "%", 50),
    ]  # fmt: skip
    assert walk.place is not None and walk.place.line == 3
    rows = counted_code(*ROW, request("LDG.E R6, [R4.64]", 5, 0.9), request("EXIT", 0, 0))
    assert advised(rows.plus(busy(dram=80))) == "misaligned"
    # Whatever makes 8 sectors more of contiguous lanes, the code does not show it.
    code = ("S2R R0, SR_TID.X", 0.0, 0.0), ("LEA R4, P0, R0, c[0x0][0x160], 0x2", 0.0, 0.0)
    assert advised(counted_code(*code, request("LDG.E R6, [R4.64]", 12, 8), request("EXIT", 0, 0))) == "consecutive"
    gather = counted_code(
        *code[:1], ("LEA R2, P0, R0, c[0x0][0x160], 0x2", 0.0, 0.0), request("LDG.E R3, [R2.64]", 4, 0),
        ("IMAD.WIDE R4, R3, 0x4, R8", 0.0, 0.0), request("LDG.E R6, [R4.64]", 30, 26), request("EXIT", 0, 0),
    )  # fmt: skip
    assert advised(gather) == "scatter" and rule_of(gather).place is not None


def test_an_excess_that_was_seen_in_l1_alone_says_nothing_of_what_dram_still_needs() -> None:
    sectors, asked = (f"l1tex__t_{what}_pipe_lsu_mem_global_op_ld.sum" for what in ("sectors", "requests"))
    # 32 sectors a request, of which 4 hold as many bytes: 87.5 % go.
    launch = made(busy(sm=2, memory=59, dram=18, l2=17), {sectors: 32e3, asked: 1e3})
    finding = rule_of(launch)
    assert finding.gain_kernel == pytest.approx(0.875)
    assert [(item.unit, item.fraction) for item in finding.remains] == [("sm", 0.02)]
    # Nor do known bytes say it: an eighth of them stays with 4 bytes per thread, a 32nd with one byte.
    moved = {"dram__bytes_read.sum": 1e6, "dram__bytes_write.sum": 0.0}
    assert rule_of(launch.plus(moved)).remains == finding.remains
