"""The table of steps: what is done on a GPU, in four visits, the most valuable first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.diagnosis.worth import by_worth
from benchmarks.gpu import profiles, semantics
from benchmarks.gpu.context import PROGRAMS, StepContext
from benchmarks.gpu.needs import COUNTERS, CUPY, GPU, GPUPROF, JAX, NCU, NVCC, NVRTC, TORCH, TRITON
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
CASES = (6, 14)
"""Planted cases in the first step, which shows early whether all is well, and in the others: each is one run of ncu."""
_START_S, _CASE_S = 15.0, 4.0
_PROFILE = (GPU, COUNTERS, NCU, GPUPROF)
_CUDA = (GPU, COUNTERS, NCU, NVCC)
_PROBES = (GPU, GPUPROF, CUPY, NVRTC)


class Step(NamedTuple):
    """A step: its visit, its name, how long it may take, what it needs and does.

    How long is as seen on an H100, or an estimate. A cut step goes on behind the last command that came to its end;
    `continues`: that command goes on, too, where it was cut. `after`: the steps whose results it reads. `least_s`: what
    must be left for it to be begun where not all that it may take is.
    """

    visit: str
    name: str
    forecast_s: float
    needs: tuple[str, ...]
    work: Callable[[StepContext], None]
    what: str
    continues: bool = False
    after: tuple[str, ...] = ()
    least_s: float | None = None


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
    yield _recording("launches", 30, (NVCC,), _launches, run_s=20)
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
    yield _recording("transformer", 130, (TORCH,), _transformer, run_s=95)
    yield Step(
        "A", "names-of-libraries", 45, needs=(GPU, COUNTERS, NCU, TORCH), what="what ncu calls kernels of libraries",
        work=semantics.recording(semantics.names_of_libraries),
    )  # fmt: skip
    yield _recording("triton", 60, (TORCH, TRITON), _triton, run_s=40)
    yield _recording("cupy", 30, (CUPY,), _cupy, run_s=20)
    yield _recording("jax", 65, (JAX,), _jax, run_s=40)
    work = profiles.roofline_of(_mixed)
    yield Step(
        "A", "roofline-transformer", 80, needs=(*_PROFILE, TORCH), work=work, what="gpuprof roofline on a script"
    )
    yield Step(
        "A", "cost-of-passes", 35, needs=(*_CUDA, GPUPROF), work=semantics.recording(semantics.cost_of_passes),
        what="what a pass takes, with the counters of the diagnosis and with less",
    )  # fmt: skip
    yield _recording("transformer-compiled", 175, (TORCH, TRITON), _compiled, run_s=90, compiles=True)
    what = "name expressions of 5 kB over many launches"
    yield Step("A", "long-expressions", 60, needs=_CUDA, work=semantics.long_expressions, what=what)
    yield _recording("triton-autotuned", 75, (TORCH, TRITON), _autotuned, run_s=50)


def _recording(
    name: str,
    forecast_s: float,
    needs: tuple[str, ...],
    command_of: profiles.CommandOf,
    run_s: float,
    *,
    compiles: bool = False,
) -> Step:
    work, needs = profiles.profile_of(command_of, run_s, compiles=compiles), (*_PROFILE, *needs)
    what = "under gpuprof run, alone, under ncu --set full"
    least_s = 60 if compiles else run_s
    return Step("A", f"run-{name}", forecast_s, needs=needs, work=work, what=what, least_s=least_s)


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
    needs = (*_PROBES, COUNTERS, NCU)
    what = f"certificates of counters, by the probes of {measured}"
    return Step("B", name, forecast_s, needs=needs, work=work, what=what, continues=True, after=(measured,))


def _agreement(name: str, *measured: str) -> Step:
    what = f"do {' and '.join(measured)} agree within 2 %"
    return Step("B", name, 5, needs=(GPUPROF,), work=profiles.agreement_of(measured), what=what, after=measured)


def _planted() -> Iterator[Step]:
    batches = [(f"planted-{number}", names) for number, names in enumerate(_case_batches(), 1)]
    needs = (*_PROBES, COUNTERS, NCU)
    for name, names in batches:
        what = f"{len(names)} planted bottlenecks under ncu"
        forecast_s = _START_S + _CASE_S * len(names)
        work = profiles.planted(names, batches[0][0] if name != batches[0][0] else None)
        yield Step("C", name, forecast_s, needs=needs, work=work, what=what, continues=True)
    after = tuple(name for name, _ in batches)
    what = "how often the diagnosis is right; needs no GPU"
    yield Step("C", "score", 60, needs=(GPUPROF,), work=profiles.score, what=what, after=after)
    what = "gpuprof compare on each planted case and its repair; needs no GPU"
    yield Step("C", "repairs", 60, needs=(GPUPROF,), work=profiles.repairs, what=what, after=after)


def _users() -> Iterator[Step]:
    yield from _stories()
    needs = (*_PROFILE, TORCH)
    work = profiles.noise_of(_transformer, 55, "--coverage", "50")
    what = "the same run three times, of the kernels that take half of the time"
    yield Step("D", "noise-transformer", 150, needs=needs, work=work, what=what, least_s=60)
    work = profiles.noise_of(_launches, 15)
    yield Step("D", "noise-launches", 40, needs=(*_PROFILE, NVCC), work=work, what="the same run three times")
    work = profiles.overhead_of(_transformer)
    yield Step("D", "overhead", 125, needs=needs, work=work, what="what each kind of survey costs", least_s=60)
    what = "a server that generates by CUDA graphs: one that ends, a window of it, and one that is ended"
    yield Step("D", "serving", 150, needs=needs, work=profiles.serving, what=what, least_s=60)
    work = profiles.repeats_of(_launches, _REPEATS)
    what = f"{_REPEATS} runs of a program, compared with one another: false alarms"
    yield Step("D", "repeats", 250, needs=(*_PROFILE, NVCC), work=work, what=what, continues=True)


def _stories() -> Iterator[Step]:
    """Yield a step for each version of each slow program: NAME, then NAME_v2, NAME_v3, NAME_repaired as they come."""
    for name, forecast_s, run_s, needs in (
        ("story_cuda", 30, 20, (NVCC,)), ("story_pytorch", 95, 60, (TORCH,)), ("story_triton", 75, 45, (TORCH, TRITON)),
    ):  # fmt: skip
        for program in [*PROGRAMS.glob(f"{name}.*"), *sorted(PROGRAMS.glob(f"{name}_*.*"))]:
            first = None if program.stem == name else _step_name(name)
            what = "a slow program three times alone, then under gpuprof run" if first is None else f"{first} repaired"
            yield Step(
                "D", _step_name(program.stem), forecast_s, needs=(*_PROFILE, *needs),
                work=profiles.story_of(_story(program), run_s, first), what=what,
                after=(first,) if first is not None else (), least_s=min(60, forecast_s),
            )  # fmt: skip


def _step_name(program: str) -> str:
    return program.replace("_", "-")


def _story(program: Path) -> profiles.CommandOf:
    def command_of(context: StepContext) -> list[str]:
        return context.compiled(program.stem) if program.suffix == ".cu" else context.script(program.stem)

    return command_of


def _case_batches() -> Iterator[tuple[str, ...]]:
    """Yield the names of the planted cases, those worth most first."""
    folder = data_dir("microkernels") / "bottlenecks"
    names = by_worth({name: planted_rule(folder / f"{name}.yaml") for name in _named(folder)})
    first, size = CASES
    yield names[:first]
    for start in range(first, len(names), size):
        yield names[start : start + size]


def planted_rule(file: Path) -> str:
    """Return the rule of a case: the steps are listed also where no YAML can be read."""
    line = re.search(r"^planted_rule: *([\w-]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return line[1] if line is not None else ""


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
