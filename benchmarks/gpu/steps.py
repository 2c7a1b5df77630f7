"""The table of steps: what is done on a GPU, in four visits, the most valuable first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu import profiles, semantics
from benchmarks.gpu.context import StepContext
from benchmarks.gpu.needs import COUNTERS, CUPY, GPU, GPUPROF, JAX, NCU, NVCC, NVRTC, READER, TORCH, TRITON
from gpuprof.resources import data_dir

LIMIT_S = 450.0
"""A step's time. What it started then has half a minute to end: eight minutes in all."""
VISITS = {
    "A": "what ncu does, and first recordings",
    "B": "the chip, by micro-kernels",
    "C": "planted bottlenecks",
    "D": "as its users would",
}
_REPEATS = 20
"""Runs of a program that are compared with one another."""
BATCH = 17
"""Planted cases in one step."""
_CASE_S = 20.0
_PROFILE = (GPU, COUNTERS, NCU, GPUPROF, READER)
_CUDA = (GPU, COUNTERS, NCU, NVCC)
_PROBES = (GPU, GPUPROF, CUPY, NVRTC)


class Step(NamedTuple):
    """A step: its visit, its name, how long it may take, what it needs and does.

    How long is as seen on an H100, or an estimate. `continues`: what a cut has left is gone on with. `after`: the steps
    whose results it reads.
    """

    visit: str
    name: str
    forecast_s: float
    needs: tuple[str, ...]
    work: Callable[[StepContext], None]
    what: str
    continues: bool = False
    after: tuple[str, ...] = ()


def steps() -> tuple[Step, ...]:
    """Return every step, in the order in which they are worth most."""
    return tuple(row for visit in (_semantics, _recordings, _chip, _planted, _users) for row in visit())


def _semantics() -> Iterator[Step]:
    yield Step("A", "environment", 5, needs=(), work=profiles.environment, what="GPU, driver, versions, gpuprof doctor")
    yield Step(
        "A", "ask-ncu", 20, needs=(GPU, NCU), work=semantics.ask_ncu, what="ncu's options, sets, metrics of this GPU"
    )
    needs = (*_CUDA, GPUPROF)
    yield Step(
        "A",
        "passes",
        20,
        needs=needs,
        work=semantics.passes,
        what="the counter sets on two launches, with their passes",
    )
    yield _recording("launches", 30, (NVCC,), _launches)
    for name, forecast_s, work, what in (
        ("two-streams", 15, semantics.two_streams, "invocation numbers over two streams"),
        ("renamed-kernels", 20, semantics.renamed_kernels, "namespaces in filters, kernels renamed or not"),
        ("unknown-metrics", 10, semantics.unknown_metrics, "metrics that do not exist"),
        ("killed", 5, semantics.killed, "--kill yes"),
        ("names-of-templates", 10, semantics.names_of_templates, "negative template arguments in names"),
        ("report-names", 5, semantics.report_names, "exports with and without extension"),
        ("graphs", 20, semantics.graphs, "the kernels of a CUDA graph"),
    ):
        yield Step("A", name, forecast_s, needs=_CUDA, work=semantics.recording(work), what=what)


def _recordings() -> Iterator[Step]:
    yield _recording("transformer", 150, (TORCH,), _transformer)
    work = profiles.roofline_of(_mixed)
    yield Step(
        "A", "roofline-transformer", 90, needs=(*_PROFILE, TORCH), work=work, what="gpuprof roofline on a script"
    )
    yield Step(
        "A", "names-of-libraries", 30, needs=(GPU, COUNTERS, NCU, TORCH), what="what ncu calls kernels of libraries",
        work=semantics.recording(semantics.names_of_libraries),
    )  # fmt: skip
    yield _recording("transformer-compiled", 180, (TORCH, TRITON), _compiled)
    yield _recording("triton", 60, (TORCH, TRITON), _triton)
    yield _recording("triton-autotuned", 70, (TORCH, TRITON), _autotuned)
    yield _recording("cupy", 30, (CUPY,), _cupy)
    yield _recording("jax", 70, (JAX,), _jax)
    what = "name expressions of 5 kB over many launches"
    yield Step("A", "long-expressions", 60, needs=_CUDA, work=semantics.long_expressions, what=what)


def _recording(name: str, forecast_s: float, needs: tuple[str, ...], command_of: profiles.CommandOf) -> Step:
    what = "alone, under gpuprof run, under ncu --set full"
    return Step(
        "A", f"run-{name}", forecast_s, needs=(*_PROFILE, *needs), work=profiles.profile_of(command_of), what=what
    )


def _chip() -> Iterator[Step]:
    yield _characterized("quick", 90, ["--quick"])
    yield _certified("certificates", 60, "quick", ["--quick"])
    yield _characterized("default", 360, [])
    what = "which of the bandwidths and rates that were aimed at are reached"
    yield Step("B", "aims", 5, needs=(GPUPROF,), work=profiles.aims, what=what, after=("default",))
    yield _agreement("agreement", "quick", "default")
    yield _certified("counters", 120, "default", [])
    yield _characterized("default-again", 360, [])
    yield _agreement("agreement-again", "default", "default-again")


def _characterized(name: str, forecast_s: float, mode: Sequence[str]) -> Step:
    what = " ".join(("gpuprof characterize", *mode))
    work = profiles.characterized(name, *mode)
    return Step("B", name, forecast_s, needs=_PROBES, work=work, what=what, continues=True)


def _certified(name: str, forecast_s: float, measured: str, mode: Sequence[str]) -> Step:
    """Return a step that has ncu count the kernels that another one has measured: none is measured anew."""
    work = profiles.characterized(name, *mode, "--verify-counters", samples_of=measured)
    needs = (*_PROBES, COUNTERS, NCU, READER)
    what = f"certificates of counters, by the probes of {measured}"
    return Step("B", name, forecast_s, needs=needs, work=work, what=what, continues=True, after=(measured,))


def _agreement(name: str, *measured: str) -> Step:
    what = f"do {' and '.join(measured)} agree within 2 %"
    return Step("B", name, 5, needs=(GPUPROF,), work=profiles.agreement_of(measured), what=what, after=measured)


def _planted() -> Iterator[Step]:
    batches = [(f"planted-{number}", names) for number, names in enumerate(_batches(_cases()), 1)]
    needs = (*_PROBES, COUNTERS, NCU, READER)
    for name, names in batches:
        what = f"{len(names)} planted bottlenecks under ncu"
        yield Step(
            "C", name, _CASE_S * len(names), needs=needs, work=profiles.planted(names), what=what, continues=True
        )
    after = tuple(name for name, _ in batches)
    yield Step(
        "C",
        "score",
        90,
        needs=(GPUPROF, READER),
        work=profiles.score_of(after),
        what="how often the diagnosis is right",
        after=after,
    )
    work = profiles.repairs_of(after)
    what = "gpuprof compare on each planted case and its repair"
    yield Step("C", "repairs", 60, needs=(GPUPROF, READER), work=work, what=what, after=after)


def _users() -> Iterator[Step]:
    yield Step(
        "D",
        "noise-launches",
        75,
        needs=(*_PROFILE, NVCC),
        work=profiles.noise_of(_launches),
        what="the same run three times",
    )
    needs = (*_PROFILE, TORCH)
    yield Step(
        "D",
        "noise-transformer",
        300,
        needs=needs,
        work=profiles.noise_of(_transformer),
        what="the same run three times",
    )
    work = profiles.repeats_of(_launches, _REPEATS)
    what = f"{_REPEATS} runs of a program, compared with one another: false alarms"
    yield Step("D", "repeats", 400, needs=(*_PROFILE, NVCC), work=work, what=what, continues=True)
    yield Step(
        "D",
        "overhead",
        180,
        needs=needs,
        work=profiles.overhead_of(_transformer),
        what="what each kind of survey costs",
    )
    yield Step(
        "D", "serving", 120, needs=needs, work=profiles.serving, what="a server, one that ends and one that is ended"
    )


def _batches(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield names in batches of about equal size, at most BATCH."""
    count = -(-len(names) // BATCH)
    for number in range(count):
        yield tuple(names[number::count])


def _cases() -> list[str]:
    return _named(data_dir("microkernels") / "bottlenecks")


def _named(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _launches(context: StepContext) -> list[str]:
    return context.launches("--streams", "10", "--templates", "1", "--empty", "100", "--saxpy", "4", "--transpose", "4")


def _transformer(context: StepContext) -> list[str]:
    return context.script("transformer")


def _mixed(context: StepContext) -> list[str]:
    return context.script("transformer", "--bf16")


def _compiled(context: StepContext) -> list[str]:
    return context.script("transformer", "--bf16", "--compile")


def _triton(context: StepContext) -> list[str]:
    return context.script("triton_softmax")


def _autotuned(context: StepContext) -> list[str]:
    return context.script("triton_softmax", "--autotune")


def _cupy(context: StepContext) -> list[str]:
    return context.script("cupy_kernels")


def _jax(context: StepContext) -> list[str]:
    return context.script("jax_mlp")
