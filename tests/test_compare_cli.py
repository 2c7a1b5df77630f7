"""`gpuprof compare` on measured files. The measured numbers here are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprof.characterize.sheet.measured_text import measured_text
from tests.cli import Done, gpuprof
from tests.test_measured_ceilings import made_up


def compare(*words: str) -> Done:
    """Run the command."""
    return gpuprof("compare", *words)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two files of a made-up GPU; DRAM of the second is a tenth slower."""
    base = made_up()
    slower = replace(base.values["bandwidth/dram-read"], value=8.5e11 * 0.9)
    new = replace(base, values={**base.values, "bandwidth/dram-read": slower})
    paths = tmp_path / "base.measured.yaml", tmp_path / "new.measured.yaml"
    for path, measured in zip(paths, (base, new), strict=True):
        path.write_text(measured_text(measured))
    return str(paths[0]), str(paths[1])


@pytest.mark.parametrize("form", ["table", "md"])
def test_two_files_are_set_side_by_side(files: tuple[str, str], form: str) -> None:
    done = compare(*files, "--format", form)
    assert done.returncode == 0, done.stderr
    assert "dram-read" in done.stdout and "-10.0 %" in done.stdout and "worse" in done.stdout


def test_json_has_both_values(files: tuple[str, str]) -> None:
    text = compare(*files, "--format", "json").stdout
    assert json.loads(text)
    assert "850000000000" in text and "765000000000" in text


@pytest.mark.parametrize("name", ["report.ncu-rep", "none.measured.yaml"])
def test_what_is_no_measured_file_is_told(files: tuple[str, str], name: str) -> None:
    done = compare(files[0], name)
    assert done.returncode == 5 and name in done.stderr and "Traceback" not in done.stderr
