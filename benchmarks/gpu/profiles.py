"""Programs alone, under gpuprof and under ncu: recordings, and what each costs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Sequence

from benchmarks.gpu.bench import Bench

FULL_LAUNCHES = 20
"""Of `ncu --set full`, which takes some forty passes a launch."""
RECORDED = "recorded.json"
"""What `benchmarks.diagnosis record` keeps beside its reports."""
_HALVES = 2
_RATE = re.compile(r"(\d+) of (\d+) \(")
Words = Callable[[Bench], list[str]]


def environment(bench: Bench) -> None:
    """Write down the GPU, its driver, and what gpuprof's doctor says."""
    if bench.tools.gpu is not None:
        bench.call("nvidia-smi", ["nvidia-smi", "-q"], None)
    if "gpuprof" not in bench.tools.missing:
        bench.gpuprof("doctor", "doctor", expected=None)
    text = "\n".join(f"{name} {version}" for name, version in sorted(bench.tools.versions.items()))
    missing = "\n".join(f"missing: {why}" for why in bench.tools.missing.values())
    (bench.folder / "versions.txt").write_text(f"{text}\n{missing}\n", encoding="utf-8")


def profile_of(words: Words, *, full: bool = True) -> Callable[[Bench], None]:
    """Return a step that runs a program alone, under `gpuprof run`, and under `ncu --set full` for some launches."""

    def work(bench: Bench) -> None:
        program = words(bench)
        if not alone(bench, program):
            return
        done = bench.gpuprof("gpuprof", "run", "-o", "run", "--force", "--", *program)
        bench.figure("under gpuprof run", done.seconds, "s")
        if full:
            # JAX takes most of the memory at its start, and ncu saves all that a kernel can reach.
            bench.environ = {**bench.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
            options = ("--set", "full", "--launch-count", str(FULL_LAUNCHES))
            under = bench.ncu("full", options, program, (0,))
            bench.figure(f"under ncu --set full, {FULL_LAUNCHES} launches", under.seconds, "s")

    return work


def alone(bench: Bench, program: Sequence[str]) -> bool:
    """Run a program twice, the first time to fill its caches; tell the time of the second, and whether it runs."""
    if bench.call("warm-up", program).code:
        return False
    bench.figure("alone", bench.call("alone", program).seconds, "s")
    return True


def roofline_of(words: Words) -> Callable[[Bench], None]:
    """Return a step that draws the roofline of a program."""

    def work(bench: Bench) -> None:
        done = bench.gpuprof("roofline", "roofline", "-o", "roofline", "--force", "--", *words(bench))
        bench.figure("under gpuprof roofline", done.seconds, "s")

    return work


def noise_of(words: Words) -> Callable[[Bench], None]:
    """Return a step that profiles the same program three times; tell how far the times of its kernels are apart."""

    def work(bench: Bench) -> None:
        program = words(bench)
        for number in ("1", "2", "3"):
            bench.gpuprof(f"run-{number}", "run", "-o", number, "--force", "--", *program)
        files = [bench.folder / number / "session.json" for number in ("1", "2", "3")]
        apart = spread([json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()])
        if apart:
            bench.figure("median spread of a kernel's time in three runs", 100 * statistics.median(apart), "%")
            bench.figure("largest spread of a kernel's time in three runs", 100 * max(apart), "%")

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


def overhead_of(words: Words) -> Callable[[Bench], None]:
    """Return a step that times a program alone, and with each kind of survey."""

    def work(bench: Bench) -> None:
        program = words(bench)
        if not alone(bench, program):
            return
        for survey in ("torch", "ncu"):
            options = ("--survey", survey, "--plan-only", "-o", survey, "--force")
            done = bench.gpuprof(f"survey-{survey}", "run", *options, "--", *program)
            bench.figure(f"survey by {survey}, whole command", done.seconds, "s")
        done = bench.gpuprof("roofline-set", "run", "--set", "roofline", "-o", "set", "--force", "--", *program)
        bench.figure("under gpuprof run --set roofline", done.seconds, "s")

    return work


def serving(bench: Bench) -> None:
    """Profile a server that ends by itself, and one that does not and is ended by --timeout."""
    bounded = bench.gpuprof(
        "bounded", "run", "-o", "bounded", "--force", "--", *bench.script("server", "--seconds", "10")
    )
    bench.figure("server of 10 s under gpuprof run", bounded.seconds, "s")
    endless = bench.script("server", "--seconds", "3600")
    options = ("--timeout", "40", "-o", "ended", "--force")
    ended = bench.gpuprof("ended", "run", *options, "--", *endless, expected=(0, 4))
    bench.figure("endless server under gpuprof run --timeout 40", ended.seconds, "s")


def characterized(name: str, *options: str) -> Callable[[Bench], None]:
    """Return a step that measures the GPU; it goes on where it was cut."""

    def work(bench: Bench) -> None:
        resume = ["--resume"] if (bench.folder / f"{name}.samples.jsonl").exists() else []
        done = bench.gpuprof(
            "characterize", "characterize", *options, "--force", *resume, "-o", f"{name}.measured.yaml"
        )
        bench.figure(" ".join(("characterize", *options[:1])), done.seconds, "s")

    return work


def agreement(bench: Bench) -> None:
    """Compare the measured files of two steps: how many values agree within 2 %."""
    files = [bench.places.result(step) / f"{step}.measured.yaml" for step in ("default", "default-again")]
    for file in files:
        (bench.folder / file.name).write_bytes(file.read_bytes())
    words = [bench.tools.python, "-m", "benchmarks.gpu.agreement", *(file.name for file in files)]
    bench.call("agreement", words)
    first = (bench.folder / "agreement.out.txt").read_text(encoding="utf-8").split()
    agreeing, compared = int(first[0]), int(first[2])
    bench.figure("values of two runs that agree within 2 %", agreeing, f"of {compared}")


def aims(bench: Bench) -> None:
    """Hold the measured file of a step against what the micro-kernels were written for."""
    file = bench.places.result("default") / "default.measured.yaml"
    (bench.folder / file.name).write_bytes(file.read_bytes())
    bench.call("aims", [bench.tools.python, "-m", "benchmarks.gpu.aims", file.name])
    first = (bench.folder / "aims.out.txt").read_text(encoding="utf-8").split()
    bench.figure("aims of the micro-kernels that are reached", int(first[0]), f"of {int(first[2])}")


def counted(names: Sequence[str]) -> Callable[[Bench], None]:
    """Return a step that certifies counters by probes of known work; it goes on where it was cut."""

    def work(bench: Bench) -> None:
        words = ("measure", "--folder", ".", "--certificates", ".", *names)
        bench.call("measure", [bench.tools.python, "-m", "benchmarks.counters", *words])

    return work


def planted(names: Sequence[str]) -> Callable[[Bench], None]:
    """Return a step that records planted bottlenecks; it goes on where it was cut."""

    def work(bench: Bench) -> None:
        words = ("record", ".", "--ncu", str(bench.tools.ncu), *names)
        bench.call("record", [bench.tools.python, "-m", "benchmarks.diagnosis", *words])

    return work


def score_of(steps: Sequence[str]) -> Callable[[Bench], None]:
    """Return a step that scores what others have recorded."""

    def work(bench: Bench) -> None:
        reports = bench.folder / "reports"
        versions: dict[str, str] = {}
        reports.mkdir(exist_ok=True)
        for step in steps:
            folder = bench.places.result(step)
            if (folder / RECORDED).exists():
                versions |= json.loads((folder / RECORDED).read_text(encoding="utf-8"))
            for file in folder.glob("*.ncu-rep"):
                (reports / file.name).write_bytes(file.read_bytes())
        (reports / RECORDED).write_text(json.dumps(versions), encoding="utf-8")
        try:
            bench.call("score", [bench.tools.python, "-m", "benchmarks.diagnosis", "score", "reports"], (0, 1))
            _rates(bench)
        finally:
            for file in reports.iterdir():
                file.unlink()
            reports.rmdir()

    return work


def _rates(bench: Bench) -> None:
    """Tell the rates of the score, both halves together."""
    printed = bench.folder / "score.out.txt"
    for line in printed.read_text(encoding="utf-8").splitlines() if printed.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rates = [_RATE.match(cell) for cell in cells[1:]]
        found = [rate for rate in rates if rate is not None]
        if len(cells) == _HALVES + 1 and found:
            right, total = (sum(int(rate[group]) for rate in found) for group in (1, 2))
            bench.figure(cells[0], right, f"of {total}")
