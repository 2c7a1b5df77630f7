"""`gpuprof run` at the border to ncu: an executable that does what ncu was seen to do stands in for it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest
import zstandard

from gpuprof.collect.annotate import INJECTED
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.program_log import MOST_BYTES
from tests.cli import GPUPROF, Done, gpuprof
from tests.standin_ncu import HELP
from tests.table import each_row

STANDIN = Path(__file__).with_name("standin_ncu.py")
H100 = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3"
SMALL = H100 / "killed/kill-no.ncu-rep"
FOUR = H100 / "run-launches/full.ncu-rep"
"""Two launches of `empty`, one of `saxpy` and one of `transpose`, which takes most of the time."""
OTHER = H100 / "passes/diagnose/profile.ncu-rep"
SURVEY = H100 / "run-launches/run/survey.ncu-rep"
NO_DRIVER = "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).\n"
FAILED = "==ERROR== The application returned an error code (3).\n==WARNING== No kernels were profiled.\n"
MEMORY = "==ERROR== Insufficient free memory for profiling on the device. Consider the following options\n"
REFUSED_COUNTERS = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
)
PASSES = "".join(f'==PROF== Profiling "k{number}" - {number}: 0%....50%....100% - 8 passes\n' for number in range(3))


class Bench:
    """A folder with the stand-in, its steps, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The stand-in runs under this Python: what else is called python3 may take a second to find itself.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ = {**os.environ, "PATH": path, "STANDIN": str(folder), "COLUMNS": "120"}

    def steps(self, *steps: Mapping[str, object]) -> None:
        """Say what each run of the stand-in does."""
        (self.folder / "steps.json").write_text(json.dumps(steps))

    @property
    def calls(self) -> list[list[str]]:
        """The words of each call, but for --version."""
        place = self.folder / "calls.json"
        return json.loads(place.read_text()) if place.exists() else []

    def words(self, *options: str, program: tuple[str, ...] = ("true",), command: str = "run") -> list[str]:
        """A command line of gpuprof run."""
        place = () if "--output" in options else ("-o", "out")
        return [command, "--ncu", str(STANDIN), *place, *options, "--", *program]

    def run(self, *options: str, program: tuple[str, ...] = ("true",), command: str = "run") -> Done:
        """Run gpuprof in the folder, in this process; the stand-in and the program are processes."""
        return gpuprof(*self.words(*options, program=program, command=command), cwd=self.folder, environ=self.environ)

    def start(self, *options: str, program: tuple[str, ...] = ("true",)) -> subprocess.Popen[str]:
        """Start gpuprof in the folder, in a process of its own."""
        return subprocess.Popen(
            [*GPUPROF, *self.words(*options, program=program)], cwd=self.folder, env=self.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def shell(self, line: str, stdin: IO[str] | None = None) -> Done:
        """Run a line of bash in the folder."""
        return subprocess.run(
            ["bash", "-c", line], stdin=stdin, cwd=self.folder, env=self.environ, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip

    def left(self) -> list[str]:
        """The names of what lies in the output folder."""
        return sorted(path.name for path in (self.folder / "out").glob("*"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A place to run in."""
    return Bench(tmp_path)


def value_after(words: list[str], option: str) -> str:
    """The word behind an option."""
    return words[words.index(option) + 1]


def test_a_program_is_surveyed_planned_profiled_and_shown(bench: Bench) -> None:
    report = str(FOUR)
    bench.steps({"report": report, "program": True}, {"report": report, "program": True, "log": PASSES})
    done = bench.run("--keep-private", program=("sh", "-c", "echo from the program; echo its error >&2"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("from the program\ntranspose (79 %")
    assert done.stdout.count("from the program") == 1 and done.stderr.count("its error") == 1
    told = [line for line in done.stderr.splitlines() if line.startswith(("by times", "plan:", "forecast:"))]
    assert told[0].startswith("by times alone: transpose") and told[1].startswith("plan: 2 kernels, 99 %")
    assert "launches 1 to 4" in told[1] and len(told) == 3
    assert {"survey.ncu-rep", "profile.ncu-rep", "session.json", "report.html"} <= set(bench.left())
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert [source["kind"] for source in session["sources"]] == ["ncu-rep", "ncu-rep survey"]
    assert session["sources"][0]["command"] == shlex.join(["", *bench.calls[1]]).replace("''", str(STANDIN), 1)
    assert {kernel["duration_source"] for kernel in session["kernels"]} == {"survey"}
    assert [kernel["id"] for kernel in session["kernels"]] == [0, 2, 3]
    assert sum(kernel["time_share"] for kernel in session["kernels"]) == pytest.approx(1)


def test_the_survey_times_and_the_profile_counts_what_was_planned(bench: Bench) -> None:
    report = str(FOUR)
    bench.steps({"report": report}, {"report": report})
    bench.run("--coverage", "90", "--range", "step/", "--kernel", "a")
    survey, profile = bench.calls
    time_and_shape = value_after(survey, "--metrics").split(",")
    assert time_and_shape[0] == "gpu__time_duration.sum"
    assert all(name.startswith("launch__") for name in time_and_shape[1:])
    assert value_after(survey, "--cache-control") == "none"
    assert "--kernel-name" not in survey
    assert "--kernel-id" not in survey
    assert value_after(profile, "--kernel-id") == "::regex:^(_ZN5parts(5saxpyEfPKfPfi$|9transposeEPKfPfi$)):^(1)$"
    assert value_after(profile, "--kernel-name-base") == "mangled"
    metrics = value_after(profile, "--metrics").split(",")
    assert "dram__bytes_read.sum" not in metrics and "dram__bytes.sum" in metrics
    for words in (survey, profile):
        assert value_after(words, "--clock-control") == "none"
        assert value_after(words, "--config-file") == "off"
        assert value_after(words, "--nvtx-include") == "step/"


def test_plan_only_prints_the_plan_and_profiles_nothing(bench: Bench) -> None:
    bench.steps({"report": str(FOUR)})
    done = bench.run("--plan-only")
    assert done.returncode == 0
    assert done.stdout.startswith("survey: 4 launches (364 µs)\nplan: 2 kernels, ")
    assert len(bench.calls) == 1


def test_a_survey_at_hand_saves_the_first_run(bench: Bench) -> None:
    bench.steps({"report": str(SMALL)})
    assert bench.run("--survey", str(SMALL)).returncode == 0
    assert len(bench.calls) == 1 and value_after(bench.calls[0], "--launch-count") == "1"


def test_launches_chosen_by_number_need_no_survey(bench: Bench) -> None:
    bench.steps({"report": str(FOUR)})
    done = bench.run("--launch-skip", "3", "--launch-count", "5", "--kernel", "step|tend", "--arch", "sm_70")
    assert done.returncode == 0, done.stderr
    (words,) = bench.calls
    assert value_after(words, "--launch-skip") == "3" and value_after(words, "--launch-count") == "5"
    assert value_after(words, "--kernel-name") == "regex:step|tend"
    assert value_after(words, "--kill") == "yes"


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        (("NVIDIA H100, 9.0", "NVIDIA H100, 9.0"), None),
        (("NVIDIA H100, 9.0", "NVIDIA A100, 8.0"), "GPUs of several architectures here: sm_80, sm_90"),
    ],
)
def test_launches_by_number_need_no_arch_where_all_gpus_are_alike(
    bench: Bench, gpus: tuple[str, ...], says: str | None
) -> None:
    place = bench.folder / "bin/nvidia-smi"
    place.parent.mkdir()
    lines = "".join(f"echo '{gpu}, 580.65.06, Disabled, Enabled'\n" for gpu in gpus)
    place.write_text(f"#!/bin/sh\n{lines}")
    place.chmod(0o755)
    bench.environ["PATH"] = f"{place.parent}:{bench.environ['PATH']}"
    bench.steps({"report": str(FOUR)})
    done = bench.run("--launch-count", "5")
    if says is None:
        assert done.returncode == 0 and "sm__ops_path" in value_after(bench.calls[0], "--metrics")
    else:
        assert done.returncode == 3 and says in done.stderr and "--arch" in done.stderr


def test_what_came_less_often_in_the_second_run_is_looked_for_once_more(bench: Bench) -> None:
    other = {"report": str(OTHER)}
    bench.steps({"report": str(FOUR)}, other, {"report": str(FOUR)})
    done = bench.run()
    assert done.returncode == 0, done.stderr
    planned, again = bench.calls[1:]
    assert value_after(planned, "--launch-count") == "4" and value_after(again, "--kernel-id").endswith(":^(1)$")
    assert {"profile.ncu-rep", "profile-again.ncu-rep"} <= set(bench.left())
    session = json.loads((bench.folder / "out/session.json").read_text())
    # What came first was not what the survey had seen: its counters are not shown.
    assert [source["kind"] for source in session["sources"]] == ["ncu-rep", "ncu-rep survey"]
    assert not any(one["what"] == "counters" for one in session["kernels"][0]["missing"])
    assert bench.run().returncode == 2  # a later run replaces none of it without leave


def test_a_program_that_launches_nothing_any_more_is_told(bench: Bench) -> None:
    nothing = {"log": "==WARNING== No kernels were profiled.\n"}
    bench.steps({"report": str(FOUR)}, nothing, nothing)
    done = bench.run()
    assert done.returncode == 4 and len(bench.calls) == 3


def test_a_known_failure_ends_in_one_message_and_its_log_stays(bench: Bench) -> None:
    bench.steps({"stderr": NO_DRIVER, "log": FAILED, "code": 1})
    done = bench.run()
    assert done.returncode == 3
    assert done.stderr.count("error: ") == 1 and "out/survey.log" in done.stderr
    assert "Traceback" not in done.stderr
    assert bench.left() == ["survey.log"]


def test_too_little_memory_is_met_by_application_replay(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps({"report": report}, {"log": MEMORY, "code": 1}, {"report": report})
    done = bench.run()
    assert done.returncode == 0, done.stderr
    assert [value_after(words, "--replay-mode") for words in bench.calls] == ["kernel", "kernel", "application"]


def test_a_program_that_ends_with_a_signals_number_fails(bench: Bench) -> None:
    report = str(FOUR)
    failed = {"report": report, "log": "==ERROR== The application returned an error code (15).\n", "code": 15}
    bench.steps({"report": report}, failed)
    done = bench.run()
    assert done.returncode == 4 and "code 15" in done.stderr


def test_metrics_are_left_out_until_none_is_refused(bench: Bench) -> None:
    report = str(SMALL)
    first = "==ERROR== Failed to access the following 2 metrics: l1tex__t_bytes.sum, lts__t_sectors_op_read.sum.\n"
    second = "==ERROR== Failed to find metric regex:^launch__grid_size\\.(sum|min|max|avg)$\n"
    bench.steps({"report": report}, {"log": first, "code": 1}, {"log": second, "code": 1}, {"report": report})
    done = bench.run()
    assert done.returncode == 0, done.stderr
    bases = [{name.partition(".")[0] for name in value_after(words, "--metrics").split(",")} for words in bench.calls]
    assert {"l1tex__t_bytes", "launch__grid_size"} <= bases[1]
    assert {"l1tex__t_bytes", "lts__t_sectors_op_read", "launch__grid_size"}.isdisjoint(bases[3])
    assert {"profile.1.log", "profile.2.log"} <= set(bench.left())


def test_what_ncu_ends_because_it_was_asked_to_is_no_failure(bench: Bench) -> None:
    end = "==PROF== Trying to shutdown target application\n==ERROR== The application returned an error code (9).\n"
    bench.steps({"report": str(FOUR), "log": end, "code": 9})
    done = bench.run("--launch-count", "5", "--arch", "sm_70")
    assert done.returncode == 0, done.stderr
    assert "code 9" not in done.stderr


def test_a_compressed_report_is_found_and_read(bench: Bench) -> None:
    plain, packed = SMALL, bench.folder / "packed"
    packed.write_bytes(zstandard.compress(plain.read_bytes()))
    bench.steps({"report": str(plain)}, {"report": str(packed), "as": ".ncu-repz"})
    done = bench.run()
    assert done.returncode == 0, done.stderr
    assert "profile.ncu-repz" in bench.left() and "profile.ncu-rep" not in bench.left()
    again = bench.run()
    assert again.returncode == 2 and "profile.ncu-repz" in again.stderr


NEW_HELP = """
  --rename-kernels arg (=1)             Perform simplification on the kernel demangled names. Allowed values:
                                          on/off
                                          yes/no
  --pipeline-boost-state arg (=stable)  Control the tensor cores' boost state. Allowed values:
                                          stable
                                          dynamic
"""
"""Two options as newer releases were seen to have them; the texts are ours."""


@pytest.mark.parametrize(("more", "no"), [("", None), (NEW_HELP, "off"), (NEW_HELP.replace("on/off\n", "\n"), "no")])
def test_only_options_that_this_ncu_knows_are_passed(bench: Bench, more: str, no: str | None) -> None:
    known = [line for line in HELP.splitlines() if "--graph-profiling" not in line]
    bench.environ["STANDIN_HELP"] = "\n".join(known) + more
    options_of.cache_clear()
    done = bench.run("--dry-run", "--launch-count", "2")
    options_of.cache_clear()
    words = shlex.split(done.stdout.splitlines()[-1])
    assert "--graph-profiling" not in words and "--replay-mode" in words
    assert ("--rename-kernels" in words, "--pipeline-boost-state" in words) == (no is not None, no is not None)
    if no is not None:
        assert value_after(words, "--rename-kernels") == no
        assert value_after(words, "--pipeline-boost-state") == "dynamic"


def test_a_program_that_fails_is_told_and_what_was_recorded_is_shown(bench: Bench) -> None:
    report = str(FOUR)
    failed = "==ERROR== The application returned an error code (3).\n"
    bench.steps({"report": report}, {"report": report, "log": failed, "code": 3})
    done = bench.run()
    assert done.returncode == 4
    assert "2 of 3 kernels" in done.stdout
    assert "code 3" in done.stderr
    assert (bench.folder / "out/report.html").exists()


def test_a_report_that_was_cut_off_keeps_its_whole_launches(bench: Bench) -> None:
    report = FOUR
    bench.steps({"report": str(report)}, {"report": str(report), "bytes": report.stat().st_size * 9 // 10, "code": -9})
    done = bench.run()
    assert done.returncode == 3 and "error: ncu was ended by signal 9" in done.stderr
    (source, _) = json.loads((bench.folder / "out/session.json").read_text())["sources"]
    assert any("kernels could be read" in text for text in source["warnings"])


def test_half_a_report_is_set_aside_and_never_shown(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps({"report": report}, {"report": report, "bytes": 3000, "code": -9})
    done = bench.run()
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "profile.ncu-rep" not in bench.left() and "profile.ncu-rep.unread" in bench.left()
    assert (bench.folder / "out/profile.ncu-rep.unread").stat().st_size == 3000
    assert "error: " in done.stderr and "profile.ncu-rep.unread" in done.stderr
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert {source["kind"] for source in session["sources"]} == {"ncu-rep survey"}


def test_times_stay_where_counters_may_not_be_read(bench: Bench) -> None:
    bench.steps({"report": str(SURVEY)}, {"log": REFUSED_COUNTERS, "code": 1})
    done = bench.run()
    assert done.returncode == 3
    assert "1.74 ms" in done.stdout and "gpuprof run --kernel" not in done.stdout
    assert "\nhint: " in done.stderr and "wrote out/report.html" in done.stderr
    session = json.loads((bench.folder / "out/session.json").read_text())
    whys = {gap["why"] for kernel in session["kernels"] for gap in kernel["missing"]}
    assert len(whys) == 1 and "ERR_NVGPUCTRPERM" in whys.pop()
    assert sum(kernel["time_share"] for kernel in session["kernels"]) == pytest.approx(1)


def test_set_times_runs_the_program_once_and_counts_nothing(bench: Bench) -> None:
    bench.steps({"report": str(SURVEY), "program": True})
    done = bench.run("--set", "times", program=("echo", "once"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("once\n") and "1.74 ms" in done.stdout
    assert len(bench.calls) == 1
    assert {"session.json", "report.html"} <= set(bench.left()) and "profile.ncu-rep" not in bench.left()


@each_row(
    "options",
    [
        ("--kernel", "a"),
        ("--launch-count", "1"),
        ("--plan-only",),
        ("--survey", __file__),
        ("--samples", "3"),
        ("--dry-run", "--samples", "3"),
    ],
)
def test_set_times_is_not_combined_with_what_is_of_counters(bench: Bench, options: tuple[str, ...]) -> None:
    done = bench.run("--set", "times", *options)
    assert done.returncode == 2 and options[-2 if len(options) > 1 else -1] in done.stderr and bench.calls == []


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_all_that_it_started(bench: Bench) -> None:
    report = str(SMALL)
    marker = bench.folder / "pid"
    bench.steps({"report": report, "program": True}, {"report": report, "program": True})
    again = bench.folder / "again"
    start = f"test -e {again} && {{ setsid sleep 300 & echo $! > {marker}; wait; }}; touch {again}"
    done = bench.run("--timeout", "1", program=("bash", "-c", start))
    assert done.returncode in (3, 4)
    assert "--timeout" in done.stderr
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_recorded(bench: Bench) -> None:
    report = str(FOUR)
    bench.steps({"report": report}, {"report": report, "sleep": 30})
    child = bench.start()
    deadline = time.monotonic() + 20
    while "profile.ncu-rep" not in bench.left() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert "2 of 3 kernels" in out
    assert {"profile.ncu-rep", "session.json", "report.html"} <= set(bench.left())


@pytest.mark.slow
def test_a_profile_that_is_cut_short_leaves_the_times_of_the_survey(bench: Bench) -> None:
    bench.steps({"report": str(FOUR)}, {"sleep": 30})
    done = bench.run("--timeout", "2")
    assert done.returncode == 4
    assert "364 µs" in done.stdout
    assert {"survey.ncu-rep", "session.json", "report.html"} <= set(bench.left())


GRANDCHILDREN = "sleep 300 & echo $! > a; setsid sleep 300 & echo $! > b; echo $$ > c; touch begun; wait"
"""A program that starts a process of its own group, and one of a session of its own."""


def started(bench: Bench, child: subprocess.Popen[str], at: str = "begun") -> None:
    """Wait until the program has begun what is to be ended."""
    deadline = time.monotonic() + 30
    while not (bench.folder / at).exists() and time.monotonic() < deadline:
        assert child.poll() is None
        time.sleep(0.02)


def left_running(bench: Bench) -> list[str]:
    """The processes of the program that are still there."""
    pids = [(bench.folder / name).read_text().strip() for name in "abc"]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM])
def test_a_signal_ends_all_processes_and_is_the_exit_code(bench: Bench, sent: signal.Signals) -> None:
    bench.steps({"program": True})
    child = bench.start(program=("bash", "-c", GRANDCHILDREN))
    started(bench, child)
    child.send_signal(sent)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 128 + sent, err
    assert left_running(bench) == []
    assert ".gpuprof-run" not in bench.left()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["roofline", "compare"])
def test_other_commands_that_profile_end_by_a_signal_as_run_does(bench: Bench, command: str) -> None:
    bench.steps({"program": True})
    programs = ("bash", "-c", GRANDCHILDREN)
    words = bench.words(program=programs, command=command)
    if command == "compare":
        words = ["compare", "--run", *words[1:], "---", "true"]
    child = subprocess.Popen(
        [*GPUPROF, *words], cwd=bench.folder, env=bench.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    started(bench, child)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, left_running(bench)) == (143, []), err


@pytest.mark.slow
def test_standard_input_is_read_again_from_where_it_was(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps({"report": report, "program": True}, {"report": report, "program": True})
    (bench.folder / "in").write_text("header\nbody\n")
    with (bench.folder / "in").open() as given:
        done = bench.shell(
            f"read first; {shlex.join([*GPUPROF, *bench.words(program=('cat',))])}; echo then: $(cat)", given
        )
    assert done.stdout.startswith("body\n") and "header" not in done.stdout
    assert (bench.folder / "out/program.log").read_text() == "body\n"
    assert done.stdout.endswith("then:\n")


@pytest.mark.slow
def test_two_runs_do_not_share_a_folder(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps({"report": report, "sleep": 3}, {"report": report})
    first = bench.start()
    deadline = time.monotonic() + 20
    while not bench.calls and time.monotonic() < deadline:
        time.sleep(0.05)
    second = bench.run("--force")
    first.communicate(timeout=60)
    assert second.returncode == 2 and "out" in second.stderr
    assert first.returncode == 0


FIXED = (
    "survey.ncu-rep", "survey.log", "profile.ncu-rep", "profile.log", "program.log", "session.json", "report.html",
)  # fmt: skip
"""Names of files in a folder of results."""


@pytest.mark.parametrize("target", ["mine", "missing"])
def test_no_link_in_the_folder_is_written_through(bench: Bench, target: str) -> None:
    report = str(SMALL)
    bench.steps({"report": report, "log": "==PROF== a\n"}, {"report": report, "log": "", "program": True})
    (bench.folder / "mine").write_text("mine")
    (bench.folder / "out").mkdir()
    for name in FIXED:
        (bench.folder / "out" / name).symlink_to(bench.folder / target)
    assert bench.run().returncode == 2 and bench.calls == []
    done = bench.run("--force", program=("echo", "said"))
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "mine").read_text() == "mine" and not (bench.folder / "missing").exists()
    assert not any((bench.folder / "out" / name).is_symlink() for name in FIXED)


@pytest.mark.slow
@pytest.mark.parametrize("put", ["link", "pipe"])
def test_a_lock_that_is_no_file_is_refused(bench: Bench, put: str) -> None:
    (bench.folder / "out").mkdir()
    place = bench.folder / "out/.gpuprof-run"
    if put == "link":
        place.symlink_to(bench.folder / "missing")
    else:
        os.mkfifo(place)
    child = bench.start()
    _, err = child.communicate(timeout=50)
    assert child.returncode == 2 and "out/.gpuprof-run" in err
    assert not (bench.folder / "missing").exists()


def test_a_linked_folder_is_refused_where_the_user_has_not_named_it(bench: Bench) -> None:
    bench.steps(*({"report": str(SMALL)} for _ in range(4)))
    (bench.folder / "elsewhere").mkdir()
    for name in ("gpuprof-true", "gpuprof-roofline", "gpuprof-compare"):
        (bench.folder / name).symlink_to("elsewhere")
    lines = (
        ("run", "--ncu", str(STANDIN), "--", "true"),
        ("roofline", "--ncu", str(STANDIN), "--", "true"),
        ("compare", "--run", "--ncu", str(STANDIN), "--", "true", "---", "true"),
    )
    for line in lines:
        done = gpuprof(*line, cwd=bench.folder, environ=bench.environ)
        assert done.returncode == 2 and " is a link\n" in done.stderr, done.stderr
    assert bench.calls == [] and list((bench.folder / "elsewhere").iterdir()) == []
    done = bench.run("--output", "gpuprof-true")
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "elsewhere/session.json").exists()


@pytest.mark.slow
def test_the_log_of_the_program_has_its_beginning_and_its_end(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps({"report": report}, {"report": report, "program": True})
    lines = "".join(f"line {number:07}\n" for number in range(400_000)).encode()
    (bench.folder / "said").write_bytes(lines)
    done = bench.run(program=("cat", str(bench.folder / "said")))
    assert done.returncode == 0, done.stderr
    log = (bench.folder / "out/program.log").read_bytes()
    match = re.fullmatch(rb"(?s)(.*)\n\xe2\x80\xa6 ([\d,]+) bytes are left out here .{3}\n(.*)", log)
    assert match is not None
    head, middle, tail = match.groups()
    assert len(head) == MOST_BYTES and lines.startswith(head)
    assert MOST_BYTES - 100 < len(tail) <= MOST_BYTES and lines.endswith(tail) and tail.startswith(b"line ")
    assert int(middle.replace(b",", b"")) == len(lines) - len(head) - len(tail)


@pytest.mark.parametrize("name", ["survey.log", "profile.log", "program.log"])
def test_a_file_of_the_user_is_no_log_of_ours(bench: Bench, name: str) -> None:
    (bench.folder / "out").mkdir()
    (bench.folder / "out" / name).write_text("mine")
    done = bench.run()
    assert done.returncode == 2 and f"out/{name} already exists" in done.stderr
    assert (bench.folder / "out" / name).read_text() == "mine"
    assert bench.calls == []


def test_a_plan_without_kernels_ends_before_the_program_runs_again(bench: Bench) -> None:
    bench.steps({"report": str(SMALL)})
    done = bench.run("--kernel", "nosuch")
    assert done.returncode == 2
    assert len(bench.calls) == 1


def test_json_on_stdout_is_json_alone(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps({"report": report, "program": True}, {"report": report, "program": True})
    done = bench.run("--format", "json", program=("echo", "from the program"), command="roofline")
    assert json.loads(done.stdout)["figures"]
    assert "from the program" in done.stderr


def test_nothing_is_replaced_without_force(bench: Bench) -> None:
    report = str(SMALL)
    bench.steps(*[{"report": report}] * 4)
    assert bench.run().returncode == 0
    again = bench.run()
    assert again.returncode == 2 and "exists" in again.stderr
    assert len(bench.calls) == 2
    assert bench.run("--force").returncode == 0


@pytest.mark.parametrize(("options", "says"), [((), "1 "), (("--annotate", "off"), " ")])
def test_a_program_is_annotated_unless_told_not_to(bench: Bench, options: tuple[str], says: str) -> None:
    report = str(SMALL)
    bench.environ.pop("PYTHONPATH", None)
    bench.steps({"report": report, "program": True}, {"report": report})
    done = bench.run(*options, program=("sh", "-c", 'echo "$GPUPROF_ANNOTATE $PYTHONPATH"'))
    assert done.stdout.splitlines()[0] == says + (str(INJECTED) if not options else "")


def test_a_dry_run_prints_commands_that_a_shell_runs(bench: Bench) -> None:
    shutil.copy("/bin/true", bench.folder / "my app")
    done = bench.run("--dry-run", "--kernel", "a b'c", program=("./my app", "--flag", "two\nlines"))
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and lines[0] == "mkdir -p out" and lines[1].startswith("export GPUPROF_ANNOTATE=1 PYTHON")
    echoed = subprocess.run(
        ["bash", "-c", f"set -- {lines[3]}; printf '%s\\0' \"$@\""], capture_output=True, text=True, check=True
    )
    words = echoed.stdout.split("\0")[:-1]
    assert words[0] == str(STANDIN)
    assert words[-3:] == ["./my app", "--flag", "two\nlines"]
    assert value_after(words, "--kernel-name") == "regex:a b'c"
    assert bench.calls == []


def test_roofline_of_a_script_leaves_reports_session_and_pictures(bench: Bench) -> None:
    report = str(FOUR)
    bench.steps({"report": report, "program": True}, {"report": report, "program": True})
    (bench.folder / "train.py").write_text("import sys; print(__name__, sys.argv)\n")
    done = bench.run("--kernel", "saxpy|trans", program=("train.py", "--lr", "3"), command="roofline")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("__main__ ['train.py', '--lr', '3']\ntranspose (79 %")
    assert re.search(r"FP32 .* 473 GFLOP/s .* 78 %", done.stdout)
    kinds = {"roofline.svg", "roofline.png", "roofline.html", "session.json", "survey.ncu-rep", "profile.ncu-rep"}
    assert kinds <= set(bench.left())
    again = bench.run(program=("train.py",), command="roofline")
    assert again.returncode == 2 and len(bench.calls) == 2


@each_row(
    ("options", "program", "named"),
    [
        ((), ("no-such-program",), "no-such-program"),
        (("--kernel", "("), ("true",), "--kernel"),
        (("--output", "50%p"), ("true",), "50%p"),
        (("--plan-only", "--launch-count", "3"), ("true",), "--plan-only"),
        (("--dry-run", "--plan-only", "--launch-skip", "3"), ("true",), "--plan-only"),
        (("--graphs", "graph", "--replay", "application"), ("true",), "--graphs"),
        (("--timeout", "nan"), ("true",), "--timeout"),
        ((), ("python3", "missing.py"), "missing.py"),
        (("--arch", "sm_1", "--dry-run"), ("true",), "sm_1"),
    ],
)
def test_a_wrong_command_line_is_an_error_before_anything_runs(
    bench: Bench, options: tuple[str, ...], program: tuple[str, ...], named: str
) -> None:
    done = bench.run(*options, program=program)
    assert done.returncode == 2
    assert named in done.stderr
    assert bench.calls == [] and not (bench.folder / "out").exists()
