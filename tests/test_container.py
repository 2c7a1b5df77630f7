from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput
from gpuprof.model.recorded import Report
from gpuprof.read.container import walk
from gpuprof.read.files import read_file
from gpuprof.read.ncu_rep import read_ncu_rep
from tests import ncu_bytes
from tests.table import each_row

TWO = ncu_bytes.simple_report(
    [("first", {**ncu_bytes.A100, "gpu__time_duration.sum": 1000.0}), ("second", {"gpu__time_duration.sum": 3000.0})],
    command="/opt/ncu --cache-control none --clock-control=base -o out ./app",
)


def read_one(tmp_path: Path, launch: bytes, names: Sequence[str] = ()) -> Report:
    path = tmp_path / "one.ncu-rep"
    path.write_bytes(ncu_bytes.report(ncu_bytes.block([launch], names)))
    return read_ncu_rep(path)


def test_launch_dimensions_and_clock_lock_are_read_from_the_message(tmp_path: Path) -> None:
    report = read_one(tmp_path, ncu_bytes.launch("k", {}, grid=(4, 3, 2), block=(64, 2, 1)))
    assert (report.launches[0].grid, report.launches[0].block) == ((4, 3, 2), (64, 2, 1))
    assert report.clock_control == "locked"
    failed = read_one(tmp_path, ncu_bytes.launch("k", {}, grid=(0, 0, 0), block=(0, 0, 0))).launches[0]
    assert (failed.grid, failed.block) == (None, None)
    # The metrics of a launch win over its message; what is no number is missing.
    names = [f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"]
    values = dict(enumerate((5.0, 6.0, 7.0, 32.0, 2.0, 1.0, float("nan"))))
    launch = read_one(tmp_path, ncu_bytes.launch("k", values, grid=(1, 1, 1)), [*names, "sm__x.sum"]).launches[0]
    assert (launch.grid, launch.block, launch.metrics.get("sm__x.sum")) == ((5, 6, 7), (32, 2, 1), None)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_walked_without_an_error(data: bytes) -> None:
    container = walk(b"NVR\0" + data)
    assert container.damage is not None or container.results >= 0


@given(position=st.integers(0, len(TWO) - 1), value=st.integers(0, 255))
def test_a_changed_byte_is_walked_without_an_error(position: int, value: int) -> None:
    changed = bytearray(TWO)
    changed[position] = value
    walk(bytes(changed))


@each_row(
    ("data_of", "at"),
    [
        (lambda: ncu_bytes.report(ncu_bytes.block([ncu_bytes.launch("k", {})], declared=3)), 10),
        # A block that holds more than it declares, and zeros, end at once: they are not all stepped over.
        (lambda: ncu_bytes.report(ncu_bytes.block([b"x"] * 100_000, declared=3)), 10),
        (lambda: TWO + bytes(2**22), len(TWO)), (lambda: ncu_bytes.report(ncu_bytes.block([b""] * 2**18)), 10),
        (lambda: TWO + b"\x01", len(TWO)),
    ],
)  # fmt: skip
def test_damage_lies_where_the_block_or_the_rest_begins(data_of: Callable[[], bytes], at: int) -> None:
    damage = walk(data_of()).damage
    assert damage is not None and damage.offset == at


def test_a_cut_report_is_refused_and_salvaged_on_request(tmp_path: Path) -> None:
    first = ncu_bytes.block([ncu_bytes.launch("first", {0: 5.0})], ["gpu__time_duration.sum"])
    second = ncu_bytes.block([ncu_bytes.launch("second", {0: 5.0})])
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(ncu_bytes.report(first, second)[:-6])
    with pytest.raises(DamagedInput, match=r"at byte \d+, .*; 1 kernel ") as caught:
        read_ncu_rep(path)
    assert caught.value.hint is not None and "--salvage" in caught.value.hint
    salvaged = read_ncu_rep(path, salvage=True)
    assert [launch.name for launch in salvaged] == ["first"]
    assert salvaged.warnings


def test_of_a_report_whose_packing_is_cut_off_salvage_shows_what_was_unpacked(tmp_path: Path) -> None:
    first = ncu_bytes.block([ncu_bytes.launch("first", {0: 5.0})], ["gpu__time_duration.sum"])
    second = ncu_bytes.block([ncu_bytes.launch("second", {0: 5.0})])
    path = tmp_path / "cut.ncu-rep.gz"
    path.write_bytes(gzip.compress(ncu_bytes.report(first, second), compresslevel=0)[:-20])
    with pytest.raises(DamagedInput, match="cannot be unpacked") as caught:
        read_file(str(path))
    assert caught.value.hint is not None and "--salvage" in caught.value.hint
    salvaged = read_file(str(path), salvage=True)
    assert isinstance(salvaged, Report)
    assert [launch.name for launch in salvaged] == ["first"]
    assert salvaged.warnings
    path.write_bytes(gzip.compress(b"text " * 9000)[:-20])
    with pytest.raises(DamagedInput):
        read_file(str(path), salvage=True)
