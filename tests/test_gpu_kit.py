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
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import parts
from benchmarks.diagnosis.case import Case
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.record import report_of
from benchmarks.diagnosis.score import judged, score
from benchmarks.diagnosis.table import case_rows, rate_rows
from benchmarks.diagnosis.worth import half
from benchmarks.gpu import agreement, aims, context, profiles, runner, take
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.context import PROGRAMS, Places, StepContext
from benchmarks.gpu.needs import NEEDS, environment, find_tools
from benchmarks.gpu.pack import MANIFEST, packed, write_whole
from benchmarks.gpu.profiles import planned_options, profile_of, spread, told_ms
from benchmarks.gpu.results import BEGIN, END
from benchmarks.gpu.runner import Kit, forecast_left_s, run_steps, scratch_folder
from benchmarks.gpu.scrub import Names, NotKept, in_report, in_value, names_here, scrubbed
from benchmarks.gpu.semantics import collections, expression, keep_names_of_metrics, options_listed
from benchmarks.gpu.steps import LIMIT_S, VISITS, Step, planted_rule, steps
from benchmarks.gpu.take import LARGEST_FILE, read_pack, take_in
from gpuprof.characterize.judge.verdict import VerdictWord
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.sheet.measured import MeasuredEvidence, MeasuredValue
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.collect.process import Ended
from gpuprof.errors import GpuprofError, InputError, UsageError
from gpuprof.model.recorded import FixedDetails, Launch
from gpuprof.read.ncu_rep import read_ncu_rep as read_report
from tests.hand_made import kernel
from tests.ncu_bytes import A100, simple_report
from tests.standin_gpu import HELP_2024, HELP_2025, METRICS, OPTIONS_2024, Machine, read_json, tools
from tests.table import each_row
from tests.test_measured_ceilings import made_up
from tests.torch_programs import PLAIN_TORCH, run_torch

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


def test_kernels_are_renamed_with_the_words_of_this_ncu_where_it_can(tmp_path: Path, machine: Machine) -> None:
    for kit in made_kit(tmp_path, help_text=HELP_2025):
        run_steps(kit, named("renamed-kernels"), steps(), again=False)
    renamed = [words[words.index("--rename-kernels") + 1] for words in machine.calls if "--rename-kernels" in words]
    assert renamed == ["on"] * 4 + ["off"] * 4


def test_the_collections_of_metrics_are_those_of_the_help() -> None:
    assert collections(HELP_2024) == ["profiling", "pmsampling"]
    assert collections("") == ["profiling"]


def test_a_long_expression_is_as_long_as_was_asked_for() -> None:
    text = expression(5000, "(.int.)?")
    assert 4800 < len(text) <= 5010
    assert re.compile(text)


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
        assert rows["run-transformer"]["reason"] == "only root may; Python has no torch"
        assert rows["agreement"]["reason"] == "it reads what default leaves"
        assert rows["default"]["state"] == "left"


def test_a_second_call_goes_on_with_what_is_missing(kit: Kit, machine: Machine) -> None:
    run_steps(kit, named("killed"), steps(), again=False)
    before = len(machine.calls)
    states = run_steps(kit, named("killed", "report-names"), steps(), again=False)
    assert states == {"killed": "well", "report-names": "well"}
    assert not [words for words in machine.calls[before:] if "--kill" in words]


def test_another_machine_goes_on_with_an_unpacked_pack(kit: Kit, machine: Machine, tmp_path: Path) -> None:
    run_steps(kit, named("killed"), steps(), again=False)
    (kit.places.out / "gpuprof-gpu-all.tar.gz").rename(tmp_path / "sent.tar.gz")
    shutil.rmtree(kit.places.out)
    for name, data in unpacked([tmp_path / "sent.tar.gz"]).items():
        place = kit.places.out / Path(name).relative_to("gpuprof-gpu")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    machine.calls.clear()
    kit.packs = tmp_path / "packs"
    kit.packs.mkdir()
    assert run_steps(kit, named("environment", "killed"), steps(), again=False) == {
        "environment": "well",
        "killed": "well",
    }
    assert machine.ncu_calls() == []
    (pack,) = kit.packs.iterdir()
    assert {name.split("/")[2] for name in unpacked([pack]) if "steps" in name} == {"environment", "killed"}


def test_a_failed_step_is_repeated_only_when_it_is_named(kit: Kit, machine: Machine) -> None:
    machine.before = lambda words, timeout_s: Ended(3, "no such thing", 0.1) if "characterize" in words else None
    assert run_steps(kit, named("quick"), steps(), again=False) == {"quick": "failed"}
    about = read_json(kit.places.result("quick") / "step.json")
    assert about["problems"] == ["characterize ended with 3: no such thing"]
    machine.before = lambda words, timeout_s: None
    assert run_steps(kit, named("quick"), steps(), again=False) == {"quick": "failed"}
    assert run_steps(kit, named("quick"), steps(), again=True) == {"quick": "well"}


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


def test_a_stop_between_two_commands_ends_the_step(kit: Kit, machine: Machine) -> None:
    def work(one: StepContext) -> None:
        one.call("first", ["first"])
        os.kill(os.getpid(), signal.SIGTERM)
        one.call("second", ["second"])

    chosen = [small_step("one", work), small_step("two", work)]
    assert run_steps(kit, chosen, chosen, again=False) == {"one": "cut", "two": "left"}
    assert machine.calls == [["first"]]


def test_a_step_that_fails_by_itself_is_told_and_the_next_one_runs(kit: Kit, machine: Machine) -> None:
    chosen = [small_step("one", lambda one: [].pop()), small_step("two", lambda one: one.figure("x", 1, "s"))]
    assert run_steps(kit, chosen, chosen, again=False) == {"one": "failed", "two": "well"}
    assert read_json(kit.places.result("one") / "step.json")["problems"] == ["IndexError: pop from empty list"]


def test_an_experiment_in_which_ncu_recorded_nothing_is_no_result(kit: Kit, machine: Machine) -> None:
    def nothing(words: list[str], timeout_s: float) -> Ended | None:
        if "--export" not in words:
            return None
        Path(words[words.index("--log-file") + 1]).write_text("==ERROR== no driver\n")
        return Ended(1, "", 0.1)

    machine.before = nothing
    assert run_steps(kit, named("killed"), steps(), again=False) == {"killed": "failed"}
    about = read_json(kit.places.result("killed") / "step.json")
    assert about["problems"] == ["ncu recorded nothing: ==ERROR== no driver"]


def test_of_ncu_s_metrics_and_options_the_names_are_kept(tmp_path: Path) -> None:
    (tmp_path / "metrics-a.out.txt").write_text(METRICS)
    (tmp_path / "metrics-b.out.txt.gz").write_bytes(gzip.compress(METRICS.encode()))
    (tmp_path / "metrics-none.out.txt").write_text("==ERROR== no driver\n")
    keep_names_of_metrics(tmp_path)
    rows = f"dram__bytes,Counter,byte\nsm__{'long_' * 18}name,Ratio,\nlts__throughput,Throughput,%\n"
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "metrics-a.csv": rows,
        "metrics-b.csv": rows,
    }
    text = (
        "usage: ncu\n  -h [ --help ]       Print.\n  --kill arg (=0)      Ends.\n                       --more words\n"
    )
    assert options_listed(text) == ["-h [ --help ]", "--kill arg (=0)"]


def test_the_full_set_takes_the_launches_that_gpuprof_has_planned(kit: Kit, machine: Machine) -> None:
    run_steps(kit, named("run-launches"), steps(), again=False)
    (full,) = (words for words in machine.ncu_calls() if "--set" in words)
    assert full[full.index("--kernel-id") + 1] == "::regex:^(left)$:^(3)$"
    assert full[full.index("--launch-count") + 1] == "10"
    told = read_json(kit.places.result("run-launches") / "step.json")["figures"]
    figures = {one["name"]: (one["value"], one["unit"]) for one in told}
    assert figures["its survey"] == (8.1, "s")
    assert figures["its profile, 9 passes each"] == (65, "s")
    assert set(figures) == {
        "alone", "under gpuprof run", "its survey", "its profile, 9 passes each",
        "under ncu --set full, the first 10 of the same launches",
    }  # fmt: skip


def test_without_a_plan_the_full_set_takes_the_first_launches(tmp_path: Path) -> None:
    assert planned_options(tmp_path / "session.json") == []
    (tmp_path / "session.json").write_text('{"sources": [{"kind": "ncu-rep", "command": null}]}')
    assert planned_options(tmp_path / "session.json") == []


def test_a_step_that_continues_has_what_it_had_also_on_another_machine(kit: Kit, machine: Machine) -> None:
    machine.before = lambda words, timeout_s: Ended(130, "", timeout_s, "timeout")

    def measuring(one: StepContext) -> None:
        (one.folder / "quick.samples.jsonl").write_text("{}\n")
        next(step for step in steps() if step.name == "quick").work(one)

    step = named("quick")[0]._replace(work=measuring)
    assert run_steps(kit, [step], steps(), again=False) == {"quick": "cut"}
    assert "--resume" in machine.calls[-1]
    shutil.rmtree(kit.places.work("quick"))
    machine.before = lambda words, timeout_s: None
    machine.calls.clear()
    assert run_steps(kit, named("quick"), steps(), again=False) == {"quick": "well"}
    assert "--resume" in machine.calls[-1]


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


def test_a_step_that_goes_on_is_begun_where_a_part_of_it_fits(kit: Kit, machine: Machine) -> None:
    chosen = [
        small_step("goes-on", lambda one: None, continues=True, forecast_s=400),
        small_step("by-parts", lambda one: None, forecast_s=400)._replace(least_s=80),
        small_step("whole", lambda one: None, forecast_s=100),
    ]
    kit.until = time.monotonic() + 70
    assert run_steps(kit, chosen, chosen, again=False) == {"goes-on": "well", "by-parts": "left", "whole": "left"}


def test_what_is_left_is_told_and_ends_the_command_with_75(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch"), "--visit", "A", "--minutes", "0.01"]
    monkeypatch.setattr("benchmarks.gpu.needs.find_tools", lambda *_: tools())
    assert main(words) == 75
    said = capsys.readouterr().err.splitlines()
    assert "run-transformer may take 130 s, more than is left of --minutes" in said
    assert "left, the same command goes on: environment (5 s), ask-ncu (20 s), passes (20 s)" in "\n".join(said)


CUT = Ended(130, "", 5.0, "timeout")


def cut_in_the_middle(kit: Kit, machine: Machine, step: Step, at: str) -> None:
    """Let the minutes be over while a command that has this word runs."""
    machine.before = lambda words, timeout_s: CUT if at in words else None
    kit.until = time.monotonic() + 300
    assert run_steps(kit, [step], steps(), again=False) == {step.name: "cut"}
    machine.before = lambda words, timeout_s: None
    kit.until = None
    machine.calls.clear()


@each_row("elsewhere", [False, True])
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


@each_row(("changed", "ran"), [("alone.out.txt", ["alone", "full"]), ("the program", ["gpuprof", "alone", "full"])])
def test_what_is_gone_or_has_changed_since_a_cut_runs_again(
    kit: Kit, machine: Machine, changed: str, ran: list[str]
) -> None:
    (step,) = named("run-triton")
    cut_in_the_middle(kit, machine, step, "full")
    if changed == "the program":
        step = step._replace(work=profile_of(lambda context: context.script("triton_softmax", "--launches", "3"), 40))
    else:
        (kit.places.work("run-triton") / changed).unlink()
    assert run_steps(kit, [step], steps(), again=False) == {"run-triton": "well"}
    assert len(machine.calls) == len(ran)
    about = read_json(kit.places.result("run-triton") / "step.json")
    assert [call["name"] for call in about["commands"]][-len(ran) :] == ran


def test_a_cut_step_needs_only_what_is_left_of_its_forecast(kit: Kit, machine: Machine) -> None:
    def work(one: StepContext) -> None:
        one.call("done", ["done"])
        one.call("it", ["it"])

    step = small_step("one", work, forecast_s=100)
    cut_in_the_middle(kit, machine, step, "it")
    file = kit.places.result("one") / "step.json"
    about = read_json(file)

    def left(done_s: float, ended_s: float, step: Step = step) -> float:
        rows = [{**row, "seconds": s} for row, s in zip(about["commands"], (done_s, ended_s), strict=True)]
        file.write_text(json.dumps({**about, "commands": rows, "seconds": done_s + ended_s}))
        return forecast_left_s(kit, step)

    # What was ended begins anew, and takes longer than it had.
    assert left(70, 10) == 30
    assert left(95, 4) == 20
    assert left(10, 80) == 100
    assert left(10, 120) == 150
    assert left(10, 430) == 400, "no step has more than that for one command"
    assert left(10, 60, step._replace(continues=True)) == 30, "this one goes on where it was cut"


def test_a_command_that_takes_longer_than_the_minutes_is_not_begun_again_in_vain(kit: Kit, machine: Machine) -> None:
    step = small_step("one", lambda one: one.call("it", ["it"]), forecast_s=100)
    machine.before = lambda words, timeout_s: Ended(130, "", 160.0, "timeout")
    kit.until = time.monotonic() + 165
    assert run_steps(kit, [step], steps(), again=False) == {"one": "cut"}
    by_parts = step._replace(least_s=60)
    assert run_steps(kit, [by_parts], steps(), again=False) == {"one": "cut"}
    assert len(machine.calls) == 1
    assert kit.tell.__self__[-1] == "one may take 200 s, more than is left of --minutes"  # type: ignore[attr-defined]
    kit.until, machine.before = time.monotonic() + 210, lambda words, timeout_s: None
    assert run_steps(kit, [by_parts], steps(), again=False) == {"one": "well"}


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


@each_row("what", ["replace", "remember"])
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


def test_what_is_kept_again_is_there_where_files_cannot_be_linked(
    kit: Kit, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(runner, "_KEPT_EVERY_S", 0.0)
    monkeypatch.setattr(os, "link", none)
    assert run_steps(kit, named("run-triton"), steps(), again=False) == {"run-triton": "well"}
    about = read_json(kit.places.result("run-triton") / "step.json")
    assert {row["file"] for row in about["left_out"]} == {"run/report.html"}
    assert (kit.places.result("run-triton") / "run" / "session.json").exists()


def test_the_time_that_characterize_took_is_that_of_all_its_calls(kit: Kit, machine: Machine) -> None:
    (step,) = named("quick")
    cut_in_the_middle(kit, machine, step, "characterize")
    file = kit.places.result("quick") / "step.json"
    file.write_text(json.dumps({**read_json(file), "seconds": 70.0}))
    assert run_steps(kit, [step], steps(), again=False) == {"quick": "well"}
    (figure,) = read_json(file)["figures"]
    assert 70 < figure["value"] < 80


def test_a_program_is_compiled_again_where_a_cut_step_goes_on_on_another_machine(kit: Kit, machine: Machine) -> None:
    (step,) = named("run-launches")
    cut_in_the_middle(kit, machine, step, "full")
    (kit.places.programs / "launches").unlink()
    assert run_steps(kit, [step], steps(), again=False) == {"run-launches": "well"}
    assert [Path(words[0]).name for words in machine.calls] == ["nvcc", "ncu"]


def test_what_a_command_has_left_is_in_the_pack_before_the_next_one_ends(
    kit: Kit, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_KEPT_EVERY_S", 0.0)
    packs: list[dict[str, bytes]] = []

    def before(words: list[str], timeout_s: float) -> None:
        if "full" in words:
            packs.append(unpacked([kit.places.out / "gpuprof-gpu-all.tar.gz"]))

    machine.before = before
    assert run_steps(kit, named("run-triton"), steps(), again=False) == {"run-triton": "well"}
    (pack,) = packs
    about = json.loads(pack["gpuprof-gpu/steps/run-triton/step.json"])
    assert about["state"] == "cut"
    assert [call["name"] for call in about["commands"]] == ["gpuprof", "alone"]
    assert "gpuprof-gpu/steps/run-triton/run/session.json" in pack
    assert not any(LEAKS.search(data) for name, data in pack.items() if not name.endswith("gz"))


def test_a_killed_call_has_kept_what_its_commands_had_left(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys, time
from pathlib import Path
from benchmarks.gpu import runner
from tests.test_gpu_kit import made_kit, small_step
runner._KEPT_EVERY_S = 0.0
def work(one):
    one.call("first", ["sh", "-c", "echo found; echo 1 > numbers.csv"])
    one.call("second", ["sh", "-c", "echo begun >second.csv; sleep 60"])
for kit in made_kit(Path({str(tmp_path)!r})):
    step = small_step("one", work)
    runner.run_steps(kit, [step], [step], again=False)
"""
    child = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    begun, until = tmp_path / "scratch" / "steps" / "one" / "second.csv", time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.05)
    child.kill()
    child.wait()
    pack = unpacked([tmp_path / "out" / "gpuprof-gpu-all.tar.gz"])
    assert pack["gpuprof-gpu/steps/one/numbers.csv"] == b"1\n"
    assert pack["gpuprof-gpu/steps/one/first.out.txt"] == b"found\n"
    ran: list[str] = []

    def work(one: StepContext) -> None:
        one.call("first", ["sh", "-c", "echo found; echo 1 > numbers.csv"])
        ran.extend(call.name for call in one.calls)

    for kit in made_kit(tmp_path):
        step = small_step("one", work)
        assert run_steps(kit, [step], [step], again=False) == {"one": "well"}
        about = read_json(kit.places.result("one") / "step.json")
        assert about["seconds"] >= about["commands"][0]["seconds"]
    assert ran == ["first"]


def test_a_long_command_is_not_begun_in_vain(kit: Kit, machine: Machine) -> None:
    (step,) = named("run-transformer-compiled")
    kit.until = time.monotonic() + 80
    assert run_steps(kit, [step], steps(), again=False) == {"run-transformer-compiled": "cut"}
    about = read_json(kit.places.result("run-transformer-compiled") / "step.json")
    assert [call["name"] for call in about["commands"]] == ["warm-up"]
    assert about["problems"] == ["gpuprof takes 90 s and was not begun: the time for this step was up"]
    kit.until = None
    assert run_steps(kit, [step], steps(), again=False) == {"run-transformer-compiled": "well"}


def test_a_story_has_a_step_for_each_version_and_compares_it_with_the_first(
    kit: Kit, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "programs"
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for version in ("v3", "repaired", "v2"):
        shutil.copyfile(folder / "story_cuda.cu", folder / f"story_cuda_{version}.cu")
        shutil.copyfile(folder / "story_cuda.cu", kit.places.programs / f"story_cuda_{version}.cu")
    monkeypatch.setattr("benchmarks.gpu.steps.PROGRAMS", folder)
    every = steps()
    stories = [step for step in every if step.name.startswith("story-")]
    assert [step.name for step in stories] == [
        "story-cuda", "story-cuda-repaired", "story-cuda-v2", "story-cuda-v3", "story-pytorch", "story-triton",
    ]  # fmt: skip
    assert all(step.forecast_s < 100 for step in stories)
    states = run_steps(kit, stories, every, again=False)
    assert set(states.values()) == {"well"}
    compared = [words for words in machine.calls if "compare" in words]
    assert [words[3:] for words in compared] == [["compare", "-v", "first/session.json", "run/session.json"]] * 3
    assert sum(words[-1].endswith("/story_cuda_v2") for words in machine.calls) == 4
    figures = [one["name"] for one in read_json(kit.places.result("story-cuda-v2") / "step.json")["figures"]]
    assert figures[:2] == ["alone", "under gpuprof run"]


def test_the_cost_of_a_pass_is_asked_with_the_command_that_gpuprof_prints(kit: Kit, machine: Machine) -> None:
    dry = subprocess.run(
        [sys.executable, "-m", "gpuprof", "run", "--dry-run", "--set", "diagnose", "--launch-count", "6",
         "--annotate", "off", "-o", "as-it-is", "--arch", "sm_90", "--", "/bin/true", "--saxpy", "6"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (kit.places.scratch / "printed.txt").write_text(dry)
    real = machine._printed
    machine._printed = lambda argv: dry if "--dry-run" in argv else real(argv)  # type: ignore[method-assign]
    assert run_steps(kit, named("cost-of-passes"), steps(), again=False) == {"cost-of-passes": "well"}
    ways = {Path(words[words.index("--export") + 1]).stem: words for words in machine.ncu_calls()}
    assert list(ways) == ["as-it-is", "caches", "source", "sampling", "opcodes", "time"]

    def of(way: str, option: str) -> str:
        return ways[way][ways[way].index(option) + 1]

    assert (of("as-it-is", "--cache-control"), of("caches", "--cache-control")) == ("all", "none")
    assert (of("as-it-is", "--import-source"), of("source", "--import-source")) == ("yes", "no")
    whole = set(of("as-it-is", "--metrics").split(","))
    assert {name.partition("__")[0] for name in whole - set(of("opcodes", "--metrics").split(","))} == {"sass"}
    assert {name for name in whole - set(of("sampling", "--metrics").split(",")) if "pcsamp" not in name} == set()
    assert of("time", "--metrics") == "gpu__time_duration.sum"
    assert all(words[-3:] == ["/bin/true", "--saxpy", "6"] for words in ways.values())


def test_a_long_step_that_goes_on_begins_where_a_minute_is_left(kit: Kit, machine: Machine) -> None:
    ran: list[str] = []
    step = small_step("long", lambda one: ran.append("long"), continues=True, forecast_s=400)
    kit.until = time.monotonic() + 55
    assert run_steps(kit, [step], [step], again=False) == {"long": "left"}
    kit.until = time.monotonic() + 65
    assert run_steps(kit, [step], [step], again=False) == {"long": "well"}
    assert ran == ["long"]


def test_counters_are_counted_by_the_samples_of_the_step_before(kit: Kit, machine: Machine) -> None:
    chosen = named("quick", "certificates")
    assert run_steps(kit, chosen, steps(), again=False) == {"quick": "well", "certificates": "well"}
    words = machine.calls[-1]
    assert {"--quick", "--verify-counters", "--resume", "--force"} < set(words)
    assert words[-2:] == ["-o", "certificates.measured.yaml"]
    samples = [kit.places.work(step.name) / f"{step.name}.samples.jsonl" for step in chosen]
    assert samples[0].read_text() == samples[1].read_text()


def test_counters_of_which_none_was_counted_are_a_failure(kit: Kit, machine: Machine) -> None:
    machine.counts = False
    chosen = named("quick", "certificates")
    assert run_steps(kit, chosen, steps(), again=False) == {"quick": "well", "certificates": "failed"}
    (problem,) = read_json(kit.places.result("certificates") / "step.json")["problems"]
    assert problem.startswith("there is no certificate")


def test_a_step_has_no_more_time_than_is_left_of_the_minutes(kit: Kit, machine: Machine) -> None:
    limits: list[float] = []
    machine.before = lambda words, timeout_s: limits.append(timeout_s)
    chosen = [small_step("one", lambda one: one.call("it", ["it"]))]
    kit.until = time.monotonic() + 20
    run_steps(kit, chosen, chosen, again=False)
    kit.until = None
    run_steps(kit, [chosen[0]._replace(name="two")], chosen, again=False)
    assert 15 < limits[0] <= 20
    assert LIMIT_S - 5 < limits[1] <= LIMIT_S


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


@each_row("name", ["kit.json", "manifest.json"])
def test_results_of_another_gpu_are_not_mixed_with_these(kit: Kit, machine: Machine, name: str) -> None:
    (kit.places.out / name).write_text('{"gpu": "NVIDIA L4"}')
    with pytest.raises(UsageError, match="has results of NVIDIA L4, this is NVIDIA H200"):
        run_steps(kit, named("environment"), steps(), again=False)


def test_a_scratch_folder_that_is_a_link_or_taken_is_refused(tmp_path: Path, kit: Kit) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for folder, why in ((tmp_path / "link", "not a folder of yours"), (kit.places.scratch, "another run has")):
        with pytest.raises(UsageError, match=why), scratch_folder(folder):
            pass


def test_the_spread_is_that_of_kernels_in_all_runs() -> None:
    def run(*seconds: float) -> dict[str, list[dict[str, object]]]:
        return {
            "kernels": [
                {"name": "f", "demangled": None, "grid": [1], "block": [1], "duration_s": one} for one in seconds
            ]
        }

    assert spread([run(1.0, 2.0), run(1.1, 2.0, 9.0)]) == pytest.approx([0.1, 0.0])
    assert spread([run(1.0)]) == []


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


def test_the_short_calls_of_the_readme_fit_and_have_all_that_is_left_of_a_and_d() -> None:
    text = (ROOT / "benchmarks" / "gpu" / "README.md").read_text(encoding="utf-8")
    forecast = {step.name: step.forecast_s for step in steps()}
    calls = re.findall(r"^\| `--minutes ([\d.]+) (.*)`(, twice)? \| ([\d, ]+) \|$", text, re.MULTILINE)
    asked: list[str] = []
    for minutes, options, twice, estimates in calls:
        names = re.findall(r"--only (\S+)", options)
        assert [forecast[name] for name in names] == [float(one) for one in estimates.split(", ")]
        # What finds the tools takes some seconds, and what is cut half a minute: a call lasts 200 s at most.
        assert sum(forecast[name] for name in names) <= (60 * float(minutes) - 8) * (2 if twice else 1)
        assert 60 * float(minutes) + 30 <= 200
        asked += names
    mine = [step.name for step in steps() if step.visit in "AD"]
    assert sorted(asked) == sorted(mine[mine.index("run-transformer") :])


def calls_by_estimates(visit: str, minutes: float) -> list[list[str]]:
    """The steps that end in each call, if each takes its estimate and what finds the tools takes eight seconds."""
    mine = [step for step in steps() if step.visit == visit]
    left = {step.name: step.forecast_s for step in mine}
    calls: list[list[str]] = []
    while any(left.values()) and len(calls) < 20:
        room, ended = 60 * minutes - 8, []
        for step in mine:
            rest = left[step.name]
            least = min(rest, step.least_s or (60 if step.continues else rest))
            if rest and least <= room and not any(left[name] for name in step.after):
                used = min(rest, room)
                left[step.name], room = rest - used, room - used
                ended += [step.name] if used == rest else []
        calls.append(ended)
    return calls


def test_the_readme_tells_how_many_short_calls_the_visits_of_the_chip_and_the_planted_cases_take() -> None:
    text = (ROOT / "benchmarks" / "gpu" / "README.md").read_text(encoding="utf-8")
    told = re.search(r"`--visit B --minutes 2.8`, (\d) times, of which the last (\d) .*"
                     r"`--visit C --minutes 2.8`, (\d) times", text)  # fmt: skip
    assert told is not None
    chip, planted = calls_by_estimates("B", 2.8), calls_by_estimates("C", 2.8)
    assert (len(chip), len(planted)) == (int(told[1]), int(told[3]))
    counted = next(number for number, ended in enumerate(chip, 1) if "counters" in ended)
    assert len(chip) - counted + 1 == int(told[2]), "what is left of the counters goes with the second measurement"
    assert planted[-1] == ["score", "repairs"]
    forecast = {step.name: step.forecast_s for step in steps()}
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|.*\| (\d+) s \|$", text, re.MULTILINE)
    of_chip = {name: 0.0 for step in steps() if step.visit == "B" for name in [step.name]}
    for names, estimate in rows:
        each = re.findall(r"`([a-z-]+)`", names)
        assert sum(forecast[name] for name in each) == float(estimate)
        of_chip.update(dict.fromkeys(each, 1.0))
    assert all(of_chip.values())


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


def test_planted_cases_are_recorded_those_worth_most_first() -> None:
    planted = [step for step in steps() if step.name.startswith("planted-")]
    assert planted[0].forecast_s < 60, "the first step shows early whether all is well"
    assert all(step.forecast_s < 120 and step.continues for step in planted)
    assert sum(step.forecast_s for step in planted) < 12 * 60
    assert sum(int(step.what.split()[0]) for step in planted) == len(load_cases())


def test_the_rule_of_a_case_is_read_as_its_file_is() -> None:
    for case in load_cases():
        assert planted_rule(case.source.with_suffix(".yaml")) == case.planted_rule


def test_planted_cases_that_are_left_are_gone_on_with(kit: Kit, machine: Machine) -> None:
    step = named("planted-1")[0]
    machine.before = lambda argv, timeout_s: Ended(75, "2 left, the same command goes on", 1.0)
    assert run_steps(kit, [step], steps(), again=False) == {"planted-1": "cut"}
    machine.before = lambda argv, timeout_s: None
    assert run_steps(kit, [step], steps(), again=False) == {"planted-1": "well"}


def test_where_the_first_planted_cases_all_failed_the_others_cost_no_time(kit: Kit, machine: Machine) -> None:
    first, second = named("planted-1", "planted-2")
    machine.before = lambda argv, timeout_s: Ended(1, "LibraryNotLoaded", 1.0)
    assert run_steps(kit, [first, second], steps(), again=False) == {"planted-1": "failed", "planted-2": "failed"}
    assert len(machine.calls) == 1
    machine.before = lambda argv, timeout_s: None
    assert set(run_steps(kit, [first, second], steps(), again=True).values()) == {"well"}


def test_later_planted_cases_can_be_asked_for_alone(kit: Kit, machine: Machine) -> None:
    assert run_steps(kit, named("planted-2"), steps(), again=True) == {"planted-2": "well"}


@each_row("held_out", [False, True])
def test_the_rates_of_a_score_are_told(kit: Kit, held_out: bool) -> None:
    """From the very table that the score prints."""
    cases = {half(case.name): case for case in load_cases() if case.planted_rule != "none"}
    chosen = cases.values() if held_out else [cases["tuned"]]
    outcomes = [judged(case, {name: kernel(0, name=name) for name in case.entries}, plain(case)) for case in chosen]
    context = StepContext(kit.places, kit.tools, {}, kit.places.out, until=time.monotonic() + 9)
    (kit.places.out / "score.out.txt").write_text("\n".join([*case_rows(outcomes), "", *rate_rows(outcomes)]))
    profiles._rates(context)
    told = {one.name: (one.value, one.unit) for one in context.figures}
    assert "case" not in told
    assert told["cause first"] == (0, f"of {len(outcomes)}")


def plain(case: Case) -> dict[str, Launch]:
    return {name: Launch(name, name, 0, details=FixedDetails(())) for name in case.entries}


def test_the_list_of_steps_needs_the_standard_library_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "benchmarks.gpu", "run", str(tmp_path / "out"), "--list", "--visit", "B"],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "gpuprof characterize --quick" in done.stdout
    assert "planted" not in done.stdout
    assert "Forecasts of visit A are from an H100" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_machine_without_anything_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.gpu.needs.find_nvcc", _nothing)
    monkeypatch.setattr("benchmarks.gpu.needs.choose_ncu", _nothing)
    found = find_tools({"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}, None, sys.executable)
    assert (found.ncu, found.nvcc, found.gpu) == (None, None, None)
    assert found.why_not(("gpu", "ncu")) == "nvidia-smi names no GPU; nothing here"
    assert found.why_not(("gpuprof",)) is None
    assert found.versions["python"].startswith("3.")


def _nothing(*_: object) -> Path:
    from gpuprof.errors import EnvironmentProblem

    raise EnvironmentProblem("nothing here")


def test_an_unknown_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "out"), "--only", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no step nothing\n")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert (
        main(["run", str(tmp_path / "file" / "out"), "--only", "killed", "--scratch", str(tmp_path / "scratch")]) == 1
    )
    assert f"error: cannot write {tmp_path}/file" in capsys.readouterr().err


def test_a_pack_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["take", str(tmp_path / "gpuprof-gpu-all.tar.gz")]) == 5
    assert capsys.readouterr().err.startswith("error: cannot read gpuprof-gpu-all.tar.gz")


def test_the_agreement_of_two_measured_files_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = made_up()
    slower = replace(base.values["bandwidth/dram-read"], value=8.5e11 * 0.9)
    files = tmp_path / "a.measured.yaml", tmp_path / "b.measured.yaml"
    for file, values in zip(files, (base.values, {**base.values, "bandwidth/dram-read": slower}), strict=True):
        file.write_text(measured_text(replace(base, values=values)))
    assert agreement.main(list(map(str, files))) == 0
    count, apart = capsys.readouterr().out.splitlines()
    agreeing, _, compared = count.split()[:3]
    assert int(agreeing) == int(compared) - 1 >= 0
    assert apart == "  bandwidth/dram-read: 0.9000 (worse)"


def test_a_measured_file_is_held_against_what_the_kernels_were_written_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def value(number: float, limit: float, unit: str, verdict: VerdictWord = "verified") -> MeasuredValue:
        return MeasuredValue(number, unit, verdict, () if verdict == "verified" else ("why",),
                             evidence=MeasuredEvidence(limit=limit))  # fmt: skip

    values = {
        "bandwidth/dram-read SCHEDULE=Static": value(4.4e12, 4.8e12, "B/s"),
        "bandwidth/dram-read SCHEDULE=Dynamic": value(4.55e12, 4.8e12, "B/s"),
        "bandwidth/l2-read SCHEDULE=Static LOADS=Weak": value(30e12, 12e12, "B/s", "rejected"),
        "bandwidth/shared-read WIDTH=16": value(125.5, 128, "B/clk/SM"),
        "bandwidth/shared-read WIDTH=8": value(127.9, 128, "B/clk/SM"),
        "instruction/ffma-throughput": value(250.0, 256, "FLOP/clk/SM"),
    }
    file = tmp_path / "a.measured.yaml"
    file.write_text(measured_text(replace(made_up(), values=values, curves={}, spec="h200-sxm")))
    assert aims.main([str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 of 6 aims are reached",
        "  bandwidth/dram-read SCHEDULE=Dynamic: 4.550 TB/s, verified; aimed at 4.512 TB/s",
        "  bandwidth/l2-read: not measured, at least 9.700 TB/s is aimed at",
        "  bandwidth/shared-read WIDTH=16: 98.0 % of its limit, verified; aimed at 98.0 % of its limit",
        "  bandwidth/l1-read WIDTH=16: not measured, at least 98.0 % of its limit is aimed at",
        "  tensor/wgmma-bf16-f32: not measured, at least 97.0 % of its limit is aimed at",
        "  instruction/ffma-throughput: 97.7 % of its limit, verified; aimed at 99.0 % of its limit",
    ]


@each_row(("product", "dram"), [("h100-sxm", 3.15e12), ("h200-sxm", 4.52e12), ("b200", None)])
def test_each_product_has_the_aims_of_its_memory(product: str, dram: float | None) -> None:
    value = MeasuredValue(dram or 1e12, "B/s", "verified", evidence=MeasuredEvidence(limit=8e12))
    name = "bandwidth/dram-read SCHEDULE=Static"
    held = aims.reached(replace(made_up(), values={name: value}, curves={}, spec=product))
    of_memory = [good for good, line in held if line.startswith(("bandwidth/dram", "bandwidth/l2"))]
    assert of_memory == ([True, False] if dram is not None else [])


def test_every_aim_is_a_value_that_a_probe_of_the_library_has() -> None:
    probes = {probe.id: probe for probe in load_probes(probe_folder())}
    for aim in aims.AIMS:
        name, _, rest = aim.value.partition(" ")
        probe, (series, _, chosen) = probes[name], rest.partition("=")
        assert probe.kernel is not None
        assert not rest or (series in probe.series and chosen in dict(probe.kernel.parameters)[series])


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


def test_a_user_named_like_a_key_breaks_no_record() -> None:
    names = Names((), (("speed", "user"),))
    assert in_value({"speed": ["speed of", ("a speed", 1)]}, names) == {"speed": ["user of", ["a user", 1]]}


def test_compressed_texts_are_opened_for_it() -> None:
    data = scrubbed("trace.json.gz", gzip.compress(SAYS.encode()), NAMES)
    assert gzip.decompress(data) == b"/gpuprof/train.py of user on host"


@each_row(
    ("name", "data", "why"),
    [
        ("page.html", b"", "of the kind .html"),
        ("core", b"", "without a suffix"),
        ("x.txt", b"a\0b", "no text"),
        ("x.json.gz", b"no gzip", "cannot be unpacked"),
        ("x.tar.gz", b"", "of the kind .gz"),
        ("x.ncu-rep", b"\x28\xb5\x2f\xfd", "compressed, or cut off"),
    ],
)
def test_what_cannot_be_looked_into_is_not_kept(name: str, data: bytes, why: str) -> None:
    with pytest.raises(NotKept, match=why):
        scrubbed(name, data, NAMES)


def test_a_report_keeps_its_length_and_its_numbers() -> None:
    data = Machine(SAYS).report()
    kept = scrubbed("a.ncu-rep", data, NAMES)
    assert len(kept) == len(data)
    assert not LEAKS.search(kept)
    assert in_report(kept, NAMES) == kept
    assert scrubbed("a.ncu-rep", Machine("all is well").report(), NAMES) == Machine("all is well").report()


def test_a_short_name_among_numbers_of_a_report_is_no_name() -> None:
    names = Names((), (("bob", "user"),))
    assert in_report(b"\x01\x02bob\x03\x04\x05\x06\x07\x08", names) == b"\x01\x02bob\x03\x04\x05\x06\x07\x08"
    assert in_report(b"run by bob today", names) == b"run by xxx today"


@each_row("name", ["cudacode-profile", "gpu_workshop-MW_DivToMult"])
def test_a_real_report_reads_the_same_without_its_names(reports: Path, tmp_path: Path, name: str) -> None:
    data = (reports / f"{name}.ncu-rep").read_bytes()
    people = re.findall(rb"/home/([^/\x00-\x20]+)/", data)
    names = Names((), tuple((person.decode(), "user") for person in dict.fromkeys(people)))
    kept = scrubbed("a.ncu-rep", data, names)
    (tmp_path / "kept.ncu-rep").write_bytes(kept)
    assert len(kept) == len(data)
    assert people and not any(person in kept for person in people)
    before, after = (all_values(file) for file in (reports / f"{name}.ncu-rep", tmp_path / "kept.ncu-rep"))
    assert len(before) > 100
    assert before == after


def all_values(file: Path) -> list[tuple[str, object]]:
    """Every number of every launch, as NVIDIA's own reader gives it, with those of each instance."""
    import ncu_report

    found: list[tuple[str, object]] = []
    for one in (action for part in ncu_report.load_report(str(file)) for action in part):
        for name in one.metric_names():
            metric = one[name]
            value = metric.value()
            if not isinstance(value, str):
                instances = [metric.as_double(index) for index in range(metric.num_instances())]
                found.append((name, (value, instances)))
    return found


def test_this_machine_s_own_names_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-box-3.example.org")
    monkeypatch.setattr("socket.getfqdn", lambda: "gpu-box-3.example.org")
    monkeypatch.setattr("getpass.getuser", lambda: "jdoe")
    monkeypatch.setenv("HOME", "/home/jdoe")
    found = names_here([(tmp_path, "/out")])
    assert {name for name, _ in found.identities} == {"gpu-box-3.example.org", "gpu-box-3", "jdoe"}
    assert found.folders == tuple(
        sorted(((str(tmp_path), "/out"), ("/home/jdoe", "/home/user")), key=lambda one: -len(one[0]))
    )
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setenv("HOME", "/root")
    assert "root" not in {name for name, _ in names_here([]).identities}


def test_a_large_pack_is_cut_into_parts_and_stale_ones_go(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"old")
    (tmp_path / "a.tar.gz.part9").write_bytes(b"old")
    data = {f"f{number}": os.urandom(30_000) for number in range(5)}
    pieces = [parts.fragment([one]) for one in data.items()]
    files = parts.write_parts(tmp_path / "a.tar.gz", [*pieces, parts.end()], 40_000)
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"a.tar.gz.part{number}" for number in (1, 2, 3, 4)]
    assert max(file.stat().st_size for file in files) == 40_000
    assert unpacked(files) == data
    assert [file.name for file in parts.write_parts(tmp_path / "a.tar.gz", [*pieces[:1], parts.end()], 40_000)] == [
        "a.tar.gz"
    ]
    assert len(list(tmp_path.iterdir())) == 1


def test_reports_are_packed_by_worth_until_the_pack_is_full(tmp_path: Path) -> None:
    for step in ("first", "second"):
        folder = tmp_path / "steps" / step
        folder.mkdir(parents=True)
        (folder / "step.json").write_text("{}")
        for name in ("profile.ncu-rep", "full.ncu-rep"):
            (folder / name).write_bytes(os.urandom(200_000))
        (folder / "käse.txt").write_text("no name for an archive")
    files = packed(tmp_path, "all", ["first", "second"], {}, part_bytes=300_000, most_parts=3)
    assert len(files) <= 3
    pack = unpacked(files)
    assert [name.split("steps/")[1] for name in pack if "steps" in name] == [
        "first/step.json", "second/step.json", "first/profile.ncu-rep", "second/profile.ncu-rep", "first/full.ncu-rep",
    ]  # fmt: skip
    left_out = {row["file"]: row["why"] for row in json.loads(pack[MANIFEST])["left_out"]}
    assert left_out == {
        "gpuprof-gpu/steps/second/full.ncu-rep": "the pack is full",
        "first/käse.txt": "its name", "second/käse.txt": "its name",
    }  # fmt: skip


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
    assert told[0] == "NVIDIA H200: 3 steps in nvidia-h200/, 0 files left out"
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
    assert "\n### NVIDIA H200\n\ndriver 580.65.06, ncu 2025.3.1.0, python 3.12.3, torch 2.11.0.\n" in page
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


def test_reports_of_planted_cases_are_kept_compressed_and_scored_as_they_are(
    kit: Kit, machine: Machine, tmp_path: Path
) -> None:
    """They are so many that a repository would not take them all."""
    launches = [(name, {**A100, "gpu__time_duration.sum": 2e6}) for name in ("slow", "fixed")]
    plain_report = simple_report(launches)
    files = {"particle-step.ncu-rep": plain_report, "step.json": b'{"state": "well", "visit": "C"}'}
    root = checkout(tmp_path)
    assert take_in([a_pack(tmp_path, files)], root)[0].endswith("0 files left out")
    folder = root / "tests" / "data" / "gpu" / "nvidia-h200"
    (kept,) = read_json(folder / "index.json")["steps"]["one"]["files"]
    assert kept == "particle-step.ncu-repz"
    assert report_of(folder, "particle-step") == folder / "one" / kept
    assert (folder / "one" / kept).stat().st_size < len(plain_report)
    (outcome,), problems = score(load_cases(["particle-step"]), folder)
    assert (problems, outcome.real) == ([], 0.0)


def test_a_later_pack_replaces_its_steps_and_leaves_the_others_and_the_prose(
    kit: Kit, machine: Machine, tmp_path: Path
) -> None:
    root, archive = checkout(tmp_path), kit.places.out / "gpuprof-gpu-all.tar.gz"
    run_steps(kit, named("killed"), steps(), again=False)
    take_in([archive], root)
    page = root / "docs" / "explanation" / "results.md"
    page.write_text(page.read_text() + "\nWhat we make of it.\n")
    shutil.rmtree(kit.places.result("killed"))
    shutil.rmtree(kit.places.out / "pieces")
    run_steps(kit, named("report-names"), steps(), again=False)
    take_in([archive], root)
    index = read_json(root / "tests" / "data" / "gpu" / "nvidia-h200" / "index.json")
    assert set(index["steps"]) == {"killed", "report-names"}
    assert page.read_text().count("### NVIDIA H200\n") == 1
    assert page.read_text().count("\n| A ") == 3
    assert page.read_text().endswith("\nWhat we make of it.\n")
    assert (root / "docs" / "index.md").read_text().count("results.md") == 1


def test_a_cut_step_does_not_take_the_place_of_a_whole_one(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    for state, text in (("cut", "a"), ("well", "b"), ("cut", "c"), ("failed", "d")):
        told = take_in(
            [a_pack(tmp_path, {"x.txt": text.encode(), "step.json": b'{"state": "%s"}' % state.encode()})], root
        )
        if text == "c":
            assert told[0] == "NVIDIA H200: one was cut, and is here from a run that was not"
        found = next(root.rglob("one/x.txt")).read_text()
        assert found == {"a": "a", "b": "b", "c": "b", "d": "d"}[text]


def test_what_ncu_says_of_its_metrics_is_not_taken_where_a_cut_has_left_it(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    files = {"metrics-profiling.out.txt.gz": gzip.compress(b"described"), "version.out.txt": b"1",
             "step.json": b'{"state": "cut"}'}  # fmt: skip
    told = take_in([a_pack(tmp_path, files)], root)
    assert told[1] == "  left out one/metrics-profiling.out.txt.gz: NVIDIA's own words"
    assert [file.name for file in root.rglob("one/*")] == ["version.out.txt"]


def test_what_is_too_large_for_the_repository_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take, "LARGEST_DATA", LARGEST_FILE + 10_000)
    big, fitting = b"x" * (LARGEST_FILE + 1), b"y" * (LARGEST_FILE - 10)
    files = {"big.txt": big, "fitting.txt": fitting, "next.txt": fitting, "step.json": b'{"state": "well"}'}
    told = take_in([a_pack(tmp_path, files)], checkout(tmp_path))
    assert told[0].endswith("2 files left out")
    assert [line.split(":")[0] for line in told[1:3]] == ["  left out one/next.txt", "  left out one/big.txt"]


def a_pack(folder: Path, files: dict[str, bytes], manifest: dict[str, object] | None = None) -> Path:
    """A pack with one step."""
    about = {"kind": "gpuprof-gpu", "schema": 1, "gpu": "NVIDIA H200"} | (manifest or {})
    members = [(f"gpuprof-gpu/steps/one/{name}", data) for name, data in files.items()]
    file = folder / "gpuprof-gpu-all.tar.gz"
    file.write_bytes(parts.fragment([*members, (MANIFEST, json.dumps(about).encode())]) + parts.end())
    return file


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


@each_row("cut", [1, 20, 200, 900])
def test_a_pack_that_is_cut_or_altered_is_told(cut: int, tmp_path: Path) -> None:
    data = a_pack(tmp_path, {"x.txt": os.urandom(1000), "step.json": b"{}"}).read_bytes()
    for bad in (data[:-cut], data[:cut] + b"\xff\xff" + data[cut + 2 :], b"", b"no archive"):
        try:
            read_pack(bad)
        except GpuprofError:
            continue
        assert cut < 100 and bad != b"", "only what ends the archive may be missing"


@each_row(
    ("names", "why"),
    [
        (("a.tar.gz.part1", "a.tar.gz.part3"), "part 2 of a.tar.gz is missing"),
        (("a.tar.gz", "a.tar.gz.part1"), "as a whole and in parts"),
        (("a.tar.gz", "b/a.tar.gz"), "named twice"),
    ],
)
def test_parts_must_be_there_once(names: tuple[str, ...], why: str, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(GpuprofError, match=why):
        take_in([tmp_path / name for name in names], checkout(tmp_path))


def test_parts_are_joined_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    data = a_pack(tmp_path, {"x.txt": os.urandom(1000), "step.json": b'{"state": "well"}'}).read_bytes()
    files = [tmp_path / f"g.tar.gz.part{number}" for number in range(1, 12)]
    size = -(-len(data) // len(files))
    for number, file in enumerate(files):
        file.write_bytes(data[number * size : (number + 1) * size])
    assert take_in(sorted(files), checkout(tmp_path))[0].startswith("NVIDIA H200: 1 steps")


def test_hostile_words_in_a_pack_end_on_no_page_and_name_no_folder(tmp_path: Path) -> None:
    step = {
        "state": "well\x1b[2J", "visit": "A|B", "problems": ["<script>alert(1)</script> | x"],
        "versions": {"ncu": "1\n|"}, "commands": [3, {"files": 1}, {"files": ["x.txt"], "words": 5, "code": "x"}],
        "figures": [{"name": "[x](http://y)", "value": 1e400, "unit": "s"}, 7, {"value": True}],
    }  # fmt: skip
    files = {"step.json": json.dumps(step).encode(), "x.txt": b"x"}
    root = checkout(tmp_path)
    take_in([a_pack(tmp_path, files, {"gpu": "../../../Evil <b>GPU", "left_out": [{"file": "../x"}, 4]})], root)
    assert [path.name for path in (root / "tests" / "data" / "gpu").iterdir()] == ["evil-b-gpu"]
    page = (root / "docs" / "explanation" / "results.md").read_text()
    assert "\x1b" not in page
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert any("Evil" in line for line in lines) and len(rows) == 5
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert not re.search(r"(?<!\\)[<\[]", "".join(lines))


# The programs


def test_every_program_in_python_compiles(tmp_path: Path) -> None:
    found = sorted(PROGRAMS.glob("*.py"))
    assert len(found) == 7
    for program in found:
        py_compile.compile(str(program), cfile=str(tmp_path / "x.pyc"), doraise=True)


def test_the_cuda_programs_compile(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc to compile with")
    words = [nvcc, "-O3", "-std=c++17", "-lineinfo", "-c", "-arch=sm_90", "-o", str(tmp_path / "x.o")]
    for program in PROGRAMS.glob("*.cu"):
        subprocess.run([*words, str(program)], check=True, timeout=120)


def test_the_programs_of_pytorch_run_on_a_processor(tmp_path: Path) -> None:
    shutil.copytree(PROGRAMS, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    small = ("--steps", "2", "--batch", "1", "--length", "16", "--width", "64")
    story = ("--steps", "12", "--batch", "4", "--length", "32", "--width", "128", "--layers", "1")
    server = ("--requests", "2", "--tokens", "3", "--pause", "0")
    for words in (("transformer.py", *small), ("server.py", *server), ("story_pytorch.py", *story)):
        done = run_torch((words[0], "--device", "cpu", *words[1:]), tmp_path, PLAIN_TORCH)
        assert done.stdout.endswith(": right\n")
    (tmp_path / "told.txt").write_text(done.stdout)
    value, what = told_ms(tmp_path / "told.txt")
    assert value is not None and value > 0 and what == "a step"


FORMULAS = """
import torch, story_pytorch as story
from torch.nn import functional
torch.manual_seed(1)
x, attention = torch.randn(2, 17, 128), story.Attention(128, 2)
cut = (each(x).view(2, 17, 2, 64).transpose(1, 2) for each in (attention.query, attention.key, attention.value))
seen = functional.scaled_dot_product_attention(*cut, is_causal=True).transpose(1, 2).reshape(2, 17, 128)
for mine, theirs in (
    (story.Norm(128)(x), functional.layer_norm(x, (128,))),
    (story.gelu(x), functional.gelu(x, approximate="tanh")),
    (attention(x), attention.output(seen)),
):
    print(bool((mine - theirs).abs().max() < 1e-5))
"""


def test_the_formulas_of_the_story_are_those_of_pytorch(tmp_path: Path) -> None:
    shutil.copyfile(PROGRAMS / "story_pytorch.py", tmp_path / "story_pytorch.py")
    (tmp_path / "formulas.py").write_text(FORMULAS)
    assert run_torch(("formulas.py",), tmp_path, PLAIN_TORCH).stdout.split() == ["True"] * 3


@each_row(
    ("said", "told"),
    [
        ("heat: 100 steps, checksum 1.0, last change 0.1, 312.500 ms on the GPU: right\n", (312.5, "on the GPU")),
        ("linear: checksum 1.0, 0.750 ms a call: right\n", (0.75, "a call")),
        ("language model: checksum 5.9, 27.8 ms a step: WRONG\n", (27.8, "a step")),
        ("nothing\n", (None, "")),
    ],
)
def test_the_time_that_a_story_tells_is_read(said: str, told: tuple[float | None, str], tmp_path: Path) -> None:
    (tmp_path / "told.txt").write_text(said)
    assert told_ms(tmp_path / "told.txt") == told


def test_the_programs_are_asked_for_by_options_that_they_have(kit: Kit, machine: Machine) -> None:
    text = (PROGRAMS / "launches.cu").read_text() + "".join(file.read_text() for file in PROGRAMS.glob("*.py"))
    run_steps(kit, steps(), steps(), again=False)
    ran = [words for words in machine.calls if "/programs/" in " ".join(words[:2])]
    used = {word for words in ran for word in words if word.startswith("--")}
    assert used >= {"--streams", "--empty", "--compile", "--autotune"}
    assert {option for option in used if f'"{option}"' not in text} == set()
