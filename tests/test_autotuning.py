"""What an autotuner tries is no work of the program: it is left out of the survey, and still keeps the GPU busy."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuprof.collect.plan import make_plan
from gpuprof.collect.survey import Survey
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.autotuning import RANGE, without_tries
from gpuprof.model.timeline import analyse_traces
from gpuprof.model.trace import KERNEL, TRY, Activity, Trace
from tests.builders import FLOP_1, hardware_of, launch, report


def kernel(number: int, name: str, operator: str | None = None, *ranges: str) -> Activity:
    """A kernel of 1 ms, the next of a program that launches one every 2 ms."""
    return Activity(KERNEL, name, 0, number * 2e-3, 1e-3, 7, (1, 1, 1), (32, 1, 1), ranges=ranges, operator=operator)


def trace(*kernels: Activity) -> Trace:
    device = RecordedDevice("NVIDIA H100", "9.0", None, 132, None)
    return Trace("hand.pt.trace.json", "0" * 64, "pytorch-trace", "PyTorch", None, (device,), kernels)


def names_of(found: object, kind: str = KERNEL) -> list[str]:
    assert isinstance(found, Trace)
    return [one.name for one in found.activities if one.kind == kind]


def test_what_is_marked_is_left_out() -> None:
    found, tries = without_tries(trace(kernel(0, "a", None, "Net", RANGE), kernel(1, "a"), kernel(2, "b")))
    assert names_of(found) == ["a", "b"] and names_of(found, TRY) == ["a"]
    assert tries.launches == 1 and tries.time_s == pytest.approx(1e-3)


def test_the_first_call_of_a_convolution_that_tries_ten_algorithms_leaves_what_it_chose() -> None:
    conv = "aten::cudnn_convolution"
    first = [kernel(number, f"algorithm_{number}", conv, "Net", "conv1") for number in range(10)]
    chosen = [kernel(10, "algorithm_3", conv, "Net", "conv1")]
    later = []
    for number in (11, 13, 15):
        later += [kernel(number, "relu", "aten::relu", "Net"), kernel(number + 1, "algorithm_3", conv, "Net", "conv1")]
    found, tries = without_tries(trace(*first, *chosen, *later))
    assert tries.launches == 10
    assert names_of(found) == ["algorithm_3", "relu", "algorithm_3", "relu", "algorithm_3", "relu", "algorithm_3"]


@pytest.mark.parametrize(("first", "later"), [(3, 2), (4, 0), (1, 4), (10, 1)])
def test_a_call_that_sets_up_a_little_or_is_hardly_repeated_is_left_alone(first: int, later: int) -> None:
    calls = [first, *[1] * later]
    kernels, number = [], 0
    for call in calls:
        for _ in range(call):
            kernels.append(kernel(number, "k", "aten::mm", "Net", "fc"))
            number += 1
        kernels.append(kernel(number, "relu", "aten::relu", "Net"))
        number += 1
    _, tries = without_tries(trace(*kernels))
    assert tries.launches == 0


def test_a_program_that_does_nothing_but_try_is_surveyed_as_it_is() -> None:
    whole = trace(kernel(0, "a", None, RANGE), kernel(1, "b", None, RANGE))
    assert without_tries(whole) == (whole, (0, 0.0))


def test_launches_of_a_report_are_left_out_by_their_range() -> None:
    own, tried = launch(FLOP_1, name="own"), replace(launch(FLOP_1, name="tried"), ranges=("Net", RANGE))
    found, tries = without_tries(report(own, tried))
    assert [one.name for one in found.launches] == ["own"]  # type: ignore[union-attr]
    assert tries.launches == 1 and tries.time_s == pytest.approx(1e-6)


def test_the_plan_counts_no_tries_and_the_gpu_was_busy_with_them() -> None:
    tries = [kernel(number, "softmax", None, RANGE) for number in range(50)]
    own = [kernel(50 + number, "softmax") for number in range(4)]
    survey = Survey((trace(*tries, *own),)).own_work()
    assert survey.tries.launches == 50
    (planned,) = make_plan(survey.launches()).kernels
    # The fourth comes, whether ncu counts the tries of the second run or not.
    assert (planned.launches, planned.invocations) == (4, (4,))
    (traced,) = survey.recorded
    assert isinstance(traced, Trace)
    (device,) = analyse_traces([traced], hardware_of, "0").session.timeline.devices  # type: ignore[union-attr]
    assert device.busy_s == pytest.approx(54e-3) and device.kernel_s == pytest.approx(4e-3)


def test_the_mark_has_one_name_in_the_program_and_here() -> None:
    place = Path(sys.modules["gpuprof.collect"].__path__[0]) / "inject/torch_autotuning.py"
    sys.modules.setdefault("_gpuprof_torch_compiling", SimpleNamespace(pass_over=lambda *_: None))  # type: ignore[arg-type]
    spec = importlib.util.spec_from_file_location("_torch_autotuning_of_the_test", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del sys.modules["_gpuprof_torch_compiling"]
    assert module.RANGE == RANGE
