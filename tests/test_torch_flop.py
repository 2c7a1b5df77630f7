"""FLOP of PyTorch's operators: against torch itself, against numbers worked out by hand, and never zero for unknown."""

from __future__ import annotations

import json
from collections import defaultdict
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.model.recorded import Missing
from gpuprof.read.torch_events import TraceEvents
from gpuprof.read.torch_json import TraceEvent, TraceJson
from gpuprof.read.torch_program import products
from gpuprof.read.torch_words import product as product_of
from gpuprof.timeline.torch_flop import PRODUCTS, ProductFlop, path_of, product_flop
from gpuprof.timeline.trace import MatrixProduct, TensorShape
from tests.table import each_row
from tests.torch_programs import PLAIN_TORCH, run_torch

RECORD = Path(__file__).with_name("torch_flop_programs.py")


class Recorded(NamedTuple):
    """What torch's own counter says of a program, by operator, and the profiler's trace of the same program."""

    flop: dict[str, int]
    events: list[TraceEvent]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Small programs, run on the CPU by a real torch under its FLOP counter and under its profiler."""
    folder = tmp_path_factory.mktemp("torch")
    (folder / "programs.py").write_bytes(RECORD.read_bytes())
    done = run_torch(["-W", "ignore", "programs.py", "."], folder, PLAIN_TORCH)
    return {name: Recorded(flop, events_of(folder / f"{name}.json")) for name, flop in json.loads(done.stdout).items()}


def events_of(file: Path) -> list[TraceEvent]:
    with file.open("rb") as opened:
        return list(TraceJson(opened, file.name).events())


def recorded_products(recorded: list[TraceEvent]) -> tuple[MatrixProduct, ...]:
    """The calls that multiply matrices, also those on the CPU, which a trace of a GPU leaves out."""
    events = TraceEvents()
    for event in recorded:
        events.add(event)
    return tuple(product_of(call.name, 0.0, call.args) for call in products(events.operators.every()))


def by_operator(products: tuple[MatrixProduct, ...]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for product in products:
        flop = product_flop(product)
        assert isinstance(flop, ProductFlop), flop
        found[product.name.replace("::", ".")] += flop.flop
    return dict(found)


COUNTED = (
    "mlp", "conv", "conv_transposed", "conv_grouped", "conv_1d_3d", "attention", "lower_types", "fused_attention",
)  # fmt: skip


@pytest.mark.torch
def test_the_trace_of_a_program_gives_the_flop_that_torch_counts(programs: dict[str, Recorded]) -> None:
    for name in COUNTED:
        program = programs[name]
        assert sum(program.flop.values()) > 0
        assert by_operator(recorded_products(program.events)) == program.flop, name
    # Data types are those that torch computes in.
    flop: defaultdict[str, float] = defaultdict(float)
    for product in recorded_products(programs["lower_types"].events):
        one = product_flop(product)
        assert isinstance(one, ProductFlop)
        flop[one.path] += one.flop
    # 2 · 16 · 8 · 4 under autocast, the same in halves and in doubles, and of e4m3 2 · 16 · 32 · 16.
    assert flop == {"tensor.bf16": 1024, "tensor.fp16": 1024, "fp64": 1024, "tensor.fp8": 16384}
    # What torch does not count is no product.
    assert programs["uncounted"].flop == {}
    assert {"aten::mv", "aten::dot", "aten::layer_norm"} <= {one.name for one in programs["uncounted"].events}
    assert recorded_products(programs["uncounted"].events) == ()


def flop_of(name: str, *shapes: TensorShape | None, settings: tuple[str, ...] = (), dtype: str = "float") -> float:
    found = product_flop(MatrixProduct(f"aten::{name}", 0.0, shapes, (dtype,) * len(shapes), settings))
    assert isinstance(found, ProductFlop)
    return found.flop


def convolution(
    *, stride: str, padding: str = "[0, 0]", dilation: str = "[1, 1]", transposed: str = "False"
) -> tuple[str, ...]:
    return ("", "", "", stride, padding, dilation, transposed, "[0, 0]", "1")


def test_matrices_take_a_multiplication_and_an_addition_for_each_of_their_products() -> None:
    # 2 · 3 · 5 · 7.
    assert flop_of("mm", (3, 5), (5, 7)) == 210
    assert flop_of("addmm", (7,), (3, 5), (5, 7)) == 210
    assert flop_of("bmm", (2, 3, 5), (2, 5, 7)) == 420
    assert flop_of("baddbmm", (2, 3, 7), (2, 3, 5), (2, 5, 7)) == 420
    assert flop_of("_scaled_mm", (3, 5), (5, 7), (), ()) == 210
    assert flop_of("mm", (3, 0), (0, 7)) == 0


def test_the_first_layer_of_resnet_50_takes_its_published_flop() -> None:
    # 112 · 112 places · 64 · 3 · 7 · 7 weights: 118 million multiplications and as many additions for an image.
    settings = convolution(stride="[2, 2]", padding="[3, 3]")
    assert flop_of("convolution", (1, 3, 224, 224), (64, 3, 7, 7), settings=settings) == 2 * 118_013_952
    # cuDNN's own operator has padding before stride, and is never transposed.
    own = ("", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True")
    assert flop_of("cudnn_convolution", (1, 3, 224, 224), (64, 3, 7, 7), settings=own) == 2 * 118_013_952


def test_gradients_that_are_not_wanted_take_no_flop() -> None:
    shapes = ((2, 8, 14, 14), (2, 3, 16, 16), (8, 3, 3, 3))
    wanted = ("", "", "", "[8]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1")
    # 2 · 2 images · 196 places · 216 weights.
    forward = flop_of("convolution", *shapes[1:], settings=convolution(stride="[1, 1]"))
    assert forward == 169_344
    for mask, times in (("[True, True, True]", 2), ("[False, True, False]", 1), ("[False, False, True]", 0)):
        assert flop_of("convolution_backward", *shapes, settings=(*wanted, mask)) == times * forward


def test_attention_takes_two_products_forward_and_five_backward() -> None:
    # Scores: 2 · 3 · 10 · 20 = 1200 in 2 sequences of 3 heads; 1200 · 2 · (8 + 8) forward, 1200 · 2 · 5 · 8 backward.
    query, key = (2, 3, 10, 8), (2, 3, 20, 8)
    for kind in ("flash", "efficient", "cudnn"):
        name = f"_scaled_dot_product_{kind}_attention"
        assert flop_of(name, query, key, key) == 38_400
        assert flop_of(f"{name}_backward", query, query, key, key) == 96_000
    # Values of twice the length: 1200 · 2 · (8 + 16) forward, 1200 · 2 · (3 · 8 + 2 · 16) backward.
    name, value = "_scaled_dot_product_efficient_attention", (2, 3, 20, 16)
    assert flop_of(name, query, key, value) == 57_600
    assert flop_of(f"{name}_backward", (2, 3, 10, 16), query, key, value) == 134_400
    # Below it heads come after the sequence; one head of keys can serve several of queries.
    turned = ((2, 10, 3, 8), (2, 20, 1, 8), (2, 20, 1, 8))
    assert flop_of("_flash_attention_forward", *turned, (), ()) == 38_400
    assert flop_of("_efficient_attention_backward", turned[0], *turned, (), turned[0], (), ()) == 96_000


@each_row(("dtype", "path"), [
    ("float", "fp32"), ("double", "fp64"), ("c10::Half", "tensor.fp16"), ("c10::BFloat16", "tensor.bf16"),
    ("c10::Float8_e4m3fn", "tensor.fp8"), ("c10::Float8_e5m2", "tensor.fp8"), ("signed char", "tensor.int8"),
    ("c10::complex<float>", "other"), ("", "other"),
])  # fmt: skip
def test_a_data_type_asks_for_a_path_of_work(dtype: str, path: str) -> None:
    assert path_of(dtype) == path


ODD_LENGTHS = (30, 4, 8)


@each_row(("name", "shapes"), [
    ("mm", None), ("mm", ((3, 5), (6, 7))), ("bmm", ((2, 3, 5), (3, 5, 7))), ("mm", ((3, 5),)),
    ("mm", ((2**60, 2**60), (2**60, 2**60))),
    # Stride, padding, dilation and the choice of gradients are not recorded.
    ("convolution", ((1, 3, 8, 8), (4, 3, 3, 3))),
    ("convolution_backward", ((1, 4, 6, 6), (1, 3, 8, 8), (4, 3, 3, 3))),
    # Sequences of lengths of their own: where they end is in a tensor.
    ("_flash_attention_forward", (*[ODD_LENGTHS] * 3, (5,), (5,))),
    ("_efficient_attention_forward", (*[(1, *ODD_LENGTHS)] * 3, (), (5,))),
])  # fmt: skip
def test_flop_that_the_trace_does_not_tell_are_missing_with_a_reason(
    name: str, shapes: tuple[TensorShape | None, ...] | None
) -> None:
    found = product_flop(MatrixProduct(f"aten::{name}", 0.0, shapes))
    assert isinstance(found, Missing)
    assert found.what == f"aten::{name}" and found.why and found.how


SIZES = st.integers(0, 40)
SHAPES = st.none() | st.lists(SIZES, max_size=5).map(tuple)
SETTINGS = st.sampled_from(["", "False", "True", "[1, 1]", "[0, 0]", "[2]", "[]", "[True, False, True]", "x", "-1"])


@given(
    st.sampled_from(sorted(PRODUCTS)),
    st.none() | st.lists(SHAPES, max_size=12).map(tuple),
    st.lists(st.sampled_from(["float", "c10::Half", "", "x"]), max_size=3).map(tuple),
    st.lists(SETTINGS, max_size=12).map(tuple),
)
def test_any_inputs_have_flop_that_are_not_negative_or_a_reason(
    name: str, shapes: tuple[TensorShape | None, ...] | None, dtypes: tuple[str, ...], settings: tuple[str, ...]
) -> None:
    found = product_flop(MatrixProduct(name, 0.0, shapes, dtypes, settings))
    assert isinstance(found, Missing) or found.flop >= 0


@given(
    size=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    window=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 3),
)
def test_a_convolution_takes_its_weights_once_at_each_place_of_its_window(
    size: list[int], window: int, stride: int, padding: int, dilation: int
) -> None:
    reach = dilation * (window - 1)
    places = [len(range(0, n + 2 * padding - reach, stride)) for n in size]
    settings = convolution(stride=f"[{stride}]", padding=f"[{padding}]", dilation=f"[{dilation}]")
    weights = (5, 3, *[window] * len(size))
    found = flop_of("convolution", (2, 3, *size), weights, settings=settings)
    assert found == 2 * 2 * prod(places) * prod(weights)
