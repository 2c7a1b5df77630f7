"""`gpuprof.profile` and `gpuprof.plan` as a script, a test or a server calls them; the stand-in is in ncu's place."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import gpuprof
from gpuprof.cli.run import command
from gpuprof.collect.choices import CounterSetName
from gpuprof.collect.counter_sets import SET_NAMES
from gpuprof.collect.request import ProfileRequest
from gpuprof.errors import EnvironmentProblem, Interrupted, ProgramFailed, UsageError
from gpuprof.events import (
    ProfileEvent,
    ProfilePlanned,
    ProfileRemark,
    RunEnded,
    RunProgressed,
    RunStarted,
    TimelineJudged,
)
from gpuprof.notebook import LoadedSession
from gpuprof.recordings import recordings
from tests import builders, ncu_bytes
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row
from tests.test_docs import blocks
from tests.test_run import FAILED, NO_DRIVER, STANDIN, Bench

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "python-api.md"
SECONDS = 20.0
PASSES = '==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 8 passes\n'
MAIN = """
import sys, gpuprof
from gpuprof.errors import GpuprofError
try:
    gpuprof.profile(sys.argv[2:], "out", ncu=sys.argv[1])
except GpuprofError as error:
    print(type(error).__name__, error.session)
"""


class Place(Bench):
    """A folder with the stand-in, as the folder and environment of this process, and a small report for it to leave."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.report = str(folder / "small.ncu-rep")
        metrics = {**ncu_bytes.A100, **builders.FLOP_1, "gpu__time_duration.sum": 1000.0}  # in ns
        Path(self.report).write_bytes(ncu_bytes.simple_report([("saxpy", metrics), ("copy", metrics)]))

    def profile(self, *program: str, **options: Any) -> LoadedSession:
        """Profile a program into the folder "out"."""
        options = {"folder": "out", "ncu": STANDIN, **options}
        return gpuprof.profile(program or ("true",), **options)

    def whole(self, **more: object) -> None:
        """Let survey and profile run the program and leave the report."""
        self.steps(*[{"report": self.report, "program": True, "log": PASSES, **more}] * 2)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place to profile in."""
    made = Place(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return made


def until(came: Callable[[], object]) -> None:
    """Wait until something is so; the test fails where it does not come."""
    deadline = time.monotonic() + SECONDS
    while not came():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid_file: Path) -> bool:
    """Tell whether the process runs whose number is in a file."""
    return Path(f"/proc/{pid_file.read_text().strip()}").exists()


HANGS = ("sh", "-c", "echo $$ > pid; setsid sleep 300 & echo $! > detached; sleep 300")


def started(place: Place) -> bool:
    """Tell whether the program that hangs has started all it starts."""
    return all((place.folder / name).exists() and (place.folder / name).read_text() for name in ("pid", "detached"))


def test_it_returns_what_load_reads_of_the_folder_that_it_leaves(place: Place) -> None:
    (place.folder / "real.ncu-rep").write_bytes(recordings()[0].report())
    place.steps(*[{"report": str(place.folder / "real.ncu-rep"), "log": PASSES}] * 2)
    session = place.profile(folder=None, overwrite=True)
    assert isinstance(session, LoadedSession) and session == gpuprof.load("gpuprof-true/session.json")
    left = {"survey.ncu-rep", "profile.ncu-rep", "survey.log", "profile.log", "program.log", "session.json"}
    assert {path.name for path in (place.folder / "gpuprof-true").iterdir()} == left
    kernel = max(session.kernels, key=lambda kernel: kernel.duration_s or 0.0)
    assert kernel.findings and kernel.duration_s is not None and 0 < kernel.duration_s < 1
    assert session.recommendations[0].rule in {
        finding.rule for kernel in session.kernels for finding in kernel.findings
    }


@each_row("name", ["session.json", "profile.ncu-rep", "program.log"])
def test_nothing_is_replaced_unless_it_is_allowed(place: Place, name: str) -> None:
    (place.folder / "out").mkdir(exist_ok=True)
    (place.folder / "out" / name).write_text("mine")
    with pytest.raises(UsageError, match=f"out/{name}"):
        place.profile()
    assert (place.folder / "out" / name).read_text() == "mine" and place.calls == []
    (place.folder / "out" / name).unlink()


def test_a_plan_saves_the_profile_its_first_run(place: Place) -> None:
    place.whole()
    plan = gpuprof.plan(["true"], "out", ncu=STANDIN)
    assert [kernel.demangled for kernel in plan.kernels] == ["saxpy", "copy"]
    assert plan.time_s == pytest.approx(2e-6) and len(place.calls) == 1
    assert "session.json" not in place.left()
    assert len(place.profile(survey="out/survey.ncu-rep").kernels) == 2
    assert len(place.calls) == 2 and "--launch-count" in place.calls[1]
    with pytest.raises(UsageError):
        gpuprof.plan(["true"], launch_count=3)
    with pytest.raises(EnvironmentProblem):
        place.profile(ncu=place.folder / "nowhere", overwrite=True)


# What it is called with


def test_the_options_of_the_command_line_are_those_of_a_request(tmp_path: Path) -> None:
    asked: list[ProfileRequest] = []

    class Seen(Exception):
        pass

    def take(request: ProfileRequest, *_: object, **__: object) -> None:
        asked.append(request)
        raise Seen

    context = command.make_context("run", ["-o", str(tmp_path), "true"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuprof.cli.run.profile_or_show", take)
        with pytest.raises(Seen):
            command.invoke(context)
    assert get_args(CounterSetName) == SET_NAMES
    own = {"ranks": "0"}
    for field, value in ((name, getattr(asked[0], name)) for name in ProfileRequest.__slots__):
        default = getattr(ProfileRequest(("true",), tmp_path), field)
        assert value == own.get(field, default), field
    of_command = {"folder", "program", "plan_only", "dry_run", "force", "in_browser", "no_config"}
    shown = {param.name for param in command.params if not getattr(param, "hidden", False)}
    # Several expressions of the command line are one for ncu.
    names = ({"kernel" if name == "kernels" else name for name in shown} - of_command) | {"kernel_base"}
    assert names == set(ProfileRequest.__slots__) - {"program", "folder", "overwrite", "output", "on_event", "stop"}


@each_row(
    "wrong",
    [
        {"program": "./app --size 4"}, {"program": []}, {"program": Path("app")}, {"program": ["true", "a\0b"]},
        {"program": iter(["true"])}, {"program": ["no-such-program"]}, {"coverage": 95}, {"coverage": float("nan")},
        {"coverage": "95"}, {"samples": 0}, {"samples": 1.5}, {"launch_count": 0}, {"launch_count": "2"},
        {"timeout_s": 0.0}, {"counters": "most"}, {"counters": ["full"]}, {"replay_mode": "range"},
        {"output": "cell"}, {"kernel": "("}, {"kernel": re.compile("a")}, {"survey": Path("none.sqlite")},
        {"ranks": -1}, {"launch_skip": 1, "survey": "ncu"}, {"folder": "a\0b"}, {"folder": b"out"},
        {"ranges": "step/"}, {"annotate": "off"}, {"spec": Path("a.yaml")}, {"stop": threading.Event()},
        {"on_event": None}, {"arch": "sm_1"},
    ],
)  # fmt: skip
def test_a_wrong_argument_is_told_before_anything_runs(place: Place, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as told:
        gpuprof.profile(**{"program": ["true"], "folder": "out", "ncu": STANDIN, **wrong})
    assert any(name in told.value.message for name in (*wrong, "no-such-program", "regular", "none.sqlite", "sm_1"))
    assert place.calls == [] and not (place.folder / "out").exists()


def test_importing_gpuprof_imports_none_of_it_and_no_more_is_needed() -> None:
    code = (
        "import sys, gpuprof; print([name for name in sys.modules if name.startswith('gpuprof.')]);"
        "print(gpuprof.errors.Interrupted.__name__, gpuprof.events.RunEnded.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['gpuprof._version']\nInterrupted RunEnded\n"
    assert {kind.__name__ for kind in get_args(ProfileEvent)} == set(gpuprof.events.__all__) - {"ProfileEvent"}
    for wrong in (lambda: gpuprof.profile(["true"], force=True), gpuprof.plan):  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"^(profile|plan)\(\)"):
            wrong()  # type: ignore[call-arg]


# How it is watched


def test_events_tell_what_happens_in_order(place: Place) -> None:
    place.whole(sleep=1.3)
    events: list[ProfileEvent] = []
    place.profile(on_event=events.append)
    kinds = [type(event) for event in events if not isinstance(event, RunProgressed)]
    assert kinds == [ProfileRemark, RunStarted, RunEnded, TimelineJudged, ProfilePlanned, RunStarted, RunEnded]
    first, second = (event for event in events if isinstance(event, RunStarted))
    assert (first.number, first.stage, first.by, first.planned) == (1, "survey", "ncu", None)
    assert (second.number, second.stage, second.planned) == (2, "profile", 2)
    (planned,) = (event for event in events if isinstance(event, ProfilePlanned))
    assert (planned.arch.name, planned.counters, len(planned.plan.kernels)) == ("sm_80", "diagnose", 2)
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert [(event.stage, event.passes, event.stopped_by) for event in ended] == [
        ("survey", (8,), None), ("profile", (8,), None),
    ]  # fmt: skip
    progress = [event for event in events if isinstance(event, RunProgressed)]
    assert {event.stage for event in progress} == {"survey", "profile"}
    assert progress[-1].passes == (8,) and 1 <= progress[-1].seconds < SECONDS


def test_what_the_program_prints_goes_to_a_function_in_the_calling_thread(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    place.whole()
    pieces: list[str] = []
    threads: set[int] = set()

    def write(text: str) -> None:
        threads.add(threading.get_ident())
        pieces.append(text)

    much = "import sys; print('x' * 20_000_000); sys.stderr.write('err\\n'); sys.stdout.buffer.write(b'a\\xce')"
    place.profile(sys.executable, "-c", much, output=write)
    text = "".join(pieces)
    assert text.count("x") == 20_000_000 and text.count("err\n") == 1
    # What is half a character waits for its end, and what stderr says may come before that.
    assert "a\N{REPLACEMENT CHARACTER}" in text.replace("err\n", "")
    assert threads == {threading.get_ident()} and capfd.readouterr() == ("", "")


@pytest.mark.parametrize("which", ["output", "on_event"])
def test_what_a_function_raises_ends_the_program(place: Place, which: str) -> None:
    place.whole()

    def refuse(what: object) -> None:
        if isinstance(what, (str, RunProgressed)):
            until(lambda: started(place))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        place.profile("sh", "-c", f"echo hello; {HANGS[2]}", **{which: refuse})
    assert not is_running(place.folder / "pid") and not is_running(place.folder / "detached")


# What it writes


def test_what_a_program_recorded_before_it_failed_is_there(place: Place) -> None:
    failed = "==ERROR== The application returned an error code (3).\n"
    place.steps({"report": place.report}, {"report": place.report, "log": failed, "code": 3})
    with pytest.raises(ProgramFailed, match="code 3") as told:
        place.profile()
    assert told.value.session == gpuprof.load("out/session.json")
    assert told.value.hint is not None and "out/session.json" in told.value.hint
    place.steps({"report": place.report}, {"sleep": 30})
    (place.folder / "calls.json").unlink()
    with pytest.raises(ProgramFailed) as told:
        place.profile(timeout_s=1.5, overwrite=True)
    assert [kernel.duration_s for kernel in told.value.session.kernels] == pytest.approx([1e-6, 1e-6])


# When it fails


def test_what_was_recorded_before_it_was_stopped_is_there(place: Place) -> None:
    place.steps({"report": place.report}, {"report": place.report, "sleep": 30})
    with pytest.raises(Interrupted) as told:
        place.profile(stop=(place.folder / "out/profile.ncu-rep").exists)
    assert told.value.session == gpuprof.load("out/session.json")
    # Stopped between the runs, the program does not run again.
    place.whole()
    (place.folder / "calls.json").unlink()
    planned: list[ProfileEvent] = []

    def note(event: ProfileEvent) -> None:
        planned.extend([event] if isinstance(event, ProfilePlanned) else [])

    with pytest.raises(Interrupted) as told:
        place.profile(on_event=note, stop=lambda: bool(planned), overwrite=True)
    assert len(place.calls) == 1
    assert [kernel.duration_s for kernel in told.value.session.kernels] == pytest.approx([1e-6, 1e-6])


# How it is stopped


@pytest.fixture
def main(place: Place) -> Iterator[subprocess.Popen[str]]:
    """A script whose main thread profiles a program that hangs."""
    place.steps({"program": True})
    script = [sys.executable, "-c", MAIN, str(STANDIN), *HANGS]
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: started(place))
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "out", "code"), [(signal.SIGINT, "Interrupted None\n", 0), (signal.SIGTERM, "", -15)]
)
def test_a_signal_to_the_main_thread_ends_the_program_first(
    place: Place, main: subprocess.Popen[str], number: int, out: str, code: int
) -> None:
    main.send_signal(number)
    assert (main.communicate(timeout=SECONDS)[0], main.returncode) == (out, code)
    assert not is_running(place.folder / "pid") and not is_running(place.folder / "detached")


# In whose process it is


def state() -> dict[str, object]:
    """What a process has that a call could leave otherwise."""
    gc.collect()
    reaper = ctypes.c_int()
    ctypes.CDLL(None).prctl(37, ctypes.byref(reaper), 0, 0, 0)
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
    children = Path("/proc/self/task").glob("*/children")
    return {
        "handlers": [signal.getsignal(which) for which in signals],
        "folder": Path.cwd(),
        "environ": dict(os.environ),
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],  # noqa: PTH208
        "children": sorted(" ".join(path.read_text() for path in children).split()),
        "threads": threading.active_count(),
        "subreaper": reaper.value,
    }


@pytest.mark.parametrize("fails", [pytest.param(False, marks=pytest.mark.slow), True])
def test_nothing_of_the_process_is_left_changed(place: Place, fails: bool) -> None:
    place.whole(code=0)
    place.profile(overwrite=True)  # what is read and found once a process
    (place.folder / "calls.json").unlink()
    before = state()
    if fails:
        with pytest.raises(Interrupted):
            place.profile(*HANGS, overwrite=True, stop=lambda: started(place), output=str)
    else:
        place.profile(overwrite=True)
    assert state() == before


"""Starts processes with an empty environment, in sessions of their own, whose parents end at once."""


# The page


@pytest.fixture
def app(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place with the program of the page, and ncu on PATH."""
    (place.folder / "bin").mkdir()
    (place.folder / "bin/ncu").symlink_to(STANDIN)
    (place.folder / "app").write_text("#!/bin/sh\necho from the app\n")
    (place.folder / "app").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.folder / 'bin'}:{os.environ['PATH']}")
    place.steps(*[{"report": place.report, "program": True}] * 20)
    return place


@pytest.mark.slow
def test_the_programs_of_the_page_run(app: Place, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    others = ("gpuprof.check(", "gpuprof.listing(")
    programs = [program for program in blocks(PAGE, "python") if not any(call in program for call in others)]
    assert len(programs) == 7
    for name in ("base.json", "new1.json", "new2.json"):
        gpuprof.load(app.report).save(app.folder / name)
    for program in programs:
        exec(compile(program, PAGE.name, "exec"), names)
    names["test_the_app_reads_whole_sectors"](app.folder)
    assert isinstance(names["session"], LoadedSession)
    assert "saxpy 1 1.0" in capsys.readouterr().out
    folders = {path.parent.name for path in app.folder.glob("*/session.json")}
    assert folders == {"gpuprof-app", "planned", "profile", "watched", "awaited", "failing"}


@pytest.mark.compilers
@needs_cuda_wheels
def test_the_program_of_the_page_that_checks_a_kernel_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = (program for program in blocks(PAGE, "python") if "gpuprof.check(" in program)
    (tmp_path / "kernel.cu").write_text(
        "__global__ void copy(float* out, const float* in, int n) { out[threadIdx.x * n] = in[threadIdx.x]; }\n"
    )
    monkeypatch.chdir(tmp_path)
    exec(compile(program, PAGE.name, "exec"), {})
    shown = capsys.readouterr().out
    assert "copy sm_90 " in shown and "kernel.cu 1 global 4.0" in shown and "kernel.cu 1 global 32.0" in shown


def test_where_nothing_was_recorded_there_is_no_session(place: Place) -> None:
    place.steps({"log": FAILED, "code": 3}, {"stderr": NO_DRIVER, "log": FAILED, "code": 1})
    with pytest.raises(ProgramFailed) as told:
        place.profile()
    assert told.value.session is None and "session.json" not in place.left()
    with pytest.raises(EnvironmentProblem):
        place.profile()
