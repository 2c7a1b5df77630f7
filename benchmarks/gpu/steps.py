"""The table of steps: what each call does on a GPU, and how long that takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.diagnosis.worth import by_worth
from benchmarks.gpu import experiments, profiles
from benchmarks.gpu.context import StepContext
from benchmarks.gpu.needs import COUNTERS, CUPY, GPU, JAX, NCU, NVCC, NVRTC, TORCH, TRITON
from gpuprof.resources import data_dir

FIRST_VISIT = (1, 2, 3, 4, 5)
"""Its calls; all others are of the second visit."""
START_S, VISIT_S = 90.0, 840.0
"""What a machine takes to start, and what a visit may take with it."""
PREPARATION_S, CALL_S = 10.0, 165.0
"""What each call takes before its first step, for wheels and tools, and what it may take in all."""
_EACH_CALL = 0
_L2 = ("--only", "bandwidth/l2-write", "--only", "latency/l2-map")
_FIRST_CASES, _CASES = 6, 14
"""Planted cases in the first step, which shows early whether all is well, and in the others."""
_CASES_START_S, _CASE_S = 15, 4
_PROFILE = (GPU, COUNTERS, NCU)
_PROBES = (GPU, CUPY, NVRTC)
_COUNTED = (*_PROBES, COUNTERS, NCU)


class Step(NamedTuple):
    """A step: its call, its name, how long it takes, what it needs, does and is.

    How long is a forecast, in part from an H100. A cut step goes on behind the last command that came to its end;
    `continues`: that command goes on, too, where it was cut. `after`: the steps whose results it reads.
    """

    call: int
    name: str
    forecast_s: float
    needs: tuple[str, ...]
    work: profiles.Work
    what: str
    continues: bool = False
    after: tuple[str, ...] = ()


def steps() -> tuple[Step, ...]:
    """Return every step, in the order of the calls."""
    return (*_first_visit(), *_second_visit())


def steps_of(call: int) -> tuple[Step, ...]:
    """Return the steps of a call. Whatever comes first on a machine writes down what machine it is."""
    return tuple(step for step in steps() if step.call in (_EACH_CALL, call))


def calls() -> tuple[int, ...]:
    """Return the numbers of the calls."""
    return tuple(sorted({step.call for step in steps()} - {_EACH_CALL}))


def forecast_s(call: int) -> float:
    """Return how long a call takes."""
    return PREPARATION_S + sum(step.forecast_s for step in steps_of(call))


def _first_visit() -> Iterator[Step]:
    yield Step(_EACH_CALL, "environment", 2, (), profiles.environment, "GPU, driver, versions, gpuprof doctor")
    yield Step(
        1, "cost-of-passes", 35, (*_PROFILE, NVCC), experiments.cost_of_passes, "what a pass takes, with which counters"
    )
    needs = (*_PROFILE, NVCC, TORCH)
    yield Step(1, "selection", 57, needs, experiments.selection, "which launches come by number, window, name, mark")
    yield Step(
        1,
        "limits",
        50,
        (*_PROFILE, TORCH),
        experiments.limits,
        "what limits each launch of the transformer, in one run",
    )
    work = profiles.profile_of(_transformer, compared=True)
    yield Step(2, "run-transformer", 130, (*_PROFILE, TORCH), work, "under gpuprof run, alone, under ncu --set full")
    for name, forecast, frameworks in (
        ("triton", 45, (TORCH, TRITON)), ("jax", 50, (JAX,)), ("cupy", 25, (CUPY,)),
    ):  # fmt: skip
        work = profiles.profile_of(_PROGRAMS[name])
        yield Step(3, f"run-{name}", forecast, (*_PROFILE, *frameworks), work, "under gpuprof run")
    work = profiles.characterized("quick", "--quick")
    yield Step(4, "quick", 75, _PROBES, work, "gpuprof characterize --quick", continues=True)
    work = profiles.characterized("l2", "--quick", *_L2)
    yield Step(4, "l2", 20, _PROBES, work, "writes to L2, and where its slices are", continues=True)
    work = profiles.characterized("certificates", "--quick", "--verify-counters", samples_of="quick")
    what = "certificates of counters, by the probes of quick"
    yield Step(4, "certificates", 55, _COUNTED, work, what, continues=True, after=("quick",))
    yield _planted(5, 1, planted_cases()[:_FIRST_CASES])
    work = profiles.roofline_of(_mixed)
    yield Step(5, "roofline-transformer", 90, (*_PROFILE, TORCH), work, "gpuprof roofline of the transformer in BF16")


def _second_visit() -> Iterator[Step]:
    work = profiles.profile_of(_compiled, warm_up=True)
    yield Step(6, "run-transformer-compiled", 140, (*_PROFILE, TORCH, TRITON), work, "compiled, under gpuprof run")
    work = profiles.characterized("default")
    yield Step(7, "default", 360, _PROBES, work, "gpuprof characterize", continues=True)
    work = profiles.characterized("counters", "--verify-counters", samples_of="default")
    what = "certificates of counters, by the probes of default"
    yield Step(8, "counters", 120, _COUNTED, work, what, continues=True, after=("default",))
    others = planted_cases()[_FIRST_CASES:]
    for number, start in enumerate(range(0, len(others), _CASES)):
        yield _planted(9 + number // 2, number + 2, others[start : start + _CASES])


def _planted(call: int, number: int, names: Sequence[str]) -> Step:
    seconds = _CASES_START_S + _CASE_S * len(names)
    what = f"{len(names)} planted bottlenecks under ncu"
    return Step(call, f"planted-{number}", seconds, _COUNTED, profiles.planted(names), what, continues=True)


def planted_cases() -> tuple[str, ...]:
    """Return the names of the planted cases, those worth most first."""
    files = sorted((data_dir("microkernels") / "bottlenecks").glob("*.yaml"))
    rule = re.compile(r"^planted_rule: *([\w-]+)", re.MULTILINE)
    return by_worth({file.stem: rule.findall(file.read_text(encoding="utf-8"))[0] for file in files})


def _transformer(context: StepContext) -> list[str]:
    return context.script("transformer")


def _mixed(context: StepContext) -> list[str]:
    return context.script("transformer", "--bf16")


def _compiled(context: StepContext) -> list[str]:
    return context.script("transformer", "--bf16", "--compile")


_PROGRAMS: dict[str, profiles.CommandOf] = {
    "triton": lambda context: context.script("triton_softmax"),
    "jax": lambda context: context.script("jax_mlp"),
    "cupy": lambda context: context.script("cupy_kernels"),
}
