"""What an autotuner tries is no work of the program: it is left out of the survey, and still keeps the GPU busy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.collect.autotuning import without_tries
from gpuprof.collect.plan import make_plan
from gpuprof.collect.survey import Survey
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.set_up import AUTOTUNING_RANGE as RANGE
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.trace import KERNEL, TRY, Activity, Trace
from tests.builders import FLOP_1, hardware_of, launch, report
from tests.table import each_row


def kernel(number: int, name: str, operator: str | None = None, *ranges: str) -> Activity:
    """A kernel of 1 ms, the next of a program that launches one every 2 ms."""
    return Activity(KERNEL, name, 0, number * 2e-3, 1e-3, 7, (1, 1, 1), (32, 1, 1), ranges=ranges, operator=operator)


def trace(*kernels: Activity) -> Trace:
    device = RecordedDevice("NVIDIA H100", "9.0", None, 132, None)
    return Trace("hand.pt.trace.json", "0" * 64, "pytorch-trace", "PyTorch", None, (device,), kernels)


def names_of(own: object, kind: str = KERNEL) -> list[str]:
    assert isinstance(own, Trace)
    return [activity.name for activity in own.activities if activity.kind == kind]


def test_what_is_marked_is_left_out() -> None:
    whole = trace(kernel(0, "a", None, RANGE), kernel(1, "b", None, RANGE))
    assert without_tries(whole) == (whole, (0, 0.0)), "a program that does nothing but try is surveyed as it is"
    own, tries = without_tries(trace(kernel(0, "a", None, "Net", RANGE), kernel(1, "a"), kernel(2, "b")))
    assert names_of(own) == ["a", "b"] and names_of(own, TRY) == ["a"]
    assert tries.launches == 1 and tries.time_s == pytest.approx(1e-3)


def test_the_first_call_of_a_convolution_that_tries_ten_algorithms_leaves_what_it_chose() -> None:
    conv = "aten::cudnn_convolution"
    first = [kernel(number, f"algorithm_{number}", conv, "Net", "conv1") for number in range(10)]
    chosen = [kernel(10, "algorithm_3", conv, "Net", "conv1")]
    later = []
    for number in (11, 13, 15):
        later += [kernel(number, "relu", "aten::relu", "Net"), kernel(number + 1, "algorithm_3", conv, "Net", "conv1")]
    own, tries = without_tries(trace(*first, *chosen, *later))
    # What was chosen is the program's work, its first try too.
    assert tries.launches == 9
    assert names_of(own) == ["algorithm_3"] + ["algorithm_3", "relu"] * 3 + ["algorithm_3"]


def calls(operator: str, *called: list[str]) -> list[Activity]:
    """Calls of an operator with the kernels that each launches, something else between them."""
    kernels: list[Activity] = []
    for names in called:
        kernels += [kernel(len(kernels) + number, name, operator, "Net", "one") for number, name in enumerate(names)]
        kernels.append(kernel(len(kernels), "relu", "aten::relu", "Net"))
    return kernels


CONV = "aten::cudnn_convolution"


@each_row(
    ("operator", "called"),
    [
        (CONV, [["set_up", "transpose", "k"], ["k"], ["k"]]),  # a first call that sets up a little
        (CONV, [["a", "b", "c", "d", "k"], ["k"]]),  # hardly repeated
        (CONV, [["k"] * 80, ["k"], ["k"], ["k"]]),  # a first batch that is larger
        ("aten::mm", [["a", "b", "c", "d", "k"], ["k"], ["k"], ["k"]]),  # prefill, and then decoding
        ("aten::add_", [["k"] * 1000, ["k"], ["k"], ["k"]]),
        ("aten::sort", [["a", "b", "c", "d", "e"], ["f"], ["f"], ["f"]]),
    ],
)
def test_what_a_first_call_does_more_of_is_work_of_the_program(operator: str, called: list[list[str]]) -> None:
    _, tries = without_tries(trace(*calls(operator, *called)))
    assert tries.launches == 0


def test_launches_of_a_report_are_left_out_by_their_range() -> None:
    kept, tried = launch(FLOP_1, name="own"), replace(launch(FLOP_1, name="tried"), ranges=("Net", RANGE))
    own, tries = without_tries(report(kept, tried))
    assert [launch_.name for launch_ in own.launches] == ["own"]  # type: ignore[union-attr]
    assert tries.launches == 1 and tries.time_s == pytest.approx(1e-6)


def test_the_plan_counts_no_tries_and_the_gpu_was_busy_with_them() -> None:
    tries = [kernel(number, "softmax", None, RANGE) for number in range(50)]
    own = [kernel(50 + number, "softmax") for number in range(4)]
    survey = Survey((trace(*tries, *own),)).own_work()
    assert survey.tries.launches == 50
    (planned,) = make_plan(survey.launches()).kernels
    # The second comes, whether ncu counts the tries of the second run or not.
    assert (planned.launches, planned.invocations) == (4, (2,))
    (traced,) = survey.recorded
    assert isinstance(traced, Trace)
    (device,) = analyse_traces([traced], hardware_of, "0").session.timeline.devices  # type: ignore[union-attr]
    # 50 ms of tries and the first launch are the start-up.
    assert device.start_up is not None and device.start_up.busy_s == pytest.approx(51e-3)
    assert (device.busy_s, device.kernel_s) == pytest.approx((3e-3, 3e-3))


def test_the_mark_has_one_name_in_the_program_and_here() -> None:
    place = Path(sys.modules["gpuprof.collect"].__path__[0]) / "inject/torch_autotuning.py"
    assert f'RANGE = "{RANGE}"\n' in place.read_text(encoding="utf-8")
