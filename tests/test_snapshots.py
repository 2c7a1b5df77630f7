"""The wording and layout of every view, one snapshot each. `make snapshots` rewrites them; review the diff.

Other tests hold behaviour and numbers, so that an improved sentence changes only a snapshot.
"""

from __future__ import annotations

import io
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gpuprof.characterize.present.console import print_measured
from gpuprof.characterize.present.page.render import render_measured_html
from gpuprof.recordings import Recording
from gpuprof.recordings import recordings as all_recordings
from tests.cli import gpuprof
from tests.measured_sheets import seen
from tests.readings import unpacked
from tests.test_failures import transcripts

ROOT = Path(__file__).resolve().parents[1]
H100 = Path("tests/data/gpu/nvidia-h100-80gb-hbm3")
REPORT = H100 / "run-launches/full.ncu-rep"
TRACE = H100 / "run-transformer/run/survey.pt.trace.json.gz"
MEASURED = Path("tests/data/all-keys.measured.yaml")
STEP = ("--match", "basic=gmem_coalesce")
"""The first step of the recorded SGEMM is compared with the second one."""

TERMINAL = {
    "show": ("show", "a40-beamformer"),
    "show-kernel": ("show", "a40-beamformer", "--kernel", "#0"),
    "show-explain": ("show", "a40-beamformer", "--explain", "#0"),
    "show-markdown": ("show", "a40-beamformer", "--format", "md"),
    "show-own": ("show", REPORT, "--verbose"),
    "show-steps": ("show", "a10g-sgemm"),
    "show-graph": ("show", H100 / "graphs/graph.ncu-rep"),
    "show-trace": ("show", TRACE),
    "show-trace-operators": ("show", TRACE, "--by", "operator"),
    "show-measured": ("show", MEASURED),
    "compare-graphs": ("compare", H100 / "graphs/graph.ncu-rep", H100 / "graphs/node.ncu-rep"),
    "compare": ("compare", "a10g-sgemm", "a10g-sgemm", *STEP),
    "compare-verbose": ("compare", "a10g-sgemm", "a10g-sgemm", *STEP, "--verbose"),
    "compare-markdown": ("compare", "a10g-sgemm", "a10g-sgemm", *STEP, "--format", "md", "--fail-on", "time:3%"),
    "compare-measured": ("compare", MEASURED, MEASURED),
    "roofline": ("roofline", "a40-beamformer", "--format", "json"),
    "characterize-list": ("characterize", "--list"),
    "specs-list": ("specs", "list"),
    "specs-show": ("specs", "show", "h100-sxm"),
    "specs-check": ("specs", "check"),
}
MISTAKES = (
    (),
    ("shov",),
    ("show",),
    ("show", "missing.ncu-rep"),
    ("show", "README.md"),
    ("show", "tests/data/gpu/nvidia-h100-80gb-hbm3/run-launches"),
    ("show", REPORT, "--kernel", "nothing-like-this"),
    ("show", REPORT, "--kernel", "("),
    ("show", REPORT, "--kernel", "#99"),
    ("show", REPORT, "--top", "-1"),
    ("show", REPORT, "--spec", "h200"),
    ("show", REPORT, "--formt", "json"),
    ("report", REPORT, "--output", "README.md"),
    ("compare", REPORT),
    ("compare", REPORT, REPORT, "--fail-on", "time"),
    ("run",),
    ("run", "./no-such-program"),
    ("specs", "show", "h999"),
    ("check", "missing.cu"),
)


class _Text(SingleFileSnapshotExtension):
    """A snapshot is a text file."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class _PageText(HTMLParser):
    """The text of a page, an element a line, without scripts, styles and pictures."""

    _SILENT = frozenset({"script", "style", "svg"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._silent = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in self._SILENT

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in self._SILENT

    def handle_data(self, data: str) -> None:
        if not self._silent and data.strip():
            self.lines.append(" ".join(data.split()))


@pytest.fixture
def view(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(_Text)


def run(*arguments: object) -> str:
    """Return what a command prints at 100 columns, to both streams, and its exit code if that is not 0."""
    recordings = {recording.name: recording for recording in all_recordings()}
    given = [_path(argument, recordings) for argument in arguments]
    done = gpuprof(*given, cwd=ROOT, environ={**os.environ, "COLUMNS": "100"})
    text = done.stdout + done.stderr + (f"exit code {done.returncode}\n" if done.returncode else "")
    folders = {str(unpacked(recordings["a40-beamformer"]).parent): "RECORDINGS", f"{ROOT}/": ""}
    for folder, name in folders.items():
        text = text.replace(folder, name)
    return text


def _path(argument: object, recordings: dict[str, Recording]) -> str:
    recording = recordings.get(str(argument))
    return str(unpacked(recording)) if recording is not None else str(argument)


def page_text(tmp_path: Path, *arguments: object) -> str:
    """Return the text of the page that a command writes."""
    page = tmp_path / "page.html"
    run(*arguments, "--output", page)
    return "\n".join(_PageText(page.read_text(encoding="utf-8")).lines) + "\n"


@pytest.mark.parametrize("name", TERMINAL)
def test_terminal(name: str, view: SnapshotAssertion) -> None:
    assert run(*TERMINAL[name]) == view


def test_terminal_of_a_roofline(tmp_path: Path, view: SnapshotAssertion) -> None:
    text = run("roofline", "a40-beamformer", "--output", tmp_path / "figures")
    assert text.replace(str(tmp_path), "FOLDER") == view


def test_mistakes(view: SnapshotAssertion) -> None:
    texts = [f"$ gpuprof {' '.join(map(str, arguments))}\n{run(*arguments)}" for arguments in MISTAKES]
    assert "\n".join(texts) == view


def test_page_of_a_report(tmp_path: Path, view: SnapshotAssertion) -> None:
    assert page_text(tmp_path, "report", "a40-beamformer") == view


def test_page_of_a_trace(tmp_path: Path, view: SnapshotAssertion) -> None:
    assert page_text(tmp_path, "report", TRACE) == view


def test_page_of_a_comparison(tmp_path: Path, view: SnapshotAssertion) -> None:
    assert page_text(tmp_path, "compare", "a10g-sgemm", "a10g-sgemm", *STEP) == view


def test_terminal_and_page_of_a_measured_gpu(view: SnapshotAssertion) -> None:
    out = io.StringIO()
    print_measured(Console(file=out, width=100), seen())
    assert out.getvalue() == view(name="terminal")
    assert "\n".join(_PageText(render_measured_html(seen())).lines) + "\n" == view(name="page")


def test_messages_for_what_ncu_prints_when_it_fails(view: SnapshotAssertion) -> None:
    assert "\n".join(f"{item.name}: {item.message}" for item in transcripts()) == view


@pytest.mark.compilers
def test_review_of_compiled_code(tmp_path: Path, view: SnapshotAssertion) -> None:
    assert run("check", REPORT) == view(name="check")
    assert run("check", REPORT, "--format", "md") == view(name="check-markdown")
    assert page_text(tmp_path, "check", REPORT) == view(name="page-check")


@pytest.mark.compilers
def test_review_of_a_build_against_its_base(tmp_path: Path, view: SnapshotAssertion) -> None:
    copy = "__global__ void copy(float *out, const float *in, int n) {\n    int i = blockIdx.x * 256 + threadIdx.x;\n"
    for name, index in (("old.cu", "i"), ("new.cu", "i * 8")):
        (tmp_path / name).write_text(f"{copy}    if (i < n) out[i] = in[{index}];\n}}\n")
    limits = ("--fail-on", "sectors", "--fail-on", "registers")
    done = gpuprof("check", "new.cu", "--base", "old.cu", "--block", "256", "--arch", "sm_90", *limits, cwd=tmp_path)
    assert done.returncode == 6
    assert done.stdout + done.stderr == view(name="check-base")
