"""Reports that zstd compressed: the values of the plain ones, and of damaged and hostile ones what can be had."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import gpuprof
from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.recorded import Report
from gpuprof.read import file_bytes, report_bytes
from gpuprof.read.files import read_file
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.zstd_frames import MAGIC
from tests import builders, ncu_bytes
from tests.readings import report_of
from tests.table import each_row
from tests.zstd_bytes import SKIPPED, compressed, frame, stored, unknown, zeros

LAUNCH = {**ncu_bytes.A100, **builders.FLOP_1}
NAMES = list(LAUNCH)
VALUES: dict[int, float | str] = dict(enumerate(LAUNCH.values()))
DETAILS = ncu_bytes.session_details(None, {"Nsight Compute Target": "2026.3.0.0 (build 1)"})
HEAD = ncu_bytes.report(ncu_bytes.block([], NAMES, DETAILS))
LAUNCHES = [ncu_bytes.block([ncu_bytes.launch(name, VALUES)], process=7) for name in ("one", "two", "three")]
PLAIN = HEAD + b"".join(LAUNCHES)
PACKED = compressed(PLAIN)
FRAMES = [compressed(part) for part in (HEAD, *LAUNCHES)]
IN_FRAMES = b"".join(FRAMES)
"""A frame for the head of the report, and one for each launch."""


@pytest.fixture
def through_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small reports go the way of large ones."""
    monkeypatch.setattr(file_bytes, "LARGE", 16)
    monkeypatch.setattr(report_bytes, "LARGE", 16)


def written(folder: Path, data: bytes, name: str = "a.ncu-repz") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def kernels(path: Path, *, salvage: bool = False) -> list[str]:
    return [launch.name for launch in read_ncu_rep(path, salvage=salvage).launches]


def everything(report: Report) -> tuple[Report, list[object]]:
    """What a report says, without the name and the hash of its file."""
    launches: list[object] = [
        (
            replace(launch, metrics=None, details=None),
            {name: launch.metrics.get(name) for name in launch.metrics.names()},
            launch.metrics.instances("inst_executed"),
        )
        for launch in report.launches
    ]
    return replace(report, file="", sha256="", launches=()), launches


def test_a_compressed_report_has_the_values_of_the_plain_one(real_report: Path, tmp_path: Path) -> None:
    name = real_report.name if real_report.suffix != ".ncu-rep" else f"{real_report.stem}.ncu-repz"
    path = written(tmp_path, compressed(real_report.read_bytes()), name)
    report = read_file(str(path))
    assert isinstance(report, Report)
    assert (report.file, report.kind) == (str(path), report_of(real_report).kind)
    assert repr(everything(report)) == repr(everything(report_of(real_report)))  # NaN is not equal to itself


@each_row(
    "data",
    [
        PACKED, compressed(PLAIN, checksum=False), compressed(PLAIN, size=False), IN_FRAMES, SKIPPED + PACKED,
        compressed(PLAIN[:3]) + SKIPPED + compressed(b"") + compressed(PLAIN[3:]),
        frame(stored(b""), stored(PLAIN[:2]), stored(PLAIN[2:]), stored(b"", last=True)),
        frame(stored(PLAIN, last=True), declared=len(PLAIN)),
    ],
    ids=["plain", "no checksum", "no size", "frames", "notes first", "notes between", "no size, stored", "stored"],
)  # fmt: skip
def test_whatever_the_name_and_the_frames_it_is_read(data: bytes, tmp_path: Path, emptied: Path) -> None:
    for name in ("a.ncu-repz", "A.NCU-REPZ", "a.ncu-rep", "a.ncu-rep.zst", "unnamed"):
        report = read_file(str(written(tmp_path, data, name)))
        assert isinstance(report, Report)
        assert ([launch.name for launch in report.launches], report.warnings) == (["one", "two", "three"], ())
    path = written(tmp_path, data)
    source = gpuprof.load(path).sources[0]
    with path.open("rb") as file:
        assert (source.file, source.kind, source.sha256) == (path.name, "ncu-rep", file_bytes.digest_of(file))


@each_row(
    ("data", "name", "message"),
    [
        *((data, "a.ncu-repz", "first bytes") for data in (
            compressed(b"text"), compressed(b"NV"), frame(*[zeros()] * 1000), compressed(PACKED), PACKED[1:])),
        *((data, "a.ncu-repz", "no content") for data in (compressed(b""), SKIPPED)),
        (compressed(b"text"), "a.txt", "archive"), (b"\x1f\x8b" + bytes(99), "a.ncu-repz", "archive"),
        (PACKED[:9], "a.zst", "archive"),
    ],
)  # fmt: skip
def test_what_is_no_report_says_so(data: bytes, name: str, message: str, tmp_path: Path, emptied: Path) -> None:
    for salvage in (False, True):
        with pytest.raises(InputError, match=message):
            read_file(str(written(tmp_path, data, name)), salvage=salvage)


@each_row(
    ("data", "at", "launches"),
    [
        *((IN_FRAMES + more, len(IN_FRAMES), 3) for more in (b"more", b"\0", MAGIC, SKIPPED[:-1], SKIPPED[:6])),
        (PACKED[:-1], len(PACKED) - 4, 3), (PACKED[:-1] + bytes((PACKED[-1] ^ 1,)), 0, 3),
        (frame(stored(PLAIN)), 6 + 3 + len(PLAIN), 3),
        (frame(stored(PLAIN), unknown(last=True)), 6 + 3 + len(PLAIN), 3),
        (frame(stored(PLAIN), stored(b"", last=True), declared=9999), 0, 3),
        # Damage of what is packed has its place there.
        (compressed(PLAIN[:-9]), len(PLAIN) - len(LAUNCHES[-1]), 2),
    ],
)  # fmt: skip
def test_damage_has_a_place_and_loses_no_launch_before_it(
    data: bytes, at: int, launches: int, tmp_path: Path, emptied: Path
) -> None:
    path = written(tmp_path, data)
    with pytest.raises(DamagedInput, match=rf"a.ncu-repz .*at byte {at}\b.*; {launches} kernels") as caught:
        read_file(str(path))
    assert f"--salvage shows the {launches}" in (caught.value.hint or "")
    report = read_ncu_rep(path, salvage=True)
    assert [launch.name for launch in report.launches] == ["one", "two", "three"][:launches]
    assert len(report.warnings) == 1 and report.warnings[0].startswith(f"at byte {at}")
    for nothing in (PACKED[:9], IN_FRAMES[: len(compressed(HEAD)) + 9], MAGIC):
        with pytest.raises(DamagedInput, match="0 kernels"):
            read_file(str(written(tmp_path, nothing)), salvage=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.sampled_from([PACKED, IN_FRAMES, compressed(PLAIN, checksum=False, size=False)]),
    cut=st.none() | st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=3),
    salvage=st.booleans(),
)
@pytest.mark.usefixtures("through_a_file")
def test_any_damage_ends_in_an_error_or_a_report(
    data: bytes, cut: float | None, flips: list[tuple[float, int]], salvage: bool, tmp_path: Path, emptied: Path
) -> None:
    changed = bytearray(data)
    for place, bits in flips:
        changed[int(place * (len(data) - 1))] ^= bits
    kept = bytes(changed[: int(cut * (len(data) - 1))] if cut is not None else changed)
    path = written(tmp_path, kept)
    try:
        report = read_file(str(path), salvage=salvage)
    except InputError as error:
        assert "a.ncu-repz" in error.message
    else:
        assert isinstance(report, Report)
        if not flips and not salvage and kept != data:
            assert kept in [b"".join(FRAMES[:count]) for count in range(len(FRAMES))], "launches are lost in silence"
    assert list(emptied.iterdir()) == []


def bomb(count: int, declared: int | None = None) -> bytes:
    """A file that unpacks to so many blocks of 128 KiB, after the start of a report."""
    return frame(stored(PLAIN), *[zeros()] * count, zeros(last=True), declared=declared)


@each_row("declared", [None, 10 * 2**30])
def test_what_unpacks_to_10_gib_is_refused_soon_and_in_little_memory(
    declared: int | None, tmp_path: Path, emptied: Path
) -> None:
    path = written(tmp_path, bomb(10 * 2**13, declared))
    assert path.stat().st_size < 400_000
    tracemalloc.start()
    began = time.monotonic()
    try:
        with pytest.raises(InputError, match="126 MiB") as caught:
            read_file(str(path), salvage=True)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 20, "writing 126 MiB takes a second"
    assert caught.value.hint is not None and "zstd -d" in caught.value.hint


@each_row(
    ("data", "message", "hint"),
    [
        (frame(stored(PLAIN, last=True), window=0x89), "144 MiB", "--long=31"),
        (frame(stored(PLAIN, last=True), window=0xFF), "3,932,160 MiB", "--long=31"),
        (frame(stored(PLAIN, last=True), dictionary=7), "dictionary", "that dictionary"),
        (frame(stored(PLAIN, last=True), declared=2**63), "16 MiB", "zstd -d"),
        (PACKED + frame(zeros(last=True), declared=2**24 - 10), "16 MiB", "zstd -d"),
    ],
    ids=["window", "largest window", "dictionary", "size", "size of the second frame"],
)
def test_what_takes_too_much_is_refused_by_its_header(data: bytes, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_file(str(written(tmp_path, data)))
    assert caught.value.hint is not None and hint in caught.value.hint
    largest = written(tmp_path, frame(stored(PLAIN, last=True), window=0x88))
    assert kernels(largest) == ["one", "two", "three"]
