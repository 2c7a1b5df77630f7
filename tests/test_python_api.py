"""`gpuprof.profile` and `gpuprof.plan` as a script, a test or a server calls them; the stand-in is in ncu's place."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import inspect
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

import gpuprof
from gpuprof.cli.run import command
from gpuprof.collect import process
from gpuprof.collect.choices import CounterSetName
from gpuprof.collect.counter_sets import SET_NAMES
from gpuprof.collect.progress import ProgressLine
from gpuprof.collect.request import ProfileRequest, checked
from gpuprof.errors import EnvironmentProblem, Interrupted, ProgramFailed, UsageError
from gpuprof.events import ProfileEvent, ProfilePlanned, ProfileRemark, RunEnded, RunProgressed, RunStarted
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


def test_a_test_of_a_user_asserts_on_findings_and_time(place: Place) -> None:
    (place.folder / "real.ncu-rep").write_bytes(recordings()[0].report())
    place.steps(*[{"report": str(place.folder / "real.ncu-rep")}] * 2)
    session = place.profile()
    kernel = max(session.kernels, key=lambda kernel: kernel.duration_s or 0.0)
    assert kernel.findings and kernel.duration_s is not None and 0 < kernel.duration_s < 1
    assert session.opportunities[0].rule in {finding.rule for kernel in session.kernels for finding in kernel.findings}


def test_it_returns_what_load_reads_of_the_folder_that_it_leaves(place: Place) -> None:
    place.whole()
    session = place.profile()
    assert isinstance(session, LoadedSession)
    assert session == gpuprof.load("out/session.json")
    assert [kernel.name for kernel in session.kernels] == ["saxpy", "copy"]
    left = {"survey.ncu-rep", "profile.ncu-rep", "survey.log", "profile.log", "program.log", "session.json"}
    assert set(place.left()) == left


def test_the_folder_is_named_for_the_program_as_on_the_command_line(place: Place) -> None:
    place.whole()
    (place.folder / "train.py").write_text("pass\n")
    gpuprof.profile([sys.executable, Path("train.py")], ncu=STANDIN)
    assert (place.folder / "gpuprof-train" / "session.json").is_file()


@each_row("name", ["session.json", "profile.ncu-rep", "program.log"])
def test_nothing_is_replaced_unless_it_is_allowed(place: Place, name: str) -> None:
    place.whole()
    (place.folder / "out").mkdir()
    (place.folder / "out" / name).write_text("mine")
    with pytest.raises(UsageError, match=f"out/{name} already exists"):
        place.profile()
    assert (place.folder / "out" / name).read_text() == "mine" and place.calls == []
    place.profile(overwrite=True)
    assert (place.folder / "out" / name).read_text(errors="replace") != "mine"


def test_a_plan_saves_the_profile_its_first_run(place: Place) -> None:
    place.whole()
    plan = gpuprof.plan(["true"], "out", ncu=STANDIN)
    assert [kernel.demangled for kernel in plan.kernels] == ["saxpy", "copy"]
    assert plan.time_s == pytest.approx(2e-6) and len(place.calls) == 1
    assert "session.json" not in place.left()
    assert len(place.profile(survey="out/survey.ncu-rep").kernels) == 2
    assert len(place.calls) == 2 and "--kernel-id" in place.calls[1]
    with pytest.raises(UsageError, match="cannot be combined with"):
        gpuprof.plan(["true"], launch_count=3)


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


def test_the_signature_is_that_of_the_request_and_each_argument_is_described() -> None:
    for function, result in ((gpuprof.profile, "LoadedSession"), (gpuprof.plan, "ProfilePlan")):
        shown = inspect.signature(function)
        assert shown.parameters == inspect.signature(ProfileRequest).parameters
        assert shown.return_annotation == result
    described = gpuprof.profile.__doc__ or ""
    assert all(f"`{name}`" in described for name in shown.parameters)


@each_row(
    ("wrong", "says"),
    [
        ({"program": "./app --size 4"}, "program must be a list of words, not './app --size 4'"),
        ({"program": []}, "must be a list of words"),
        ({"program": ["no-such-program"]}, "no-such-program: not found on PATH"),
        ({"coverage": 95}, "coverage cannot be 95"),
        ({"coverage": float("nan")}, "must be finite numbers"),
        ({"samples": 0}, "samples cannot be 0"),
        ({"launch_count": 0}, "launch_count cannot be 0"),
        ({"timeout_s": 0.0}, "timeout_s cannot be 0.0"),
        ({"counters": "most"}, "counters cannot be 'most'"),
        ({"replay_mode": "range"}, "replay_mode cannot be 'range'"),
        ({"output": "cell"}, "output cannot be 'cell'"),
        ({"kernel": "("}, "is not a valid regular expression"),
        ({"survey": Path("none.sqlite")}, "none.sqlite: no such file"),
        ({"ranks": -1}, "--ranks cannot be"),
        ({"launch_skip": 1, "survey": "ncu"}, "cannot be combined with"),
        ({"program": Path("app")}, "must be a list of words"),
        ({"program": ["true", "a\0b"]}, "must be a list of words"),
        ({"folder": "a\0b"}, "folder cannot be"),
        ({"program": iter(["true"])}, "must be a list of words"),
        ({"ranges": "step/"}, "ranges cannot be 'step/'"),
        ({"coverage": "95"}, "coverage cannot be '95'"),
        ({"samples": 1.5}, "samples cannot be 1.5"),
        ({"launch_count": "2"}, "launch_count cannot be '2'"),
        ({"annotate": "off"}, "annotate cannot be 'off'"),
        ({"kernel": re.compile("a")}, "kernel cannot be re.compile('a')"),
        ({"counters": ["full"]}, "counters cannot be ['full']"),
        ({"folder": b"out"}, "folder cannot be b'out'"),
        ({"spec": Path("a.yaml")}, "spec cannot be"),
        ({"stop": threading.Event()}, "stop cannot be <threading.Event"),
        ({"on_event": None}, "on_event cannot be None"),
        ({"arch": "sm_1"}, "no spec for the architecture sm_1"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_runs(place: Place, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as told:
        gpuprof.profile(**{"program": ["true"], "folder": "out", "ncu": STANDIN, **wrong})
    assert says in told.value.message
    assert place.calls == [] and not (place.folder / "out").exists()


def test_an_argument_that_there_is_not_is_told_of_the_function_that_was_called() -> None:
    with pytest.raises(TypeError, match=r"^profile\(\) got an unexpected keyword argument 'force'$"):
        gpuprof.profile(["true"], force=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^plan\(\) missing a required argument: 'program'$"):
        gpuprof.plan()  # type: ignore[call-arg]


def test_a_machine_without_ncu_is_an_environment_problem(place: Place) -> None:
    with pytest.raises(EnvironmentProblem):
        place.profile(ncu=place.folder / "nowhere")


def test_events_and_errors_need_no_import_of_their_own() -> None:
    code = "import gpuprof; print(gpuprof.errors.Interrupted.__name__, gpuprof.events.RunEnded.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Interrupted RunEnded\n"


def test_each_kind_of_event_can_be_imported() -> None:
    assert {kind.__name__ for kind in get_args(ProfileEvent)} == set(gpuprof.events.__all__) - {"ProfileEvent"}


def test_importing_gpuprof_imports_none_of_it() -> None:
    code = "import sys, gpuprof; print([name for name in sys.modules if name.startswith('gpuprof.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['gpuprof._version']\n"


# How it is watched


def test_events_tell_what_happens_in_order(place: Place) -> None:
    place.whole(sleep=1.3)
    events: list[ProfileEvent] = []
    place.profile(on_event=events.append)
    kinds = [type(event) for event in events if not isinstance(event, RunProgressed)]
    assert kinds == [ProfileRemark, RunStarted, RunEnded, ProfilePlanned, RunStarted, RunEnded]
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


def test_a_line_tells_nothing_of_launches_that_another_tool_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    line = ProgressLine(stream)
    line(RunStarted(number=2, stage="survey", by="cupti", planned=None))
    line(RunProgressed(stage="survey", planned=None, passes=(), seconds=60.0))
    line(RunEnded(stage="survey", planned=None, passes=(), seconds=200.0, stopped_by=None))
    assert stream.getvalue() == ""


ONE_OF_FOUR = "profile: 1 of 4 launches, 60 s, about 3:00 min left"


@each_row(
    ("number", "live", "shown"),
    [(1, True, ""), (2, False, ""), (2, True, f"\r{ONE_OF_FOUR}\r{ONE_OF_FOUR}\r{' ' * len(ONE_OF_FOUR)}\r")],
)
def test_a_line_of_a_terminal_is_rewritten_from_the_second_run_on(
    monkeypatch: pytest.MonkeyPatch, number: int, live: bool, shown: str
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: live)
    line = ProgressLine(stream)
    line(RunStarted(number=number, stage="profile", by="ncu", planned=4))
    line(RunProgressed(stage="profile", planned=4, passes=(8,), seconds=60.0))
    line(RunEnded(stage="profile", planned=4, passes=(8, 8, 8, 11), seconds=200.0, stopped_by=None))
    assert stream.getvalue() == f"{shown}profile: 4 of 4 launches, 3:20 min, 8 to 11 passes each\n"


TALKS = ("sh", "-c", "printf 'out Ω\\n'; echo err >&2")


def test_what_the_program_prints_is_inherited(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.whole()
    place.profile(*TALKS)
    assert capfd.readouterr() == ("out Ω\n", "err\n")
    assert (place.folder / "out/program.log").read_text() == "out Ω\n"


def test_what_the_program_prints_goes_to_a_function_in_the_calling_thread(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    place.whole()
    pieces: list[str] = []
    threads: set[int] = set()

    def write(text: str) -> None:
        threads.add(threading.get_ident())
        pieces.append(text)

    place.profile(*TALKS, output=write)
    assert sorted("".join(pieces).splitlines()) == ["err", "out Ω"]
    assert threads == {threading.get_ident()}
    assert capfd.readouterr() == ("", "")


def test_much_output_neither_blocks_nor_is_lost(place: Place) -> None:
    place.whole()
    got: list[str] = []
    place.profile(sys.executable, "-c", "print('x' * 20_000_000, end='')", output=got.append)
    assert sum(map(len, got)) == 20_000_000 and set("".join(got)) == {"x"}


@each_row(("output", "shown"), [("discard", ("", "")), ("stderr", ("", "err\nout Ω\n"))])
def test_what_the_program_prints_is_discarded_or_goes_to_stderr(
    place: Place, capfd: pytest.CaptureFixture[str], output: str, shown: tuple[str, str]
) -> None:
    place.whole()
    place.profile(*TALKS, output=output)
    out, err = capfd.readouterr()
    assert (out, "".join(sorted(err.splitlines(keepends=True)))) == shown


def test_a_stderr_without_bytes_as_in_a_notebook_gets_text(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cell:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None:
            pass

    place.whole()
    cell = Cell()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", cell)
        place.profile("sh", "-c", "yes err | head -c 300000 >&2")
    assert len(cell.text) == 300_000


class Refuses(io.StringIO):
    """A stream that can take nothing."""

    def write(self, text: str) -> int:
        raise RuntimeError(text)


@each_row("stream", [None, Refuses()])
def test_a_stderr_that_is_missing_or_fails_does_not_hold_the_program_up(
    place: Place, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None
) -> None:
    place.whole()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        session = place.profile("sh", "-c", "yes err | head -c 300000 >&2", timeout_s=10)
    assert len(session.kernels) == 2


def test_output_ends_as_it_is_where_a_character_is_cut(place: Place) -> None:
    place.whole()
    pieces: list[str] = []
    place.profile("printf", r"a\316", output=pieces.append)
    assert "".join(pieces) == "a\N{REPLACEMENT CHARACTER}"


def test_a_program_that_prints_faster_than_its_output_is_taken_is_ended_in_time(place: Place) -> None:
    place.whole()

    def slowly(_: str) -> None:
        time.sleep(0.02)

    with pytest.raises(ProgramFailed, match="--timeout reached"):
        place.profile("timeout", "10", "yes", output=slowly, timeout_s=0.5)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        place.profile("timeout", "10", "yes", output=slowly, overwrite=True, stop=lambda: time.monotonic() > began + 1)
    assert time.monotonic() - began < 8


@each_row("which", ["output", "on_event"])
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


def test_no_link_in_the_place_of_the_session_is_followed(place: Place) -> None:
    place.whole()
    (place.folder / "out").mkdir()
    (place.folder / "mine").write_text("mine")
    (place.folder / "out/session.json").symlink_to(place.folder / "mine")
    session = place.profile(overwrite=True)
    assert (place.folder / "mine").read_text() == "mine"
    assert not (place.folder / "out/session.json").is_symlink() and gpuprof.load("out/session.json") == session


def test_a_session_that_cannot_be_written_is_told_and_leaves_no_draft(place: Place) -> None:
    place.whole()

    def take_the_place(event: ProfileEvent) -> None:
        if isinstance(event, ProfilePlanned):
            (place.folder / "out/session.json/taken").mkdir(parents=True)

    with pytest.raises(UsageError, match=r"cannot write out/session\.json: Is a directory"):
        place.profile(on_event=take_the_place)
    assert not list((place.folder / "out").glob(".*"))


# When it fails


def test_a_program_that_fails_after_something_was_recorded_leaves_its_session(place: Place) -> None:
    failed = "==ERROR== The application returned an error code (3).\n"
    place.steps({"report": place.report}, {"report": place.report, "log": failed, "code": 3})
    with pytest.raises(ProgramFailed, match="the program exited with code 3") as told:
        place.profile()
    assert told.value.session == gpuprof.load("out/session.json")
    assert told.value.hint is not None and "out/session.json" in told.value.hint


def test_where_nothing_was_recorded_there_is_no_session(place: Place) -> None:
    place.steps({"log": FAILED, "code": 3}, {"stderr": NO_DRIVER, "log": FAILED, "code": 1})
    with pytest.raises(ProgramFailed) as told:
        place.profile()
    assert told.value.session is None and "session.json" not in place.left()
    with pytest.raises(EnvironmentProblem, match="no NVIDIA driver"):
        place.profile()


def test_time_that_is_up_leaves_the_times_of_the_survey(place: Place) -> None:
    place.steps({"report": place.report}, {"sleep": 30})
    with pytest.raises(ProgramFailed, match="--timeout reached") as told:
        place.profile(timeout_s=1.5)
    assert [kernel.duration_s for kernel in told.value.session.kernels] == pytest.approx([1e-6, 1e-6])


# How it is stopped


def in_thread(work: Callable[[], object]) -> Callable[[], object]:
    """Do something in a thread of its own; the function that is returned waits for it, and returns or raises."""
    outcome: list[object] = []

    def do() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=do)
    thread.start()

    def wait() -> object:
        thread.join(SECONDS)
        assert outcome
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    return wait


def test_another_thread_stops_the_program_and_all_it_started(place: Place) -> None:
    place.steps({"program": True})
    stop = threading.Event()

    def stop_it() -> None:
        until(lambda: started(place))
        stop.set()

    wait = in_thread(stop_it)
    with pytest.raises(Interrupted) as told:
        place.profile(*HANGS, stop=stop.is_set)
    wait()
    assert told.value.session is None
    assert not is_running(place.folder / "pid") and not is_running(place.folder / "detached")


def test_what_was_recorded_before_it_was_stopped_is_there(place: Place) -> None:
    place.steps({"report": place.report}, {"report": place.report, "sleep": 30})
    with pytest.raises(Interrupted) as told:
        place.profile(stop=(place.folder / "out/profile.ncu-rep").exists)
    assert told.value.session == gpuprof.load("out/session.json")


def test_stopped_between_the_runs_the_program_does_not_run_again(place: Place) -> None:
    place.whole()
    planned: list[ProfileEvent] = []

    def note(event: ProfileEvent) -> None:
        planned.extend([event] if isinstance(event, ProfilePlanned) else [])

    with pytest.raises(Interrupted) as told:
        place.profile(on_event=note, stop=lambda: bool(planned))
    assert len(place.calls) == 1
    assert [kernel.duration_s for kernel in told.value.session.kernels] == pytest.approx([1e-6, 1e-6])


@pytest.fixture
def main(place: Place) -> Iterator[subprocess.Popen[str]]:
    """A script whose main thread profiles a program that hangs."""
    place.steps({"program": True})
    words = [sys.executable, "-c", MAIN, str(STANDIN), *HANGS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: started(place))
        yield process
        process.kill()


def test_ctrl_c_in_the_main_thread_ends_the_program(place: Place, main: subprocess.Popen[str]) -> None:
    main.send_signal(signal.SIGINT)
    out, _ = main.communicate(timeout=SECONDS)
    assert (out, main.returncode) == ("Interrupted None\n", 0)
    assert not is_running(place.folder / "pid") and not is_running(place.folder / "detached")


def test_a_signal_that_ends_the_process_ends_the_program_first(place: Place, main: subprocess.Popen[str]) -> None:
    main.send_signal(signal.SIGTERM)
    main.communicate(timeout=SECONDS)
    assert main.returncode == -signal.SIGTERM
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


@each_row("fails", [False, True])
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


def test_other_children_of_the_process_live_on(place: Place) -> None:
    place.whole(sleep=1)
    theirs: list[subprocess.Popen[bytes]] = []

    def start(event: ProfileEvent) -> None:
        if isinstance(event, RunProgressed) and not theirs:
            theirs.append(subprocess.Popen(["sleep", "300"], start_new_session=True))

    place.profile(on_event=start)
    assert theirs[0].poll() is None
    theirs[0].kill()
    assert theirs[0].wait() == -signal.SIGKILL


DAEMONS = (
    # What a program starts so in its first moments is not known: the limit comes a little after it.
    "sleep 0.3; "
    "for _ in 1 2 3; do (env -i $(command -v setsid) sh -c 'echo $$ >> \"$0\"; {}' $PWD/daemons &); done; sleep 0.5"
)
"""Starts processes with an empty environment, in sessions of their own, whose parents end at once."""


@each_row("then", ["true", "exec sleep 300"])
def test_a_daemon_with_an_empty_environment_is_ended_and_leaves_no_zombie(place: Place, then: str) -> None:
    place.whole()
    place.profile("sh", "-c", DAEMONS.replace("{}", then))
    numbers = (place.folder / "daemons").read_text().split()
    assert len(numbers) == 6 and not any(Path(f"/proc/{number}").exists() for number in numbers)


def test_what_a_program_starts_before_it_is_known_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    known = process._Family.__init__

    def late(self: process._Family, child: int, mark: int) -> None:
        time.sleep(0.3)
        known(self, child, mark)

    monkeypatch.setattr(process._Family, "__init__", late)
    place.whole()
    # Its environment is empty, its session its own; its parent ends later.
    place.profile(
        "sh", "-c", "env -i $(command -v setsid) sh -c 'echo $$ >> \"$0\"; exec sleep 300' $PWD/pids & sleep 1"
    )
    numbers = (place.folder / "pids").read_text().split()
    assert len(numbers) == 2 and not any(Path(f"/proc/{number}").exists() for number in numbers)


def test_a_fork_of_a_process_that_profiles_ends_its_own_daemons(place: Place) -> None:
    place.steps(*[{"report": place.report, "program": True}] * 4)
    wait = in_thread(partial(place.profile, "sh", "-c", "touch runs; sleep 2", folder="a"))
    until((place.folder / "runs").exists)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            place.profile("sh", "-c", DAEMONS.replace("{}", "exec sleep 300"), folder="b", launch_count=1, arch="sm_80")
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    wait()
    numbers = (place.folder / "daemons").read_text().split()
    assert len(numbers) == 3 and not any(Path(f"/proc/{number}").exists() for number in numbers)


def test_two_threads_profile_at_once(place: Place, tmp_path: Path) -> None:
    place.steps(*[{"report": place.report, "program": True}] * 4)
    waits = [in_thread(partial(place.profile, "sh", "-c", "sleep 1", folder=name)) for name in ("a", "b")]
    sessions = [wait() for wait in waits]
    assert all(isinstance(session, LoadedSession) for session in sessions)
    assert {path.parent.name for path in tmp_path.glob("*/session.json")} == {"a", "b"}


def test_it_works_within_a_running_loop_and_beside_it(place: Place) -> None:
    place.steps(*[{"report": place.report}] * 4)
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    async def both() -> tuple[LoadedSession, LoadedSession]:
        clock = asyncio.create_task(tick())
        beside = await asyncio.to_thread(place.profile, folder="beside")
        clock.cancel()
        return beside, place.profile(folder="within")

    beside, within = asyncio.run(both())
    assert beside.kernels == within.kernels and len(ticks) > 10


def test_a_loop_hears_once_of_a_signal_that_ended_the_program(place: Place) -> None:
    place.steps({"program": True})
    heard: list[str] = []

    async def within() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.append, "SIGTERM")
        with pytest.raises(Interrupted):
            place.profile("sh", "-c", "kill -TERM $0; sleep 30", str(os.getpid()))
        await asyncio.sleep(0.1)

    asyncio.run(within())
    assert heard == ["SIGTERM"]


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
    shown = capsys.readouterr().out
    assert "saxpy 1 1.0" in shown and "\nncu: " in shown
    folders = {path.parent.name for path in app.folder.glob("*/session.json")}
    assert folders == {"gpuprof-app", "planned", "profile", "watched", "awaited", "failing"}


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


def test_the_table_of_the_page_has_each_argument_that_differs() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| `--")]
    options = {name: param for param in command.params for name in param.opts}
    assert len(rows) == 7
    for line, python in rows:
        named = [options[option].name for option in re.findall(r"--[a-z-]+", line)]
        given = eval(f"dict({python.split(':')[0].replace('`', '')})", {})
        assert {"overwrite" if name == "force" else name for name in named} == set(given)
        assert checked(ProfileRequest(["true"], **given))


def test_a_task_that_is_cancelled_ends_the_program(app: Place) -> None:
    (program,) = (program for program in blocks(PAGE, "python") if "asyncio" in program)
    names: dict[str, Any] = {"gpuprof": gpuprof}
    exec(compile(program.rpartition("session =")[0], PAGE.name, "exec"), names)
    (app.folder / "app").write_text(f"#!/bin/sh\n{HANGS[2]}\n")

    async def cancelled() -> None:
        task = asyncio.create_task(names["profiled"]())
        while not started(app):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    until(lambda: not is_running(app.folder / "pid") and not is_running(app.folder / "detached"))
