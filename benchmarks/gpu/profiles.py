"""Programs under gpuprof, the GPU by micro-kernels, planted bottlenecks: recordings, and what each costs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from benchmarks.command_line import LEFT
from benchmarks.gpu.context import OutOfTime, StepContext

FULL_SKIPPED, FULL_LAUNCHES = 330, 10
"""Launches that `ncu --set full` passes over, two steps of the transformer, and that it profiles."""
_SURVEYED = re.compile(r"took (\d+(?:\.\d+)?) (m?s) in the survey")
_PLAN = re.compile(r"^plan: .*?, ([\d.]+) % of the GPU's time", re.MULTILINE)
_PROFILED = re.compile(
    r"^((?:limits|answers|profile)(?: again)?): ([\d\u202f]+) .*?(?:(\d+):)?(\d+) (?:s|min), (.*)$", re.MULTILINE
)
_LEFT_TO_END_S = 20.0
"""How long what records may take to end."""
Work = Callable[[StepContext], None]
CommandOf = Callable[[StepContext], list[str]]


def environment(context: StepContext) -> None:
    """Write down the GPU, its driver, and what gpuprof's doctor says."""
    if context.tools.gpu is not None:
        context.call("nvidia-smi", ["nvidia-smi", "-q"], None)
    context.gpuprof("doctor", "doctor", expected=None)
    text = "\n".join(f"{name} {version}" for name, version in sorted(context.tools.versions.items()))
    missing = "\n".join(f"missing: {why}" for why in context.tools.missing.values())
    (context.folder / "versions.txt").write_text(f"{text}\n{missing}\n", encoding="utf-8")


def profile_of(command_of: CommandOf, *, warm_up: bool = False, compared: bool = False) -> Work:
    """Return a step that runs a program under `gpuprof run`. What compiles for long can `warm_up` its caches before.

    Where it is `compared`, it also runs alone, and under `ncu --set full` for some launches.
    """

    def work(context: StepContext) -> None:
        program = command_of(context)
        if warm_up and context.call("warm-up", program).code:
            return
        done = context.gpuprof("gpuprof", "run", "-o", "run", "--force", "--", *program)
        context.figure("under gpuprof run", done.seconds, "s")
        _stages(context, "gpuprof")
        if not compared:
            return
        context.figure("alone", context.call("alone", program).seconds, "s")
        options = (
            "--set",
            "full",
            "--launch-skip-before-match",
            str(FULL_SKIPPED),
            "--launch-count",
            str(FULL_LAUNCHES),
        )
        under = context.ncu("full", options, program, (0,))
        context.figure(f"under ncu --set full, {FULL_LAUNCHES} launches", under.seconds, "s")

    return work


def _stages(context: StepContext, name: str) -> None:
    """Tell what a call of gpuprof printed of the runs of the program that it made."""
    for figure in stages_in(context.text(f"{name}.err.txt")):
        context.figure(*figure)


def stages_in(text: str) -> Iterator[tuple[str, float, str]]:
    """Yield how long survey and profile took, with passes, and what they cover, of what gpuprof says on stderr."""
    surveyed, plan = _SURVEYED.search(text), _PLAN.search(text)
    if surveyed is not None:
        yield "its survey", float(surveyed[1]) / (1000 if surveyed[2] == "ms" else 1), "s"
    if plan is not None:
        yield "of the GPU's time, profiled", float(plan[1]), "%"
    for stage, launches, minutes, seconds, passes in _PROFILED.findall(text):
        yield f"launches of its {stage}", int(launches.replace("\u202f", "")), "launches"
        yield f"its {stage}, {passes}", 60 * int(minutes or 0) + int(seconds), "s"


def roofline_of(command_of: CommandOf) -> Work:
    """Return a step that draws the roofline of a program."""

    def work(context: StepContext) -> None:
        done = context.gpuprof("roofline", "roofline", "-o", "roofline", "--force", "--", *command_of(context))
        context.figure("under gpuprof roofline", done.seconds, "s")
        _stages(context, "roofline")

    return work


def characterized(name: str, *options: str, samples_of: str | None = None) -> Work:
    """Return a step that measures the GPU; it goes on where it was cut, or from the samples of another step."""

    def work(context: StepContext) -> None:
        samples = context.folder / f"{name}.samples.jsonl"
        if samples_of is not None and not samples.exists():
            samples.write_bytes((context.places.result(samples_of) / f"{samples_of}.samples.jsonl").read_bytes())
        resume = ["--resume"] if samples.exists() else []
        context.gpuprof("characterize", "characterize", *options, "--force", *resume, "-o", f"{name}.measured.yaml")
        context.figure(" ".join(("characterize", *options)), context.seconds, "s")
        if samples_of is not None and not list(context.folder.glob("sm_*-ncu-*.yaml")):
            context.problems.append("there is no certificate: characterize.err.txt says what ncu could not count")

    return work


def planted(names: Sequence[str]) -> Work:
    """Return a step that records planted bottlenecks; it goes on where it was cut, and ends before it is."""

    def work(context: StepContext) -> None:
        minutes = max(context.left_s - _LEFT_TO_END_S, 1.0) / 60
        arguments = ("record", ".", "--ncu", str(context.tools.ncu), "--minutes", f"{minutes:.2f}", *names)
        done = context.call("record", [context.tools.python, "-m", "benchmarks.diagnosis", *arguments], (0, LEFT))
        recorded = sum((context.folder / f"{name}.ncu-rep").exists() for name in names)
        context.figure("planted cases recorded", recorded, f"of {len(names)}")
        if done.code == LEFT:
            raise OutOfTime("not all cases were recorded")

    return work
