"""The kit for a GPU: its steps with a stand-in for the machine, what it sends, and how that is taken in."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import context, runner, take
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.context import PROGRAMS, Places, StepContext
from benchmarks.gpu.needs import NEEDS, environment
from benchmarks.gpu.pack import MANIFEST, write_whole
from benchmarks.gpu.runner import Kit, run_steps, scratch_folder
from benchmarks.gpu.scrub import Names, NotKept, in_report, scrubbed
from benchmarks.gpu.steps import CALL_S, FIRST_VISIT, START_S, VISIT_S, Step, calls, forecast_s, steps, steps_of
from benchmarks.gpu.take import read_pack, take_in
from gpuprof.collect.process import Ended
from gpuprof.errors import EnvironmentProblem, InputError, UsageError
from gpuprof.needed_packages import needed_packages
from gpuprof.read.ncu_rep import read_ncu_rep
from tests.standin_gpu import OPTIONS_2024, Machine, read_json, tools
from tests.table import each_row

ROOT = Path(__file__).resolve().parents[1]
PRIVATE = "/home/ann.smith/secret-project"
SAYS = f"{PRIVATE}/train.py of ann.smith on node17.cluster"
NAMES = Names(((PRIVATE, "/gpuprof"), ("/srv/results", "/out")), (("node17.cluster", "host"), ("ann.smith", "user")))
LEAKS = re.compile(rb"ann\.smith|secret-project|node17|1650924012345|1a2b3c4d|someones-work", re.IGNORECASE)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    standin = Machine(SAYS)
    monkeypatch.setattr(context, "run_process", standin)
    return standin


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    """One call of the command, in folders of its own."""
    yield from made_kit(tmp_path)


def made_kit(folder: Path, **options: object) -> Iterator[Kit]:
    places = Places(folder / "scratch", folder / "out")
    places.out.mkdir(exist_ok=True)
    with scratch_folder(places.scratch):
        environ = environment(places.scratch, places.tree, {"PATH": os.environ["PATH"], "HOSTNAME": "node17"})
        told: list[str] = []
        found = tools(**options)  # type: ignore[arg-type]
        yield Kit(places, found, NAMES, environ, told.append, time.monotonic() + 1000, "h200", places.out)


def named(*names: str) -> list[Step]:
    return [step for step in steps() if step.name in names]


def small_step(name: str, work: Callable[[StepContext], object], forecast_s: float = 1) -> Step:
    def working(one: StepContext) -> None:
        work(one)

    return Step(1, name, forecast_s, (), working, "of the tests")


def pack_of(kit: Kit) -> dict[str, bytes]:
    return unpacked([kit.packs / "gpuprof-gpu-h200.tar.gz"])


def figures_of(kit: Kit, step: str) -> dict[str, tuple[Any, str]]:
    about = read_json(kit.places.result(step) / "step.json")
    return {one["name"]: (one["value"], one["unit"]) for one in about["figures"]}


def unpacked(files: Sequence[Path]) -> dict[str, bytes]:
    """The files of an archive, by any reader of tar.gz."""
    joined = b"".join(file.read_bytes() for file in files)
    with tarfile.open(fileobj=io.BytesIO(joined)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


# The steps


def test_every_step_runs_in_the_order_of_the_table_and_all_is_in_the_pack(kit: Kit, machine: Machine) -> None:
    every = steps()
    states = run_steps(kit, every)
    assert {name: state for name, state in states.items() if state != "well"} == {}
    assert list(states) == [step.name for step in every]
    pack = pack_of(kit)
    abouts = [json.loads(pack[f"gpuprof-gpu/steps/{step.name}/step.json"]) for step in every]
    assert [about["name"] for about in abouts] == [step.name for step in every]
    assert figures_of(kit, "planted-6")["planted cases recorded"] == (14, "of 14")
    assert figures_of(kit, "limits")["passes of a launch, the counters of the limits"] == (12, "passes")
    assert {name.rpartition(".")[2] for name in pack} == {"csv", "gz", "json", "jsonl", "log", "ncu-rep", "txt", "yaml"}
    leaking = {
        name for name, data in pack.items() if LEAKS.search(gzip.decompress(data) if name.endswith("gz") else data)
    }
    assert leaking == set()


def test_every_option_of_ncu_is_one_that_2024_1_knows(kit: Kit, machine: Machine) -> None:
    run_steps(kit, steps())
    used = {word for words in machine.ncu_calls() for word in words if word.startswith("--")}
    assert used - {"--saxpy", "--plain"} <= set(OPTIONS_2024)
    for words in machine.ncu_calls():
        assert words[words.index("--clock-control") + 1] == "none"


def test_each_call_and_the_first_visit_fit_into_their_time() -> None:
    every = steps()
    assert [step.call for step in every] == sorted(step.call for step in every)
    assert len({step.name for step in every}) == len(every)
    assert {call: forecast_s(call) for call in calls() if forecast_s(call) > CALL_S} == {7: 372}
    assert START_S + sum(map(forecast_s, FIRST_VISIT)) <= VISIT_S
    assert calls()[: len(FIRST_VISIT)] == FIRST_VISIT
    for step in every:
        assert set(step.needs) <= set(NEEDS)
        assert re.fullmatch(r"[a-z0-9-]{1,60}", step.name)
        before = [one.name for one in every[: every.index(step)]]
        assert set(step.after) <= set(before)


def test_every_planted_case_is_in_one_step(kit: Kit, machine: Machine) -> None:
    run_steps(kit, [step for step in steps() if step.name.startswith("planted")])
    cases = sorted(path.stem for path in (ROOT / "microkernels" / "bottlenecks").glob("*.yaml"))
    assert sorted(path.stem for path in kit.places.steps.rglob("*.ncu-rep")) == cases


def test_selection_tells_which_launches_came_and_what_the_log_calls_them(kit: Kit, machine: Machine) -> None:
    run_steps(kit, named("selection"))
    figures = figures_of(kit, "selection")
    asked = {name.partition(":")[0]: value for name, value in figures.items() if name.endswith("asked for")}
    assert asked == {
        "numbers": (2, "of 2"), "window": (3, "of 3"), "window-without": (3, "of 3"),
        "names-demangled": (6, "of 6"), "names-function": (6, "of 6"), "names-mangled": (6, "of 6"),
    }  # fmt: skip
    assert figures["nvtx: launches in the report"] == (2, "launches")
    names = (kit.places.result("selection") / "numbers-names.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(names.splitlines()))
    assert [(row["position"], row["log"], row["function"]) for row in rows] == [
        ("3", "1:7:plain_third:4", "plain_third"), ("17", "1:7:plain_second:4", "plain_second"),
    ]  # fmt: skip


def test_a_selection_that_brings_other_launches_is_seen(kit: Kit, machine: Machine) -> None:
    machine.late = 1
    run_steps(kit, named("selection"))
    figures = figures_of(kit, "selection")
    assert figures["numbers: launches that were asked for"] == (0, "of 2")
    assert figures["window: launches that were asked for"] == (2, "of 3")
    assert figures["numbers: launches with another name in the log"] == (2, "launches")


def test_marks_are_given_to_the_hook_by_its_variables(kit: Kit, machine: Machine) -> None:
    run_steps(kit, named("selection"))
    by_first = {words[1].partition("=")[0]: words for words in machine.calls if words[0] == "env"}
    variables = dict(word.split("=", 1) for word in by_first["GPUPROF_ANNOTATE"][1:4])
    assert variables["PYTHONPATH"].startswith(str(ROOT / "gpuprof" / "collect" / "inject"))
    marks = read_json(Path(variables["GPUPROF_MARK"]))
    assert (marks["step"], marks["by"], marks["with"]) == (2, "optimizer", "profiler")
    assert "CUDA_MODULE_LOADING" in by_first


def test_a_report_that_is_missing_is_a_problem_and_the_next_selection_runs(kit: Kit, machine: Machine) -> None:
    machine.before = lambda words, timeout_s: Ended(1, "", 0.1) if "global" in words else None
    assert run_steps(kit, named("selection")) == {"selection": "failed"}
    (problem,) = read_json(kit.places.result("selection") / "step.json")["problems"]
    assert problem.startswith("numbers: ")
    assert figures_of(kit, "selection")["window: launches that were asked for"] == (3, "of 3")


def test_a_step_that_ncu_profiles_nothing_in_fails(kit: Kit, machine: Machine) -> None:
    machine.before = lambda words, timeout_s: Ended(0, "", 0.1) if "time.log" in words else None
    assert run_steps(kit, named("cost-of-passes")) == {"cost-of-passes": "failed"}
    problems = read_json(kit.places.result("cost-of-passes") / "step.json")["problems"]
    assert problems == ["time: ncu profiled nothing"]


def test_steps_whose_needs_are_missing_are_skipped_with_the_reason(tmp_path: Path, machine: Machine) -> None:
    for kit in made_kit(tmp_path, missing={"torch": "Python has no torch"}):
        states = run_steps(kit, named("environment", "run-transformer", "certificates"))
        assert states == {"environment": "well", "run-transformer": "skipped", "certificates": "skipped"}
        reasons = {row["name"]: row["reason"] for row in json.loads(pack_of(kit)[MANIFEST])["steps"]}
        assert reasons["run-transformer"] == "Python has no torch"
        assert "quick" in reasons["certificates"]


def test_a_second_call_goes_on_with_what_is_missing(kit: Kit, machine: Machine) -> None:
    run_steps(kit, named("run-jax"))
    before = len(machine.calls)
    assert run_steps(kit, named("run-jax", "run-cupy")) == {"run-jax": "well", "run-cupy": "well"}
    assert [words[-1].rpartition("/")[2] for words in machine.calls[before:]] == ["cupy_kernels.py"]


def test_an_interrupted_step_is_begun_anew_and_the_pack_has_what_was_there(kit: Kit, machine: Machine) -> None:
    machine.before = lambda words, timeout_s: Ended(-2, "", 0.1, "interrupt") if "caches.log" in words else None
    chosen = named("environment", "cost-of-passes", "run-cupy")
    assert run_steps(kit, chosen) == {"environment": "well", "cost-of-passes": "cut", "run-cupy": "left"}
    assert kit.stopped
    pack = pack_of(kit)
    assert {name.split("/")[2] for name in pack if "steps" in name} == {"environment", "cost-of-passes"}
    # What it had recorded until then is worth its time, and is told as what it is.
    assert "gpuprof-gpu/steps/cost-of-passes/default.ncu-rep" in pack
    assert json.loads(pack["gpuprof-gpu/steps/cost-of-passes/step.json"])["state"] == "cut"
    kit.stopped.clear()
    machine.before = lambda words, timeout_s: None
    assert set(run_steps(kit, chosen).values()) == {"well"}


def test_what_fails_is_told_the_next_step_runs_and_the_same_call_tries_again(kit: Kit, machine: Machine) -> None:
    values: list[int] = []
    chosen = [
        small_step("one", lambda one: values[0]),
        small_step("two", lambda one: one.figure("x", 1, "s")),
    ]
    assert run_steps(kit, chosen) == {"one": "failed", "two": "well"}
    assert read_json(kit.places.result("one") / "step.json")["problems"] == ["IndexError: list index out of range"]
    values.append(1)
    assert run_steps(kit, chosen) == {"one": "well", "two": "well"}


def test_a_step_that_does_not_fit_is_passed_over(kit: Kit, machine: Machine) -> None:
    ran: list[str] = []
    chosen = [
        small_step("short", lambda one: ran.append("short")),
        small_step("long", lambda one: ran.append("long"), forecast_s=100),
        small_step("last", lambda one: ran.append("last")),
    ]
    kit.until = time.monotonic() + 50
    assert run_steps(kit, chosen) == {"short": "well", "long": "left", "last": "well"}
    assert ran == ["short", "last"]


CUT = Ended(130, "", 5.0, "timeout")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_cut_step_goes_on_behind_the_last_command_that_was_done(
    kit: Kit, machine: Machine, *, elsewhere: bool
) -> None:
    chosen = named("run-transformer")
    machine.before = lambda words, timeout_s: CUT if "full" in words else None
    assert run_steps(kit, chosen) == {"run-transformer": "cut"}
    machine.before = lambda words, timeout_s: None
    machine.calls.clear()
    cut = read_json(kit.places.result("run-transformer") / "step.json")
    assert [call["name"] for call in cut["commands"]] == ["gpuprof", "alone", "full"]
    if elsewhere:  # what cannot be looked into is not there, and nobody needs it
        shutil.rmtree(kit.places.work("run-transformer"))
        assert not (kit.places.result("run-transformer") / "run" / "report.html").exists()
    assert run_steps(kit, chosen) == {"run-transformer": "well"}
    assert [words[0] for words in machine.calls] == [str(kit.tools.ncu)]
    about = read_json(kit.places.result("run-transformer") / "step.json")
    assert [(call["name"], call["code"]) for call in about["commands"]] == [("gpuprof", 0), ("alone", 0), ("full", 0)]
    assert {one["name"] for one in about["figures"]} >= {"alone", "under gpuprof run", "its survey"}
    assert about["seconds"] > cut["seconds"] and about["problems"] == []
    assert (kit.places.result("run-transformer") / "run" / "session.json").exists()


def killed_between(kit: Kit, machine: Machine, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """End a call, as if it were killed, where it has written the record of a step and is about to do something."""

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    real = write_whole

    def written(file: Path, value: object) -> None:
        real(file, value)
        if file.name == "step.json" and value["state"] == "well":  # type: ignore[index]
            monkeypatch.setattr(*{"replace": (Path, "replace"), "remember": (runner, "remember")}[what], killed)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "write_whole", written)
        with pytest.raises(Killed):
            run_steps(kit, named("run-transformer"))
        monkeypatch.undo()
    monkeypatch.setattr(context, "run_process", machine)
    machine.calls.clear()


@pytest.mark.parametrize("what", ["replace", "remember"])
def test_a_call_that_is_killed_while_it_keeps_loses_nothing(
    kit: Kit, machine: Machine, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(runner, "_KEPT_EVERY_S", 0.0)
    killed_between(kit, machine, monkeypatch, what)
    assert run_steps(kit, named("run-transformer")) == {"run-transformer": "well"}
    assert machine.calls == []
    pack = pack_of(kit)
    assert json.loads(pack["gpuprof-gpu/steps/run-transformer/step.json"])["state"] == "well"
    assert "gpuprof-gpu/steps/run-transformer/full.ncu-rep" in pack
    assert [path.name for path in kit.places.steps.iterdir()] == ["run-transformer"]


def test_a_step_is_ended_when_its_time_is_up_with_all_it_started_and_nothing_else(kit: Kit) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    script = 'sleep 61 & echo $! >pids; (setsid sleep 62 & echo $! >>pids); echo $$ >>pids; trap "" INT; sleep 63'
    kit.until = time.monotonic() + 0.6
    try:
        chosen = [small_step("hanging", lambda one: one.call("hang", ["sh", "-c", "exec 2>&1; " + script]), 0.1)]
        began = time.monotonic()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gpuprof.collect.process._GRACE_S", {signal.SIGINT: 0.3, signal.SIGKILL: 2.0})
            assert run_steps(kit, chosen) == {"hanging": "cut"}
        assert time.monotonic() - began < 5
        pids = [int(pid) for pid in (kit.places.work("hanging") / "pids").read_text().split()]
        assert len(pids) >= 2
        assert [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and _runs(pid)] == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert read_json(kit.places.result("hanging") / "step.json")["commands"][0]["stopped_by"] == "timeout"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_scratch_folder_that_is_a_link_or_taken_is_refused(tmp_path: Path, kit: Kit) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for folder, why in ((tmp_path / "link", "not a folder of yours"), (kit.places.scratch, "another run has")):
        with pytest.raises(UsageError, match=why), scratch_folder(folder):
            pass


# The command


def test_the_readme_has_every_option_and_every_call_with_its_steps_and_forecast() -> None:
    text = (ROOT / "benchmarks" / "gpu" / "README.md").read_text(encoding="utf-8")
    words = [sys.executable, "-m", "benchmarks.gpu", "call", "--help"]
    described = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {option for option in re.findall(r"--[a-z]+", described) if option not in text} == {"--help"}
    rows = re.findall(r"^\| (\d+) \| (.*) \| (\d+) s \|$", text, re.MULTILINE)
    assert [(int(call), int(seconds)) for call, _, seconds in rows] == [(call, forecast_s(call)) for call in calls()]
    for call, what, _ in rows:
        assert re.findall(r"`([\w-]+)`", what) == [step.name for step in steps_of(int(call))[1:]]


def test_a_missing_package_is_named_before_anything_starts(tmp_path: Path) -> None:
    # Without site-packages nothing is there but Python's own library.
    environ = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    words = [sys.executable, "-S", "-m", "benchmarks.gpu", "call", "1"]
    ended = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    error, hint = ended.stderr.splitlines()
    assert ended.returncode == EnvironmentProblem.exit_code and ended.stdout == ""
    assert error.startswith("error: ") and {"msgspec", "rich"} <= set(re.findall(r"[\w-]+", error))
    assert f"-m pip install {' '.join(needed_packages())}" in hint
    assert list(tmp_path.iterdir()) == []


def test_results_are_in_a_folder_that_the_gpu_names_and_what_is_left_ends_the_command_with_75(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("benchmarks.gpu.needs.find_tools", lambda _: tools())
    assert main(["call", "2", "--minutes", "0.0001", "--packs", "packs"]) == 75
    said = capsys.readouterr()
    assert "environment (2 s), run-transformer (130 s)" in said.err
    assert said.out == f"{tmp_path}/packs/gpuprof-gpu-nvidia-h200-call-2.tar.gz\n"
    assert (tmp_path / "gpuprof-gpu-results" / "nvidia-h200").is_dir()


def test_a_call_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "99"]) == UsageError.exit_code
    assert "there is no call 99" in capsys.readouterr().err


def stand_in_tools(folder: Path) -> str:
    """Put an ncu, an nvidia-smi and an nvcc into a folder; return it."""
    scripts = {
        "ncu": 'case "$1" in --version) echo "Nsight Compute"; echo "Version 2024.1" ;; *elp) ;; *) sleep 30 ;; esac',
        "nvidia-smi": '[ "$1" = -q ] || echo "NVIDIA H200, 9.0, 580.65.06, Disabled, Enabled"',
        "nvcc": 'while [ "$1" != -o ] && [ $# -gt 0 ]; do shift; done; [ $# -gt 0 ] && echo >"$2"; true',
    }
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_command_ends_a_step_and_packs_when_it_is_asked_to_stop(tmp_path: Path) -> None:
    path = stand_in_tools(tmp_path / "bin")
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-m", "benchmarks.gpu", "call", "1"]
    command = subprocess.Popen(words, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, stdout=-3)
    assert command.stderr is not None
    for line in command.stderr:
        if line.startswith(b"cost-of-passes"):
            break
    time.sleep(0.5)
    command.terminate()
    said = command.stderr.read().decode()
    command.stderr.close()
    assert command.wait() == 130, said
    assert "cut after" in said
    pack = unpacked([tmp_path / "gpuprof-gpu-results" / "gpuprof-gpu-nvidia-h200-call-1.tar.gz"])
    assert "gpuprof-gpu/steps/environment/versions.txt" in pack
    states = {row["name"]: row["state"] for row in json.loads(pack[MANIFEST])["steps"]}
    assert (states["environment"], states["cost-of-passes"]) == ("well", "cut")


# What is sent


@each_row(
    ("text", "kept"),
    [
        (f'{{"file": "{PRIVATE}/a.cu"}}', '{"file": "/gpuprof/a.cu"}'),
        ("/home/bob/x and /Users/eve/y", "/home/user/x and /home/user/y".replace("/home/user/y", "/Users/user/y")),
        ("/srv/results/step, /srv/results-of-2020", "/out/step, /srv/results-of-2020"),
        ("torchinductor_ann.smith on Node17.cluster", "torchinductor_user on host"),
        ("joann.smithers", "joann.smithers"),
        ("  Serial Number : 165\n  SM : 1980 MHz\n", "  SM : 1980 MHz\n"),
        ('{"serial number": 1}', '{"serial number": 1}'),
        ("MIG-1A2B3c4d-1111-2222-3333-444455556666", "MIG-00000000-0000-0000-0000-000000000000"),
    ],
)
def test_texts_lose_names_folders_and_serial_numbers(text: str, kept: str) -> None:
    assert scrubbed("a.txt", text.encode(), NAMES).decode() == kept
    assert scrubbed("a.txt", kept.encode(), NAMES).decode() == kept


@each_row(
    ("name", "data"),
    [
        ("page.html", b""),
        ("core", b""),
        ("x.txt", b"a\0b"),
        ("x.json.gz", b"no gzip"),
        ("x.tar.gz", b""),
        ("x.ncu-rep", b"\x28\xb5\x2f\xfd"),
    ],
)
def test_what_cannot_be_looked_into_is_not_kept(name: str, data: bytes) -> None:
    with pytest.raises(NotKept):
        scrubbed(name, data, NAMES)


def test_a_report_keeps_its_length_and_its_numbers() -> None:
    data = Machine(SAYS).report()
    kept = scrubbed("a.ncu-rep", data, NAMES)
    assert len(kept) == len(data)
    assert not LEAKS.search(kept)
    assert in_report(kept, NAMES) == kept
    assert scrubbed("a.ncu-rep", Machine("all is well").report(), NAMES) == Machine("all is well").report()


# Taking in


def checkout(folder: Path) -> Path:
    """A checkout as far as packs are concerned."""
    root = folder / "checkout"
    (root / "docs").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "index.md", root / "docs")
    return root


def test_a_pack_becomes_data_of_tests_and_rows_of_the_results(kit: Kit, machine: Machine, tmp_path: Path) -> None:
    run_steps(kit, named("environment", "run-transformer", "planted-1"))
    root = checkout(tmp_path)
    told = take_in([kit.packs / "gpuprof-gpu-h200.tar.gz"], root)
    assert told[0].startswith("NVIDIA H200: 3 steps")
    folder = root / "tests" / "data" / "gpu" / "nvidia-h200"
    index = read_json(folder / "index.json")
    kept = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert kept == {
        "index.json",
        *(f"{name}/{file}" for name, step in index["steps"].items() for file in step["files"]),
    }
    made = index["steps"]["run-transformer"]["files"]["run/profile.ncu-repz"]
    assert made["command"][:4] == ["/opt/python/bin/python", "-m", "gpuprof", "run"]
    assert (made["code"], made["seconds"]) == (0, 0.25)
    assert made["bytes"] == (folder / "run-transformer" / "run" / "profile.ncu-repz").stat().st_size
    assert index["steps"]["run-transformer"]["versions"]["ncu"] == "2025.3.1.0"
    page = (root / "docs" / "explanation" / "results.md").read_text()
    assert "driver 580.65.06, ncu 2025.3.1.0, python 3.12.3, torch 2.11.0" in page
    # Alone, under gpuprof, its survey, its limits, no answers, nothing at once or again, all the time, ncu, passes.
    assert "| transformer | 0.25 s | 0.25 s | 8.1 s | 65 s | – | – | – | 100 % | 0.25 s | 3 |" in page
    assert "| planted-1 | planted cases recorded | 6 of 6 |" in page
    assert "(explanation/results.md)" in (root / "docs" / "index.md").read_text()
    written = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    elsewhere = {file for file in written if not file.startswith("tests/data/gpu/nvidia-h200/")}
    assert elsewhere == {"docs/index.md", "docs/explanation/results.md"}
    report = read_ncu_rep(folder / "run-transformer" / "run" / "profile.ncu-repz")
    assert [launch.name for launch in report.launches] == ["left", "right"]
    plain = [file for file in (root / name for name in written) if file.suffix not in (".gz", ".ncu-repz")]
    assert not [file for file in plain if LEAKS.search(file.read_bytes())]


def hostile(*members: tarfile.TarInfo, data: bytes = b"") -> bytes:
    """A pack with these members before its list of contents."""
    packed_bytes = io.BytesIO()
    with tarfile.open(fileobj=packed_bytes, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data))
        manifest = json.dumps({"kind": "gpuprof-gpu", "schema": 1, "gpu": "x"}).encode()
        last = tarfile.TarInfo(MANIFEST)
        last.size = len(manifest)
        archive.addfile(last, io.BytesIO(manifest))
    return packed_bytes.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, target
    return found


IN_STEP = "gpuprof-gpu/steps/one"
HOSTILE = {
    "an absolute path": [member("/etc/x.txt")],
    "a path upwards": [member(f"{IN_STEP}/../../../../x.txt")],
    "a path upwards in a step": [member(f"{IN_STEP}/..")],
    "a step named upwards": [member("gpuprof-gpu/steps/../x.txt")],
    "a hidden file": [member(f"{IN_STEP}/.git/config.txt")],
    "a backslash": [member(f"{IN_STEP}/a\\b.txt")],
    "a line break": [member(f"{IN_STEP}/a\nb.txt")],
    "a symbolic link": [member(f"{IN_STEP}/x.txt", tarfile.SYMTYPE, "/etc/passwd")],
    "a hard link": [member(f"{IN_STEP}/x.txt", tarfile.LNKTYPE, "/etc/passwd")],
    "a device": [member(f"{IN_STEP}/x.txt", tarfile.CHRTYPE)],
    "a pipe": [member(f"{IN_STEP}/x.txt", tarfile.FIFOTYPE)],
    "a folder": [member(f"{IN_STEP}/x.txt", tarfile.DIRTYPE)],
    "a long name": [member(f"{IN_STEP}/{'x' * 300}.txt")],
    "a file twice": [member(f"{IN_STEP}/x.txt"), member(f"{IN_STEP}/x.txt")],
    "a page": [member(f"{IN_STEP}/x.html")],
    "a program": [member(f"{IN_STEP}/conftest.py")],
}


@each_row("what", HOSTILE)
def test_a_pack_that_the_kit_would_not_write_is_refused_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    file, root = tmp_path / "x.tar.gz", checkout(tmp_path)
    file.write_bytes(hostile(*HOSTILE[what]))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError):
        take_in([file], root)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pack_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "_LARGEST_WHOLE", 2**22)
    with pytest.raises(InputError, match="unpacks to more"):
        read_pack(hostile(member(f"{IN_STEP}/x.txt"), data=bytes(2**23)))
    monkeypatch.setattr(take, "_LARGEST_MEMBER", 2**10)
    with pytest.raises(InputError, match="takes 2048 bytes"):
        read_pack(hostile(member(f"{IN_STEP}/x.txt"), data=bytes(2**11)))


# The programs


def test_every_program_in_python_compiles(tmp_path: Path) -> None:
    found = sorted(PROGRAMS.glob("*.py"))
    assert len(found) == 4
    for program in found:
        py_compile.compile(str(program), cfile=str(tmp_path / "x.pyc"), doraise=True)


@pytest.mark.compilers
def test_the_cuda_programs_compile(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc to compile with")
    words = [nvcc, "-O3", "-std=c++17", "-lineinfo", "-c", "-arch=sm_90", "-o", str(tmp_path / "x.o")]
    for program in PROGRAMS.glob("*.cu"):
        subprocess.run([*words, str(program)], check=True, timeout=120)


def test_a_call_that_lacks_a_wheel_or_ncu_says_so_without_a_traceback(tmp_path: Path) -> None:
    place, tail = tmp_path / "bin", shutil.which("tail")
    place.mkdir()
    assert tail is not None
    (place / "tail").symlink_to(tail)
    python = place / "python3"
    python.write_text("#!/bin/sh\ntest $1 = -m || { echo Traceback:; echo No module named a; exit 1; }\n")
    python.chmod(0o755)

    def told() -> tuple[int, list[str]]:
        words, environ = ["/bin/sh", str(ROOT / "benchmarks/gpu/call.sh"), "1"], {"PATH": str(place)}
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        return done.returncode, [line for line in done.stderr.splitlines() if line.startswith(("error", "Trace"))]

    assert told() == (3, ["error: ncu is not on PATH"])
    (tmp_path / ".whl").mkdir()
    assert told() == (3, ["error: No module named a"])
