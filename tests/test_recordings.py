"""The reports that ship: values only, read as they were written, and the same as in the reports they come from."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from benchmarks.recordings.__main__ import main
from benchmarks.rule_messages import results_of
from gpuprof.errors import DamagedInput, InputError, SpecError
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
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
        assert results_of(launch) == ()
        assert not any(name.startswith(("group:", "breakdown:")) for name in launch.metrics.names())


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


def test_the_script_says_which_report_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {one.place: one.place.read_bytes() for one in ALL}
    assert main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert OF_OTHERS[0].origin is not None and OF_OTHERS[0].origin.blob in error
    assert {place: place.read_bytes() for place in before} == before


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
