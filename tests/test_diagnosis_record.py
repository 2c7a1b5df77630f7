"""Recording the planted bottlenecks: what runs under ncu, on the host in the GPU's place, and what a run must leave."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs

import gpuprof
from benchmarks.diagnosis import record
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.progress import Step, tell
from benchmarks.diagnosis.record import BATCHES, RECORDED, recorded
from benchmarks.diagnosis.split import split
from gpuprof.collect.machine import InstalledGpu
from gpuprof.read.ncu_rep import read_ncu_rep
from tests.ncu_bytes import A100, block, nvtx_state, report, session_details
from tests.ncu_bytes import launch as launch_message
from tests.table import each_row

RECORDINGS = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
STANDIN = Path(__file__).with_name("standin_ncu.py")
# The process that ran ncu leaves its pipe to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# What runs under ncu


# What a run must leave

"""In the place of the program that launches: it writes lines of a file to its progress, those of its cases."""


SAYS = """
import sys
from pathlib import Path
progress, names = Path(sys.argv[3]), sys.argv[4:]
for line in Path({said!r}).read_text().splitlines():
    if line.split('"')[1] in names:
        with progress.open("a") as lines:
            lines.write(line + chr(10))
        if "begun" in line:
            break
"""


def reports(folder: Path, *launches: str, ranges: Mapping[int, str] | None = None) -> str:
    """A report with launches of these kernels; `ranges`: the NVTX range around launches, by their number."""
    metrics = {**A100, "gpu__time_duration.sum": 1e6}
    numbered = dict(enumerate(metrics.values()))
    around = ranges or {}
    made = [
        launch_message(name, numbered, results=nvtx_state([around[number]] if number in around else ()))
        for number, name in enumerate(launches)
    ]
    file = folder / f"made-{len(list(folder.glob('made-*')))}.ncu-rep"
    file.write_bytes(report(block([], session=session_details()), block(made, list(metrics), process=7)))
    return str(file)


def recording(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *steps: Mapping[str, object],
    names: Sequence[str] = ("particle-step",),
    said: Sequence[tuple[str, Step]] | None = None,
    capability: str = "9.0",
    seconds: float = math.inf,
) -> tuple[list[str], list[str], Path]:
    """Record cases with a stand-in for ncu; return the problems, what was told, and the folder.

    `said`: how far each case comes, whenever it is its turn; without, all come to a good end.
    """
    (folder / "steps.json").write_text(json.dumps([{"program": True, **step} for step in steps]))
    (folder / "calls.json").unlink(missing_ok=True)
    (folder / "said").unlink(missing_ok=True)
    for name, step in said or [(name, Step("agrees")) for name in names]:
        tell(folder / "said", name, step)
    (folder / "says.py").write_text(SAYS.format(said=str(folder / "said")))
    monkeypatch.setenv("STANDIN", str(folder))
    monkeypatch.setattr(record, "PROGRAM", (sys.executable, str(folder / "says.py")))
    monkeypatch.setattr(record, "choose_ncu", lambda environ, named=None: SimpleNamespace(path=STANDIN))
    monkeypatch.setattr(record, "gpus_here", lambda environ: (InstalledGpu("a GPU", capability, "580", False, True),))
    heard: list[str] = []
    out = folder / "out"
    done = record.record(load_cases(names), out, 0, heard.append, seconds=seconds)
    heard += [f"left: {name}" for name in done.left]
    return list(done.problems), heard, out


def calls(folder: Path) -> list[list[str]]:
    """The cases that each run of ncu was asked for."""
    every = json.loads((folder / "calls.json").read_text())
    return [words[words.index(str(folder / "says.py")) + 4 :] for words in every]


def kernels_in(file: Path) -> list[str]:
    return [launch.name for launch in read_ncu_rep(file)]


def test_a_report_with_both_kernels_is_kept_with_the_version_of_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reports(tmp_path, "slow", "fixed")
    problems, _, out = recording(tmp_path, monkeypatch, {"report": made})
    assert problems == []
    assert sorted(file.name for file in out.iterdir()) == ["particle-step.ncu-rep", RECORDED]
    assert recorded(out) == {"particle-step": load_cases(["particle-step"])[0].digest()}
    words = json.loads((tmp_path / "calls.json").read_text())[0]
    assert words[words.index("--profile-from-start") + 1] == "off"
    assert words[words.index("--apply-rules") + 1] == "yes"
    assert "--set" not in words
    assert "PmSampling" not in words
    again, heard, _ = recording(tmp_path, monkeypatch)
    assert (again, len(heard)) == ([], 1)
    (out / RECORDED).write_text('{"particle-step": "older"}')
    recording(tmp_path, monkeypatch, {"report": made})
    assert recorded(out) == {"particle-step": load_cases(["particle-step"])[0].digest()}


THREE = ("particle-step", "matrix-transpose", "scaled-add")
TOGETHER = ("slow", "fixed", "slow", "fixed", "fixed")


@each_row("order", [(0, 1, 2, 3, 4), None])
def test_the_report_of_several_cases_is_cut_into_one_a_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...] | None
) -> None:
    """By the ranges around launches; where there is none, by their order."""
    cases = [THREE[0]] * 2 + [THREE[1]] * 2 + [THREE[2]]
    ranges = {number: cases[number] for number in order} if order is not None else None
    made = reports(tmp_path, *TOGETHER, ranges=ranges)
    problems, _, out = recording(tmp_path, monkeypatch, {"report": made}, names=THREE)
    assert problems == []
    assert calls(tmp_path) == [list(THREE)]
    assert {file.stem: kernels_in(file) for file in out.glob("*.ncu-rep")} == {
        THREE[0]: ["slow", "fixed"], THREE[1]: ["slow", "fixed"], THREE[2]: ["fixed"],
    }  # fmt: skip
    assert set(recorded(out)) == set(THREE)
    assert not (out / BATCHES).exists()


def test_after_a_case_that_ended_the_program_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = reports(tmp_path, "slow", "fixed", "slow", ranges={0: THREE[0], 1: THREE[0], 2: THREE[1]})
    last = reports(tmp_path, "fixed", ranges={0: THREE[2]})
    said = [(THREE[0], Step("agrees")), (THREE[1], Step("begun"))]
    ended: dict[str, object] = {"report": first, "code": 1, "stderr": "Timeout (0:01:00)!"}
    problems, _, out = recording(
        tmp_path, monkeypatch, ended, {"report": last}, names=THREE, said=[*said, (THREE[2], Step("agrees"))]
    )
    assert [problem.partition(":")[0] for problem in problems] == [THREE[1]]
    assert "Timeout (0:01:00)!" in problems[0]
    assert calls(tmp_path) == [list(THREE), [THREE[2]]]
    assert set(recorded(out)) == {THREE[0], THREE[2]}


# What is cut out of a report


@pytest.mark.slow
@each_row("file", ["names-of-templates/every", "passes/diagnose/profile"])
def test_a_launch_that_is_cut_out_of_a_report_is_the_same(file: str, tmp_path: Path) -> None:
    """In reports of ncu: what is read of a launch alone is what is read of it among others, its code, too."""
    report_file = RECORDINGS / f"{file}.ncu-rep"
    whole = gpuprof.load(report_file)
    names = {f"case-{number}": [kernel.name] for number, kernel in enumerate(whole.kernels)}
    parts = split(report_file.read_bytes(), names)
    assert len(parts) == len(whole.kernels) > 1
    for among, (name, part) in zip(whole.kernels, parts.items(), strict=True):
        (tmp_path / f"{name}.ncu-rep").write_bytes(part)
        (alone,) = gpuprof.load(tmp_path / f"{name}.ncu-rep").kernels
        # Its number, its share of the time, and what findings have of both are of the whole report.
        assert structs.replace(alone, id=among.id, time_share=among.time_share, findings=among.findings) == among
        assert [item.headline for item in alone.findings] == [item.headline for item in among.findings]
        assert len(part) < report_file.stat().st_size
