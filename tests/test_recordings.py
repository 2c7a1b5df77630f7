"""The reports that ship: values only, read as they were written, and the same as in the reports they come from."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.recordings.line_table import Position
from benchmarks.recordings.report_file import report_file
from benchmarks.recordings.values import LaunchValues, ReportValues
from gpuprof.errors import DamagedInput, InputError, SpecError
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.wire import message, number
from gpuprof.recordings import Recording, recordings
from tests.readings import report_of, session_of, unpacked
from tests.table import each_row

ROOT = Path(__file__).resolve().parents[1]
ALL = recordings()
OF_OTHERS = tuple(one for one in ALL if one.origin is not None)
each = each_row("recording", OF_OTHERS, ids=[one.name for one in OF_OTHERS])
OWN = {"h100-transpose": "nvidia-h100-80gb-hbm3/run-launches/run/profile.ncu-rep"}
"""Our own, and where they are in the data of the tests, with the command that made them."""


@pytest.fixture(scope="module")
def read() -> dict[str, tuple[Report, Session]]:
    """Every recording as a report and as a session, by name."""
    return {one.name: (report_of(unpacked(one)), session_of(unpacked(one))) for one in ALL}


Read = dict[str, tuple[Report, Session]]


def test_our_own_are_what_was_recorded_byte_by_byte_and_name_no_machine() -> None:
    own = {one.name: one for one in ALL if one.origin is None}
    assert set(own) == set(OWN) and list(own.values()) == list(ALL[: len(own)])
    for name, recording in own.items():
        assert recording.report() == (ROOT / "tests" / "data" / "gpu" / OWN[name]).read_bytes()
        folders = set(re.findall(rb"/(?:home|root|Users|work|tmp)/[\w-]+/", recording.report()))
        assert folders <= {b"/tmp/gpuprof-gpu/"}


def test_there_are_four_recordings_of_four_gpus_and_all_of_the_folder_is_small(read: Read) -> None:
    assert {name: session.devices[0].name for name, (_, session) in read.items()} == {
        "a40-beamformer": "NVIDIA A40", "a100-gemm": "NVIDIA A100 80GB PCIe", "a10g-sgemm": "NVIDIA A10G",
        "h100-transpose": "NVIDIA H100 80GB HBM3",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in (ROOT / "recordings").iterdir()) < 500_000


@each
def test_a_recording_has_neither_source_text_nor_code_nor_texts_of_nvidia(recording: Recording, read: Read) -> None:
    report, _ = read[recording.name]
    for launch in report:
        assert not any(launch.details.source_files().values())
        assert not any(one.sass for one in launch.details.instructions())
        assert launch.details.machine_code() == b""
        assert launch.details.rule_results() == ()
        assert not any(name.startswith(("group:", "breakdown:")) for name in launch.metrics.names())
    assert report.sections == ()


@each
def test_a_recording_names_no_folder_of_a_machine_host_or_address(recording: Recording, read: Read) -> None:
    texts = re.findall(rb"[ -~]{6,}", recording.report())
    assert len(texts) > 100
    path, address = rb"(?<![\w.])[/~]\w[\w.-]*/|[A-Za-z]:\\", rb"://|\b\d+\.\d+\.\d+\.\d+\b(?! \()"
    assert [text for text in texts if re.search(path + rb"|" + address, text)] == []
    files = {one.file for launch in read[recording.name][0] for one in launch.details.instructions() if one.file}
    names = [file.rpartition("/")[2] for file in files]
    assert all(names.count(file.rpartition("/")[2]) > 1 for file in files if "/" in file)


@each
def test_a_recording_is_in_the_notice_with_its_licence(recording: Recording) -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    origin = recording.origin
    assert origin is not None and origin.licence in ("MIT", "BSD-3-Clause")
    (paragraph,) = [part for part in notice.split("\n\n") if part.startswith(f"recordings/{recording.name}")]
    assert origin.blob in paragraph and f"github.com/{origin.repository}" in paragraph
    assert {"MIT": "MIT License", "BSD-3-Clause": "BSD 3-Clause License"}[origin.licence] in paragraph
    assert origin.commit is None or origin.commit in paragraph


# The writer.

START = 0x7F0000000400
FILES = ("src/kernel.cu", "src/deep/er/header.h", "alone.jl", "ä ö/naïve.cu")
positions = st.tuples(st.sampled_from(FILES), st.integers(1, 1_000_000))


def executed(pcs: list[int]) -> bytes:
    """The metric inst_executed with one instance for each address."""
    elements = (message(3, message(1, number(5, pc)) + message(2, number(5, 7))) for pc in pcs)
    return message(2, number(5, 7 * len(pcs))) + b"".join(elements)


def launched(lines: dict[int, Position], name: str = "_Z1kPf") -> LaunchValues:
    metrics = {
        "inst_executed": executed(sorted(lines)),
        "device__attribute_compute_capability_major": message(2, number(4, 9)),
        "device__attribute_compute_capability_minor": message(2, number(4, 0)),
    }
    return LaunchValues(1, name, "k", "k(float *)", (4, 3, 2), (32, 2, 1), 1, 7, metrics, lines, None, None)


def written(values: ReportValues, folder: Path) -> Report:
    place = folder / "written.ncu-rep"
    place.write_bytes(report_file(values, "ncu --cache-control none app"))
    return read_ncu_rep(place)


@settings(max_examples=8, deadline=None)
@given(st.dictionaries(st.integers(1, 3000).map(lambda at: START + 16 * at), positions, max_size=60), positions)
def test_lines_are_read_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, some: dict[int, Position], first: Position
) -> None:
    lines = {START: first, **some}
    report = written(ReportValues((launched(lines),), 1, "app", {}, None, 90), tmp_path_factory.mktemp("lines"))
    (launch,) = report.launches
    lines_read = {one.pc: (one.file, one.line) for one in launch.details.instructions()}
    assert lines_read == lines
    assert {one.sass for one in launch.details.instructions()} == {""}
    assert launch.details.machine_code() == b""


# The list and its files.

ENTRY = "one:\n  title: T\n  command: ncu app\n"


def test_the_list_has_our_own_first_and_what_is_broken_is_named(tmp_path: Path) -> None:
    place = tmp_path / "recordings.yaml"
    other = "two:\n  title: T\n  command: ncu b\n  repository: r/r\n  path: p\n  blob: b\n  licence: MIT\n"
    place.write_text(other + ENTRY)
    (recording, others) = recordings(tmp_path)
    assert [(recording.name, recording.origin), (others.name, others.origin is None)] == [("one", None), ("two", False)]
    with pytest.raises(InputError, match=r"one\.ncu-rep\.gz"):
        recording.report()
    whole = gzip.compress(b"NVR" * 1000)
    for broken in (whole[:-9], b"no gzip", whole[:10] + b"\xff" * 9 + whole[19:]):
        recording.place.write_bytes(broken)
        with pytest.raises(DamagedInput, match=r"one\.ncu-rep\.gz"):
            recording.report()
    for text, told in (("{}\n", r"recordings\.yaml:1"), (ENTRY + "  colour: red\n", r"recordings\.yaml:4.*colour")):
        place.write_text(text)
        with pytest.raises(SpecError, match=told):
            recordings(tmp_path)
