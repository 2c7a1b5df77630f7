"""The first run of `gpuprof run` by PyTorch's profiler and by Nsight Systems; programs stand in for what they write."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from gpuprof.collect.machine import Machine
from gpuprof.collect.survey_tools import find_nsys, tools_for
from gpuprof.model.recorded import Report
from gpuprof.read.files import read_file
from gpuprof.recordings import recordings
from tests.cli import gpuprof
from tests.made_launches import MadeLaunch, launches_step
from tests.readings import unpacked
from tests.test_run import Bench, bench, value_after
from tests.test_traces import export

assert bench  # a fixture

GEMMS = unpacked(next(recording for recording in recordings() if recording.name == "a10g-sgemm"))

RECORDS = """
import os, shutil, sys
folder = os.environ.get("GPUPROF_SURVEY_TO")
print("first" if folder else "again")
if folder:
    for number, name in enumerate(sys.argv[2:]):
        shutil.copyfile(name, f"{folder}/torch-{number}.pt.trace.json.gz")
    open(f"{folder}/torch-9.note", "w").write("recording ended early\\n")
sys.exit(int(sys.argv[1]))
"""
"""Stands in for a program in which PyTorch records itself, if it is asked to."""
NSYS = """#!/bin/sh
case "$*" in *--version*) exit 0;; esac
for word in "$@"; do case "$word" in --output=*) cp "$EXPORT" "${word#--output=}.sqlite";; esac; done
exit 0
"""


def as_pytorch_writes(nvidia: str) -> str:
    return nvidia.replace("(int)", "").replace(" *", "*").replace("const float*", "float const*")


def hand_made_trace(report: Path, place: Path) -> Path:
    """Write a trace with the kernels and times of a real report, launched by an operator in a module each."""
    events, clock = [], 1000.0
    found = read_file(str(report))
    assert isinstance(found, Report)
    for number, launch in enumerate(found):
        duration = (launch.metrics.number("gpu__time_duration.sum") or 0) * 1e6
        call = {"ph": "X", "pid": 1, "tid": 1}
        events += [
            {**call, "cat": "user_annotation", "name": f"layer.{number}", "ts": clock, "dur": 9},
            {**call, "cat": "cpu_op", "name": "aten::mm", "ts": clock + 1, "dur": 7, "args": {}},
            {**call, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": clock + 2, "dur": 5,
             "args": {"correlation": number + 1}},
            {"ph": "X", "cat": "kernel", "name": as_pytorch_writes(launch.demangled), "pid": 0, "tid": 7,
             "ts": clock + 100, "dur": duration, "args": {"device": 0, "stream": 7, "correlation": number + 1,
                                       "grid": list(launch.grid or ()), "block": list(launch.block or ())}},
        ]  # fmt: skip
        clock += duration + 2000
    device = {"id": 0, "name": found.devices[0].name, "computeMajor": 8, "computeMinor": 6, "numSms": 80}
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events})
    place.write_bytes(gzip.compress(text.encode()))
    return place


def recorded(bench: Bench, *options: str, traces: tuple[Path, ...], code: int = 0) -> subprocess.CompletedProcess[str]:
    (bench.folder / "train.py").write_text(RECORDS)
    program = (sys.executable, "train.py", str(code), *map(str, traces))
    return bench.run("--survey", "torch", *options, program=program)


def test_a_program_is_surveyed_by_pytorch_and_profiled_by_demangled_names(bench: Bench) -> None:
    bench.steps({"report": str(GEMMS), "program": True})
    done = recorded(bench, traces=(hand_made_trace(GEMMS, bench.folder / "t.json.gz"),))
    assert done.returncode == 0, done.stderr
    assert "PyTorch" in done.stderr and "recording ended early" in done.stderr
    assert done.stdout.startswith("first\n") and "again" not in done.stdout
    (words,) = bench.calls
    assert value_after(words, "--kernel-name-base") == "demangled"
    assert "survey.pt.trace.json.gz" in bench.left() and ".survey" not in bench.left()
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert [source["kind"] for source in session["sources"]] == ["ncu-rep", "torch-trace survey"]
    assert "GPUPROF_SURVEY_BY=torch" in session["sources"][1]["command"]
    assert len(session["devices"]) == 1
    most = max(session["kernels"], key=lambda kernel: kernel["time_share"])
    assert most["duration_source"] == "survey" and most["throughput"]
    rules = {finding["rule"] for kernel in session["kernels"] for finding in kernel["findings"]}
    assert {"launch-gaps", "l1-bandwidth"} <= rules
    assert most["ranges"][-1] == "aten::mm" and most["ranges"][0].startswith("layer.")
    (device,) = session["timeline"]["devices"]
    assert (device["source"], device["device"], device["gaps"]["count"]) == (1, 0, 2)
    assert session["timeline"]["source_ranks"] == [None, None]
    assert {wait["kernel"] for wait in session["timeline"]["waits"]} <= {one["id"] for one in session["kernels"]}
    page = (bench.folder / "out/report.html").read_text()
    assert "<svg" in page and "idle 2.00" in page


def test_times_by_pytorch_need_neither_ncu_nor_permission(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(RECORDS)
    trace = hand_made_trace(GEMMS, bench.folder / "t.json.gz")
    environ = {**bench.environ, "PATH": "/nonexistent", "COLUMNS": "100"}
    for name in ("CUDA_HOME", "CUDA_PATH"):
        environ.pop(name, None)
    words = ["--set", "times", "--survey", "torch", "-o", "out", "--", sys.executable, "train.py", "0", str(trace)]
    done = gpuprof("run", *words, cwd=bench.folder, environ=environ)
    assert done.returncode == 0, done.stderr
    assert "ncu" not in done.stderr and bench.calls == []
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert [source["kind"] for source in session["sources"]] == ["torch-trace survey"]
    assert session["timeline"]["devices"] and {kernel["duration_source"] for kernel in session["kernels"]} == {"survey"}


def test_what_pytorch_did_not_see_ends_the_run_and_leaves_no_survey(bench: Bench) -> None:
    done = recorded(bench, traces=())
    assert done.returncode == 3 and "--survey ncu" in done.stderr
    cpu_only = bench.folder / "cpu.json.gz"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "args": {}}
    cpu_only.write_bytes(gzip.compress(json.dumps({"traceEvents": [event]}).encode()))
    done = recorded(bench, "--force", traces=(cpu_only,))
    assert done.returncode == 3 and not list((bench.folder / "out").glob("survey*"))
    done = bench.run("--survey", "cupy")
    assert done.returncode == 2 and "auto, torch, nsys, cupti, ncu" in done.stderr
    done = bench.run("--survey", ".")
    assert done.returncode == 2 and "--survey .: not a regular file" in done.stderr


def nsys_on_path(bench: Bench, export: Path) -> None:
    place = bench.folder / "bin/nsys"
    place.parent.mkdir()
    place.write_text(NSYS)
    place.chmod(0o755)
    bench.environ |= {"PATH": f"{place.parent}:{os.environ['PATH']}", "EXPORT": str(export)}


def test_a_program_is_surveyed_by_nsight_systems(bench: Bench) -> None:
    nsys_on_path(bench, export(bench.folder / "e.sqlite", kernels=3))
    saxpy = MadeLaunch("_Z5saxpyIfEvi", "void saxpy<float>(int)", grid=(4, 1, 1), block=(256, 1, 1))
    bench.steps(launches_step([saxpy] * 3))
    done = bench.run("--survey", "nsys", "--arch", "sm_86")
    assert done.returncode == 0, done.stderr
    assert "3 launches (1.50 µs)" in done.stderr
    assert value_after(bench.calls[0], "--launch-count") == "3"
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert session["sources"][1]["command"] == "env '…/nsys' '…'"
    assert session["timeline"]["devices"][0]["source"] == 1


def machine_with_driver(root: Path) -> Machine:
    place = root / "proc/driver/nvidia/version"
    place.parent.mkdir(parents=True)
    place.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul\n")
    return Machine(root)


def test_tools_are_tried_from_the_least_disturbing_on(tmp_path: Path) -> None:
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    machine = machine_with_driver(tmp_path / "root")
    assert tools_for(["true"], environ, Machine(tmp_path / "none")) == ("ncu",)
    assert tools_for(["true"], environ, machine) == ("ncu",)
    for version in ("2024.10.1", "2024.9.2"):
        nsys = tmp_path / f"root/opt/nvidia/nsight-systems/{version}/bin/nsys"
        nsys.parent.mkdir(parents=True)
        nsys.write_text(NSYS)
        nsys.chmod(0o755)
    assert (find_nsys(environ, machine) or "").endswith("2024.10.1/bin/nsys")
    assert tools_for(["true"], environ, machine) == ("nsys", "ncu")
