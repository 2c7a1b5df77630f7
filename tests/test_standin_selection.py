"""The stand-in for ncu chooses launches as the recordings of an H100 show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuprof.collect.annotate import Marked, marking, marks_text
from gpuprof.model.torch_ranges import MARK as NAME_OF_MARK
from gpuprof.read.ncu_rep import read_ncu_rep
from tests.made_launches import MadeLaunch, launches_step
from tests.standin_selection import MARK, selected
from tests.table import each_row

STANDIN = Path(__file__).with_name("standin_ncu.py")
GEMM, OTHER_GEMM = "sm80_xmma_tile256x64", "sm80_xmma_tile64x128"
ADD = "_Z3addIfEvPT_"


def places(launches: Sequence[MadeLaunch], *options: str, **environ: str) -> list[int]:
    """The places of the launches that ncu profiles with these options."""
    made = launches_step(launches)["launches"]
    assert isinstance(made, list)
    return selected([*options, "--force-overwrite", "./app", "--launch-count", "1"], made, environ)


ALTERNATING = [MadeLaunch(ADD, "void add<float>(float *)"), MadeLaunch(GEMM), MadeLaunch(OTHER_GEMM)] * 4


@each_row(
    ("options", "expected"),
    [
        ((), list(range(12))),
        (("--launch-skip-before-match", "7", "--launch-count", "3"), [7, 8, 9]),
        (("--launch-skip-before-match", "7", "--kernel-name", "add", "--launch-count", "1"), [9]),
        (("--launch-skip", "1", "--launch-count", "1", "--kernel-name", "regex:xmma"), [2]),
        (("--kernel-id", "::add:3"), [6]),
        (("--kernel-id", f"::regex:^({ADD}$):^(2|4)$", "--kernel-name-base", "mangled"), [3, 9]),
        # Names that are not mangled: the first two come, of others the next launch of another one, or none.
        (("--kernel-id", f"::regex:^({GEMM}$):^(1|2)$", "--kernel-name-base", "mangled"), [1, 4]),
        (("--kernel-id", f"::regex:^({GEMM}$):^(3)$", "--kernel-name-base", "mangled"), [8]),
        (("--kernel-id", f"::regex:^({OTHER_GEMM}$):^(3|4)$", "--kernel-name-base", "demangled"), [10]),
    ],
)
def test_launches_are_chosen_by_position_and_number(options: tuple[str, ...], expected: list[int]) -> None:
    assert places(ALTERNATING, *options) == expected


@each_row(
    ("mode", "number", "count"),
    [("global", "10", 2), ("per-launch-config", "10", 2), ("global", "^(4|8)$", 4), ("per-launch-config", "4", 2)],
)
def test_numbers_count_over_streams_as_recorded(mode: str, number: str, count: int) -> None:
    both = [MadeLaunch(f"_Z4{name}v", f"{name}()", stream=stream) for stream in (13, 14) for name in ("left", "right")]
    launches = both * 5
    options = ("--kernel-id", f"::regex:^(left|right)$:{number}", "--filter-mode", mode)
    assert len(places(launches, *options)) == count


def test_only_a_launch_configuration_counts_by_grid() -> None:
    launches = [MadeLaunch(ADD, grid=(1 + number % 2, 1, 1)) for number in range(4)]
    assert places(launches, "--kernel-id", "::regex:add:2") == [1]
    assert places(launches, "--kernel-id", "::regex:add:2", "--filter-mode", "per-launch-config") == [2, 3]


def test_each_process_counts_for_itself() -> None:
    launches = [MadeLaunch(ADD, process=7 + number % 2) for number in range(6)]
    assert places(launches, "--launch-skip-before-match", "1", "--launch-count", "1") == [2, 3]


def test_what_is_launched_after_a_stop_is_counted_but_not_profiled() -> None:
    launches = [MadeLaunch(ADD, stopped=number in (1, 2)) for number in range(5)]
    assert places(launches) == [0, 3, 4]
    assert places(launches, "--launch-skip-before-match", "1", "--launch-count", "1") == [3]
    assert places(launches, "--disable-profiler-start-stop", "--launch-count", "2") == [0, 1]


STEP = ("Net", "layers.0"), ("Net", "layers.1"), ("layers.0 (backward)",), ("Optimizer.step#AdamW.step",)
STEPS = [MadeLaunch(ADD, ranges=ranges, step=step) for step in range(3) for ranges in STEP]


@each_row(
    ("units", "way", "options", "expected"),
    [
        (("layers.0", "optimizer step"), "nvtx", ("--nvtx-include", f"{MARK}/"), [4, 7]),
        (("layers.0 (backward)",), "profiler", ("--profile-from-start", "off"), [6]),
        (("layers.0",), "nvtx", ("--profile-from-start", "off"), []),
        (("layers.0",), "profiler", ("--nvtx-include", f"{MARK}/"), []),
        (("layers.0",), "nvtx", ("--nvtx-include", "layers.1/", "--nvtx-include", f"{MARK}/"), [1, 4, 5, 9]),
    ],
)
def test_launches_that_the_hook_marks_are_chosen(
    tmp_path: Path, units: tuple[str, ...], way: str, options: tuple[str, ...], expected: list[int]
) -> None:
    place = tmp_path / "mark.json"
    place.write_text(marks_text(Marked(1, "optimizer", units, way)))  # type: ignore[arg-type]
    assert places(STEPS, *options, **marking(place)) == expected
    assert places(STEPS, "--nvtx-include", f"{MARK}/") == []
    assert MARK == NAME_OF_MARK


def test_what_is_not_known_of_ncu_is_refused() -> None:
    for options in (("--nvtx-include", "a/*/b"), ("--nvtx-include", "a"), ("--kernel-id", "1:7:add:1")):
        with pytest.raises(AssertionError):
            places(STEPS, *options)


@pytest.mark.parametrize("count", [1, 0])
def test_the_report_has_the_chosen_launches(tmp_path: Path, count: int) -> None:
    shape, ranges = ((4, 2, 1), (64, 1, 1)), ("Net", MARK, "layers.0")
    launch = MadeLaunch(ADD, "void add<float>(float *)", *shape, ranges, stream=9, values={"a.sum": 5.0})
    (tmp_path / "steps.json").write_text(json.dumps([launches_step([MadeLaunch(GEMM), launch])]))
    words = ["--nvtx-include", f"{MARK}/", "--launch-count", str(count), "--log-file", "log", "--export", "x.ncu-rep"]
    environ = {**os.environ, "STANDIN": str(tmp_path)}
    command = [sys.executable, "-SI", str(STANDIN), *words, "--force-overwrite", "./app"]
    subprocess.run(command, cwd=tmp_path, env=environ, check=True)
    assert (tmp_path / "x.ncu-rep").exists() == bool(count)
    if not count:
        assert "No kernels were profiled" in (tmp_path / "log").read_text()
        return
    (read,) = read_ncu_rep(tmp_path / "x.ncu-rep").launches
    assert (read.mangled, read.name, read.demangled) == (ADD, "add", "void add<float>(float *)")
    assert (read.grid, read.block, read.stream, read.process) == ((4, 2, 1), (64, 1, 1), 9, 7)
    assert read.ranges == ("Net", "layers.0"), "the mark is none of the program's ranges"
    assert read.metrics.number("a.sum") == 5.0
