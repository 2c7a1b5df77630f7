"""`gpuprof run` in stages: a first verdict, the limits of one step, and answers to what they leave open."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

import gpuprof
from gpuprof.collect.collector import Collector
from gpuprof.collect.cost import forecast_of
from gpuprof.collect.events import ProfileEvent, ProfilePlanned, RunProgressed, RunStarted, TimelineJudged
from gpuprof.collect.files_of_run import COUNTED_FILES, parts_of_runs
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.planner import Planner
from gpuprof.collect.progress import ProgressLine
from gpuprof.collect.request import ProfileRequest
from gpuprof.collect.survey import Survey
from gpuprof.collect.survey_tools import NCU
from gpuprof.errors import InputError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.recorded import Report
from gpuprof.model.session import KernelProfile
from gpuprof.model.set_up import AUTOTUNING_RANGE as RANGE
from gpuprof.model.torch_ranges import operator_with_shapes, product_size
from gpuprof.pipeline import profiled
from tests import training
from tests.cli import GPUPROF
from tests.made_launches import MadeLaunch, launches_step
from tests.readings import trace_of
from tests.standin_ncu import HELP
from tests.standin_selection import report_of
from tests.table import each_row
from tests.test_ranks import mpirun_on_path
from tests.test_run import STANDIN, Bench, bench, value_after
from tests.training import (
    DEEP,
    NCCL,
    STEP,
    WIDE,
    Counted,
    Work,
    answers,
    elementwise,
    everything,
    limits,
    made_launches,
    write_trace,
)

assert bench  # a fixture

RECORDED = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/survey.pt.trace.json.gz"
FIRST = len(training.BEFORE) + 2 * len(STEP)
"""The position of the step that is taken: n calls of an optimizer make n - 1 steps, and the first may warm up."""
PASSES = '==PROF== Profiling "k" - 0: 0%....50%....100% - 3 passes\n'


def counting(counted: Counted, step: Sequence[Work] = STEP, **more: object) -> dict[str, object]:
    """A step of the stand-in in which the program is the made one."""
    return {**launches_step(made_launches(counted, step), training.H100), "log": PASSES, **more}


def kernels_of(bench: Bench) -> list[dict[str, Any]]:
    """The kernels of the session that was left."""
    kernels: list[dict[str, Any]] = json.loads((bench.folder / "out/session.json").read_text())["kernels"]
    return kernels


def instructions_of(kernel: Mapping[str, Any]) -> float | None:
    """The instructions that were counted of a kernel."""
    return next((count["value"] for count in kernel["counts"] if count["name"] == "instructions"), None)


def instructions_in(kernel: KernelProfile) -> float | None:
    """The instructions that were counted of a loaded kernel."""
    return next((count.value for count in kernel.counts if count.name == "instructions"), None)


def counted_by_operator(bench: Bench) -> dict[str, set[float | None]]:
    """The instructions of all kernels that have any counters, by operator with shapes."""
    found: dict[str, set[float | None]] = {}
    for kernel in kernels_of(bench):
        if kernel["throughput"] or kernel["counts"]:
            found.setdefault(operator_with_shapes(kernel["ranges"]), set()).add(instructions_of(kernel))
    return found


LOSS = "aten::mse_loss [2048, 512]"
EXPECTED = {training.operator(work): {training.instructions(work)} for work in STEP if work.shapes}


def traced(bench: Bench, step: Sequence[Work] = STEP, **more: Any) -> tuple[str, str]:
    """The options by which a run takes the timeline of the made program for its survey."""
    return ("--survey", str(write_trace(bench.folder / "survey.pt.trace.json.gz", step, **more)))


def test_limits_of_a_step_come_first_and_then_what_they_leave_open(bench: Bench) -> None:
    bench.steps(counting(limits), counting(answers))
    done = bench.run(*traced(bench))
    assert done.returncode == 0, done.stderr
    first, second = bench.calls
    assert value_after(first, "--launch-skip-before-match") == str(FIRST)
    assert value_after(first, "--launch-count") == str(len(STEP))
    assert not {"--kernel-id", "--kernel-name", "--nvtx-include"} & {*first}
    counters = value_after(first, "--metrics").split(",")
    assert "dram__bytes.sum" in counters and not any("pcsamp" in name or "sass__" in name for name in counters)
    assert value_after(second, "--nvtx-include") == "gpuprof-chosen/"
    assert not {"--kernel-id", "--kernel-name", "--launch-count"} & {*second}
    asked = value_after(second, "--metrics").split(",")
    assert "smsp__inst_executed.sum" in asked and "smsp__pcsamp_sample_count" in asked
    assert not {*asked} & {name for name in counters if not name.startswith(("launch__", "gpu__time"))}
    assert {"profile.ncu-rep", "profile-2.ncu-rep"} <= set(bench.left())
    told = json.loads((bench.folder / "out/.gpuprof-marks.json").read_text())
    assert (told["step"], told["by"], told["with"]) == (2, "optimizer", "nvtx")
    # Each size has its own counters, and all of them those of both runs.
    found = counted_by_operator(bench)
    assert found == {**EXPECTED, LOSS: {None}} and found[DEEP] != found[WIDE], (
        "what takes too little is not asked about"
    )
    assert all(kernel["throughput"] for kernel in kernels_of(bench) if kernel["ranges"] != ["aten::fill_ [2048, 512]"])


def test_a_folder_in_the_place_of_our_file_of_marks_is_refused_before_anything_runs(bench: Bench) -> None:
    place = bench.folder / "out/.gpuprof-marks.json"
    place.mkdir(parents=True)
    done = bench.run("--force", *traced(bench))
    assert done.returncode == 2 and done.stderr.splitlines()[-2] == "error: out/.gpuprof-marks.json is a folder"
    assert bench.calls == [] and place.is_dir()


def test_limits_stay_where_the_file_of_marks_cannot_be_written(bench: Bench) -> None:
    bench.steps(counting(limits, program=True))
    done = bench.run(*traced(bench), program=("mkdir", "-p", "out/.gpuprof-marks.json/in"))
    assert done.returncode == 3 and "cannot write out/.gpuprof-marks.json: " in done.stderr
    assert len(bench.calls) == 1 and {"profile.ncu-rep", "session.json", "report.html"} <= set(bench.left())
    assert any(kernel["throughput"] for kernel in kernels_of(bench))


def test_a_program_that_takes_our_lock_away_loses_nothing(bench: Bench) -> None:
    bench.steps(counting(limits, program=True), counting(answers))
    done = bench.run(*traced(bench), program=("sh", "-c", "rm out/.gpuprof-run; mkdir out/.gpuprof-run"))
    assert done.returncode == 0, done.stderr
    assert {"profile.ncu-rep", "profile-2.ncu-rep", "session.json", "report.html"} <= set(bench.left())


def test_a_result_that_cannot_be_written_is_shown(bench: Bench) -> None:
    bench.steps(counting(limits, program=True), counting(answers))
    done = bench.run(*traced(bench), program=("mkdir", "out/session.json"))
    assert done.returncode == 2 and "error: " in done.stderr and "out/session.json" in done.stderr
    assert "Fix first" in done.stdout and "report.html" not in bench.left()


def test_the_line_that_is_rewritten_fits_into_a_narrow_terminal() -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 20, 0, 0))
    with os.fdopen(slave, "w") as terminal:
        line = ProgressLine(terminal)
        line(RunStarted(number=2, stage="limits", by=NCU, planned=16))
        line(RunProgressed(stage="limits", planned=16, passes=(3, 3), seconds=10.0))
        written = os.read(master, 1000).decode()
    os.close(master)
    assert {len(part) for part in written.split("\r")} == {0, 19} and written.startswith("\rlimits: 2 of 16")


def test_how_a_run_went_is_printed_at_once_where_python_does_not_buffer(bench: Bench) -> None:
    """So in containers, which set PYTHONUNBUFFERED; an interrupted page then loses no line."""
    bench.environ["PYTHONUNBUFFERED"] = "1"
    bench.steps(counting(limits), counting(answers))
    done = bench.shell(f"exec {shlex.join([*GPUPROF, *bench.words(*traced(bench))])} 2>&1")
    lines = done.stdout.splitlines()
    (limits_at,) = (n for n, line in enumerate(lines) if line.startswith("limits:"))
    assert limits_at < next(n for n, line in enumerate(lines) if line.startswith("Fix first"))


def test_the_reports_of_one_run_are_shown_and_compared_as_one(bench: Bench) -> None:
    bench.steps(*[counting(limits), counting(answers)] * 2)
    survey = traced(bench)
    assert bench.run(*survey).returncode == 0
    assert bench.run(*survey, "--output", "other").returncode == 0
    first, second, others = (
        [str(bench.folder / folder / f"profile{part}.ncu-rep") for part in parts]
        for folder, parts in (("out", ("",)), ("out", ("-2",)), ("other", ("", "-2")))
    )
    found = {
        operator_with_shapes(kernel.ranges): (kernel.throughput != (), instructions_in(kernel))
        for kernel in gpuprof.load(*second, *first, groups=True).kernels
    }
    assert found[DEEP] == (True, next(iter(EXPECTED[DEEP]))) and found[LOSS] == (True, None)
    assert len(gpuprof.load(*first, *second).kernels) == len(STEP)
    compared = gpuprof.compare([*first, *second], others).comparison
    assert (len(compared.base.files), len(compared.new.files)) == (1, 1)
    with pytest.raises(InputError, match="are of one run"):
        gpuprof.compare(first, second)
    done = bench.shell(f"{shlex.join(GPUPROF)} compare {shlex.join([*first, *second])}")
    assert done.returncode == 5 and "session.json" in done.stderr
    shown = bench.shell(f"{shlex.join(GPUPROF)} show {shlex.join([*first, *second])}")
    assert shown.returncode == 0 and "added up" not in shown.stderr


def test_reports_of_others_with_these_names_are_runs_of_their_own(bench: Bench) -> None:
    bench.steps(counting(limits), counting(answers))
    assert bench.run(*traced(bench)).returncode == 0
    files = [str(bench.folder / "out" / name) for name in COUNTED_FILES]
    assert parts_of_runs(files[:1] + files[3:4]) == [(files[:1], files[3:4])]
    for file in files:
        Path(file).with_suffix(".log").touch()
    ranks = [file.replace(".ncu-rep", ".rank1.ncu-rep") for file in files[:1]]
    Path(ranks[0]).with_suffix(".log").touch()
    assert parts_of_runs([*files, *ranks, "-"]) == [(files[:3], files[3:]), (ranks, []), (["-"], [])]
    for file in files:
        Path(file).with_suffix(".log").unlink()
    assert parts_of_runs(files) == [([file], []) for file in files]


def test_the_verdict_of_the_timeline_and_the_forecast_are_told_before_anything_is_counted(bench: Bench) -> None:
    bench.steps(counting(limits), counting(answers))
    done = bench.run(*traced(bench))
    lines = [line.partition(":")[0] for line in done.stderr.splitlines()]
    order = [name for name in lines if name in {"by times alone", "plan", "forecast", "limits", "answers"}]
    assert order == ["by times alone", "plan", "forecast", "limits", "answers"]


def test_events_tell_the_same_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.steps(counting(limits), counting(answers))
    told: list[tuple[str, int]] = []

    def tell(event: ProfileEvent) -> None:
        if isinstance(event, (TimelineJudged, ProfilePlanned)):
            told.append((type(event).__name__, len(bench.calls)))
        elif isinstance(event, RunStarted):
            told.append((event.stage, event.planned or 0))

    for name, value in bench.environ.items():
        monkeypatch.setenv(name, value)
    _, survey = traced(bench)
    request = ProfileRequest(
        ("true",), bench.folder / "out", ncu=STANDIN, survey=survey, output="discard", on_event=tell
    )
    outcome = profiled(request)
    assert outcome.error is None
    assert [name for name, _ in told] == ["TimelineJudged", "ProfilePlanned", "limits", "answers"]
    assert [count for _, count in told[:3]] == [0, 0, len(STEP)]


def test_where_our_hook_names_nothing_a_part_of_the_window_is_asked_about(bench: Bench) -> None:
    bench.steps(counting(limits), counting(answers))
    done = bench.run("--annotate", "off", *traced(bench))
    assert done.returncode == 0, done.stderr
    _, second = bench.calls
    skip, count = (int(value_after(second, f"--launch-{name}")) for name in ("skip-before-match", "count"))
    assert skip >= FIRST and skip + count <= FIRST + len(STEP) and "--nvtx-include" not in second
    found = counted_by_operator(bench)
    assert {operator: found[operator] for operator in (DEEP, WIDE)} == {name: EXPECTED[name] for name in (DEEP, WIDE)}


@pytest.mark.parametrize("way", ["old", "samples", "range", "a trace of the user's"])
def test_by_names_each_size_has_its_own_counters_too(bench: Bench, way: str) -> None:
    """ncu picks other launches of names that are not mangled than it is asked for: the first two come right."""
    known = [line for line in HELP.splitlines() if "before-match" not in line]
    bench.environ["STANDIN_HELP"] = "\n".join(known) if way == "old" else HELP
    options_of.cache_clear()
    bench.steps(*[counting(everything)] * 4)
    options = {"samples": ("--samples", "2"), "range": ("--range", "Net/", "--kernel", "x64")}.get(way, ())
    done = bench.run(*traced(bench, from_start=way != "a trace of the user's"), *options)
    options_of.cache_clear()
    assert done.returncode == 0, done.stderr
    for words in bench.calls:
        assert "--launch-skip-before-match" not in words and "--kernel-id" in words
        assert "gpuprof-chosen/" not in words and ("Net/" in words) == (way == "range")
    found = counted_by_operator(bench)
    assert all(executed == EXPECTED[operator] for operator, executed in found.items())
    assert {DEEP, WIDE} <= found.keys()


OTHERS = [work._replace(name=work.name.replace("tile", "other")) for work in STEP]


def test_a_program_that_launches_other_kernels_has_nothing_wrong_attached(bench: Bench) -> None:
    # The same elementwise kernels and operators; the GEMM kernels are others, as after another autotuning.
    bench.steps(*[counting(everything, OTHERS)] * 4)
    done = bench.run(*traced(bench))
    assert done.returncode == 0, done.stderr
    first, by_names, *_ = bench.calls
    assert "--launch-skip-before-match" in first and "--kernel-id" in by_names
    assert "are not those of the survey" in done.stderr and "planned, but not counted: sm80" in done.stderr
    counted = [kernel["name"] for kernel in kernels_of(bench) if kernel["counts"] or kernel["throughput"]]
    assert counted and set(counted) == {"elementwise"}


def test_positions_that_did_not_fit_are_not_tried_again(bench: Bench) -> None:
    late = made_launches(everything, before=[training.BEFORE[0]] * 9)
    bench.steps(*[launches_step(late, training.H100)] * 4)
    done = bench.run("--annotate", "off", *traced(bench))
    assert done.returncode == 0, done.stderr
    assert ["--launch-skip-before-match" in words for words in bench.calls[:3]] == [True, False, False]
    assert all(executed == EXPECTED[operator] for operator, executed in counted_by_operator(bench).items())


def test_positions_behind_an_autotuner_are_not_believed(bench: Bench) -> None:
    """Triton tries as often as there is time: under ncu the program launches another number before its steps."""
    tries = [elementwise(3, RANGE, "", f"Try{number}") for number in range(4)]
    bench.steps(launches_step(made_launches(everything, before=[*training.BEFORE, *tries * 5]), training.H100))
    done = bench.run(*traced(bench, before=[*training.BEFORE, *tries * 40]))
    assert done.returncode == 0, done.stderr
    assert "160 launches" in done.stderr and "not those of the survey" not in done.stderr
    (words,) = bench.calls
    assert value_after(words, "--nvtx-include") == "gpuprof-chosen/" and "--launch-skip-before-match" not in words
    (plan,) = (line for line in done.stderr.splitlines() if line.startswith("plan:"))
    assert "marked parts" in plan and "of the same names" not in plan and "launch 3 of 16" not in done.stderr
    found = counted_by_operator(bench)
    assert {operator: found[operator] for operator in (DEEP, WIDE)} == {name: EXPECTED[name] for name in (DEEP, WIDE)}


def test_another_process_that_launches_little_is_not_taken_for_the_surveyed_one(bench: Bench) -> None:
    """A worker launches as many kernels before, and then one GEMM of the same name and grid for other work."""
    program = made_launches(everything)
    before, gemm = program[:FIRST], program[FIRST]
    other = gemm._replace(values={**gemm.values, "smsp__inst_executed.sum": 1.0})
    program = [*(one._replace(process=8) for one in (*before, other)), *program]
    bench.steps(*[launches_step(program, training.H100)] * 3)
    done = bench.run("--annotate", "off", *traced(bench))
    assert done.returncode == 0, done.stderr
    found = counted_by_operator(bench)
    assert {operator: found[operator] for operator in (DEEP, WIDE)} == {name: EXPECTED[name] for name in (DEEP, WIDE)}


def test_a_program_that_launches_nothing_of_what_was_surveyed_keeps_its_times(bench: Bench) -> None:
    strange = [work._replace(name=f"strange_{number}") for number, work in enumerate(STEP)]
    bench.steps(*[counting(everything, strange)] * 4)
    done = bench.run(*traced(bench))
    assert done.returncode == 3 and len(bench.calls) == 2
    kernels = kernels_of(bench)
    assert len(kernels) == 17 and not any(kernel["counts"] or kernel["throughput"] for kernel in kernels)
    assert all(kernel["duration_s"] for kernel in kernels)


@pytest.mark.parametrize("more", [1, 3])
def test_launches_that_came_earlier_or_later_are_aligned(bench: Bench, more: int) -> None:
    # Before its first step the program launches some more: the window comes later, by less than a tenth, or by more.
    launches = [
        launches_step(made_launches(counted, before=[training.BEFORE[0]] * (3 + more)), training.H100)
        for counted in (limits, everything, answers)
    ]
    bench.steps(*launches)
    done = bench.run(*traced(bench))
    assert done.returncode == 0, done.stderr
    assert ("are not those of the survey" in done.stderr) == (more == 3)
    found = counted_by_operator(bench)
    assert all(executed <= EXPECTED[operator] | {None} for operator, executed in found.items())
    assert found[DEEP] == EXPECTED[DEEP] and found[WIDE] == EXPECTED[WIDE]


def test_a_program_that_stops_profilers_is_counted_as_a_whole_and_it_is_said(bench: Bench) -> None:
    stopped = [
        launches_step([one._replace(stopped=one.step >= 1) for one in made_launches(counted)], training.H100)
        for counted in (limits, answers)
    ]
    bench.steps(*stopped)
    done = bench.run(*traced(bench, calls=("cudaProfilerStart", "cudaProfilerStop")))
    assert done.returncode == 0, done.stderr
    assert ["--disable-profiler-start-stop" in words for words in bench.calls] == [True, True]
    assert counted_by_operator(bench) == {**EXPECTED, LOSS: {None}}
    assert "calls cudaProfilerStart or cudaProfilerStop" in done.stderr
    sources = json.loads((bench.folder / "out/session.json").read_text())["sources"]
    assert any("cudaProfilerStop" in text for source in sources for text in source["warnings"])


def test_a_survey_by_ncu_and_chosen_launches_leave_the_programs_own_limits(bench: Bench) -> None:
    launches = [one._replace(stopped=one.step >= 1) for one in made_launches(everything)]
    bench.steps(*[launches_step(launches, training.H100)] * 3)
    done = bench.run("--survey", "ncu")
    assert done.returncode == 0, done.stderr
    assert not any("--disable-profiler-start-stop" in words for words in bench.calls)
    assert sum(kernel["launches"] for kernel in kernels_of(bench)) == len(training.BEFORE) + len(STEP)


def selections(bench: Bench, *options: str) -> list[list[str]]:
    """The words of ncu that a dry run prints, for each run."""
    done = bench.run("--dry-run", *options)
    assert done.returncode == 0, done.stderr
    checked = subprocess.run(["bash", "-n"], input=done.stdout, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    return [words for words in lines if str(STANDIN) in words]


PEERS = [*STEP[:6], Work(NCCL, 50, "", "c10d::allreduce_", ((2048, 512),)), *STEP[6:]]


def test_no_window_has_a_kernel_that_waits_for_a_peer_unless_all_ranks_are_profiled(bench: Bench) -> None:
    options = ("--arch", "sm_90", *traced(bench, PEERS))
    nccl = {3 + 6 + 17 * step for step in range(training.STEPS)}

    def places(words: list[str]) -> range:
        skip = int(value_after(words, "--launch-skip-before-match"))
        return range(skip, skip + int(value_after(words, "--launch-count")))

    (limits_run,) = selections(bench, *options)
    assert len(places(limits_run)) == 10 and not nccl & {*places(limits_run)}
    # Nor is one profiled where the program launches otherwise than in the survey: none whose name begins so.
    chosen = value_after(limits_run, "--kernel-name").removeprefix("regex:")
    assert value_after(limits_run, "--kernel-name-base") == "function"
    assert not re.search(chosen, NCCL) and re.search(chosen, "elementwise")
    limits_run, *_ = selections(bench, *options, "--peers")
    assert len(places(limits_run)) == 17 and nccl & {*places(limits_run)} and "--kernel-name" not in limits_run
    limits_run, *_ = selections(bench, *options, "--peers", "--exclude", NCCL)
    assert not nccl & {*places(limits_run)}


def test_a_step_that_communication_cuts_into_pieces_is_marked(bench: Bench) -> None:
    """As data-parallel training: no stretch between two collectives has most of the step's time."""
    step: list[Work] = []
    for work in STEP:
        step += [work, *([Work(NCCL, 50, "", "c10d::allreduce_", ((2048, 512),))] if "mm" in work.operator else [])]
    first, *_ = selections(bench, "--arch", "sm_90", *traced(bench, step))
    assert value_after(first, "--nvtx-include") == "gpuprof-chosen/" and "--kernel-id" not in first
    assert not re.search(value_after(first, "--kernel-name").removeprefix("regex:"), NCCL)


def test_of_long_kernels_no_more_launches_are_counted_than_it_takes(bench: Bench) -> None:
    # Three passes of a whole step would take the GPU 9.7 s; of one a hundred times as long, 16 minutes.
    for times, launches in ((5_000, 16), (500_000, 10)):
        step = [work._replace(us=work.us * times) for work in STEP]
        words, *_ = selections(bench, "--arch", "sm_90", *traced(bench, step))
        assert value_after(words, "--launch-count") == str(launches)


def test_the_plan_promises_another_run_only_for_kernels_that_are_worth_it(bench: Bench) -> None:
    # What the program launches before its first step is in no window, and takes 0.2 % of the time.
    done = bench.run("--plan-only", "--coverage", "100", *traced(bench))
    (plan,) = (line for line in done.stdout.splitlines() if line.startswith("plan:"))
    assert "1 of them left out" in plan and "one more run" not in plan


def test_a_part_of_the_program_that_waits_for_a_peer_is_not_marked(bench: Bench) -> None:
    inside = Work(NCCL, 50, "layers.1.up", "c10d::allreduce_", ((2048, 512),))
    step = [*STEP[:7], inside, *STEP[7:]]
    done = bench.run("--dry-run", "--arch", "sm_90", "--set", "full", *traced(bench, step))
    (marked,) = (shlex.split(line) for line in done.stdout.splitlines() if line.startswith("printf"))
    units = json.loads(marked[2])["units"]
    assert "layers.0.up" in units and not {"Net", "layers.1", "layers.1.up"} & {*units}


def test_a_dry_run_by_a_survey_prints_both_stages(bench: Bench) -> None:
    first, second = selections(bench, "--arch", "sm_90", *traced(bench))
    assert value_after(first, "--launch-count") == "16" and value_after(second, "--nvtx-include") == "gpuprof-chosen/"
    assert any(word.startswith("GPUPROF_MARK=") for word in second)
    assert first[-1] == second[-1] == shutil.which("true")
    (only,) = selections(bench, "--arch", "sm_90", "--set", "full", *traced(bench))
    assert value_after(only, "--set") == "full"
    for words in selections(bench, "--arch", "sm_90", "--range", "Net/", *traced(bench)):
        assert "--kernel-id" in words and value_after(words, "--nvtx-include") == "Net/"


FAILED = {"log": "==ERROR== The application returned an error code (3).\n", "code": 3}


@each_row(
    ("second", "code", "says"),
    [
        ({"log": "==ERROR== Something.\n", "code": 1}, 3, "only the limits"),
        ({"log": "==WARNING== No kernels were profiled.\n"}, 4, "by position"),
        (FAILED, 4, "only the limits"),
    ],
)
def test_limits_stay_where_answers_fail(tmp_path: Path, second: dict[str, object], code: int, says: str) -> None:
    place = Bench(tmp_path)
    place.steps(counting(limits), *[second] * 3)
    done = place.run(*traced(place))
    assert done.returncode == code and says in done.stderr, done.stderr
    assert "profile.ncu-rep" in place.left() and "profile-2.ncu-rep" not in place.left()
    kernels = [kernel for kernel in kernels_of(place) if kernel["throughput"]]
    assert len(kernels) == 16 and all(instructions_of(kernel) is None for kernel in kernels)
    # Of what was asked it is told why there is no answer, and the report has it as a warning.
    session = json.loads((tmp_path / "out/session.json").read_text())
    why = next(text for text in session["sources"][0]["warnings"] if "only the limits" in text).partition(";")[0]
    asked = [kernel for kernel in kernels if [gap["why"] for gap in kernel["missing"]] == [why]]
    assert len(asked) >= 8


def test_where_marks_bring_nothing_a_part_of_the_step_is_taken_by_position(bench: Bench) -> None:
    bench.steps(counting(limits), {"log": "==WARNING== No kernels were profiled.\n"}, counting(answers))
    done = bench.run(*traced(bench))
    assert done.returncode == 0, done.stderr
    assert "--launch-skip-before-match" in bench.calls[2] and "--nvtx-include" not in bench.calls[2]
    assert value_after(bench.calls[2], "--export") == "out/profile-2-again.ncu-rep"
    assert counted_by_operator(bench) == EXPECTED


def test_a_failure_of_the_limits_leaves_the_times(bench: Bench) -> None:
    bench.steps({"log": "==ERROR== Something.\n", "code": 1})
    done = bench.run(*traced(bench))
    assert done.returncode == 3 and not any("profile-2.log" in word for words in bench.calls for word in words)
    assert all(kernel["time_share"] and not kernel["throughput"] for kernel in kernels_of(bench))


def test_a_later_run_leaves_no_answers_of_an_earlier_one(bench: Bench) -> None:
    bench.steps(counting(limits), counting(answers), counting(everything))
    survey = traced(bench)
    assert bench.run(*survey).returncode == 0 and "profile-2.ncu-rep" in bench.left()
    again = bench.run(*survey, "--set", "full")
    assert again.returncode == 2 and "profile" in again.stderr
    assert bench.run(*survey, "--set", "full", "--force").returncode == 0
    assert "profile-2.ncu-rep" not in bench.left() and "profile-2.log" not in bench.left()


def test_few_launches_are_counted_in_one_run(bench: Bench) -> None:
    few = STEP[:1]
    bench.steps(counting(everything, few))
    done = bench.run("--coverage", "100", *traced(bench, few))
    assert done.returncode == 0, done.stderr
    (words,) = bench.calls
    counters = value_after(words, "--metrics").split(",")
    assert {"dram__bytes.sum", "smsp__inst_executed.sum", "smsp__pcsamp_sample_count"} <= {*counters}
    assert counted_by_operator(bench)[DEEP] == EXPECTED[DEEP]


FACTORS = {
    "gpu__time_duration.sum": 1000.0,
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 0.5,
    "smsp__inst_executed.sum": 1000.0,
}


def test_of_work_in_two_sizes_without_operators_that_with_most_time_is_shown(bench: Bench) -> None:
    """As a program in CUDA: one kernel with one grid does 121 and 33 µs in turn, and never says what for."""

    def launches(*counted: str) -> list[MadeLaunch]:
        times = (121.0, 33.0) * 50
        names = ("gpu__time_duration.sum", *counted)
        return [MadeLaunch(training.GEMM, values={name: us * FACTORS[name] for name in names}) for us in times]

    steps = (launches(), launches(*FACTORS))
    bench.steps(*(launches_step(made, training.H100) for made in steps))
    done = bench.run("--survey", "ncu")
    assert done.returncode == 0, done.stderr
    assert [value_after(words, "--launch-count") for words in bench.calls[1:]] == ["2"], "one launch of each size"
    (kernel,) = kernels_of(bench)
    assert (instructions_of(kernel), kernel["launches"]) == (121_000.0, 100)
    assert {row["unit"]: row["fraction"] for row in kernel["throughput"]}["dram"] == pytest.approx(0.605)


FULL = "==ERROR== No space left on device\n"


@pytest.mark.parametrize(
    ("left", "log", "code", "exit_code", "said"),
    [
        # What ncu leaves: nothing, an empty file, a part of its first block, a half, all.
        (None, "", 139, 3, "ncu exited with code 139"),
        (None, "", -9, 3, "ncu was ended by signal 9"),
        (None, FULL, 1, 3, "the disk is full"),
        (None, "", 0, 3, "ncu wrote no report"),
        (0.0, "", 0, 5, "profile-2.ncu-rep is empty"),
        (0.0, FULL, 1, 3, "the disk is full"),
        (0.001, "", 139, 5, "profile-2.ncu-rep is damaged"),
        (0.5, "", 0, 5, "profile-2.ncu-rep is damaged"),
        (0.5, "", 139, 3, "ncu exited with code 139"),
        (0.5, FULL, 1, 3, "the disk is full"),
        (1.0, "", 139, 3, "ncu exited with code 139"),
        (1.0, "==ERROR== The application returned an error code (3).\n", 3, 4, "the program exited with code 3"),
    ],
)
def test_however_the_answers_fail_the_limits_stay_and_the_failure_is_told(
    bench: Bench, left: float | None, log: str, code: int, exit_code: int, said: str
) -> None:
    step = launches_step(made_launches(answers), training.H100)
    whole = report_of(["--force-overwrite"], step["head"], step["launches"], {})  # type: ignore[arg-type]
    (bench.folder / "whole.ncu-rep").write_bytes(whole)
    report = {"report": str(bench.folder / "whole.ncu-rep"), "bytes": int((left or 0.0) * len(whole))}
    failing = {**(report if left is not None else {}), "log": log, "code": code}
    bench.steps(counting(limits), failing, {"log": log, "code": code})
    done = bench.run(*traced(bench))
    assert done.returncode == exit_code and f"error: {said}" in done.stderr.replace("out/", "")
    assert "hint: " in done.stderr and "copy it again" not in done.stderr
    kernels = [kernel for kernel in kernels_of(bench) if kernel["throughput"]]
    assert len(kernels) == 16
    answered = [kernel for kernel in kernels if instructions_of(kernel) is not None]
    assert bool(answered) == ((left or 0.0) >= 0.5) == ("profile-2.ncu-rep" in bench.left())
    session = json.loads((bench.folder / "out/session.json").read_text())
    warnings = [text for source in session["sources"] for text in source["warnings"]]
    assert any(said in text for text in warnings)
    if not answered:
        (gap,) = {(gap["why"], gap["how"]) for kernel in kernels for gap in kernel["missing"] if said in gap["why"]}
        assert f"hint: {gap[1]}" in done.stderr and any("only the limits" in text for text in warnings)


def test_limits_that_cannot_be_are_told_beside_what_is_lacking(bench: Bench) -> None:
    dram = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    bench.steps(counting(lambda work, step: {**limits(work, step), dram: 250.0}), {"log": FULL, "code": 1})
    assert bench.run(*traced(bench)).returncode == 3
    kernels = [kernel for kernel in kernels_of(bench) if kernel["throughput"]]
    assert len(kernels) == 16 and all(unit["fraction"] <= 1 for kernel in kernels for unit in kernel["throughput"])
    for kernel in kernels:
        assert [gap["what"] for gap in kernel["missing"]][-2:] == ["throughput.dram", "counters beside its limits"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["limits", "answers"])
@pytest.mark.parametrize("by", ["SIGINT", "SIGTERM", "timeout"])
def test_what_was_counted_stays_where_a_stage_is_ended(bench: Bench, stage: str, by: str) -> None:
    last = counting(limits if stage == "limits" else answers, sleep=30)
    bench.steps(*([counting(limits)] if stage == "answers" else []), last)
    report = "profile.ncu-rep" if stage == "limits" else "profile-2.ncu-rep"
    if by == "timeout":
        done = bench.run("--timeout", "3", *traced(bench))
        code, err = done.returncode, done.stderr
    else:
        child = bench.start(*traced(bench))
        deadline = time.monotonic() + 30
        while report not in bench.left() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.Signals[by])
        _, err = child.communicate(timeout=30)
        code = child.returncode
    assert code == {"timeout": 4, "SIGINT": 130, "SIGTERM": 143}[by], err
    assert len(bench.calls) == (1 if stage == "limits" else 2)
    kernels = [kernel for kernel in kernels_of(bench) if kernel["throughput"]]
    assert len(kernels) == 16
    executed = {operator_with_shapes(kernel["ranges"]): instructions_of(kernel) for kernel in kernels}
    assert executed[DEEP] == (None if stage == "limits" else next(iter(EXPECTED[DEEP])))


@pytest.fixture(scope="module")
def transformer() -> tuple[Survey, ProfilePlanned]:
    """The recorded transformer's timeline as gpuprof's own survey would leave it today, and its plan for an H100."""
    arch = SpecLibrary().arch("sm_90")
    assert arch is not None
    trace = replace(trace_of(RECORDED), from_start=True)
    collector = Collector(ProfileRequest(("true",)), STANDIN, os.environ, _no_report, _no_report)
    survey = Survey((trace,), 9.67).own_work()
    return survey, collector.planned(survey, arch)


def _no_report(path: Path, *, salvage: bool = False) -> Report:
    raise AssertionError("nothing is read")


@each_row(("calls", "ways"), [((), ["nvtx", "profiler"]), (("cuProfilerStart",), ["nvtx"])])
def test_marks_start_no_profiler_in_a_program_that_does_so_itself(calls: tuple[str, ...], ways: list[str]) -> None:
    arch = SpecLibrary().arch("sm_90")
    assert arch is not None
    with TemporaryDirectory() as place:
        before = [elementwise(3, RANGE, "", "Try"), *training.BEFORE]
        file = write_trace(Path(place) / "survey.pt.trace.json.gz", before=before, calls=calls)
        survey = Survey((trace_of(file),)).own_work()
    planner = Planner(ProfileRequest(("true",)), survey, arch, knows_positions=True)
    planned = planner.planned()
    found = [way.marks and way.marks.with_ for way in planner.ways(planned.selection, planned.plan.kernels)]
    assert found == ways


def test_the_forecast_for_the_recorded_transformer_is_a_twentieth_of_the_full_set(
    transformer: tuple[Survey, ProfilePlanned],
) -> None:
    _, planned = transformer
    forecast = forecast_of(planned)
    assert forecast.full_s == pytest.approx(1360, rel=0.01)
    assert 20 * (9.67 + forecast.seconds) <= (forecast.full_s or 0.0)
    assert [run.passes for run in forecast.runs] == [3, 9]
    assert forecast_of(dataclasses.replace(planned, answers=None)).seconds > forecast.seconds


def test_each_gemm_of_the_transformer_is_planned_by_its_own_operator(
    transformer: tuple[Survey, ProfilePlanned],
) -> None:
    survey, planned = transformer
    plan, window = planned.plan, planned.selection.window
    assert window is not None and planned.selection.by == "position"
    there = {seen.shape for seen in window.launches}
    assert {kernel.shape for kernel in plan.kernels} <= there
    gemms = [kernel for kernel in plan.kernels if product_size((kernel.shape.operator,)) is not None]
    names = {(kernel.shape.name, kernel.shape.grid, kernel.shape.block) for kernel in gemms}
    assert len({kernel.shape for kernel in gemms}) == len(gemms) > len(names), "sizes share names and grids"
    # Every size of a product that takes a hundredth of the time is planned.
    times: dict[str, float] = {}
    for seen in survey.launches():
        if product_size(seen.ranges) is not None:
            times[seen.operator] = times.get(seen.operator, 0.0) + (seen.duration_s or 0.0)
    matter = {operator for operator, time_s in times.items() if time_s >= 0.01 * plan.time_s}
    assert len(matter) >= 10 and matter <= {kernel.shape.operator for kernel in gemms}


def test_the_transformer_s_open_questions_are_asked_in_marked_parts(
    transformer: tuple[Survey, ProfilePlanned],
) -> None:
    _, planned = transformer
    chosen = planned.answers
    assert chosen is not None and chosen.by == "marks" and chosen.marks is not None
    assert chosen.launches < planned.selection.launches
    assert {kernel.shape for kernel in planned.plan.worth_asking} <= chosen.shapes
    assert (chosen.marks.step, chosen.marks.by) == (2, "optimizer")
    assert {"head", "optimizer step"} <= {*chosen.marks.units}


def test_each_rank_is_told_what_to_mark(bench: Bench) -> None:
    mpirun_on_path(bench)
    survey = traced(bench)
    done = bench.run("--dry-run", "--arch", "sm_90", *survey, program=("mpirun", "-n", "2", "true"))
    assert done.returncode == 0, done.stderr
    first, second = (line for line in done.stdout.splitlines() if "#!/bin/sh" in line)
    assert "GPUPROF_MARK=" in second and "GPUPROF_MARK" not in first
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False).returncode == 0
