"""Programs alone, under gpuprof and under ncu: recordings, and what each costs."""

from __future__ import annotations

import json
import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.command_line import LEFT
from benchmarks.gpu.context import OutOfTime, StepContext
from gpuprof.errors import EnvironmentProblem

FULL_LAUNCHES = 10
"""Of `ncu --set full`, which takes some forty passes a launch."""
_PLANNED = ("--kernel-name-base", "--kernel-id", "--filter-mode", "--rename-kernels", "--pipeline-boost-state")
"""What gpuprof tells ncu of the launches to profile: with these ncu profiles the same ones."""
_SURVEYED = re.compile(r"\((\d+(?:\.\d+)?) (m?s) in the survey\)")
_PLAN = re.compile(r"^plan: profile ([\d\u202f]+) launch(?:es)? of .*?, ([\d.]+) % of the GPU's time", re.MULTILINE)
_PROFILED = re.compile(r"^(survey|profile|profile again): .*?(?:(\d+):)?(\d+) (?:s|min), (.*)$", re.MULTILINE)
_MILLISECONDS = re.compile(r"([\d.]+) ms (a step|a call|on the GPU): ")
_SERVER_S, _SURVEY_S, _ROOFLINE_S = 45.0, 30.0, 60.0
"""What `gpuprof run` may take: for a server, each time; for a transformer's survey, and with the roofline set."""
_LEFT_TO_END_S = 20.0
"""How long what records may take to end."""
_RATE = re.compile(r"(\d+) of (\d+) \(\d+ %\)")
_RATE_CELLS = (2, 4)
"""A rate and its name; or both halves and all."""
CommandOf = Callable[[StepContext], list[str]]


def environment(context: StepContext) -> None:
    """Write down the GPU, its driver, and what gpuprof's doctor says."""
    if context.tools.gpu is not None:
        context.call("nvidia-smi", ["nvidia-smi", "-q"], None)
    if "gpuprof" not in context.tools.missing:
        context.gpuprof("doctor", "doctor", expected=None)
    text = "\n".join(f"{name} {version}" for name, version in sorted(context.tools.versions.items()))
    missing = "\n".join(f"missing: {why}" for why in context.tools.missing.values())
    (context.folder / "versions.txt").write_text(f"{text}\n{missing}\n", encoding="utf-8")


def profile_of(command_of: CommandOf, run_s: float, *, compiles: bool = False) -> Callable[[StepContext], None]:
    """Return a step that runs a program under `gpuprof run`, alone, and under `ncu --set full` for some of the same.

    What `compiles` for long is run once before, to fill its caches. `run_s` is how long `gpuprof run` may take: where
    less is left, it is not begun in vain. gpuprof's own full set is left out: it is ncu's with some metrics more.
    """

    def work(context: StepContext) -> None:
        program = command_of(context)
        if compiles and context.call("warm-up", program).code:
            return
        context.must_fit(run_s, "gpuprof")
        done = context.gpuprof("gpuprof", "run", "-o", "run", "--force", "--", *program)
        context.figure("under gpuprof run", done.seconds, "s")
        _stages(context, "gpuprof")
        if not alone(context, program):
            return
        # JAX takes most of the memory at its start, and ncu saves all that a kernel can reach.
        context.environ = {**context.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        planned = planned_options(context.folder / "run" / "session.json")
        which = f"the first {FULL_LAUNCHES} {'of the same ' if planned else ''}launches"
        options = ("--set", "full", *planned, "--launch-count", str(FULL_LAUNCHES))
        under = context.ncu("full", options, program, (0,))
        context.figure(f"under ncu --set full, {which}", under.seconds, "s")

    return work


def planned_options(session: Path) -> list[str]:
    """Return the options by which a session's profile told ncu what to profile; none where there was no plan."""
    if not session.exists():
        return []
    sources = json.loads(session.read_text(encoding="utf-8")).get("sources", [])
    lines = [source["command"] for source in sources if source["kind"] == "ncu-rep" and source["command"]]
    argv = shlex.split(lines[0]) if lines else []
    if "--kernel-id" not in argv:
        return []
    return [part for option, value in pairwise(argv) if option in _PLANNED for part in (option, value)]


def _stages(context: StepContext, name: str) -> None:
    """Tell what a call of gpuprof printed of the runs of the program that it made."""
    said = context.folder / f"{name}.err.txt"
    for figure in stages_in(said.read_text(encoding="utf-8") if said.exists() else ""):
        context.figure(*figure)


def stages_in(text: str) -> Iterator[tuple[str, float, str]]:
    """Yield how long survey and profile took, with passes, and what they cover, of what gpuprof says on stderr."""
    surveyed, plan = _SURVEYED.search(text), _PLAN.search(text)
    if surveyed is not None:
        yield "its survey", float(surveyed[1]) / (1000 if surveyed[2] == "ms" else 1), "s"
    if plan is not None:
        yield "of the GPU's time, profiled", float(plan[2]), "%"
        yield "launches profiled", int(plan[1].replace("\u202f", "")), "launches"
    for stage, minutes, seconds, passes in _PROFILED.findall(text):
        if stage != "survey":
            yield f"its {stage}, {passes}", 60 * int(minutes or 0) + int(seconds), "s"


def alone(context: StepContext, program: Sequence[str]) -> bool:
    """Run a program alone and tell its time, and whether it runs. What ran before has filled its caches."""
    done = context.call("alone", program)
    context.figure("alone", done.seconds, "s")
    return not done.code


def roofline_of(command_of: CommandOf) -> Callable[[StepContext], None]:
    """Return a step that draws the roofline of a program."""

    def work(context: StepContext) -> None:
        done = context.gpuprof("roofline", "roofline", "-o", "roofline", "--force", "--", *command_of(context))
        context.figure("under gpuprof roofline", done.seconds, "s")
        _stages(context, "roofline")

    return work


def noise_of(command_of: CommandOf, run_s: float, *options: str) -> Callable[[StepContext], None]:
    """Return a step that profiles the same program three times; tell how far the times of its kernels are apart.

    A run is not begun where less time than `run_s` is left.
    """

    def work(context: StepContext) -> None:
        program = command_of(context)
        for number in ("1", "2", "3"):
            context.must_fit(run_s, f"run-{number}")
            context.gpuprof(f"run-{number}", "run", *options, "-o", number, "--force", "--", *program)
        files = [context.folder / number / "session.json" for number in ("1", "2", "3")]
        apart = spread([json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()])
        if apart:
            context.figure("median spread of a kernel's time in three runs", 100 * statistics.median(apart), "%")
            context.figure("largest spread of a kernel's time in three runs", 100 * max(apart), "%")

    return work


def spread(sessions: Sequence[dict[str, list[dict[str, object]]]]) -> list[float]:
    """Return (longest - shortest) ÷ shortest time of each kernel that all sessions have, equal ones in their order."""
    times: list[dict[tuple[str, int], float]] = []
    for session in sessions:
        mine: dict[tuple[str, int], float] = {}
        for kernel in session["kernels"]:
            shape = json.dumps([kernel["demangled"] or kernel["name"], kernel["grid"], kernel["block"]])
            number = sum(name == shape for name, _ in mine)
            if isinstance(kernel["duration_s"], float) and kernel["duration_s"] > 0:
                mine[shape, number] = kernel["duration_s"]
        times.append(mine)
    if len(times) < 2:
        return []
    common = [key for key in times[0] if all(key in mine for mine in times)]
    return [max(mine[key] for mine in times) / min(mine[key] for mine in times) - 1 for key in common]


def repeats_of(command_of: CommandOf, count: int) -> Callable[[StepContext], None]:
    """Return a step that profiles the same program again and again, and holds the runs against one another.

    A cut leaves the runs that are there; the next call goes on. Of all but the first run the session alone is kept.
    """

    def work(context: StepContext) -> None:
        program = command_of(context)
        names = [f"run-{number:02}" for number in range(1, count + 1)]
        for name in names:
            if not (context.folder / name / "session.json").exists():
                context.gpuprof(name, "run", "-o", name, "--force", "--", *program)
            if name != names[0]:
                _keep_session(context.folder / name)
        files = [f"{name}/session.json" for name in names if (context.folder / name / "session.json").exists()]
        context.call("repeats", [context.tools.python, "-m", "benchmarks.gate", "--repeats", *files])
        table = _cells(context.folder / "repeats.out.txt")
        for cells in table[1:]:
            context.figure(f"{cells[0]}: kernels called faster or slower", int(cells[3]), f"of {cells[2]}")
            context.figure(f"{cells[0]}: kernels whose work is said to have changed", int(cells[5]), f"of {cells[2]}")

    return work


def _keep_session(folder: Path) -> None:
    for file in folder.iterdir() if (folder / "session.json").exists() else ():
        if file.is_file() and file.name != "session.json":
            file.unlink()


def _cells(printed: Path) -> list[list[str]]:
    """Return the cells of a table whose columns are two spaces apart."""
    lines = printed.read_text(encoding="utf-8").splitlines() if printed.exists() else []
    return [re.split(r" {2,}", line.strip()) for line in lines if line.strip()]


def overhead_of(command_of: CommandOf) -> Callable[[StepContext], None]:
    """Return a step that times a program alone, and with each kind of survey."""

    def work(context: StepContext) -> None:
        program = command_of(context)
        for survey in ("torch", "ncu"):
            options = ("--survey", survey, "--plan-only", "-o", survey, "--force")
            context.must_fit(_SURVEY_S, f"survey-{survey}")
            done = context.gpuprof(f"survey-{survey}", "run", *options, "--", *program)
            context.figure(f"survey by {survey}, whole command", done.seconds, "s")
        context.must_fit(_ROOFLINE_S, "roofline-set")
        done = context.gpuprof("roofline-set", "run", "--set", "roofline", "-o", "set", "--force", "--", *program)
        context.figure("under gpuprof run --set roofline", done.seconds, "s")
        alone(context, program)

    return work


def serving(context: StepContext) -> None:
    """Profile a server that ends by itself, a window of it, and one that does not end and is ended by --timeout.

    The window are the NVTX ranges in which it makes tokens, of few requests: ncu times every launch in them first.
    """
    few = context.script("server", "--requests", "2", "--tokens", "8")
    parts = {
        "whole": ((), context.script("server", "--requests", "8"), (0,)),
        "window": (("--range", "decode/"), few, (0,)),
        "ended": (("--timeout", "25"), context.script("server", "--seconds", "3600"), (0, 4)),
    }
    told = {
        "whole": "server of 8 requests under gpuprof run",
        "window": "server of 2 requests, its range decode under gpuprof run",
        "ended": "endless server under gpuprof run --timeout 25",
    }
    for name, (options, program, expected) in parts.items():
        context.must_fit(_SERVER_S, name)
        done = context.gpuprof(name, "run", *options, "-o", f"{name}-run", "--force", "--", *program, expected=expected)
        context.figure(told[name], done.seconds, "s")
    alone(context, few)


def story_of(command_of: CommandOf, run_s: float, first: str | None) -> Callable[[StepContext], None]:
    """Return a step that runs a version of a slow program three times alone, then under `gpuprof run`.

    Where `first` names the step of the first version, both are compared.
    """

    def work(context: StepContext) -> None:
        program = command_of(context)
        calls = [context.call(f"alone-{number}", program) for number in (1, 2, 3)]
        if any(call.code for call in calls):
            return
        context.figure("alone", statistics.median(call.seconds for call in calls), "s")
        times = [told_ms(context.folder / f"alone-{number}.out.txt") for number in (1, 2, 3)]
        known = [value for value, _ in times if value is not None]
        if known:
            context.figure(f"its own time {times[0][1]}, median of three", statistics.median(known), "ms")
        context.must_fit(run_s, "gpuprof")
        done = context.gpuprof("gpuprof", "run", "-o", "run", "--force", "--", *program)
        context.figure("under gpuprof run", done.seconds, "s")
        _stages(context, "gpuprof")
        if first is not None:
            (context.folder / "first").mkdir(exist_ok=True)
            session = context.places.result(first) / "run" / "session.json"
            (context.folder / "first" / session.name).write_bytes(session.read_bytes())
            both = ("first/session.json", "run/session.json")
            context.gpuprof("compared", "compare", "-v", *both)

    return work


def told_ms(printed: Path) -> tuple[float | None, str]:
    """Return the time that a program of a story has printed, and of what it is: "a step", "a call"."""
    time = _MILLISECONDS.search(printed.read_text(encoding="utf-8") if printed.exists() else "")
    return (float(time[1]), time[2]) if time is not None else (None, "")


def characterized(name: str, *options: str, samples_of: str | None = None) -> Callable[[StepContext], None]:
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


def agreement_of(steps: Sequence[str]) -> Callable[[StepContext], None]:
    """Return a step that compares the measured files of two others: how many values agree within 2 %."""

    def work(context: StepContext) -> None:
        files = [context.places.result(step) / f"{step}.measured.yaml" for step in steps]
        for file in files:
            (context.folder / file.name).write_bytes(file.read_bytes())
        command = [context.tools.python, "-m", "benchmarks.gpu.agreement", *(file.name for file in files)]
        context.call("agreement", command)
        first = (context.folder / "agreement.out.txt").read_text(encoding="utf-8").split()
        agreeing, compared = int(first[0]), int(first[2])
        context.figure(f"values of {' and '.join(steps)} that agree within 2 %", agreeing, f"of {compared}")

    return work


def aims(context: StepContext) -> None:
    """Hold the measured file of a step against what the micro-kernels were written for."""
    file = context.places.result("default") / "default.measured.yaml"
    (context.folder / file.name).write_bytes(file.read_bytes())
    context.call("aims", [context.tools.python, "-m", "benchmarks.gpu.aims", file.name])
    first = (context.folder / "aims.out.txt").read_text(encoding="utf-8").split()
    context.figure("aims of the micro-kernels that are reached", int(first[0]), f"of {int(first[2])}")


def planted(names: Sequence[str], before: str | None = None) -> Callable[[StepContext], None]:
    """Return a step that records planted bottlenecks; it goes on where it was cut, and ends before it is.

    Where the step `before` has recorded none at all, whatever failed there would only fail again.
    """

    def work(context: StepContext) -> None:
        first = context.places.result(before) if before is not None else None
        if first is not None and first.exists() and not any(first.glob("*.ncu-rep")):
            raise EnvironmentProblem(f"{before} has recorded nothing", f"mend that first, and run --only {before}")
        minutes = max(context.left_s - _LEFT_TO_END_S, 1.0) / 60
        arguments = ("record", ".", "--ncu", str(context.tools.ncu), "--minutes", f"{minutes:.2f}", *names)
        done = context.call("record", [context.tools.python, "-m", "benchmarks.diagnosis", *arguments], (0, LEFT))
        context.figure(
            "planted cases recorded",
            sum((context.folder / f"{name}.ncu-rep").exists() for name in names),
            f"of {len(names)}",
        )
        if done.code == LEFT:
            raise OutOfTime("not all cases were recorded")

    return work


def score(context: StepContext) -> None:
    """Score what others have recorded."""
    command = [context.tools.python, "-m", "benchmarks.diagnosis", "score", str(context.places.steps)]
    context.call("score", command, (0, 1))
    _rates(context)


def repairs(context: StepContext) -> None:
    """Compare the recorded planted cases with their repairs."""
    folder = str(context.places.steps)
    context.call("repairs", [context.tools.python, "-m", "benchmarks.gate", "--planted", folder])
    table = _cells(context.folder / "repairs.out.txt")[1:]
    context.figure("repairs called faster", sum(cells[1] == "faster" for cells in table), f"of {len(table)}")


def _rates(context: StepContext) -> None:
    """Tell the rates of the score, of all cases that it shows: the last column."""
    printed = context.folder / "score.out.txt"
    for line in printed.read_text(encoding="utf-8").splitlines() if printed.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rate = _RATE.fullmatch(cells[-1])
        if rate is not None and len(cells) in _RATE_CELLS:
            context.figure(cells[0], int(rate[1]), f"of {rate[2]}")
