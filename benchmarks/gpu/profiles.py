"""Programs alone, under gpuprof and under ncu: recordings, and what each costs."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.gpu.context import StepContext

FULL_LAUNCHES = 10
"""Of `ncu --set full`, which takes some forty passes a launch."""
_PLANNED = ("--kernel-name-base", "--kernel-id", "--filter-mode", "--rename-kernels", "--pipeline-boost-state")
"""What gpuprof tells ncu of the launches to profile: with these ncu profiles the same ones."""
_SURVEYED = re.compile(r"\((\d+(?:\.\d+)?) (m?s) in the survey\)")
_PLAN = re.compile(r"^plan: profile ([\d\u202f]+) launch(?:es)? of .*?, ([\d.]+) % of the GPU's time", re.MULTILINE)
_PROFILED = re.compile(r"^(survey|profile|profile again): .*?(?:(\d+):)?(\d+) (?:s|min), (.*)$", re.MULTILINE)
RECORDED = "recorded.json"
"""What `benchmarks.diagnosis record` keeps beside its reports."""
_HALVES = 2
_RATE = re.compile(r"(\d+) of (\d+) \(")
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


def profile_of(command_of: CommandOf, *, full: bool = True) -> Callable[[StepContext], None]:
    """Return a step that runs a program alone, under `gpuprof run`, and under `ncu --set full` for some of the same.

    gpuprof's own full set is left out: it is ncu's with some metrics more.
    """

    def work(context: StepContext) -> None:
        program = command_of(context)
        if not alone(context, program):
            return
        done = context.gpuprof("gpuprof", "run", "-o", "run", "--force", "--", *program)
        context.figure("under gpuprof run", done.seconds, "s")
        _stages(context, "gpuprof")
        if full:
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
    """Run a program twice, the first time to fill its caches; tell the time of the second, and whether it runs."""
    if context.call("warm-up", program).code:
        return False
    context.figure("alone", context.call("alone", program).seconds, "s")
    return True


def roofline_of(command_of: CommandOf) -> Callable[[StepContext], None]:
    """Return a step that draws the roofline of a program."""

    def work(context: StepContext) -> None:
        done = context.gpuprof("roofline", "roofline", "-o", "roofline", "--force", "--", *command_of(context))
        context.figure("under gpuprof roofline", done.seconds, "s")
        _stages(context, "roofline")

    return work


def noise_of(command_of: CommandOf) -> Callable[[StepContext], None]:
    """Return a step that profiles the same program three times; tell how far the times of its kernels are apart."""

    def work(context: StepContext) -> None:
        program = command_of(context)
        for number in ("1", "2", "3"):
            context.gpuprof(f"run-{number}", "run", "-o", number, "--force", "--", *program)
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
        if not alone(context, program):
            return
        for survey in ("torch", "ncu"):
            options = ("--survey", survey, "--plan-only", "-o", survey, "--force")
            done = context.gpuprof(f"survey-{survey}", "run", *options, "--", *program)
            context.figure(f"survey by {survey}, whole command", done.seconds, "s")
        done = context.gpuprof("roofline-set", "run", "--set", "roofline", "-o", "set", "--force", "--", *program)
        context.figure("under gpuprof run --set roofline", done.seconds, "s")

    return work


def serving(context: StepContext) -> None:
    """Profile a server that ends by itself, and one that does not and is ended by --timeout."""
    bounded = context.gpuprof(
        "bounded", "run", "-o", "bounded", "--force", "--", *context.script("server", "--seconds", "10")
    )
    context.figure("server of 10 s under gpuprof run", bounded.seconds, "s")
    endless = context.script("server", "--seconds", "3600")
    options = ("--timeout", "40", "-o", "ended", "--force")
    ended = context.gpuprof("ended", "run", *options, "--", *endless, expected=(0, 4))
    context.figure("endless server under gpuprof run --timeout 40", ended.seconds, "s")


def characterized(name: str, *options: str, samples_of: str | None = None) -> Callable[[StepContext], None]:
    """Return a step that measures the GPU; it goes on where it was cut, or from the samples of another step."""

    def work(context: StepContext) -> None:
        samples = context.folder / f"{name}.samples.jsonl"
        if samples_of is not None and not samples.exists():
            samples.write_bytes((context.places.result(samples_of) / f"{samples_of}.samples.jsonl").read_bytes())
        resume = ["--resume"] if samples.exists() else []
        done = context.gpuprof(
            "characterize", "characterize", *options, "--force", *resume, "-o", f"{name}.measured.yaml"
        )
        context.figure(" ".join(("characterize", *options)), done.seconds, "s")
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


def planted(names: Sequence[str]) -> Callable[[StepContext], None]:
    """Return a step that records planted bottlenecks; it goes on where it was cut."""

    def work(context: StepContext) -> None:
        arguments = ("record", ".", "--ncu", str(context.tools.ncu), *names)
        context.call("record", [context.tools.python, "-m", "benchmarks.diagnosis", *arguments])

    return work


def score_of(steps: Sequence[str]) -> Callable[[StepContext], None]:
    """Return a step that scores what others have recorded."""

    def work(context: StepContext) -> None:
        with _reports_of(context, steps) as reports:
            context.call("score", [context.tools.python, "-m", "benchmarks.diagnosis", "score", reports], (0, 1))
            _rates(context)

    return work


def repairs_of(steps: Sequence[str]) -> Callable[[StepContext], None]:
    """Return a step that compares the recorded planted cases with their repairs."""

    def work(context: StepContext) -> None:
        with _reports_of(context, steps) as reports:
            context.call("repairs", [context.tools.python, "-m", "benchmarks.gate", "--planted", reports])
        table = _cells(context.folder / "repairs.out.txt")[1:]
        context.figure("repairs called faster", sum(cells[1] == "faster" for cells in table), f"of {len(table)}")

    return work


@contextlib.contextmanager
def _reports_of(context: StepContext, steps: Sequence[str]) -> Iterator[str]:
    """Give the name of a folder with the reports that these steps have left; it is gone afterwards."""
    reports = context.folder / "reports"
    versions: dict[str, str] = {}
    reports.mkdir(exist_ok=True)
    for step in steps:
        folder = context.places.result(step)
        if (folder / RECORDED).exists():
            versions |= json.loads((folder / RECORDED).read_text(encoding="utf-8"))
        for file in folder.glob("*.ncu-rep"):
            (reports / file.name).write_bytes(file.read_bytes())
    (reports / RECORDED).write_text(json.dumps(versions), encoding="utf-8")
    try:
        yield reports.name
    finally:
        for file in reports.iterdir():
            file.unlink()
        reports.rmdir()


def _rates(context: StepContext) -> None:
    """Tell the rates of the score, both halves together."""
    printed = context.folder / "score.out.txt"
    for line in printed.read_text(encoding="utf-8").splitlines() if printed.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rates = [_RATE.match(cell) for cell in cells[1:]]
        known = [rate for rate in rates if rate is not None]
        if len(cells) == _HALVES + 1 and known:
            right, total = (sum(int(rate[group]) for rate in known) for group in (1, 2))
            context.figure(cells[0], right, f"of {total}")
