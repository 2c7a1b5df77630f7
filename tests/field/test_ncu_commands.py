"""Our command lines against NVIDIA's own ncu, and our metrics against its lists of chips."""

from __future__ import annotations

import csv
import gzip
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.failures import failures_in
from gpuprof.collect.installation import choose_ncu
from gpuprof.collect.launches import Seen
from gpuprof.collect.metrics import metrics_of
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.plan import make_plan
from gpuprof.errors import EnvironmentProblem
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.torch_ranges import MARK
from tests.field.folder import folder
from tests.table import each_row

CHIPS = {
    "gv100": "sm_70", "tu102": "sm_75", "ga100": "sm_80", "ga102": "sm_86", "ga10b": "sm_87", "ad102": "sm_89",
    "gh100": "sm_90",
}  # fmt: skip
_UNLISTED = ("launch__", "sass__", "group:", "smsp__pcsamp_", "sm__maximum_warps_per_active_cycle_pct")
"""What --query-metrics does not list: attributes of the launch, and what ncu makes of samples and instrumented code."""


def arch(name: str) -> ArchSpec:
    spec = SpecLibrary().arch(name)
    assert spec is not None
    return spec


@pytest.fixture(scope="session")
def real_ncu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's ncu: one on PATH or installed, or the one that the script beside the reports unpacks."""
    try:
        return choose_ncu(os.environ, os.environ.get("NCU")).path
    except EnvironmentProblem:
        script = folder().parent / "tools" / "get-ncu"
        place = str(tmp_path_factory.mktemp("ncu"))
        done = subprocess.run([str(script), place], capture_output=True, text=True, check=False, timeout=200)
        if done.returncode != 0:
            pytest.skip(f"no ncu is installed, and {script} could not unpack one")
        return Path(done.stdout.strip())


def command(ncu: Path, folder: Path, **changes: object) -> NcuCommand:
    """A command that runs /bin/true."""
    made = NcuCommand(ncu, ("/bin/true",), folder / "x.ncu-rep", folder / "x.log", ("gpu__time_duration.sum",))
    return replace(made, **changes)  # type: ignore[arg-type]


PLANNED = make_plan([Seen("_Z1kIfEvPT_", "void k<float>(float *)", (1, 1, 1), (32, 1, 1), 1.0)] * 5).filters()
COMMANDS: dict[str, dict[str, object]] = {
    "survey": {"cache_control": "none"},
    "planned": {"filters": PLANNED, "source": True},
    "by number": {
        "filters": Filters(kernel="a|b", launch_skip=3, launch_count=2, ranges=("step/", "epoch@domain")), "kill": True,
    },
    "application replay": {"replay_mode": "application", "clock_control": "base"},
    "whole graphs": {"graphs": "graph", "targets": "application-only"},
    "marked parts": {"filters": Filters(ranges=(f"{MARK}/",))},
    "from cudaProfilerStart": {
        "filters": Filters(kernel="^(slow|fixed)$", name_base="function", profiler_calls="awaited")
    },
    "whatever the program tells profilers": {"filters": Filters(profiler_calls="ignored")},
    "by position": {"filters": Filters(skip_before_match=203, launch_count=147)},
    "without peers": {
        "filters": Filters(kernel="^(?!ncclDevKernel_a|ncclDevKernel_b)", name_base="function", skip_before_match=3),
    },
    "source folders": {"source": True, "source_folders": (Path("/tmp"), Path("a b"))},
    **{
        f"{name} {chip}": {
            "metrics": metrics_of(arch(chip), name), "sections": SETS[name].sections, "stock_set": SETS[name].stock_set,
            "source": "waits" in SETS[name].questions,
        }
        for name in SETS
        for chip in ("sm_70", "sm_90", "sm_120")
    },
}  # fmt: skip


@each_row("name", COMMANDS)
def test_real_ncu_accepts_the_command_line(real_ncu: Path, tmp_path: Path, name: str) -> None:
    made = command(real_ncu, tmp_path, **COMMANDS[name])
    done = subprocess.run(made.argv(), capture_output=True, text=True, check=False, timeout=60)
    said = done.stdout + done.stderr + (made.log.read_text() if made.log.exists() else "")
    errors = [line for line in re.findall(r"^==ERROR== .*", said, re.MULTILINE) if not _expected(line)]
    assert errors == []
    assert "unrecognised" not in said and "Invalid" not in said
    # Its own words for a run without a GPU: it came as far as starting the program.
    assert re.search("No (kernels|graphs) were profiled", said)


def _expected(line: str) -> bool:
    return "failed to connect to the CUDA driver" in line or "The application returned an error code" in line


@each_row("name", COMMANDS)
def test_only_options_of_real_ncus_help_are_passed(real_ncu: Path, tmp_path: Path, name: str) -> None:
    known = options_of(real_ncu)
    assert known.has("metrics") and not known.has("no-such-option")
    words = command(real_ncu, tmp_path, known=known, **COMMANDS[name]).argv()
    options = {word[2:] for word in words if word.startswith("--")}
    assert options <= set(known.texts)
    assert {"metrics", "export", "clock-control"} <= options


def test_real_ncu_refuses_what_is_wrong(real_ncu: Path, tmp_path: Path) -> None:
    wrong = command(real_ncu, tmp_path, filters=Filters(kernel_id="::regex:(:1"))
    done = subprocess.run(wrong.argv(), capture_output=True, text=True, check=False, timeout=60)
    assert "==ERROR== Invalid" in done.stdout + done.stderr + (wrong.log.read_text() if wrong.log.exists() else "")


def test_an_option_that_real_ncu_refuses_is_named(real_ncu: Path, tmp_path: Path) -> None:
    wrong = command(real_ncu, tmp_path, replay_mode="application", graphs="graph")
    done = subprocess.run(wrong.argv(), capture_output=True, text=True, check=False, timeout=60)
    causes = [failure.cause for failure in failures_in(done.stdout + done.stderr)]
    assert "options" in causes


@each_row("name", SETS)
@each_row("chip", CHIPS)
def test_every_metric_exists_on_the_chip(chip: str, name: str) -> None:
    with gzip.open(folder().parent / "ncu-metrics" / f"{chip}.csv.gz", "rt") as text:
        known = {row[0] for row in csv.reader(text) if row}
    wanted = [metric for metric in metrics_of(arch(CHIPS[chip]), name) if not metric.startswith(_UNLISTED)]
    assert [metric for metric in wanted if metric.partition(".")[0] not in known] == []
