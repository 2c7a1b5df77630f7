"""What ncu does with filters, names, metrics and ends: one experiment a function, each command with its transcript."""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.gpu.context import StepContext
from gpuprof.collect.ncu_help import options_in

TIME = ("--metrics", "gpu__time_duration.sum")
_ALWAYS = "profiling"
"""A collection that every GPU has."""
_INVOCATIONS = (
    ("per-launch-config", "function", "4"),
    ("per-launch-config", "function", "8"),
    ("per-launch-config", "function", "10"),
    ("per-launch-config", "function", "4|8"),
    ("per-launch-config", "demangled", "4|8"),
    ("global", "function", "10"),
    ("global", "function", "4|8"),
)
"""Mode of filters, kind of names, numbers. Of `left` and `right` each of two streams has five launches of ten."""
_NAMES = ("shortened", "whole")
_OPTION = re.compile(r"^ {2}(?:-\w \[ )?--[\w-]+(?: \])?(?: arg)?(?: \(=[^)]*\))?", re.MULTILINE)
_METRIC = re.compile(
    r"^(?P<name>[\w:.*]+) +(?P<kind>Counter {8}|Ratio {10}|Throughput {5}) (?P<unit>.{15})", re.MULTILINE
)
_LISTS = ("list-sets", "list-sections", "list-chips")
_LENGTH, _MANY = 5000, 500
_CAST = "(.(unsigned )?(int|long|bool|char|short).)?"
_BRACKETS = "(.[a-z ]+.)?"
_COLLECTIONS = re.compile(r"^ {30,}([a-z]+)(?: \(default\))?$", re.MULTILINE)
_PASSES = re.compile(r"(\d+) pass(?:es)?\b")


def recording(experiment: Callable[[StepContext], None]) -> Callable[[StepContext], None]:
    """Return an experiment that also went wrong where ncu recorded nothing: what it shows then is of something else."""

    def work(context: StepContext) -> None:
        experiment(context)
        if not any(context.folder.rglob("*.ncu-rep")):
            said = _log(context.folder).strip().splitlines()
            context.problems.append(f"ncu recorded nothing: {said[-1] if said else 'it says nothing'}")

    return work


def ask_ncu(context: StepContext) -> None:
    """Write down what ncu says of itself and of the metrics of this GPU."""
    ncu = str(context.tools.ncu)
    asked = {name: [ncu, f"--{name}"] for name in ("version", *_LISTS)}
    for collection in collections(context.tools.ncu_help):
        asked[f"metrics-{collection}"] = [ncu, "--query-metrics", "--query-metrics-collection", collection]
    context.together("ask", asked)
    options = "".join(f"{line}\n" for line in options_listed(context.tools.ncu_help))
    (context.folder / "options.txt").write_text(options, encoding="utf-8")
    keep_names_of_metrics(context.folder)
    if not (context.folder / f"metrics-{_ALWAYS}.csv").exists():
        context.problems.append(f"ncu lists no metrics of the collection {_ALWAYS}")


def options_listed(help_text: str) -> list[str]:
    """Return the options of a help text, each with its default, without what it says of them."""
    return [" ".join(match[0].split()) for match in _OPTION.finditer(help_text)]


def keep_names_of_metrics(folder: Path) -> None:
    """Keep name, kind and unit of the metrics that ncu lists, as NAME.csv; its descriptions are NVIDIA's own words."""
    for table in (*folder.glob("metrics-*.out.txt"), *folder.glob("metrics-*.out.txt.gz")):
        packed = table.suffix == ".gz"
        text = gzip.decompress(table.read_bytes()) if packed else table.read_bytes()
        table.unlink()
        rows = [_name_kind_unit(match) for match in _METRIC.finditer(text.decode("utf-8", "replace"))]
        if rows:
            listed = folder / f"{table.name.partition('.')[0]}.csv"
            listed.write_text("".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")


def _name_kind_unit(row: re.Match[str]) -> tuple[str, str, str]:
    """Return the first three cells of a row. A long name shifts the others, whose widths stay."""
    return row["name"], row["kind"].strip(), row["unit"].strip()


def collections(help_text: str) -> list[str]:
    """Return the collections of metrics that a help text names; profiling where it names none."""
    _, _, text = help_text.partition("--query-metrics-collection")
    text = re.split(r"^\s+--", text, maxsplit=1, flags=re.MULTILINE)[0]
    return _COLLECTIONS.findall(text) or ["profiling"]


def two_streams(context: StepContext) -> None:
    """Ask for invocations 4 and 8 of two kernels that alternate over two streams, in each mode of filters."""
    names = {"function": "^(left|right)$", "demangled": "^(void )?parts..(left|right).float ., int.$"}
    told = {}
    for mode, base, invocation in _INVOCATIONS:
        name = f"{mode}-{base}-{invocation.replace('|', '-')}"
        which = ("--kernel-name-base", base, "--kernel-id", f"::regex:{names[base]}:^({invocation})$")
        context.ncu(name, [*which, "--filter-mode", mode, *TIME], context.launches("--streams", "10"))
        told[name] = f"launches of invocation {invocation}, {mode}, {base}"
    _count(context, told)


def renamed_kernels(context: StepContext) -> None:
    """Filter by a namespace, with kernels renamed and not, where this ncu can rename them."""
    told, ways = {}, {"default": tuple[str, ...]()}
    values = options_in(context.tools.ncu_help).switch("rename-kernels")
    if values is not None:
        ways |= {way: ("--rename-kernels", word) for way, word in zip(("renamed", "as-they-are"), values, strict=True)}
    for way, options in ways.items():
        for base in ("demangled", "function"):
            for what, expression in (("with", "parts.+left"), ("without", "^(void )?left")):
                name = f"{way}-{base}-{what}"
                which = ("--kernel-name-base", base, "--kernel-name", f"regex:{expression}", "--launch-count", "1")
                context.ncu(name, [*options, *which, *TIME], context.launches("--streams", "2"))
                told[name] = f"launches by name {what} namespace, base {base}, names {way}"
    _count(context, told)


def _count(context: StepContext, told: Mapping[str, str]) -> None:
    """Tell how many launches each report holds."""
    for report, launches in context.listed("list", list(told)).items():
        context.figure(told[report], launches, "launches")


def names_of_templates(context: StepContext) -> None:
    """Write down how template arguments are written, and which expressions match a negative number."""
    program = context.launches("--templates", "1")
    context.ncu("every", TIME, program)
    if (context.folder / "every.ncu-rep").exists():
        ncu = [str(context.tools.ncu), "--import", "every.ncu-rep", "--csv", "--page", "raw", "--print-kernel-base"]
        context.together("names", {f"names-{base}": [*ncu, base] for base in ("demangled", "mangled", "function")})
    told = {}
    for name, expression in (("cast", "shifted<.int.-2>"), ("plain", "shifted<-2>"), ("either", f"shifted<{_CAST}-2>")):
        which = ("--kernel-name-base", "demangled", "--kernel-name", f"regex:{expression}")
        context.ncu(name, [*which, *TIME], program)
        told[name] = f"launches that {expression} matches"
    _count(context, told)


def unknown_metrics(context: StepContext) -> None:
    """Ask for a metric that does not exist, with and without a suffix, alone and beside one that does."""
    for name, metrics in (
        ("suffix", "sm__no_such_metric.sum"),
        ("no-suffix", "sm__no_such_metric"),
        ("suffix-beside", "gpu__time_duration.sum,sm__no_such_metric.sum"),
        ("no-suffix-beside", "gpu__time_duration.sum,sm__no_such_metric"),
    ):
        done = context.ncu(name, ["--metrics", metrics, "--launch-count", "1"], context.launches("--streams", "2"))
        context.figure(f"exit code, unknown metric ({name})", done.code, "")


def killed(context: StepContext) -> None:
    """End a program after its first launch, and let another one run on."""
    for kill in ("yes", "no"):
        options = ("--launch-count", "1", "--kill", kill, *TIME)
        done = context.ncu(f"kill-{kill}", options, context.launches("--saxpy", "4", "--empty", "100"))
        context.figure(f"exit code, --kill {kill}", done.code, "")


def names_of_libraries(context: StepContext) -> None:
    """Ask for invocations of cuBLAS's and PyTorch's kernels, by their names for people and by their symbols.

    Write down what ncu calls them then, and what in the report. The symbols of cuBLAS's kernels are their names.
    """
    values = options_in(context.tools.ncu_help).switch("rename-kernels")
    ways = {way: ("--rename-kernels", word) for way, word in zip(_NAMES, values or (), strict=bool(values))}
    asked = {
        "library": ("demangled", "sm80_xmma_gemm|void at..native"),
        "symbols": ("mangled", "sm80_xmma_gemm|_ZN2at6native"),
    }
    for report, (base, begins) in asked.items():
        which = ("--kernel-name-base", base, "--kernel-id", f"::regex:^({begins}):^(4|8)$")
        options = (*ways.get("whole", ()), *which, "--filter-mode", "per-launch-config", *TIME)
        context.ncu(report, options, context.script("transformer"))
    lists: dict[str, list[str]] = {}
    for report in asked:
        ncu = [str(context.tools.ncu), "--import", f"{report}.ncu-rep", "--csv", "--page", "raw"]
        lists |= {f"{report}-{way}": [*ncu, *switch] for way, switch in {"as-it-is": (), **ways}.items()}
    context.together("names", lists)


def graphs(context: StepContext) -> None:
    """Profile a CUDA graph node by node and as a whole; ask for the invocations of a node; let gpuprof do it."""
    program, told = context.launches("--graph", "4"), {}
    for way in ("node", "graph"):
        context.ncu(way, ["--graph-profiling", way, *TIME], program)
        told[way] = f"results of 4 launches of a graph of 3 kernels, --graph-profiling {way}"
    which = ("--kernel-name-base", "function", "--kernel-id", "::regex:^left$:^(3)$")
    context.ncu("third", [*which, "--filter-mode", "per-launch-config", "--graph-profiling", "node", *TIME], program)
    told["third"] = "launches of invocation 3 of a node"
    _count(context, told)
    context.gpuprof("run", "run", "-o", "run", "--force", "--", *program)


def long_expressions(context: StepContext) -> None:
    """Time many empty launches alone, under ncu with a short name, and with expressions of 5 kB."""
    program = context.launches("--empty", str(_MANY))
    context.figure(f"{_MANY} empty launches alone", context.call("alone", program).seconds, "s")
    ways = {"none": ["--kernel-name", "nothing_has_this_name"]}
    for what, cast in (("casts", _CAST), ("brackets", _BRACKETS)):
        text = expression(_LENGTH, cast)
        base = ["--kernel-name-base", "demangled"]
        ways[f"global-{what}"] = [*base, "--kernel-name", f"regex:{text}"]
        ways[f"config-{what}"] = [*base, "--kernel-id", f"::regex:{text}:^(4)$", "--filter-mode", "per-launch-config"]
    for way, options in ways.items():
        done = context.ncu(f"name-{way}", [*options, *TIME], program)
        context.figure(f"{_MANY} empty launches, name filter {way}", done.seconds, "s")


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


def passes(context: StepContext) -> None:
    """Run the counters of gpuprof's diagnosis on two launches, by the command that gpuprof itself prints."""
    arch = ["--arch", context.tools.gpu.arch] if context.tools.gpu is not None else []
    program = context.launches("--saxpy", "2")
    for counters in ("roofline", "diagnose", "full"):
        options = ["--set", counters, "--launch-count", "2", "--annotate", "off", "-o", counters, *arch]
        context.call(f"print-{counters}", context.gpuprof_words("run", "--dry-run", *options, "--", *program))
        printed = context.folder / f"print-{counters}.out.txt"
        if not printed.exists():
            continue
        printed.replace(context.folder / f"{counters}.sh")
        done = context.call(counters, ["bash", f"{counters}.sh"])
        context.figure(f"saxpy ×2 under ncu, --set {counters}", done.seconds, "s")
        numbers = _PASSES.findall(_log(context.folder / counters))
        if numbers:
            context.figure(f"passes of a launch, --set {counters}", max(map(int, numbers)), "passes")


def cost_of_passes(context: StepContext) -> None:
    """Time the counters of gpuprof's diagnosis on a few launches, as gpuprof collects them and with one thing less.

    What a pass takes follows from the time and the passes of each.
    """
    arch = ["--arch", context.tools.gpu.arch] if context.tools.gpu is not None else []
    program = context.launches("--saxpy", str(_TIMED))
    options = ["--set", "diagnose", "--launch-count", str(_TIMED), "--annotate", "off", "-o", "as-it-is", *arch]
    context.call("print", context.gpuprof_words("run", "--dry-run", *options, "--", *program))
    printed = context.folder / "print.out.txt"
    lines = [shlex.split(line) for line in printed.read_text(encoding="utf-8").splitlines()] if printed.exists() else []
    command = next((line for line in lines if "--metrics" in line), None)
    if command is None:
        context.problems.append("gpuprof printed no command of ncu with metrics")
        return
    own = [str(context.tools.ncu), *command[command.index("--config-file") :]]
    for way, change in _LESS.items():
        changed = change(own)
        for option, ending in (("--export", "ncu-rep"), ("--log-file", "log")):
            changed = _with(changed, option, f"{way}.{ending}")
        done = context.call(way, changed, None)
        context.figure(f"saxpy ×{_TIMED}, {_TOLD[way]}", done.seconds, "s")
        log = context.folder / f"{way}.log"
        numbers = _PASSES.findall(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else []
        if numbers:
            context.figure(f"passes of a launch, {_TOLD[way]}", max(map(int, numbers)), "passes")


def _with(command: Sequence[str], option: str, value: str) -> list[str]:
    """Return a command line with another value of an option."""
    at = command.index(option) + 1
    return [*command[:at], value, *command[at + 1 :]]


def _without_metrics(*beginnings: str) -> Callable[[Sequence[str]], list[str]]:
    """Return what takes the metrics that begin so out of a command line."""

    def change(command: Sequence[str]) -> list[str]:
        metrics = command[command.index("--metrics") + 1].split(",")
        return _with(command, "--metrics", ",".join(name for name in metrics if not name.startswith(beginnings)))

    return change


_TIMED = 6
_LESS: Mapping[str, Callable[[Sequence[str]], list[str]]] = {
    "as-it-is": list,
    "caches": lambda command: _with(command, "--cache-control", "none"),
    "source": lambda command: _with(command, "--import-source", "no"),
    "sampling": _without_metrics("group:smsp__pcsamp", "smsp__pcsamp"),
    "opcodes": _without_metrics("sass__"),
    "time": lambda command: _with(command, "--metrics", "gpu__time_duration.sum"),
}
_TOLD = {
    "as-it-is": "as gpuprof collects them",
    "caches": "caches left alone",
    "source": "without the source",
    "sampling": "without samples of warps",
    "opcodes": "without counts by instruction",
    "time": "the time alone",
}


def _log(folder: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.glob("*.log")))


def report_names(context: StepContext) -> None:
    """Export to a name with and without an extension, and write down which files there are and how they begin."""
    for name in ("with.ncu-rep", "without"):
        command = [
            str(context.tools.ncu),
            "--config-file",
            "off",
            "--clock-control",
            "none",
            *TIME,
            "--launch-count",
            "1",
        ]
        folder = context.folder / name.partition(".")[0]
        folder.mkdir(exist_ok=True)
        export = ("--export", f"{folder.name}/{name}", "--force-overwrite")
        context.call(f"export-{folder.name}", [*command, *export, *context.launches("--streams", "2")], None)
    files = sorted(path for path in context.folder.glob("with*/*") if path.is_file())
    lines = [f"{file.parent.name}/{file.name} {file.stat().st_size} {file.read_bytes()[:16].hex()}" for file in files]
    (context.folder / "files.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
