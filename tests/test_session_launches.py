"""A session's file whose launches are read as groups: the same groups as of all that it holds, from far less of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import gpuprof
import gpuprof.api
from gpuprof.errors import DamagedInput, GpuprofError
from gpuprof.model.analyse import analyse
from gpuprof.model.session import LaunchCount, LaunchTimes, Session
from gpuprof.store.launches import read_groups
from gpuprof.store.write import session_bytes
from tests import builders
from tests.worded import diagnose, grouped

RECORDED = Path(__file__).parent / "data" / "gpu"


@cache
def many() -> Session:
    """Seven launches of one kernel, one of another, and two in a grid of their own, with counts."""
    times = (3e-3, 1e-3, 2e-3, 5e-3, 4e-3, 7e-3, 6e-3, 9e-3, 8e-3, 8.5e-3)
    every = [builders.launch({"gpu__time_duration.sum": time}, name="a") for time in times]
    every[7] = replace(every[7], name="b", demangled="b")
    every[8:] = [replace(launch, grid=(7, 1, 1)) for launch in every[8:]]
    session = diagnose(analyse([builders.report(*every)], builders.hardware_of, "1"))
    kernels = (replace(kernel, counts=counts(kernel.id)) for kernel in session.kernels)
    return replace(session, kernels=tuple(kernels))


def counts(number: int) -> tuple[LaunchCount, ...]:
    names = ("instructions", "opcode.FFMA", *(("opcode.MUFU",) if number % 2 else ()))
    return tuple(
        LaunchCount(name=name, value=number, unit="inst", metric="m", low=number, high=number) for name in names
    )


def groups_of(content: bytes, folder: Path) -> Session:
    """Return what `load` gives for a file with this content, equal launches as one kernel."""
    path = folder / "s.json"
    path.write_bytes(content)
    return gpuprof.load(path, groups=True)


def all_of(content: bytes, folder: Path) -> Session:
    path = folder / "whole.json"
    path.write_bytes(content)
    return grouped(gpuprof.load(path))


def test_launches_become_groups(tmp_path: Path) -> None:
    session = groups_of(session_bytes(many()), tmp_path)
    assert session == all_of(session_bytes(many()), tmp_path)
    # Of 3, 1, 2, 5, 4, 7 and 6 ms the median is 4 ms; half of the 28 ms passes until 5 ms, launch 3, longer by a
    # quarter. b is launch 7; of 8 and 8.5 ms, which differ by less than a tenth, the shorter is launch 8.
    assert [(kernel.id, kernel.launches, kernel.duration_s) for kernel in session.kernels] == [
        (3, 7, 5e-3), (7, 1, 9e-3), (8, 2, 8e-3)
    ]  # fmt: skip
    spans = {count.name: (count.low, count.high) for count in session.kernels[0].counts}
    # MUFU was executed by launches 1, 3 and 5; the others have a histogram without it.
    assert spans == {"instructions": (0, 6), "opcode.FFMA": (0, 6), "opcode.MUFU": (0, 5)}


def changed(content: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    for old, new in changes:
        assert old in content
        content = content.replace(old, new, 1)
    return content


def test_what_the_launches_contradict_is_told_as_of_the_whole(tmp_path: Path) -> None:
    content = session_bytes(many())
    broken = {
        "another device": changed(content, (b'"device": 0, "rank"', b'"device": 7, "rank"')),
        "a verdict on none": re.sub(rb'"kernel": [0-9]+, "state"', b'"kernel": 99, "state"', content),
        "a count outside": changed(content, (b'"low": 4, "high": 4', b'"low": 5, "high": 5')),
        "cut": content[: len(content) // 2],
        "a comma too many": changed(content, (b"\n  ],\n  \"timeline\"", b",\n  ],\n  \"timeline\"")),
        "no JSON": changed(content, (b'"launches": 1,', b'"launches": 1;')),
        "another version": changed(content, (b'"schema_version": 3', b'"schema_version": 2')),
        "text behind": content + b"}",
        "no kernels behind": changed(content, (b'  "timeline"', b'  "kernels": [],\n  "timeline"')),
        "a form feed before a line": changed(content, (b'\n    {"id": 2, "source"', b'\n\x0c    {"id": 2, "source"')),
        "a count outside, of one alone": changed(content, (b'"low": 7, "high": 7', b'"low": 8, "high": 8')),
        "lines fewer than none": re.sub(rb'(\n    {"id": 8, "source".*"lines_dropped": )0', rb"\g<1>-1", content),
    }  # fmt: skip
    for name, other in broken.items():
        assert other != content, name
        said = []
        for way in (groups_of, all_of):
            with pytest.raises(GpuprofError) as caught:
                way(other, tmp_path)
            said.append(caught.value.message.replace("whole.json", "s.json"))
        assert said[0] == said[1], name


def test_damage_of_a_launch_is_told_where_that_launch_is_asked_for(tmp_path: Path) -> None:
    lines = session_bytes(many()).splitlines(keepends=True)
    damaged = b"".join(
        line.replace(b'"stalls": []', b'"stalls": 5') if line.startswith(b'    {"id": 2,') else line for line in lines
    )
    assert damaged != b"".join(lines)
    assert groups_of(damaged, tmp_path) == all_of(b"".join(lines), tmp_path)
    with pytest.raises(DamagedInput, match=r"session\.kernels\[2\]\.stalls is 5"):
        gpuprof.load(tmp_path / "s.json")


@pytest.mark.slow
def test_recorded_sessions(tmp_path: Path) -> None:
    files = sorted(RECORDED.rglob("session.json"))
    assert files
    for file in files:
        assert groups_of(file.read_bytes(), tmp_path) == all_of(file.read_bytes(), tmp_path)


times = st.one_of(st.none(), st.floats(min_value=1e-7, max_value=10))
places = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), times, st.booleans(), st.integers(1, 3)), min_size=1, max_size=12
)


def made(chosen: Sequence[tuple[int, int, float | None, bool, int]]) -> Session:
    """Return a session of kernels made of one: by name, width of the grid (0: unknown), time, counts and launches."""
    kernels = []
    for number, (name, width, duration_s, has_counts, stands_for) in enumerate(chosen):
        listed = duration_s is not None and stands_for > 1
        kernel = replace(
            many().kernels[0],
            id=number,
            demangled=f"k{name}",
            grid=(width, 1, 1) if width else None,
            launches=stands_for,
            duration_s=duration_s,
            time_total_s=duration_s * stands_for if duration_s is not None else None,
            launch_times=LaunchTimes(durations_s=(duration_s,) * stands_for) if listed and duration_s else None,
            counts=counts(number) if has_counts else (),
            findings=tuple(
                replace(finding, id=f"{number}.{finding.rule}", cause=None)
                for finding in {finding.rule: finding for finding in many().kernels[0].findings}.values()
            ),
        )
        kernels.append(kernel)
    return replace(many(), kernels=tuple(kernels), verdict=None, recommendations=())


@given(places)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_session_becomes_the_groups_of_its_whole(
    tmp_path: Path, chosen: list[tuple[int, int, float | None, bool, int]]
) -> None:
    content = session_bytes(made(chosen))
    assert groups_of(content, tmp_path) == all_of(content, tmp_path)
    path = tmp_path / "s.json"
    assert read_groups(path, "s.json") is not None


@given(st.integers(0, 10**9), st.integers(0, 255), st.integers(1, 30))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_is_silent(tmp_path: Path, place: int, byte: int, length: int) -> None:
    """What either way makes of a damaged file is the same, but for launches that no group is told by."""
    content = bytearray(session_bytes(many()))
    at = place % len(content)
    content[at : at + length] = bytes([byte]) * (place % (length + 1))
    results: list[object] = []
    for way in (groups_of, all_of):
        try:
            results.append(way(bytes(content), tmp_path))
        except GpuprofError as error:
            results.append(error.message.replace("whole.json", "s.json"))
    if results[0] != results[1]:
        assert isinstance(results[0], Session)
        assert isinstance(results[1], str)
        # Errors name a launch by its place in the file, and one that contradicts itself by its number.
        assert "session.kernels[" in results[1] or "of kernel " in results[1]
