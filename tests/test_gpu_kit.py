"""The kit for a GPU: its steps with a stand-in for the machine, what it sends, and how that is taken in."""

from __future__ import annotations

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

import pytest

from benchmarks.gpu import context, runner, take
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.context import PROGRAMS, Places, StepContext
from benchmarks.gpu.needs import NEEDS, environment
from benchmarks.gpu.pack import MANIFEST, write_whole
from benchmarks.gpu.runner import Kit, run_steps, scratch_folder
from benchmarks.gpu.scrub import Names, NotKept, in_report, scrubbed
from benchmarks.gpu.steps import LIMIT_S, VISITS, Step, steps
from benchmarks.gpu.take import read_pack, take_in
from gpuprof.collect.process import Ended
from gpuprof.errors import InputError, UsageError
from gpuprof.read.ncu_rep import read_ncu_rep as read_report
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
        yield Kit(places, tools(**options), NAMES, environ, told.append)  # type: ignore[arg-type]


def named(*names: str) -> list[Step]:
    return [step for step in steps() if step.name in names]


def small_step(
    name: str, work: Callable[[StepContext], object], *, continues: bool = False, forecast_s: float = 1
) -> Step:
    def working(one: StepContext) -> None:
        work(one)

    return Step("A", name, forecast_s, (), working, "of the tests", continues)


def unpacked(files: Sequence[Path]) -> dict[str, bytes]:
    """The files of an archive, by any reader of tar.gz."""
    joined = b"".join(file.read_bytes() for file in files)
    with tarfile.open(fileobj=io.BytesIO(joined)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


# The steps


def test_every_step_runs_in_the_order_of_the_table_and_all_is_in_the_pack(kit: Kit, machine: Machine) -> None:
    every = steps()
    states = run_steps(kit, every, every, again=False)
    assert {name: state for name, state in states.items() if state != "well"} == {}
    assert list(states) == [step.name for step in every]
    pack = unpacked([kit.places.out / "gpuprof-gpu-all.tar.gz"])
    abouts = [json.loads(pack[f"gpuprof-gpu/steps/{step.name}/step.json"]) for step in every]
    assert [about["name"] for about in abouts] == [step.name for step in every]
    figures = {one["name"]: (one["value"], one["unit"]) for about in abouts for one in about["figures"]}
    assert figures["launches of invocation 4|8, per-launch-config, demangled"] == (2, "launches")
    assert figures["cause first"] == (30, "of 34")
    assert figures["values of quick and default that agree within 2 %"] == (88, "of 90")
    assert {name.rpartition(".")[2] for name in pack} == {
        "csv", "gz", "json", "jsonl", "log", "ncu-rep", "sh", "txt", "yaml",
    }  # fmt: skip
    leaking = {
        name for name, data in pack.items() if LEAKS.search(gzip.decompress(data) if name.endswith("gz") else data)
    }
    assert leaking == set()


def test_every_option_of_ncu_is_one_that_2024_1_knows(kit: Kit, machine: Machine) -> None:
    run_steps(kit, steps(), steps(), again=False)
    used = {word for words in machine.ncu_calls() for word in words if word.startswith("--")}
    programs = {"--streams", "--empty", "--saxpy", "--templates", "--transpose", "--graph"}
    assert used - programs - {"--bf16", "--compile", "--autotune"} <= set(OPTIONS_2024)
    for words in machine.ncu_calls():
        if "--export" in words:
            assert words[words.index("--clock-control") + 1] == "none"


def test_the_table_is_in_order_and_every_step_fits_in_eight_minutes() -> None:
    every = steps()
    assert [step.visit for step in every] == sorted(step.visit for step in every)
    assert {step.visit for step in every} == set(VISITS)
    assert len({step.name for step in every}) == len(every)
    for step in every:
        assert 0 < step.forecast_s <= LIMIT_S < 480
        assert set(step.needs) <= set(NEEDS)
        assert re.fullmatch(r"[a-z0-9-]{1,60}", step.name)
        before = [one.name for one in every[: every.index(step)]]
        assert set(step.after) <= set(before)


def test_steps_whose_needs_are_missing_are_skipped_with_the_reason(tmp_path: Path, machine: Machine) -> None:
    for kit in made_kit(tmp_path, missing={"torch": "Python has no torch", "counters": "only root may"}):
        states = run_steps(kit, named("environment", "run-transformer", "quick", "agreement"), steps(), again=False)
        assert states == {"environment": "well", "run-transformer": "skipped", "quick": "well", "agreement": "skipped"}
        rows = {
            row["name"]: row
            for row in json.loads(unpacked([kit.places.out / "gpuprof-gpu-all.tar.gz"])[MANIFEST])["steps"]
        }
        assert rows["run-transformer"]["reason"]
        assert "default" in rows["agreement"]["reason"]
        assert rows["default"]["state"] == "left"


def test_a_second_call_goes_on_with_what_is_missing(kit: Kit, machine: Machine) -> None:
    run_steps(kit, named("killed"), steps(), again=False)
    before = len(machine.calls)
    states = run_steps(kit, named("killed", "report-names"), steps(), again=False)
    assert states == {"killed": "well", "report-names": "well"}
    assert not [words for words in machine.calls[before:] if "--kill" in words]


def test_an_interrupted_step_is_begun_anew_and_the_pack_has_what_was_there(kit: Kit, machine: Machine) -> None:
    machine.before = lambda words, timeout_s: Ended(-2, "", 0.1, "interrupt") if "no" in words else None
    chosen = named("killed", "report-names")
    assert run_steps(kit, named("environment"), steps(), again=False) == {"environment": "well"}
    assert run_steps(kit, chosen, steps(), again=False) == {"killed": "cut", "report-names": "left"}
    assert kit.stopped
    pack = unpacked([kit.places.out / "gpuprof-gpu-all.tar.gz"])
    assert {name.split("/")[2] for name in pack if "steps" in name} == {"environment", "killed"}
    # What it had recorded until then is worth its time, and is told as what it is.
    assert "gpuprof-gpu/steps/killed/kill-yes.ncu-rep" in pack
    assert json.loads(pack["gpuprof-gpu/steps/killed/step.json"])["state"] == "cut"
    kit.stopped.clear()
    machine.before = lambda words, timeout_s: None
    assert run_steps(kit, chosen, steps(), again=False) == {"killed": "well", "report-names": "well"}


def test_a_step_that_fails_by_itself_is_told_and_the_next_one_runs(kit: Kit, machine: Machine) -> None:
    chosen = [small_step("one", lambda one: [].pop()), small_step("two", lambda one: one.figure("x", 1, "s"))]
    assert run_steps(kit, chosen, chosen, again=False) == {"one": "failed", "two": "well"}
    assert read_json(kit.places.result("one") / "step.json")["problems"] == ["IndexError: pop from empty list"]


def test_minutes_pass_over_a_step_that_does_not_fit(kit: Kit, machine: Machine) -> None:
    ran: list[str] = []
    chosen = [
        small_step("short", lambda one: ran.append("short")),
        small_step("long", lambda one: ran.append("long"), forecast_s=100),
        small_step("last", lambda one: ran.append("last")),
    ]
    kit.until = time.monotonic() + 50
    assert run_steps(kit, chosen, chosen, again=False) == {"short": "well", "long": "left", "last": "well"}
    assert ran == ["short", "last"]


def test_what_is_left_is_told_and_ends_the_command_with_75(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch"), "--visit", "A", "--minutes", "0.01"]
    monkeypatch.setattr("benchmarks.gpu.needs.find_tools", lambda *_: tools())
    assert main(words) == 75
    said = capsys.readouterr().err
    assert "run-transformer may take 130 s" in said
    assert "environment (5 s), ask-ncu (20 s), passes (20 s)" in said


CUT = Ended(130, "", 5.0, "timeout")


def cut_in_the_middle(kit: Kit, machine: Machine, step: Step, at: str) -> None:
    """Let the minutes be over while a command that has this word runs."""
    machine.before = lambda words, timeout_s: CUT if at in words else None
    kit.until = time.monotonic() + 300
    assert run_steps(kit, [step], steps(), again=False) == {step.name: "cut"}
    machine.before = lambda words, timeout_s: None
    kit.until = None
    machine.calls.clear()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_cut_step_goes_on_behind_the_last_command_that_was_done(
    kit: Kit, machine: Machine, *, elsewhere: bool
) -> None:
    (step,) = named("run-triton")
    cut_in_the_middle(kit, machine, step, "full")
    cut = read_json(kit.places.result("run-triton") / "step.json")
    assert [call["name"] for call in cut["commands"]] == ["gpuprof", "alone", "full"]
    if elsewhere:  # what cannot be looked into is not there, and nobody needs it
        shutil.rmtree(kit.places.work("run-triton"))
        assert not (kit.places.result("run-triton") / "run" / "report.html").exists()
    assert run_steps(kit, [step], steps(), again=False) == {"run-triton": "well"}
    assert [words[0] for words in machine.calls] == [str(kit.tools.ncu)]
    about = read_json(kit.places.result("run-triton") / "step.json")
    assert [(call["name"], call["code"]) for call in about["commands"]] == [("gpuprof", 0), ("alone", 0), ("full", 0)]
    assert {one["name"] for one in about["figures"]} >= {"alone", "under gpuprof run", "its survey"}
    assert about["seconds"] > cut["seconds"] and about["problems"] == []
    assert (kit.places.result("run-triton") / "run" / "session.json").exists()


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
            run_steps(kit, named("run-triton"), steps(), again=False)
        monkeypatch.undo()
    monkeypatch.setattr(context, "run_process", machine)
    machine.calls.clear()


@pytest.mark.parametrize("what", ["replace", "remember"])
def test_a_call_that_is_killed_while_it_keeps_loses_nothing(
    kit: Kit, machine: Machine, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(runner, "_KEPT_EVERY_S", 0.0)
    killed_between(kit, machine, monkeypatch, what)
    assert run_steps(kit, named("run-triton"), steps(), again=False) == {"run-triton": "well"}
    assert machine.calls == []
    pack = unpacked([kit.places.out / "gpuprof-gpu-all.tar.gz"])
    assert json.loads(pack["gpuprof-gpu/steps/run-triton/step.json"])["state"] == "well"
    assert "gpuprof-gpu/steps/run-triton/full.ncu-rep" in pack
    assert [path.name for path in kit.places.steps.iterdir()] == ["run-triton"], "score reads all folders there"


def test_a_step_is_ended_at_its_limit_with_all_it_started_and_nothing_else(kit: Kit) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    script = 'sleep 61 & echo $! >pids; (setsid sleep 62 & echo $! >>pids); echo $$ >>pids; trap "" INT; sleep 63'
    kit.limit_s = 0.6
    try:
        chosen = [small_step("hanging", lambda one: one.call("hang", ["sh", "-c", "exec 2>&1; " + script]))]
        began = time.monotonic()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gpuprof.collect.process._GRACE_S", {signal.SIGINT: 0.3, signal.SIGKILL: 2.0})
            assert run_steps(kit, chosen, chosen, again=False) == {"hanging": "failed"}
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


@pytest.mark.parametrize("name", ["kit.json", "manifest.json"])
def test_results_of_another_gpu_are_not_mixed_with_these(kit: Kit, machine: Machine, name: str) -> None:
    (kit.places.out / name).write_text('{"gpu": "NVIDIA L4"}')
    with pytest.raises(UsageError, match="has results of NVIDIA L4, this is NVIDIA H200"):
        run_steps(kit, named("environment"), steps(), again=False)


def test_a_scratch_folder_that_is_a_link_or_taken_is_refused(tmp_path: Path, kit: Kit) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for folder, why in ((tmp_path / "link", "not a folder of yours"), (kit.places.scratch, "another run has")):
        with pytest.raises(UsageError, match=why), scratch_folder(folder):
            pass


# The command


def test_the_readme_has_every_option_and_the_estimates_of_the_table() -> None:
    text = (ROOT / "benchmarks" / "gpu" / "README.md").read_text(encoding="utf-8")
    described = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "run", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {option for option in re.findall(r"--[a-z]+", described.stdout) if option not in text} == {"--help"}
    for visit in VISITS:
        (minutes,) = re.findall(rf"^\| {visit} \|.*\| (\d+) minutes \|$", text, re.MULTILINE)
        forecast = sum(step.forecast_s for step in steps() if step.visit == visit) / 60
        assert 0 <= int(minutes) - forecast < 6, (visit, forecast)


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
    environ = {**os.environ, "PATH": stand_in_tools(tmp_path / "bin"), "PYTHONPATH": str(ROOT)}
    words = [
        "run",
        str(tmp_path / "out"),
        "--scratch",
        str(tmp_path / "scratch"),
        "--only",
        "environment",
        "--only",
        "killed",
    ]
    command = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gpu", *words], env=environ, stderr=subprocess.PIPE, stdout=-3
    )
    assert command.stderr is not None
    for line in command.stderr:
        if line.startswith(b"A killed"):
            break
    time.sleep(0.5)
    command.terminate()
    said = command.stderr.read().decode()
    command.stderr.close()
    assert command.wait() == 130, said
    assert "cut after" in said
    pack = unpacked([tmp_path / "out" / "gpuprof-gpu-all.tar.gz"])
    assert "gpuprof-gpu/steps/environment/versions.txt" in pack
    states = {row["name"]: row["state"] for row in json.loads(pack[MANIFEST])["steps"]}
    assert (states["environment"], states["killed"]) == ("well", "cut")


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
    run_steps(kit, named("environment", "run-launches", "killed"), steps(), again=False)
    outside = kit.places.result("run-launches")
    root = checkout(tmp_path)
    told = take_in([kit.places.out / "gpuprof-gpu-all.tar.gz"], root)
    assert told[0].startswith("NVIDIA H200: 3 steps")
    folder = root / "tests" / "data" / "gpu" / "nvidia-h200"
    index = read_json(folder / "index.json")
    kept = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert kept == {
        "index.json",
        *(f"{name}/{file}" for name, step in index["steps"].items() for file in step["files"]),
    }
    made = index["steps"]["run-launches"]["files"]["run/profile.ncu-rep"]
    assert made["command"][:4] == ["/opt/python/bin/python", "-m", "gpuprof", "run"]
    assert (made["code"], made["seconds"]) == (0, 0.25)
    assert made["bytes"] == (outside / "run" / "profile.ncu-rep").stat().st_size
    assert index["steps"]["run-launches"]["versions"]["ncu"] == "2025.3.1.0"
    page = (root / "docs" / "explanation" / "results.md").read_text()
    assert "driver 580.65.06, ncu 2025.3.1.0, python 3.12.3, torch 2.11.0" in page
    # Alone, under gpuprof, its survey, its profile, nothing again, no plan that says what it covers, ncu, passes.
    assert "| launches | 0.25 s | 0.25 s | 8.1 s | 65 s | – | – | – | 0.25 s | 9 |" in page
    assert "| A killed | exit code, --kill yes | 0 |" in page
    assert "(explanation/results.md)" in (root / "docs" / "index.md").read_text()
    written = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    elsewhere = {file for file in written if not file.startswith("tests/data/gpu/nvidia-h200/")}
    assert elsewhere == {"docs/index.md", "docs/explanation/results.md"}
    assert [launch.name for launch in read_report(folder / "run-launches" / "run" / "profile.ncu-rep")] == [
        "left",
        "right",
    ]
    plain = [file for file in (root / name for name in written) if file.suffix != ".gz"]
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
    assert len(found) == 7
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
