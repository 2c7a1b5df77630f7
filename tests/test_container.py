from __future__ import annotations

import gzip
from collections.abc import Sequence
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


def test_a_whole_report_declares_what_it_holds() -> None:
    container = walk(TWO)
    assert container.damage is None
    assert container.results == 2
    assert container.command == "/opt/ncu --cache-control none --clock-control=base -o out ./app"
    assert container.versions == {"Nsight Compute Target": "2024.1.1.0 (build 1)"}
    assert container.created_s == 1_700_000_000
    assert "gpu__time_duration.sum" in container.names
    assert container.processes == ((7, "/opt/app"),)


def read_one(tmp_path: Path, launch: bytes, names: Sequence[str] = ()) -> Report:
    path = tmp_path / "one.ncu-rep"
    path.write_bytes(ncu_bytes.report(ncu_bytes.block([launch], names)))
    return read_ncu_rep(path)


def test_launch_dimensions_and_clock_lock_are_read_from_the_message(tmp_path: Path) -> None:
    report = read_one(tmp_path, ncu_bytes.launch("k", {}, grid=(4, 3, 2), block=(64, 2, 1)))
    assert (report.launches[0].grid, report.launches[0].block) == ((4, 3, 2), (64, 2, 1))
    assert report.clock_control == "locked"


def test_a_failed_launch_that_records_zero_dimensions_has_none(tmp_path: Path) -> None:
    launch = read_one(tmp_path, ncu_bytes.launch("k", {}, grid=(0, 0, 0), block=(0, 0, 0))).launches[0]
    assert (launch.grid, launch.block) == (None, None)


def test_the_metrics_of_a_launch_win_over_its_message(tmp_path: Path) -> None:
    names = [f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"]
    sizes = dict(enumerate((5.0, 6.0, 7.0, 32.0, 2.0, 1.0)))
    launch = read_one(tmp_path, ncu_bytes.launch("k", sizes, grid=(1, 1, 1)), names).launches[0]
    assert (launch.grid, launch.block) == ((5, 6, 7), (32, 2, 1))


@each_row("cut", [len(TWO) - 1, len(TWO) - 40, len(TWO) // 2, 20, 11, 9, 5, 4])
def test_a_cut_report_is_damaged_at_the_block_that_was_cut(cut: int) -> None:
    damage = walk(TWO[:cut]).damage
    if cut == 4:
        assert damage is not None
    elif cut == 9:
        assert damage is not None and damage.offset == 4
    else:
        assert damage is not None and damage.offset < len(TWO)


def test_a_block_that_declares_more_than_it_holds_is_damaged() -> None:
    lying = ncu_bytes.report(ncu_bytes.block([ncu_bytes.launch("k", {})], declared=3))
    damage = walk(lying).damage
    assert damage is not None
    assert damage.offset == 10
    assert "declares 3 entries and holds 1" in damage.why


def test_a_block_that_holds_more_than_it_declares_is_damaged_before_they_are_all_stepped_over() -> None:
    lying = ncu_bytes.report(ncu_bytes.block([b"x"] * 100_000, declared=3))
    assert walk(lying).damage == (10, "a block declares 3 entries and holds more")


def test_zeros_are_damage_at_once_and_not_millions_of_entries() -> None:
    behind = walk(TWO + bytes(2**22)).damage
    assert behind == (len(TWO), "a block header is empty")
    within = walk(ncu_bytes.report(ncu_bytes.block([b""] * 2**18))).damage
    assert within == (10, "a block holds an empty entry")


def test_bytes_after_the_last_block_are_damage() -> None:
    damage = walk(TWO + b"\x01").damage
    assert damage is not None and damage.offset == len(TWO)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_walked_without_an_error(data: bytes) -> None:
    container = walk(b"NVR\0" + data)
    assert container.damage is not None or container.results >= 0


@given(position=st.integers(0, len(TWO) - 1), value=st.integers(0, 255))
def test_a_changed_byte_is_walked_without_an_error(position: int, value: int) -> None:
    changed = bytearray(TWO)
    changed[position] = value
    walk(bytes(changed))


def test_the_reader_gives_launches_device_and_command(tmp_path: Path) -> None:
    path = tmp_path / "two.ncu-rep"
    path.write_bytes(TWO)
    report = read_ncu_rep(path)
    assert [launch.name for launch in report] == ["first", "second"]
    assert report.launches[0].metrics.number("gpu__time_duration.sum") is not None
    assert report.devices[0].name == "NVIDIA A100 80GB PCIe"
    assert report.devices[0].pci_id == "10de:20b5"
    assert report.devices[0].compute_capability == "8.0"
    assert (report.clock_control, report.cache_control) == ("base", "none")
    assert report.tool_version == "2024.1.1.0"
    assert {launch.process for launch in report} == {7}


def test_a_cut_report_is_refused_and_salvaged_on_request(tmp_path: Path) -> None:
    first = ncu_bytes.block([ncu_bytes.launch("first", {0: 5.0})], ["gpu__time_duration.sum"])
    second = ncu_bytes.block([ncu_bytes.launch("second", {0: 5.0})])
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(ncu_bytes.report(first, second)[:-6])
    with pytest.raises(DamagedInput, match=r"at byte \d+, .*; 1 kernel could be read") as caught:
        read_ncu_rep(path)
    assert caught.value.hint is not None and "--salvage shows the 1" in caught.value.hint
    salvaged = read_ncu_rep(path, salvage=True)
    assert [launch.name for launch in salvaged] == ["first"]
    assert "could be read" in salvaged.warnings[0]


def test_of_a_report_whose_packing_is_cut_off_salvage_shows_what_was_unpacked(tmp_path: Path) -> None:
    first = ncu_bytes.block([ncu_bytes.launch("first", {0: 5.0})], ["gpu__time_duration.sum"])
    second = ncu_bytes.block([ncu_bytes.launch("second", {0: 5.0})])
    path = tmp_path / "cut.ncu-rep.gz"
    path.write_bytes(gzip.compress(ncu_bytes.report(first, second), compresslevel=0)[:-20])
    with pytest.raises(DamagedInput, match="it cannot be unpacked: Compressed file ended") as caught:
        read_file(str(path))
    assert caught.value.hint is not None and "--salvage shows what lies before the damage" in caught.value.hint
    salvaged = read_file(str(path), salvage=True)
    assert isinstance(salvaged, Report)
    assert [launch.name for launch in salvaged] == ["first"]
    assert salvaged.warnings[0].startswith("it cannot be unpacked: Compressed file ended")
    path.write_bytes(gzip.compress(b"text " * 9000)[:-20])
    with pytest.raises(DamagedInput, match="it cannot be unpacked"):
        read_file(str(path), salvage=True)


def test_not_a_number_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "nan.ncu-rep"
    path.write_bytes(
        ncu_bytes.simple_report([("k", {"sm__throughput.avg.pct_of_peak_sustained_elapsed": float("nan")})])
    )
    launch = read_ncu_rep(path).launches[0]
    assert launch.metrics.get("sm__throughput.avg.pct_of_peak_sustained_elapsed") is None
    assert launch.metrics.get("dram__bytes.sum") is None
