"""Stands in for a machine with a GPU: ncu, nvcc, gpuprof and programs, as one function in the place of processes."""

from __future__ import annotations

import gzip
import json
import re
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
NCU, NVCC, PYTHON = "/opt/ncu/ncu", "/opt/cuda/bin/nvcc", "/opt/python/bin/python"
GPU = InstalledGpu("NVIDIA H200", "9.0", "580.65.06", mig=False, persistence=True)
STAGES = """plan: 1 kernel, 100 % of the GPU's time, in launches 1 to 2 of the program
forecast: 8 s more, by the times of an H100: 2 launches × about 3 passes; the program took 8.1 s in the survey
limits: 2 of 2 launches, 1:05 min, 3 passes each
"""
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
PLAIN = ("plain_first", "plain_second", "plain_third")
"""The kernels of `launches --plain`, in the order of their launches."""


def tools(missing: Mapping[str, str] | None = None) -> Tools:
    """What the kit would have found."""
    assert set(missing or {}) <= set(NEEDS)
    return Tools(
        python=PYTHON,
        ncu=Path(NCU),
        nvcc=Path(NVCC),
        gpu=GPU,
        missing=missing or {},
        versions={"ncu": "2025.3.1.0", "driver": "580.65.06", "python": "3.12.3", "torch": "2.11.0"},
    )


class Machine:
    """What runs commands. `says` is written into all that it leaves; `before` may do something in a command's place.

    `late`: by how many launches a selection of plain kernels comes too late, under the names of those asked for.
    """

    def __init__(self, says: str = "nothing private") -> None:
        self.calls: list[list[str]] = []
        self.says, self.late = says, 0
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
        """Return the calls of ncu by the kit itself, without the variables that some are given."""
        return [argv[argv.index(NCU) :] for argv in self.calls if NCU in argv and "-m" not in argv]

    def _printed(self, argv: list[str]) -> str:
        if argv[0] == "env":
            return self._printed([word for word in argv[1:] if not re.match(r"[A-Z_]+=", word)])
        if argv[0] == NCU:
            return self._ncu(argv)
        if argv[0] == NVCC:
            Path(argv[argv.index("-o") + 1]).write_text("a program")
        elif argv[0] == "nvidia-smi":
            return SMI
        elif argv[1:3] == ["-m", "gpuprof"]:
            return self._gpuprof(argv[3:])
        elif argv[1:3] == ["-m", "benchmarks.diagnosis"]:
            self._record(argv[argv.index("--minutes") + 2 :])
        return f"{self.says}: right\n"

    def report(self) -> bytes:
        """Return a report that says what the machine says."""
        values: dict[str, float | str] = {**A100, "gpu__time_duration.sum": 1e6, "file": self.says}
        return simple_report([("left", values), ("right", values)], command=f"ncu {self.says}")

    def _ncu(self, argv: list[str]) -> str:
        report, names = self.report(), ["left", "right"]
        if "--plain" in argv:
            report, names = self._plain(argv)
        Path(argv[argv.index("--export") + 1]).write_bytes(report)
        lines = [f'==PROF== Profiling "1:7:{name}:4": 0%....50%....100% - 12 passes\n' for name in names]
        Path(argv[argv.index("--log-file") + 1]).write_text(f"{''.join(lines)}==PROF== Report: {self.says}\n")
        return ""

    def _plain(self, argv: list[str]) -> tuple[bytes, list[str]]:
        """Return a report of the launches that were selected, and their names in the log."""
        wanted = _selected(argv)
        came = [position + (self.late if len(wanted) < 24 else 0) for position in wanted]
        launches = [(PLAIN[(position - 1) % 3], {"smsp__inst_executed.sum": 60.0 + 4 * position}) for position in came]
        return simple_report(launches), [PLAIN[(position - 1) % 3] for position in wanted]

    def _gpuprof(self, argv: list[str]) -> str:
        if "-o" not in argv:
            return f"doctor: {self.says}\n"
        place = Path(argv[argv.index("-o") + 1])
        if argv[0] == "characterize":
            place.write_text(f"schema: 1 # {self.says}\n")
            samples = place.with_name(place.name.replace(".measured.yaml", ".samples.jsonl"))
            samples.write_text(f'"{self.says}"\n')
            if "--verify-counters" in argv:
                place.with_name("sm_90-ncu-2025.3.yaml").write_text(f"schema: 1 # {self.says}\n")
            return "sheet\n"
        place.mkdir(exist_ok=True)
        (place / "profile.ncu-rep").write_bytes(self.report())
        (place / "report.html").write_text(self.says)
        (place / "session.json").write_text(json.dumps({"says": self.says}))
        (place / "survey.json.gz").write_bytes(gzip.compress(self.says.encode()))
        return "table\n"

    def _record(self, names: list[str]) -> None:
        for name in names:
            Path(f"{name}.ncu-rep").write_bytes(self.report())
        Path("recorded.json").write_text(json.dumps(dict.fromkeys(names, "1")))


def _selected(argv: list[str]) -> list[int]:
    """Return the positions of the plain launches that options of ncu ask for."""
    if "--launch-skip-before-match" in argv:
        skipped, count = (int(argv[argv.index(name) + 1]) for name in ("--launch-skip-before-match", "--launch-count"))
        chosen = argv[argv.index("--kernel-name") + 1].removeprefix("regex:") if "--kernel-name" in argv else ""
        matching = [at for at in range(skipped + 1, 25) if re.search(chosen, PLAIN[(at - 1) % len(PLAIN)])]
        return matching[:count]
    numbers = re.compile(argv[argv.index("--kernel-id") + 1].rpartition(":")[2] if "--kernel-id" in argv else "")
    by_kernel = "per-launch-config" in argv
    return [at + 1 for at in range(24) if numbers.match(str(at // len(PLAIN) + 1 if by_kernel else at + 1))]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
