"""Fixtures, hooks and settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gpuprof.sass.tools import user_cache
from tests.cuda_tools import ALL_VARIANTS, why_not
from tests.field.folder import REPORTS as FIELD_REPORTS

os.environ["GPUPROF_CACHE"] = "off"
"""Tests leave the user's cache folder alone; tests of the cache name a folder of their own."""

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Each test process has one processor; NumPy's threads would wait for one another on it."""

_OLDER = Path(__file__).resolve().parents[1] / ".nvdisasm" / "12.8"
"""`.ci/run` puts an nvdisasm that reads Volta's code here; tests find it on PATH, as they find a user's toolkit."""
if _OLDER.is_dir():
    os.environ["PATH"] = os.pathsep.join([str(_OLDER), os.environ.get("PATH", os.defpath)])

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _stop in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_stop) == signal.SIG_IGN:
        signal.signal(_stop, signal.SIG_DFL)
"""A shell's background jobs and nohup ignore these signals, and so would every process that the tests start."""

gc.set_threshold(100_000, 50, 100)
"""Thousands of tests leave many objects; collecting garbage at Python's default rate takes a sixth of the time."""

settings.register_profile("gpuprof", deadline=None, max_examples=100 if ALL_VARIANTS else 40)
settings.load_profile("gpuprof")
"""No deadline, so that a busy machine fails no test. Each run draws new examples."""

_H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
OWN_REPORTS = [_H100 / name / "profile.ncu-rep" for name in ("passes/full", "passes/diagnose", "graphs/run")]
"""Reports of our own programs by ncu 2025.3: the full set, the `diagnose` set, nodes of a graph."""


@pytest.fixture
def emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that must be empty at the end of the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="session", autouse=True)
def user_s_cache_is_left_alone() -> Iterator[None]:
    """Tests that replace the environment use no cache either, unless they name a folder."""
    cache_below = user_cache._cache_below

    def named(base: str) -> user_cache.UserCache:
        return cache_below(base) if base else user_cache.UserCache(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_cache, "_cache_below", named)
        yield


@pytest.fixture(scope="session")
def cuda_wheels() -> None:
    """Skip if NVRTC or nvdisasm is missing."""
    missing = why_not()
    if missing is not None:
        pytest.skip(missing)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that need NVRTC and nvdisasm."""
    if isinstance(item, pytest.Function) and "cuda_wheels" in item.fixturenames:
        item.add_marker(pytest.mark.compilers)


def pytest_report_header() -> str:
    """Say in one line whether reports of others are read."""
    if FIELD_REPORTS is None:
        return "without reports of others: GPUPROF_FIELD_REPORTS names no folder, so tests marked field are left out"
    return f"reports of others: {FIELD_REPORTS}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `real_report` once for each report: our own, and those in GPUPROF_FIELD_REPORTS."""
    if "real_report" in metafunc.fixturenames:
        others = sorted(FIELD_REPORTS.glob("*rep*")) if FIELD_REPORTS is not None else []
        marked = [pytest.param(path, marks=pytest.mark.field, id=path.stem) for path in others]
        own = [pytest.param(path, id=f"h100-{path.parent.name}") for path in OWN_REPORTS]
        metafunc.parametrize("real_report", [*own, *marked])
