"""What ncu does where only a GPU can tell: what passes cost, and which launches a selection brings, by which names."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from benchmarks.gpu.context import StepContext
from gpuprof.collect import metrics
from gpuprof.collect.annotate import annotation
from gpuprof.collect.counter_sets import DEFAULT
from gpuprof.errors import EnvironmentProblem, GpuprofError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.recorded import Launch
from gpuprof.read.ncu_rep import read_ncu_rep

_TIMED = 6
"""Launches whose passes are timed."""
_ROUNDS = 8
"""Launches of each of the three plain kernels."""
_EXECUTED = "smsp__inst_executed.sum"
"""It is another number for each launch of the plain kernels."""
_COUNTED = ("--metrics", f"{metrics.TIME},{_EXECUTED}")
_LIBRARIES = "::regex:^(sm80_xmma_gemm|fmha_cutlass|void cutlass):^(4|8)$"
"""Launches of matrix products and attention in FP32: the first have names that are not mangled."""
_MARKED = {
    "step": 2,
    "by": "optimizer",
    "units": ["layers.0.linear1", "layers.0.linear1 (backward)", "optimizer step"],
}
_PASSES = re.compile(r"(\d+) pass(?:es)?\b")
_PROFILING = re.compile(r'^==PROF== Profiling "(.*)"(?: - \d+)?:', re.MULTILINE)


class _Selection(NamedTuple):
    """Options of ncu, and the positions of the launches of `launches --plain` that they mean, from 1 on."""

    name: str
    options: tuple[str, ...]
    wanted: frozenset[int]


def _by_name(base: str) -> _Selection:
    """Select the second and fifth launch of each kernel by their names."""
    which = ("--kernel-name-base", base, "--kernel-id", "::regex:^plain_:^(2|5)$")
    return _Selection(f"names-{base}", (*which, "--filter-mode", "per-launch-config"), frozenset({4, 5, 6, 13, 14, 15}))


_WINDOW = ("--launch-skip-before-match", "7", "--launch-count", "3")
_WITHOUT = ("--kernel-name-base", "function", "--kernel-name", "regex:^(?!plain_second).")
_SELECTIONS = (
    _Selection("numbers", ("--kernel-id", ":::^(3|17)$", "--filter-mode", "global"), frozenset({3, 17})),
    _Selection("window", _WINDOW, frozenset({8, 9, 10})),
    # The launches behind the first seven that are not of the second kernel: of the first, third and first one again.
    _Selection("window-without", (*_WINDOW, *_WITHOUT), frozenset({9, 10, 12})),
    *map(_by_name, ("demangled", "function", "mangled")),
)


def cost_of_passes(context: StepContext) -> None:
    """Time the counters of gpuprof's diagnosis on a few launches, and less than these: what a pass takes follows."""
    program = context.launches("--saxpy", str(_TIMED))
    for name, what, counters, caches, source in _ways(_arch(context)):
        options = ("--cache-control", caches, "--import-source", source, "--metrics", ",".join(counters))
        done = context.ncu(name, options, program)
        context.figure(f"saxpy ×{_TIMED}, {what}", done.seconds, "s")
        _tell_passes(context, name, what)


def _ways(arch: ArchSpec) -> Iterator[tuple[str, str, Sequence[str], str, str]]:
    """Yield the name of a run, what it collects, its metrics, --cache-control and --import-source."""
    every = metrics.metrics_of(arch, DEFAULT)
    yield "default", "all counters of the default", every, "all", "yes"
    yield "caches", "the same, caches left alone", every, "none", "yes"
    yield "source", "the same, without the source", every, "all", "no"
    yield "sampling", "the same, without samples of warps", [one for one in every if "pcsamp" not in one], "all", "yes"
    opcodes = [one for one in every if not one.startswith("sass__")]
    yield "opcodes", "the same, without counts by instruction", opcodes, "all", "yes"
    yield "limits", "the counters of the limits", metrics.limit_metrics(arch), "all", "no"
    yield "limits-caches", "the counters of the limits, caches left alone", metrics.limit_metrics(arch), "none", "no"
    yield "time", "the time alone", [metrics.TIME], "all", "no"


def selection(context: StepContext) -> None:
    """Select launches in ways that need no names, and by names; write down which came, and what ncu calls them.

    Of the plain kernels the number of instructions tells which launch it is. Of the transformer ncu's log and its
    report have to agree, and the marks of gpuprof's hook to be there.
    """
    program = context.launches("--plain", str(_ROUNDS))
    context.ncu("every", _COUNTED, program)
    numbers = [_executed(launch) for launch in _launches(context, "every")]
    for name, options, wanted in _SELECTIONS:
        context.ncu(name, (*options, *_COUNTED), program)
        launches = _launches(context, name)
        positions = [_position(launch, numbers) for launch in launches]
        right = len(wanted.intersection(positions))
        context.figure(f"{name}: launches that were asked for", right, f"of {len(wanted)}")
        _tell_names(context, name, launches, positions)
    _select_in_transformer(context)


def _select_in_transformer(context: StepContext) -> None:
    by_name = ("--kernel-name-base", "demangled", "--kernel-id", _LIBRARIES, "--filter-mode", "per-launch-config")
    ways: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
        "eager-modules": (by_name, {"CUDA_MODULE_LOADING": "EAGER"}),
        "nvtx": (("--nvtx", "--nvtx-include", "gpuprof-chosen/"), _marks(context, "nvtx")),
        "profiler": (("--profile-from-start", "off"), _marks(context, "profiler")),
    }
    for name, (options, variables) in ways.items():
        context.ncu(name, (*options, *_COUNTED), context.script("transformer"), variables=variables)
        _tell_names(context, name, _launches(context, name))


def _marks(context: StepContext, way: str) -> dict[str, str]:
    """Write down for gpuprof's hook what to mark and how; return the variables that make a program load the hook."""
    place = context.folder / f"{way}-marks.json"
    place.write_text(json.dumps({**_MARKED, "with": way}), encoding="utf-8")
    return {**annotation(context.environ), "GPUPROF_MARK": str(place)}


def limits(context: StepContext) -> None:
    """Count what limits each launch of the transformer, with NVTX ranges; compare names in ncu's log and report."""
    counters = ",".join(metrics.limit_metrics(_arch(context)))
    options = ("--nvtx", "--cache-control", "none", "--metrics", counters)
    done = context.ncu("limits", options, context.script("transformer"), variables=annotation(context.environ))
    context.figure("transformer, the counters of the limits at all launches", done.seconds, "s")
    _tell_passes(context, "limits", "the counters of the limits")
    _tell_names(context, "limits", _launches(context, "limits"))


def _arch(context: StepContext) -> ArchSpec:
    assert context.tools.gpu is not None, "these steps need a GPU"
    arch = SpecLibrary().arch_of(context.tools.gpu.compute_capability)
    if arch is None:
        raise EnvironmentProblem(f"no spec describes {context.tools.gpu.name}", "gpuprof specs list shows all")
    return arch


def _tell_passes(context: StepContext, report: str, what: str) -> None:
    numbers = _PASSES.findall(context.text(f"{report}.log"))
    if numbers:
        context.figure(f"passes of a launch, {what}", max(map(int, numbers)), "passes")
    else:
        context.problems.append(f"{report}: ncu profiled nothing")


def _tell_names(
    context: StepContext, report: str, launches: Sequence[Launch], positions: Sequence[int | None] = ()
) -> None:
    """Write what ncu's log and its report call each launch as REPORT-names.csv; tell how many differ."""
    said = _PROFILING.findall(context.text(f"{report}.log"))
    others = 0
    with (context.folder / f"{report}-names.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("position", "log", "function", "demangled", "instructions"))
        for text, launch, position in zip_longest(said, launches, positions):
            cells = (launch.name, launch.demangled, _executed(launch)) if launch is not None else ("", "", "")
            table.writerow((position, text, *cells))
            others += launch is None or launch.name not in (text or "")
    context.figure(f"{report}: launches in the report", len(launches), "launches")
    context.figure(f"{report}: launches with another name in the log", others, "launches")


def _launches(context: StepContext, report: str) -> tuple[Launch, ...]:
    """Read a report; without one, or where it cannot be read, that is a problem and there are no launches."""
    try:
        return read_ncu_rep(context.folder / f"{report}.ncu-rep").launches
    except (GpuprofError, OSError) as error:
        last = context.text(f"{report}.log").strip().rpartition("\n")[2]
        context.problems.append(f"{report}: {error}; ncu says {last!r}")
        return ()


def _executed(launch: Launch) -> float | None:
    return launch.metrics.number(_EXECUTED)


def _position(launch: Launch, numbers: Sequence[float | None]) -> int | None:
    """Return which launch of the program this is, from 1 on; None where it is none of them."""
    number = _executed(launch)
    return numbers.index(number) + 1 if number is not None and number in numbers else None
