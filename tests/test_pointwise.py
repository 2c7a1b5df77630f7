"""What point-wise operators move by their shapes: worked out by hand, and what leaves it open."""

from __future__ import annotations

import json
from io import BytesIO

import pytest

from gpuprof.model.session import KernelProfile, Session
from gpuprof.read.torch_trace import read_torch_trace
from gpuprof.timeline.torch_pointwise import pointwise_bytes
from gpuprof.words.flop import of_peak_text, operator_bytes_text
from tests.table import each_row
from tests.test_timeline import session

BF16, HALF, FLOAT, SCALAR = "c10::BFloat16", "c10::Half", "float", "Scalar"
BIG = (64, 1024, 4096)
"""268 435 456 elements."""


@each_row(("name", "shapes", "dtypes", "moved"), [
    # Two read and one written, of 2 bytes each.
    ("aten::add", (BIG, BIG, ()), (BF16, BF16, SCALAR), 3 * 2 * 268_435_456),
    ("aten::mul", (BIG, ()), (FLOAT, SCALAR), 2 * 4 * 268_435_456),
    ("aten::gelu", ((10, 20), ()), (HALF, ""), 2 * 2 * 200),
    ("aten::gelu_backward", ((10, 20), (10, 20), ()), (FLOAT, FLOAT, ""), 3 * 4 * 200),
    ("aten::addcmul", ((10,), (10,), (10,), ()), (FLOAT, FLOAT, FLOAT, SCALAR), 4 * 4 * 10),
    ("aten::pow", ((), (10,)), (SCALAR, "double"), 2 * 8 * 10),
    # A vector of 20 and a column of 10 make a matrix of 200.
    ("aten::add", ((20,), (10, 1), ()), (FLOAT, FLOAT, SCALAR), 4 * (20 + 10 + 200)),
    # A copy may change the type, and does not read what it writes.
    ("aten::copy_", ((10, 20), (10, 20), ()), (BF16, FLOAT, ""), 2 * 200 + 4 * 200),
    ("aten::fill_", ((10, 20), ()), ("int", SCALAR), 4 * 200),
])  # fmt: skip
def test_each_operand_and_the_result_count_once(
    name: str, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...], moved: int
) -> None:
    assert pointwise_bytes(name, shapes, dtypes) == moved


@each_row(("name", "shapes", "dtypes"), [
    # With a place for the result: a third tensor of a sum.
    ("aten::add", ((10,), (10,), (), (10,)), (FLOAT, FLOAT, SCALAR, FLOAT)),
    # The type of the result is another one than that of some operand.
    ("aten::add", ((10,), (10,), ()), (BF16, FLOAT, SCALAR)),
    # Nothing fits together, or is known.
    ("aten::add", ((10,), (20,), ()), (FLOAT, FLOAT, SCALAR)),
    ("aten::add", ((10,), None, ()), (FLOAT, FLOAT, SCALAR)), ("aten::add", ((10,), (10,)), ()),
    ("aten::add", ((), ()), (FLOAT, FLOAT)), ("aten::exp", ((10,),), ("c10::complex<float>",)),
    ("aten::copy_", ((10,), (), ()), (FLOAT, FLOAT, "")),
])  # fmt: skip
def test_where_it_is_open_what_is_moved_nothing_is_said(
    name: str, shapes: tuple[tuple[int, ...] | None, ...], dtypes: tuple[str, ...]
) -> None:
    assert pointwise_bytes(name, shapes, dtypes) is None


def test_an_operand_that_is_expanded_is_in_memory_once() -> None:
    shapes, types = ((10, 20), (10, 20), ()), (FLOAT, FLOAT, SCALAR)
    assert pointwise_bytes("aten::mul", shapes, types, ((20, 1), (0, 1), ())) == 4 * (200 + 20 + 200)


def recorded(name: str = "aten::add", us: float = 800, kernels: int = 1, rows: int = 64) -> Session:
    """The session of one operator on bfloat16 tensors of so many times 4 MiB elements, on an A100."""
    dims = [[rows, 1024, 4096], [rows, 1024, 4096], []]
    args = {"Input Dims": dims, "Input type": [BF16, BF16, SCALAR], "External id": 1}
    events = [{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 10, "args": args}]
    for at in range(kernels):
        call = {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 1,
            "tid": 1,
            "ts": 1 + at,
            "dur": 1,
        }
        events.append({**call, "args": {"correlation": at + 1}})
        run = {"ph": "X", "cat": "kernel", "name": "elementwise", "pid": 0, "tid": 7, "ts": 100 + at * us, "dur": us}
        events.append({**run, "args": {"device": 0, "stream": 7, "correlation": at + 1}})
    gpu = {"id": 0, "name": "NVIDIA A100 80GB PCIe", "computeMajor": 8, "computeMinor": 0, "numSms": 108}
    data = json.dumps({"deviceProperties": [gpu], "traceEvents": events}).encode()
    return session(read_torch_trace(BytesIO(data), "t.json", "0" * 64))


def only(found: Session) -> KernelProfile:
    (one,) = found.kernels
    return one


def test_a_point_wise_kernel_is_told_by_what_it_moves() -> None:
    found = recorded(us=1600)
    moved = only(found).operator_bytes
    # 1.61 GB in 1.6 ms are 1.01 of 1.935 TB/s.
    assert moved is not None and moved.bytes == 3 * 2 * 268_435_456
    assert moved.bytes_per_s == pytest.approx(1.00663e12, rel=1e-5)
    assert moved.dram_fraction == pytest.approx(1.00663 / 1.935, rel=1e-3)
    assert of_peak_text(None, moved) == "DRAM 52 %" and "52 %" in operator_bytes_text(moved)
    assert found.verdict is not None and "52 %" in found.verdict.sentence


def test_what_a_cache_holds_need_not_come_from_dram() -> None:
    # 25 MB, of an L2 cache of 40 MiB; 50 MB do not fit.
    small, large = only(recorded(us=25, rows=1)).operator_bytes, only(recorded(us=50, rows=2)).operator_bytes
    assert small is not None and small.bytes == 25_165_824 and small.dram_fraction is None
    assert large is not None and large.dram_fraction is not None
    assert of_peak_text(None, small) == ""


def test_of_what_is_not_point_wise_or_launches_several_kernels_nothing_is_said() -> None:
    assert only(recorded("triton_poi_fused_add_0")).operator_bytes is None
    assert only(recorded("aten::sum")).operator_bytes is None
    assert [one.operator_bytes for one in recorded(kernels=2).kernels] == [None, None]
