"""Which NVTX ranges of a thread are the steps of its program: made layouts of training, inference and solvers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.read.step_ranges import ProgramRange, ThreadSpan, split_ranges, step_name
from tests.table import each_row

PERIOD = 1_000_000
FUNCTIONS = (
    "flash_attn", "forward", "backward", "optimizer", "loss", "load_batch", "data loading", "attention", "model",
    "copy", "all_reduce_gradients",
)  # fmt: skip
NEVER = (
    "aten::linear", "ncclAllReduce", "cublasGemmEx", "cudnnConvolutionForward", "AddmmBackward0", "decoder.layers.3",
    "LlamaDecoderLayer", "FlashAttnFunc", "MyFunction", "CustomBwd",
    "transformer block 7", "Torch-Compiled Region: 0/0", "MPI_Allreduce",
)  # fmt: skip


def layout(*parts: tuple[str, float], rounds: int = 10, thread: int = 1, start: int = 0) -> list[ProgramRange]:
    """Ranges that follow each other in each of some rounds, with their shares of it; "#" becomes its number."""
    spans = []
    for number in range(rounds):
        at = start + number * PERIOD
        for name, share in parts:
            end = at + round(share * PERIOD)
            spans.append(ProgramRange(thread, at, end, name.replace("#", str(number))))
            at = end
    return spans


def inside(name: str, spans: Sequence[ProgramRange]) -> list[ProgramRange]:
    """The ranges within one that begins and ends with them."""
    outer = ProgramRange(spans[0].thread, spans[0].start, spans[-1].end, name)
    return [outer, *spans]


def steps(spans: Iterable[ProgramRange]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for step in split_ranges(spans, ()).steps:
        counts[step_name(step.name)] = counts.get(step_name(step.name), 0) + 1
    return counts


@each_row(("name", "kind"), [
    ("step #", "step"), ("iteration_#", "iteration"), ("iter#", "iter"), ("Train step: #", "Train step"),
    ("train_step", "train_step"), ("batch #", "batch"), ("decode token #", "decode token"), ("frame 12.#", "frame"),
    ("time loop", "time loop"), ("forward_backward", "forward_backward"), ("Denoise step #", "Denoise step"),
    ("epoch_1/batch_#", "epoch/batch"), ("pressure solve", "pressure solve"),
])  # fmt: skip
def test_ranges_that_follow_each_other_are_steps(name: str, kind: str) -> None:
    assert steps(layout((name, 0.98))) == {kind: 10}
    assert steps(layout((name, 0.98), rounds=2)) == {}
    assert steps(inside("main", layout((name, 0.98)))) == (
        {} if kind in ("time loop", "pressure solve", "forward_backward", "Denoise step") else {kind: 10}
    )


@given(st.sampled_from(FUNCTIONS), st.floats(0.001, 0.8), st.sampled_from(("", " #")), st.integers(3, 20))
def test_ranges_of_functions_are_no_steps_whatever_part_of_an_iteration_they_cover(
    name: str, share: float, number: str, rounds: int
) -> None:
    assert steps(layout((name + number, share), rounds=rounds)) == {}


@given(name=st.sampled_from(NEVER), share=st.floats(0.001, 1.0))
def test_operators_layers_and_calls_of_libraries_are_never_steps(name: str, share: float) -> None:
    assert steps(layout((name, share))) == {}


@given(st.sampled_from(("nn.Linear_#", "transformer.h.#.forward", "stage #", "level #", "solve #", "conv#")))
def test_numbered_parts_of_one_pass_are_no_steps_however_closely_they_follow(name: str) -> None:
    assert steps(layout((name, 0.99))) == {}
    passes = [span for at in range(4) for span in layout((name, 0.99), rounds=6, start=6 * at * PERIOD)]
    assert steps(passes) == {}, "their names come again in each pass"


def test_an_epoch_is_its_steps_and_without_any_the_step() -> None:
    rounds = [layout(("train_step", 0.9), rounds=5, start=at * 5 * PERIOD) for at in range(4)]
    epochs = [span for at, inner in enumerate(rounds) for span in inside(f"epoch {at}", inner)]
    assert steps(epochs) == {"train_step": 20}
    assert steps(span for span in epochs if span.name != "train_step") == {"epoch": 4}


@each_row(("name", "share", "count"), [
    ("train_batch", 0.3, 10), ("train_batch", 0.2, 0), ("step #", 0.3, 10), ("step", 0.3, 0), ("step", 0.6, 10),
])  # fmt: skip
def test_a_step_may_wait_for_its_data_outside_and_that_of_an_optimizer_is_none(
    name: str, share: float, count: int
) -> None:
    assert sum(steps(layout((name, share))).values()) == count


@given(st.lists(st.floats(0.05, 1.0), min_size=3, max_size=6))
def test_parts_that_take_turns_are_no_steps(weights: list[float]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    spans = layout(*zip(FUNCTIONS, shares, strict=False))
    if max(shares) < 0.85:
        assert steps(spans) == {}


@given(loading=st.floats(0.01, 0.45))
def test_a_step_after_loading_its_data_is_the_step(loading: float) -> None:
    assert steps(layout(("load", loading), ("step #", 0.99 - loading))) == {"step": 10}


def test_parts_of_steps_are_no_steps_and_those_of_each_thread_are() -> None:
    parts = layout(("forward", 0.35), ("backward", 0.5), ("optimizer", 0.1))
    micro = [span for at in range(10) for span in layout(("microbatch", 0.2), rounds=1, start=at * PERIOD)]
    whole = layout(("step #", 0.97))
    assert steps([*whole, *parts, *micro]) == {"step": 10}
    other = [replace(span, thread=2) for span in whole]
    gradients = [
        replace(span, thread=3) for span in layout(("AddmmBackward0", 0.2), ("FlashAttnFuncBackward", 0.4), rounds=50)
    ]
    assert steps([*whole, *other, *gradients]) == {"step": 20}


def test_a_long_pause_between_steps_and_two_epochs_around_them_change_nothing() -> None:
    first, second = layout(("batch #", 0.95)), layout(("batch #", 0.95), start=100 * PERIOD)
    assert steps([*first, *second]) == {"batch": 20}
    assert steps([*inside("epoch 0", first), *inside("epoch 1", second)]) == {"batch": 20}


def test_ranges_by_handle_and_ranges_without_length_are_no_steps() -> None:
    spans = layout(("step #", 0.98))
    assert steps(replace(span, nested=False) for span in spans) == {}
    assert steps(replace(span, start=0, end=0) for span in spans) == {}


def test_ranges_without_a_name_of_steps_are_steps_only_if_their_thread_launches_most_in_them() -> None:
    burst = layout(("solve", 0.98))
    # The thread launches once in each of the 10 ranges, and after them.
    own = [ThreadSpan(1, span.start + 1, span.start + 2) for span in burst]
    for others, thread, found in ((10, 1, 10), (11, 1, 0), (0, 1, 10), (100, 2, 10)):
        later = [ThreadSpan(thread, (20 + number) * PERIOD, (20 + number) * PERIOD) for number in range(others)]
        assert sum(1 for _ in split_ranges(burst, [*own, *later]).steps) == found
    set_up = [ThreadSpan(1, -number, -number) for number in range(1, 100)]
    assert len(split_ranges(burst, [*set_up, *own]).steps) == 10, "most of the time"
    elsewhere = [ThreadSpan(2, span.start, span.end) for span in burst]
    assert split_ranges(burst, elsewhere).steps == [], "a thread that launches nothing"
    assert len(split_ranges(layout(("step #", 0.98)), elsewhere).steps) == 10


def test_numbers_that_only_count_are_left_out_of_outermost_ranges() -> None:
    def names(spans: Iterable[ProgramRange]) -> set[str]:
        return {span.name for span in split_ranges(spans, ()).others}

    parts = layout(("forward #", 0.3), ("backward #", 0.5))
    assert names(parts) == {"forward", "backward"}
    assert names([*layout(("step #", 0.97)), *parts]) == {"forward", "backward"}
    layers = [span for at in range(2) for span in layout(("layer #", 0.9), rounds=3, start=10 * at * PERIOD)]
    assert names(layers) == {"layer 0", "layer 1", "layer 2"}, "they come again"
    modules = layout(("conv_#", 0.9), rounds=3)
    assert names(inside("net", modules)) == {"net", "conv_0", "conv_1", "conv_2"}
