"""The configurations of CI in the how-to: their shell lines run as they stand, GitHub, GitLab and the GPU replaced."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
import yaml

from gpuprof.recordings import recordings
from tests.standin_ci import install

pytestmark = pytest.mark.slow
PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "compare-ci.md"
_BLOCK = re.compile(r"^```(toml|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TEXTS = [(language, text) for language, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
LIMITS, ACCEPTED = (text for language, text in _TEXTS if language == "toml")
GITHUB, BOTH, GITLAB = (yaml.safe_load(text) for language, text in _TEXTS if language == "yaml")
RUNS = 5
KERNEL = "julia_frb_5885"
Session = dict[str, Any]


class Place(NamedTuple):
    """A checkout in CI: its folder, and the folder of what the service keeps from job to job."""

    checkout: Path
    service: Path

    def run(self, script: str, bash: tuple[str, ...] = ("-e",), **variables: str) -> subprocess.CompletedProcess[str]:
        """Run lines of bash in the checkout."""
        path = os.pathsep.join([str(self.service / "bin"), os.environ["PATH"]])
        environ = {**os.environ, "PATH": path, "SERVICE": str(self.service), "STANDIN": str(self.service), **variables}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", *bash, "-c", script], cwd=self.checkout, env=environ, text=True,
            capture_output=True, check=False, timeout=120,
        )  # fmt: skip


@pytest.fixture(scope="module")
def beamformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report that ships, for ncu's stand-in to record."""
    (recording,) = (shipped for shipped in recordings() if shipped.name == "a40-beamformer")
    report = tmp_path_factory.mktemp("report") / recording.file_name
    report.write_bytes(recording.report())
    return report


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, beamformer: Path) -> Session:
    """What the first job of the workflow records: `gpuprof run` as it is, with a recorded report for the GPU."""
    place = made(tmp_path_factory.mktemp("recorded"))
    (place.service / "steps.json").write_text(json.dumps([{"report": str(beamformer)}] * 2))
    workflow = Workflow(place, "push")
    assert workflow.job("record") == 0, workflow.log
    session: Session = json.loads((place.checkout / "new/1/session.json").read_text())
    assert sorted(place.service.glob("runs/1/gpuprof-new/*")) == [
        place.service / "runs/1/gpuprof-new" / str(run) for run in range(1, RUNS + 1)
    ]
    return session


def made(folder: Path) -> Place:
    """A place with the stand-ins and the repository's files."""
    place = Place(folder / "checkout", folder / "service")
    place.checkout.mkdir()
    install(place.service)
    (place.checkout / ".git").mkdir()
    (place.checkout / "gpuprof.toml").write_text(LIMITS)
    (place.checkout / "gpuprof-accepted.toml").write_text(re.sub(r"(?<=until = )\S+", "2999-12-31", ACCEPTED))
    return place


class Workflow:
    """A run of the GitHub workflow; the conditions of its steps are read as GitHub reads them."""

    def __init__(self, place: Place, event: str, number: int = 1) -> None:
        self.place, self.event, self.number, self.code = place, event, number, 0
        self.log: list[str] = []
        self.outputs: dict[str, bool] = {}

    def job(self, name: str, text: Mapping[str, Any] = GITHUB) -> int:
        """Run the steps of a job; return the exit code of the first that fails."""
        code = 0
        for step in text["jobs"][name]["steps"]:
            if not self._holds(step.get("if", "true"), failed=code != 0):
                continue
            ended = self._shell(step) if "run" in step else self._action(step)
            code = code or ended
        return code

    def _holds(self, condition: str, *, failed: bool) -> bool:
        text = condition.removeprefix("${{").removesuffix("}}").strip()
        if failed and "cancelled()" not in text:
            return False
        parts = (part.strip() for part in text.split("&&"))
        return all(self._part(part) for part in parts)

    def _part(self, text: str) -> bool:
        if text in ("true", "!cancelled()"):
            return True
        if event := re.fullmatch(r"github\.event_name == '(\w+)'", text):
            return self.event == event[1]
        if file := re.fullmatch(r"hashFiles\('([\w./]+)'\)", text):
            return (self.place.checkout / file[1]).exists()
        output = re.fullmatch(r"steps\.(\w+)\.outputs\.found", text)
        assert output, f"this test does not know the condition {text}"
        return self.outputs.get(output[1], False)

    def _shell(self, step: Mapping[str, str]) -> int:
        assert "${{" not in step["run"], "what others choose stays out of the shell's text"
        outputs = self.place.service / "outputs"
        outputs.write_text("")
        done = self.place.run(
            step["run"], GITHUB_REPOSITORY="us/app", GITHUB_OUTPUT=str(outputs), PULL_REQUEST="7", GH_TOKEN="token"
        )
        self.log += [done.stdout, done.stderr]
        if "id" in step:
            self.outputs[step["id"]] = "found=true" in outputs.read_text()
        return done.returncode

    def _action(self, step: Mapping[str, Any]) -> int:
        """Do what an action does, of what its inputs say: artifacts are copied, the rest is left out."""
        action, inputs = step["uses"].partition("@")[0], step.get("with", {})
        artifact = self.place.service / "runs" / str(self.number) / inputs.get("name", "")
        if action == "actions/upload-artifact":
            patterns = [pattern for pattern in inputs["path"].split() if not pattern.startswith("!")]
            files = [file for pattern in patterns for file in self.place.checkout.glob(pattern)]
            assert files or inputs.get("if-no-files-found") != "error"
            common = Path(os.path.commonpath([file.parent if file.is_file() else file for file in files]))
            for file in files:
                _copy(file, artifact / file.relative_to(common))
        elif action == "actions/download-artifact":
            _copy(artifact, self.place.checkout / inputs["path"])
        elif action == "github/codeql-action/upload-sarif":
            assert json.loads((self.place.checkout / inputs["sarif_file"]).read_text())["version"] == "2.1.0"
        else:
            assert action in ("actions/checkout", "actions/setup-python")
        return 0


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def keep_runs(folder: Path, session: Session, seed: int, *, instructions: float = 1.0, registers: int = 80) -> None:
    """Write the sessions of five runs, whose times differ by some 0.2 %, with a change of one kernel's work."""
    draw = random.Random(seed)
    for run in range(1, RUNS + 1):
        varied = json.loads(json.dumps(session))
        for kernel in varied["kernels"]:
            kernel["duration_s"] = kernel["time_total_s"] = kernel["duration_s"] * draw.gauss(1, 0.002)
            if kernel["label"] == KERNEL:
                kernel["registers_per_thread"] = registers
                for count in kernel["counts"]:
                    if count["name"] == "instructions":
                        count.update({key: count[key] * instructions for key in ("value", "low", "high")})
        file = folder / str(run) / "session.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(varied))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return made(tmp_path)


# GitHub Actions


def judged(place: Place, session: Session, event: str = "pull_request", number: int = 2, **change: Any) -> Workflow:
    """Judge what a run of the workflow has recorded, in a checkout of its own."""
    keep_runs(place.service / "runs" / str(number) / "gpuprof-new", session, seed=number, **change)
    for left in ("base", "new"):
        shutil.rmtree(place.checkout / left, ignore_errors=True)
    for file in place.checkout.glob("[!.]*.[!t]*"):
        file.unlink()
    workflow = Workflow(place, event, number)
    workflow.code = workflow.job("judge")
    return workflow


@pytest.fixture
def baseline(place: Place, recorded: Session) -> Place:
    """A place where main has a baseline."""
    keep_runs(place.service / "runs" / "1" / "gpuprof-baseline", recorded, seed=1)
    return place


def comments(place: Place) -> list[str]:
    file = place.service / "comments.json"
    return list(json.loads(file.read_text()).values()) if file.exists() else []


def test_the_first_push_compares_nothing_and_leaves_a_baseline(place: Place, recorded: Session) -> None:
    workflow = judged(place, recorded, "push", number=1)
    assert workflow.code == 0, workflow.log
    assert any("::warning::" in line for line in workflow.log)
    assert len(list(place.service.glob("runs/1/gpuprof-baseline/*/session.json"))) == RUNS
    assert not (place.checkout / "report.md").exists()


def test_more_instructions_fail_the_job_and_the_comment_is_updated_in_place(baseline: Place, recorded: Session) -> None:
    assert judged(baseline, recorded, number=2).code == 0
    workflow = judged(baseline, recorded, number=3, instructions=1.02)
    assert workflow.code == 6, workflow.log
    printed = "".join(workflow.log)
    assert "instructions:1%" in printed and "::error" in printed
    (comment,) = comments(baseline)
    assert "931 M → 950 M (+2.0 %)" in comment
    suite = ElementTree.parse(baseline.checkout / "junit.xml").getroot()
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert (baseline.service / "runs/3/gpuprof-reports/junit.xml").exists(), "reports of what failed are kept"


def test_both_versions_are_timed_in_turns_and_judged_at_once(place: Place, beamformer: Path) -> None:
    (place.service / "steps.json").write_text(json.dumps([{"report": str(beamformer)}] * 40))
    for folder in ("head", "target"):
        (place.checkout / folder).mkdir()
    workflow = Workflow(place, "pull_request")
    assert workflow.job("compare", BOTH) == 0, workflow.log
    left = {file.name for file in (place.service / "runs/1/gpuprof-reports").glob("*")}
    assert left == {"report.md", "report.html", "compare.json", "runs"}
    assert list(place.service.glob("runs/1/gpuprof-reports/runs/samples/new-*.session.json"))


# GitLab


def gitlab(place: Place, job: str, section: str = "script", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a part of a job of the pipeline: its lines are one script."""
    address = GITLAB["variables"]["BASELINE"].replace("$CI_API_V4_URL", "https://gitlab.example/api/v4")
    known = {"BASELINE": address, "CI_API_V4_URL": "https://gitlab.example/api/v4", "CI_JOB_TOKEN": "token"}
    script = "\n".join(GITLAB[job][section])
    return place.run(script, ("-e", "-o", "pipefail"), **known, CI_PROJECT_ID="1", **variables)


def test_gitlab_judges_against_what_the_default_branch_has_kept(place: Place, recorded: Session) -> None:
    keep_runs(place.checkout / "new", recorded, seed=1)
    first = gitlab(place, "judge")
    assert first.returncode == 0 and "no baseline yet" in first.stdout, first.stderr
    assert gitlab(place, "keep").returncode == 0
    keep_runs(place.checkout / "new", recorded, seed=2, instructions=1.02)
    failed = gitlab(place, "judge")
    assert failed.returncode == 6, failed.stderr
    reports = GITLAB["judge"]["artifacts"]["reports"]
    cases = ElementTree.parse(place.checkout / reports["junit"]).getroot().iter("testcase")
    assert any(case.find("failure") is not None for case in cases)
    assert isinstance(json.loads((place.checkout / reports["codequality"]).read_text()), list)
    assert all((place.checkout / file).exists() for file in GITLAB["judge"]["artifacts"]["paths"])
