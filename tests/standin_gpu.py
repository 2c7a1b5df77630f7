"""Stands in for a machine with a GPU: ncu, nvcc, gpuprof and programs, as one function in the place of processes."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks.gpu.needs import NEEDS, Tools
from gpuprof.collect.machine import InstalledGpu
from gpuprof.collect.process import Ended
from tests.ncu_bytes import A100, simple_report

_OPTIONS = """
--help --version --mode --port --max-connections --config-file --config-file-path --check-exit-code --injection-path-32
--injection-path-64 --preload-library --call-stack --nvtx --support-32bit --target-processes --target-processes-filter
--null-stdin --hostname --kill --replay-mode --app-replay-buffer --app-replay-match --app-replay-mode --graph-profiling
--range-replay-options --list-sets --set --list-sections --section-folder --section-folder-recursive
--section-folder-restore --list-rules --apply-rules --rule --import-source --source-folders --list-metrics
--query-metrics --query-metrics-mode --query-metrics-collection --list-chips --chips --profile-from-start
--disable-profiler-start-stop --quiet --verbose --cache-control --clock-control --devices --filter-mode --kernel-id
--kernel-name-base --kernel-name --launch-count --launch-skip --launch-skip-before-match --section --metrics
--disable-extra-suffixes --nvtx-include --nvtx-exclude --range-filter --pm-sampling-interval --pm-sampling-buffer-size
--pm-sampling-max-passes --warp-sampling-interval --warp-sampling-max-passes --warp-sampling-buffer-size --log-file
--export --force-overwrite --import --open-in-ui --csv --page --print-source --resolve-source-file --print-details
--print-metric-name --print-units --print-fp --print-kernel-base --print-metric-instances --print-nvtx-rename
--print-rule-details --print-summary
"""
OPTIONS_2024 = tuple(_OPTIONS.split())
"""All options of ncu 2024.1, by its own --help."""
COLLECTION_HELP = """  --query-metrics-collection arg (=profiling)
                                        Set which metric collection kind to query. Implies --query-metrics.
                                        Available modes:
                                          profiling (default)
                                          (query metrics available for profiling)
                                          pmsampling
                                          (query metrics available for pm sampling)
"""
HELP = "\n".join(f"  {option} arg" for option in OPTIONS_2024 if option != "--query-metrics-collection")
HELP_2024 = f"{HELP}\n{COLLECTION_HELP}"
NCU, NVCC, PYTHON = "/opt/ncu/ncu", "/opt/cuda/bin/nvcc", "/opt/python/bin/python"
GPU = InstalledGpu("NVIDIA H200", "9.0", "580.65.06", mig=False, persistence=True)
TABLE = '"ID","Kernel Name","Stream"\n"","",""\n"0","left","13"\n"1","right","14"\n'
METRICS = "".join(
    f"{name:75} {kind:15} {unit:15} {words}\n"
    for name, kind, unit, words in (
        ("Metric Name", "Metric Type", "Metric Unit", "Metric Description"),
        ("dram__bytes", "Counter", "byte", "what NVIDIA says of it"),
        (f"sm__{'long_' * 18}name", "Ratio", "", "a name that shifts the other columns"),
        ("lts__throughput", "Throughput", "%", "a text that goes on below"),
    )
)
"""What `ncu --query-metrics` prints."""
STAGES = """forecast: 9 to 14 passes per launch, 18 to 28 replays in all; the program runs again (8.1 s in the survey)
profile: 2 of 2 launches, 1:05 min, 9 passes each
"""
DRY_RUN = (
    f"{NCU} --config-file off --cache-control all --clock-control none --import-source yes --metrics "
    "gpu__time_duration.sum,group:smsp__pcsamp_warp_stall_reasons,sass__thread_inst_executed_true_per_opcode "
    "--log-file x/profile.log --export x/profile.ncu-rep --force-overwrite program"
)
SMI = """    Product Name                          : NVIDIA H200
    Serial Number                         : 1650924012345
    GPU UUID                              : GPU-1a2b3c4d-1111-2222-3333-444455556666
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4711
            Name                          : /usr/bin/someones-work
    Clocks
        SM                                : 1980 MHz
"""


def tools(missing: Mapping[str, str] | None = None, help_text: str = HELP_2024) -> Tools:
    """What the kit would have found."""
    assert set(missing or {}) <= set(NEEDS)
    return Tools(
        python=PYTHON,
        prefix="/opt/python",
        ncu=Path(NCU),
        nvcc=Path(NVCC),
        gpu=GPU,
        ncu_help=help_text,
        missing=missing or {},
        versions={"ncu": "2025.3.1.0", "driver": "580.65.06", "python": "3.12.3", "torch": "2.11.0"},
    )


class Machine:
    """What runs commands. `says` is written into all that it leaves; `before` may do something in a command's place."""

    def __init__(self, says: str = "nothing private", large: int = 0) -> None:
        self.calls: list[list[str]] = []
        self.says, self.large, self.counts = says, large, True
        self.before: Callable[[list[str], float], Ended | None] = lambda argv, timeout_s: None

    def __call__(
        self, argv: Sequence[str], *, environ: Mapping[str, str], stdout: IO[bytes], timeout_s: float, quiet: bool
    ) -> Ended:
        assert quiet and timeout_s > 0 and environ["USER"] == "user"
        self.calls.append(list(argv))
        instead = self.before(list(argv), timeout_s)
        if instead is not None:
            return instead
        stdout.write(self._printed(list(argv)).encode())
        return Ended(0, f"{STAGES}stderr of {self.says}\n" if "run" in argv else f"stderr of {self.says}\n", 0.25)

    def ncu_calls(self) -> list[list[str]]:
        """Return the calls of ncu by the kit itself."""
        return [argv for argv in self.calls if argv[0] == NCU]

    def _printed(self, argv: list[str]) -> str:
        if argv[:2] == ["bash", "-c"]:
            return self._together(argv[2])
        if argv[0] == NCU:
            return self._ncu(argv)
        if argv[0] == NVCC:
            Path(argv[argv.index("-o") + 1]).write_text("a program")
        elif argv[0] == "nvidia-smi":
            return SMI
        elif argv[1:3] == ["-m", "gpuprof"]:
            return self._gpuprof(argv[3:])
        elif argv[1:2] == ["-m"]:
            return self._benchmark(argv[2:])
        return f"{self.says}: right\n"

    def _together(self, script: str) -> str:
        """Run the lines of a script in their order, each with its output in a file, where the kit has them at once."""
        *lines, last = script.splitlines()
        assert last == "wait"
        for line in lines:
            *words, printed, said, ampersand = shlex.split(line)
            assert (printed[:1], said[:2], ampersand) == (">", "2>", "&")
            self.calls.append(words)
            Path(printed[1:]).write_text(self._printed(words))
            Path(said[2:]).write_text("")
        return ""

    def report(self) -> bytes:
        """Return a report that says what the machine says."""
        values: dict[str, float | str] = {**A100, "gpu__time_duration.sum": 1e6, "file": self.says * (1 + self.large)}
        return simple_report([("left", values), ("right", values)], command=f"ncu {self.says}")

    def _ncu(self, argv: list[str]) -> str:
        if "--import" in argv:
            return TABLE
        if "--query-metrics" in argv:
            return f"{METRICS}{' ' * 108}described by {self.says}\n"
        if "--export" not in argv:
            return f"list of {self.says}\n"
        name = argv[argv.index("--export") + 1]
        Path(name).write_bytes(self.report())
        if "--log-file" in argv:
            Path(argv[argv.index("--log-file") + 1]).write_text(f"==PROF== left: 12 passes {self.says}\n")
        return ""

    def _gpuprof(self, argv: list[str]) -> str:
        if "--dry-run" in argv:
            return f"mkdir -p x\n{DRY_RUN}\n"
        if "-o" not in argv:
            return f"doctor: {self.says}\n"
        place = Path(argv[argv.index("-o") + 1])
        if argv[0] == "characterize":
            place.write_text(f"schema: 1 # {self.says}\n")
            samples = place.with_name(place.name.replace(".measured.yaml", ".samples.jsonl"))
            samples.write_text(f'"{self.says}"\n')
            if "--verify-counters" in argv and self.counts:
                place.with_name("sm_90-ncu-2025.3.yaml").write_text(f"schema: 1 # {self.says}\n")
            return "sheet\n"
        place.mkdir(exist_ok=True)
        (place / "profile.ncu-rep").write_bytes(self.report())
        (place / "report.html").write_text(self.says)
        kernel = {
            "name": "left",
            "demangled": None,
            "grid": [1],
            "block": [32],
            "duration_s": 1e-3 + 1e-5 * len(self.calls),
        }
        sources = [
            {"kind": "torch-trace survey", "command": "env A=1 python"},
            {"kind": "ncu-rep", "command": f"{NCU} --nvtx --kernel-id '::regex:^(left)$:^(3)$' --metrics a,b left"},
        ]
        (place / "session.json").write_text(
            json.dumps({"sources": sources, "kernels": [kernel, kernel], "says": self.says})
        )
        (place / "survey.json.gz").write_bytes(gzip.compress(self.says.encode()))
        return "table\n"

    def _benchmark(self, argv: list[str]) -> str:
        if argv[0] == "benchmarks.gpu.agreement":
            return "88 of 90 values agree within 2 %\n"
        if argv[0] == "benchmarks.gpu.aims":
            return "5 of 6 aims are reached\n"
        if argv[:2] == ["benchmarks.gate", "--repeats"]:
            head = "sides  comparisons  kernels  time changed  time unclear  work changed  work unclear"
            return f"{head}\none run each  190  380  1  370  0  0\n"
        if argv[:2] == ["benchmarks.gate", "--planted"]:
            return "case  time  ratio  work  first cause\na  faster  0.500  less  b\nc  unclear  0.990  same\n"
        if argv[1] == "record":
            names = argv[argv.index("--minutes") + 2 :]
            for name in names:
                Path(f"{name}.ncu-rep").write_bytes(self.report())
            Path("recorded.json").write_text(json.dumps(dict.fromkeys(names, "1")))
        elif argv[1] == "score":
            return "| | tuned |\n| cause first | 30 of 34 (88 %) |\n"
        return ""


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
