"""What ncu does with filters, names, metrics and ends: one experiment a function, each command with its transcript."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.gpu.bench import Bench
from gpuprof.collect.ncu_help import options_in

TIME = ("--metrics", "gpu__time_duration.sum")
_ALWAYS = "profiling"
"""A collection that every GPU has."""
_INVOCATIONS = (
    ("4", "function"),
    ("8", "function"),
    ("10", "function"),
    ("4|8", "function"),
    ("4|8", "demangled"),
)
_LENGTH = 5000
_CAST = "(.(unsigned )?(int|long|bool|char|short).)?"
_BRACKETS = "(.[a-z ]+.)?"
_COLLECTIONS = re.compile(r"^ {30,}([a-z]+)(?: \(default\))?$", re.MULTILINE)
_PASSES = re.compile(r"(\d+) pass(?:es)?\b")


def recording(experiment: Callable[[Bench], None]) -> Callable[[Bench], None]:
    """Return an experiment that also went wrong where ncu recorded nothing: what it shows then is of something else."""

    def work(bench: Bench) -> None:
        experiment(bench)
        if not any(bench.folder.rglob("*.ncu-rep")):
            said = _log(bench.folder).strip().splitlines()
            bench.problems.append(f"ncu recorded nothing: {said[-1] if said else 'it says nothing'}")

    return work


def ask_ncu(bench: Bench) -> None:
    """Write down what ncu says of itself and of the metrics of this GPU."""
    ncu = str(bench.tools.ncu)
    for name in ("help", "version", "list-sets", "list-sections", "list-rules", "list-chips"):
        bench.call(name, [ncu, f"--{name}"], None)
    for collection in collections(bench.tools.ncu_help):
        for mode in ("base", "all"):
            words = [ncu, "--query-metrics", "--query-metrics-collection", collection, "--query-metrics-mode", mode]
            bench.call(f"metrics-{collection}-{mode}", words, (0,) if collection == _ALWAYS else None)


def collections(help_text: str) -> list[str]:
    """Return the collections of metrics that a help text names; profiling where it names none."""
    _, _, text = help_text.partition("--query-metrics-collection")
    text = re.split(r"^\s+--", text, maxsplit=1, flags=re.MULTILINE)[0]
    return _COLLECTIONS.findall(text) or ["profiling"]


def two_streams(bench: Bench) -> None:
    """Ask for invocations 4 and 8 of two kernels that alternate over two streams, in each mode of filters."""
    names = {"function": "^(left|right)$", "demangled": "^(void )?parts..(left|right).float ., int.$"}
    for mode in ("per-launch-config", "global"):
        for invocation, base in _INVOCATIONS:
            name = f"{mode}-{base}-{invocation.replace('|', '-')}"
            which = ("--kernel-name-base", base, "--kernel-id", f"::regex:{names[base]}:^({invocation})$")
            bench.ncu(name, [*which, "--filter-mode", mode, *TIME], bench.launches("--streams", "10"))
            bench.figure(f"launches of invocation {invocation}, {mode}, {base}", bench.listed(name), "launches")


def renamed_kernels(bench: Bench) -> None:
    """Filter by a namespace, with kernels renamed and not, where this ncu can rename them."""
    ways: dict[str, tuple[str, ...]] = {"default": ()}
    words = options_in(bench.tools.ncu_help).switch("rename-kernels")
    if words is not None:
        ways |= {way: ("--rename-kernels", word) for way, word in zip(("renamed", "as-they-are"), words, strict=True)}
    for way, options in ways.items():
        for base in ("demangled", "function"):
            for what, expression in (("with", "parts.+left"), ("without", "^(void )?left")):
                name = f"{way}-{base}-{what}"
                which = ("--kernel-name-base", base, "--kernel-name", f"regex:{expression}", "--launch-count", "1")
                bench.ncu(name, [*options, *which, *TIME], bench.launches("--streams", "2"))
                text = f"launches by name {what} namespace, base {base}, names {way}"
                bench.figure(text, bench.listed(name), "launches")


def names_of_templates(bench: Bench) -> None:
    """Write down how template arguments are written, and which expressions match a negative number."""
    program = bench.launches("--templates", "1")
    bench.ncu("every", TIME, program)
    for base in ("demangled", "mangled", "function"):
        report = bench.folder / "every.ncu-rep"
        if report.exists():
            words = [
                str(bench.tools.ncu),
                "--import",
                report.name,
                "--csv",
                "--page",
                "raw",
                "--print-kernel-base",
                base,
            ]
            bench.call(f"names-{base}", words, None)
    for name, expression in (("cast", "shifted<.int.-2>"), ("plain", "shifted<-2>"), ("either", f"shifted<{_CAST}-2>")):
        which = ("--kernel-name-base", "demangled", "--kernel-name", f"regex:{expression}")
        bench.ncu(name, [*which, *TIME], program)
        bench.figure(f"launches that {expression} matches", bench.listed(name), "launches")


def unknown_metrics(bench: Bench) -> None:
    """Ask for a metric that does not exist, with and without a suffix, alone and beside one that does."""
    for name, metrics in (
        ("suffix", "sm__no_such_metric.sum"),
        ("no-suffix", "sm__no_such_metric"),
        ("suffix-beside", "gpu__time_duration.sum,sm__no_such_metric.sum"),
        ("no-suffix-beside", "gpu__time_duration.sum,sm__no_such_metric"),
    ):
        done = bench.ncu(name, ["--metrics", metrics, "--launch-count", "1"], bench.launches("--streams", "2"))
        bench.figure(f"exit code, unknown metric ({name})", done.code, "")


def killed(bench: Bench) -> None:
    """End a program after its first launch, and let another one run on."""
    for kill in ("yes", "no"):
        options = ("--launch-count", "1", "--kill", kill, *TIME)
        done = bench.ncu(f"kill-{kill}", options, bench.launches("--saxpy", "4", "--empty", "100"))
        bench.figure(f"exit code, --kill {kill}", done.code, "")


def long_expressions(bench: Bench) -> None:
    """Time 2,000 empty launches alone, under ncu with a short name, and with expressions of 5 kB."""
    program = bench.launches("--empty", "2000")
    bench.figure("2,000 empty launches alone", bench.call("alone", program).seconds, "s")
    ways = {"none": ["--kernel-name", "nothing_has_this_name"]}
    for what, cast in (("casts", _CAST), ("brackets", _BRACKETS)):
        text = expression(_LENGTH, cast)
        base = ["--kernel-name-base", "demangled"]
        ways[f"global-{what}"] = [*base, "--kernel-name", f"regex:{text}"]
        ways[f"config-{what}"] = [*base, "--kernel-id", f"::regex:{text}:^(4)$", "--filter-mode", "per-launch-config"]
    for way, options in ways.items():
        done = bench.ncu(f"name-{way}", [*options, *TIME], program)
        bench.figure(f"2,000 empty launches, name filter {way}", done.seconds, "s")


def expression(length: int, cast: str) -> str:
    """Return an expression for names of kernels like those of a PyTorch plan, about so long."""
    return f"^({'|'.join(_names(length, cast))})$"


def _names(length: int, cast: str) -> Iterator[str]:
    written = 0
    for number in range(length):
        name = f"void at..native..vectorized_elementwise_kernel.{cast}{number}, at..native..Functor_{number}.float. .*"
        written += len(name) + 1
        if written > length:
            return
        yield name


def passes(bench: Bench) -> None:
    """Run the counters of gpuprof's diagnosis on two launches, by the command that gpuprof itself prints."""
    arch = ["--arch", bench.tools.gpu.arch] if bench.tools.gpu is not None else []
    program = bench.launches("--saxpy", "2")
    for counters in ("roofline", "diagnose", "full"):
        options = ["--set", counters, "--launch-count", "2", "--annotate", "off", "-o", counters, *arch]
        bench.call(f"print-{counters}", bench.gpuprof_words("run", "--dry-run", *options, "--", *program))
        printed = bench.folder / f"print-{counters}.out.txt"
        if not printed.exists():
            continue
        printed.replace(bench.folder / f"{counters}.sh")
        done = bench.call(counters, ["bash", f"{counters}.sh"])
        bench.figure(f"saxpy ×2 under ncu, --set {counters}", done.seconds, "s")
        found = _PASSES.findall(_log(bench.folder / counters))
        if found:
            bench.figure(f"passes of a launch, --set {counters}", max(map(int, found)), "passes")


def _log(folder: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.glob("*.log")))


def report_names(bench: Bench) -> None:
    """Export to a name with and without an extension, and write down which files there are and how they begin."""
    for name in ("with.ncu-rep", "without"):
        words = [str(bench.tools.ncu), "--config-file", "off", "--clock-control", "none", *TIME, "--launch-count", "1"]
        folder = bench.folder / name.partition(".")[0]
        folder.mkdir(exist_ok=True)
        export = ("--export", f"{folder.name}/{name}", "--force-overwrite")
        bench.call(f"export-{folder.name}", [*words, *export, *bench.launches("--streams", "2")], None)
    files = sorted(path for path in bench.folder.glob("with*/*") if path.is_file())
    lines = [f"{file.parent.name}/{file.name} {file.stat().st_size} {file.read_bytes()[:16].hex()}" for file in files]
    (bench.folder / "files.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
