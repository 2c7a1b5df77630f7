"""`gpuprof compare --run`: two programs are profiled and timed in turns until verdicts are clear; ncu is stood in for.

The reports of the stand-in are made up; nothing here has run on a GPU.
"""

from __future__ import annotations

import fcntl
import json
import math
import signal
import subprocess
import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.turns import rates
from gpuprof.comparison.contract import TimeWord
from gpuprof.comparison.sequential_test import (
    InterimCheck,
    Progress,
    StableVerdict,
    WatchedKernel,
    interim_check,
    side_of_turn,
)
from tests.cli import GPUPROF, Done, gpuprof
from tests.ncu_bytes import simple_report
from tests.table import each_row
from tests.test_run import FAILED, NO_DRIVER, STANDIN, Bench, bench, value_after

assert bench  # a fixture

SHAPE = {"launch__grid_dim_x": 64.0, "launch__block_dim_x": 128.0, "launch__registers_per_thread": 32.0}
STEADY = (0.0, 0.001, -0.001, 0.0005, -0.0005)
"""What runs differ by, as fractions: 0.1 % of noise."""


class Two(Bench):
    """A bench for two programs: what their runs take, in the order in which they are started."""

    def times(self, base_s: Sequence[float], new_s: Sequence[float], **last: object) -> None:
        """Say what the runs of each side take; the profiles take as long as the surveys before them."""
        every = [base_s[0], base_s[0], new_s[0], new_s[0]]
        sides = {"base": list(base_s[1:]), "new": list(new_s[1:])}
        for turn in range(2, 2 * min(len(base_s), len(new_s))):
            every.append(sides[side_of_turn(turn)].pop(0))
        self.steps(*(self.taking(seconds) for seconds in every), *([last] if last else []))

    def taking(self, seconds: float, **more: object) -> Mapping[str, object]:
        metrics = {**SHAPE, "gpu__time_duration.sum": seconds * 1e9, "smsp__inst_executed.sum": 1e6}
        file = self.folder / f"{seconds!r}.ncu-rep"
        file.write_bytes(simple_report([("gemm", metrics), ("copy", {**metrics, "gpu__time_duration.sum": 1e3})]))
        return {"report": str(file), "program": True, **more}

    def line(self, *options: str, base: Sequence[str] = ("true",), new: Sequence[str] = ("true", "new")) -> list[str]:
        return ["compare", "--run", "--ncu", str(STANDIN), "-o", "out", *options, "--", *base, "---", *new]

    def measure(self, *options: str, base: Sequence[str] = ("true",), new: Sequence[str] = ("true", "new")) -> Done:
        return gpuprof(*self.line(*options, base=base, new=new), cwd=self.folder, environ=self.environ)

    def sides(self) -> list[str]:
        return ["new" if arguments[-1] == "new" else "base" for arguments in self.calls]

    def samples(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "out/samples").glob("*.json"))

    def change(self, done: Done) -> dict[str, object]:
        """The change of the kernel that matters, of a comparison printed as JSON."""
        kernels = json.loads(done.stdout)["kernels"]
        return next(dict(change) for change in kernels if change["label"] == "gemm")


@pytest.fixture
def two(bench: Bench) -> Two:
    return Two(bench.folder)


def around(middle_s: float, count: int, noise: Sequence[float] = STEADY) -> list[float]:
    return [middle_s * (1 + noise[number % len(noise)]) for number in range(count)]


def check(
    verdict: TimeWord, rounds: int, *, needed: int | None = None, left_s: float = 1000.0, round_s: float = 1.0,
    first: int | None = None, alike: bool = True,
) -> InterimCheck:  # fmt: skip
    """What follows from a check of one kernel that has had its verdict since `first`."""
    told = WatchedKernel(key=0, label="gemm", verdict=verdict, runs_needed=needed)
    stable: dict[Hashable, StableVerdict] = {0: StableVerdict(verdict, first if first is not None else rounds)}
    return interim_check((told,), stable, Progress(rounds=rounds, left_s=left_s, round_s=round_s), alike=alike)


def test_a_check_says_how_many_rounds_to_make_before_the_next() -> None:
    assert [side_of_turn(turn) for turn in range(8)] == ["base", "new", "new", "base"] * 2
    # Three rounds are made in any case that the budget allows.
    assert check("same", 1).until == check("unclear", 1).until == check("same", 2).until == 3
    assert check("same", 1, left_s=1.5).until == 2
    ended = check("same", 1, left_s=0.5)
    assert (ended.until, ended.pending) == (None, ("gemm",))
    # What is the same is not measured again; a change counts when a check at twice as many runs says the same.
    assert (check("same", 5).until, check("same", 5).pending) == (None, ())
    assert check("slower", 3).until == 6
    assert check("faster", 5, first=3).until == 6
    assert check("slower", 6, first=3).until is None
    assert check("slower", 6).until == 12
    # Fewer than five runs are no forecast, and one is trusted to twice the runs that it is made from.
    assert check("unclear", 3).until == check("unclear", 4).until == 5
    assert check("unclear", 3, needed=9).until == 6
    assert check("unclear", 5, needed=7).until == 7
    assert check("unclear", 5, needed=200).until == 10
    # What the budget cannot settle ends it early, and so do unlike conditions.
    assert check("unclear", 12, needed=200, left_s=3.2).until is None
    told = check("unclear", 5, needed=100, left_s=20.0, round_s=1.0)
    assert told.until is None and told.pending == ("gemm",)
    assert check("unclear", 5, needed=49, left_s=20.0, round_s=1.0).until == 10
    assert check("unclear", 5, needed=None).until is None
    assert check("unclear", 3, alike=False).until is None
    assert interim_check((), {}, Progress(rounds=3, left_s=100.0, round_s=1.0), alike=True).until is None
    # A run that takes no time does not go on forever.
    assert (
        Progress(rounds=5, left_s=1.0, round_s=0.0).reach
        == Progress(rounds=5, left_s=math.inf, round_s=1.0).reach
        == 1000
    )
    assert check("unclear", 1000, needed=1500, round_s=0.0).until is None


@pytest.mark.slow
def test_checking_again_and_again_finds_no_more_false_changes() -> None:
    same = rates(0.012, 0.0, 400)
    assert same.slower + same.faster <= 0.01 and same.unclear <= 0.1
    slower = rates(0.008, 0.0198, 200)
    assert slower.slower >= 0.95 and slower.faster == 0


@given(
    verdict=st.sampled_from(["same", "slower", "unclear"]), rounds=st.integers(1, 1000), first=st.integers(1, 1000),
    needed=st.none() | st.integers(1, 10_000), left_s=st.floats(0, allow_nan=False),
    round_s=st.floats(0, allow_nan=False),
)  # fmt: skip
def test_each_check_is_later_than_the_last_and_within_the_budget(
    verdict: TimeWord, rounds: int, first: int, needed: int | None, left_s: float, round_s: float
) -> None:
    told = check(verdict, rounds, needed=needed, left_s=left_s, round_s=round_s, first=min(first, rounds))
    assert told.reason if told.until is None else rounds < told.until <= Progress(rounds, left_s, round_s).reach


@pytest.mark.slow
def test_the_same_program_twice_is_the_same_after_five_rounds(two: Two) -> None:
    two.times(around(1e-3, 6), around(1e-3, 6, STEADY[::-1]))
    done = two.measure(
        "--format", "json", "--exclude", "copy", "--clock-control", "base",
        base=("sh", "-c", "echo from base"), new=("sh", "-c", "echo from $0", "new"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    time = two.change(done)["time"]
    assert isinstance(time, dict) and time["verdict"] == "same" and time["base_runs"] == time["new_runs"] == 5
    assert two.sides() == ["base"] * 2 + ["new"] * 3 + ["base"] * 2 + ["new"] * 2 + ["base"] * 2 + ["new"]
    assert [done.stderr.count(f"from {side}\n") for side in ("base", "new")] == [1, 1]
    # Timed runs are timed alone and alike, and what is excluded is in none.
    surveys = [arguments for arguments in two.calls if "--launch-count" not in arguments]
    assert len(surveys) == len(two.calls) - 2
    assert len({value_after(arguments, "--metrics") for arguments in surveys}) == 1
    assert {value_after(arguments, "--clock-control") for arguments in two.calls} == {"base"}
    for name in ("base/session.json", "samples/base-02.session.json"):
        session = json.loads((two.folder / "out" / name).read_text())
        assert [kernel["label"] for kernel in session["kernels"]] == ["gemm"]


@pytest.mark.slow
def test_a_slower_program_is_told_with_all_that_it_rests_on(two: Two) -> None:
    two.times(around(1e-3, 12), around(1.3e-3, 12))
    done = two.measure("--fail-on", "time:3%", "-o", "page.html", base=("sh", "-c", "echo from base"))
    assert done.returncode == 6, done.stderr
    assert done.stdout.startswith("from base\n")
    left = {str(path.relative_to(two.folder / "out")) for path in (two.folder / "out").rglob("*.*")}
    assert {f"{side}/{name}" for side in ("base", "new") for name in ("session.json", "report.html")} <= left
    assert {"base/survey.ncu-rep", "base/profile.ncu-rep", "samples/base-02.session.json"} <= left
    assert len(two.samples()) == len(two.calls) - 4
    assert (two.folder / "page.html").exists()
    assert done.stderr.splitlines()[-1].startswith("gate failed: time:3% ")


def test_a_budget_that_is_over_after_the_profiles_leaves_one_run_a_side(two: Two) -> None:
    two.times(around(1e-3, 1), around(1.1e-3, 1))
    done = two.measure("--budget", "0.001", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert len(two.calls) == 4 and two.samples() == []
    time = two.change(done)["time"]
    assert isinstance(time, dict) and time["verdict"] == "unclear"


TWO = ("--", "true", "---", "true")


@each_row(
    ("arguments", "says"),
    [
        (("--run",), "--run"),
        (("--run", "--", "true"), "---"),
        (("--run", *TWO, "---", "true"), "two programs"),
        (("--run", "--base", "a", "--new", "b", *TWO), "--run"),
        (("--run", "--budget", "0", *TWO), "0"),
        (("--budget", "5", "a.json", "b.json"), "--budget"),
        (("--run", "--plan-only", *TWO), "--plan-only"),
        (("--run", "--kernel", "#0", *TWO), "--kernel"),
        (("--run", "--update-baseline", "--fail-on", "time:3%", *TWO), "--update-baseline"),
        (("--run", "-o", "a", "-o", "a/base/session.json", *TWO), "a/base/session.json"),
        (("--run", "--", "true", "---", "./nosuch"), "./nosuch"),
    ],
)
def test_a_wrong_command_line_runs_nothing(two: Two, arguments: tuple[str, ...], says: str) -> None:
    (two.folder / "in.ncu-rep").write_bytes(b"")
    if "--run" in arguments:
        place = arguments.index("--run") + 1
        arguments = (*arguments[:place], "--ncu", str(STANDIN), *arguments[place:])
    done = gpuprof("compare", *arguments, cwd=two.folder, environ=two.environ)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    assert two.calls == [] and not (two.folder / "gpuprof-compare").exists() and not (two.folder / "out").exists()


def test_nothing_is_run_without_ncu_and_nothing_replaced_without_force(two: Two) -> None:
    done = two.measure("--ncu", "nosuch/ncu")
    assert done.returncode == 3 and "nosuch/ncu" in done.stderr and not (two.folder / "out").exists()
    (two.folder / "out").write_text("mine")
    done = two.measure()
    assert done.returncode == 2 and (two.folder / "out").read_text() == "mine"
    (two.folder / "out").unlink()
    for name in ("base/session.json", "new/report.html", "new/survey.ncu-rep", "samples/new-07.session.json"):
        place = two.folder / "out" / name
        place.parent.mkdir(parents=True)
        place.write_text("mine")
        done = two.measure()
        assert done.returncode == 2 and f"out/{name}" in done.stderr and place.read_text() == "mine"
        place.unlink()
        place.parent.rmdir()
    with (two.folder / "out/.gpuprof-run").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert two.measure().returncode == 2
    assert two.calls == []


def test_a_program_that_fails_leaves_the_profile_of_the_first_and_is_not_timed(two: Two) -> None:
    two.steps(two.taking(1e-3), two.taking(1e-3), {"stderr": NO_DRIVER, "log": FAILED, "code": 1})
    done = two.measure()
    assert done.returncode == 3 and done.stdout == "" and (two.folder / "out/base/session.json").exists()
    failed = two.taking(1.1e-3, code=3, log="==ERROR== The application returned an error code (3).\n")
    two.steps(two.taking(1e-3), two.taking(1e-3), failed, failed)
    (two.folder / "calls.json").unlink()
    done = two.measure("--force")
    assert done.returncode == 4 and "1 and 1 runs" in done.stderr
    assert "gemm" in done.stdout and len(two.calls) == 4


@pytest.mark.slow
@each_row(
    ("rounds", "last", "new", "options", "code", "told"),
    [
        # A timed run that fails, one that hangs, one that cannot be kept, and a folder that is gone.
        (3, {"code": 1, "log": FAILED}, (), ("--fail-on", "registers"), 4, "3 and 3 runs"),
        (2, {}, ("rm -rf out/samples; echo mine > out/samples",), (), 2, "1 and 1 runs"),
        (2, {}, ("rm -rf out",), (), 3, ""),
    ],
)
def test_a_timed_run_that_fails_does_not_count_and_what_there_is_is_compared(
    tmp_path: Path, rounds: int, last: dict[str, object], new: tuple[str, ...], options: tuple[str, ...], code: int,
    told: str,
) -> None:  # fmt: skip
    two = Two(tmp_path)
    two.times(around(1e-3, rounds), around(1.3e-3, rounds), **last)
    done = two.measure(*options, new=("sh", "-c", *new, "new") if new else ("true", "new"))
    assert done.returncode == code and told in done.stderr, done.stderr
    assert ("gemm" in done.stdout) == (code != 3)
    if rounds == 3:
        assert len(two.calls) == 9 and len(two.samples()) == 4


@pytest.mark.slow
def test_an_interrupt_keeps_what_there_is_and_compares_it(two: Two) -> None:
    two.times(around(1e-3, 3), around(1.3e-3, 3), sleep=60)
    command, pipe = [*GPUPROF, *two.line()], subprocess.PIPE
    child = subprocess.Popen(command, cwd=two.folder, env=two.environ, stdout=pipe, stderr=pipe, text=True)
    deadline = time.monotonic() + 60
    while len(two.calls) < 9 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "3 and 3 runs" in err and "Traceback" not in err and "gemm" in out
    assert len(two.samples()) == 4
