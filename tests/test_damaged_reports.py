"""Real small reports, truncated and altered at random: never a crash, a traceback or a silent loss."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import DamagedInput, GpuprofError
from gpuprof.read.files import read_file
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.store.write import session_lines
from tests.conftest import REAL_REPORTS

SMALL = [path for path in REAL_REPORTS if path.stat().st_size < 310_000]
VARIANTS = 60
"""Per report here; the full 300 are run by benchmarks/damage.py."""


def damaged_variant(data: bytes, seed: int) -> bytes:
    """Cut a report, change one to twenty of its bytes, or overwrite a stretch, as the seed says."""
    rng = random.Random(seed)
    kind = seed % 3
    if kind == 0:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    if kind == 1:
        for _ in range(rng.choice((1, 3, 20))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    else:
        start = rng.randrange(len(changed))
        for at in range(start, min(len(changed), start + rng.randrange(1, 200))):
            changed[at] = rng.randrange(256)
    return bytes(changed)


@pytest.mark.skipif(not SMALL, reason="no real reports lie beside the checkout (../shared/reports)")
@pytest.mark.parametrize("path", SMALL, ids=[path.stem for path in SMALL])
def test_damage_is_an_error_or_changes_no_launch_count(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    whole = len(read_ncu_rep(path).launches)
    target = tmp_path / path.name
    for seed in range(VARIANTS):
        target.write_bytes(damaged_variant(data, seed))
        try:
            session = gpuprof.load(target)
        except GpuprofError as error:
            assert (
                "damaged" in error.message or "does not start with NVR" in error.message or "is empty" in error.message
            )
            continue
        assert seed % 3 != 0, "a truncated report was read as whole"
        assert len(session.kernels) == whole
        assert list(session_lines(session))


@pytest.mark.skipif(not SMALL, reason="no real reports lie beside the checkout (../shared/reports)")
def test_half_a_report_says_how_many_kernels_could_be_read(tmp_path: Path) -> None:
    path = next(path for path in SMALL if path.name.startswith("hyper"))
    target = tmp_path / "half.ncu-rep"
    target.write_bytes(path.read_bytes()[:150_000])
    with pytest.raises(DamagedInput, match=r"at byte 137216, .*; 3 kernels could be read|; \d kernels could be read"):
        read_file(str(target))
    salvaged = read_ncu_rep(target, salvage=True)
    assert 0 < len(salvaged.launches) < 8
    assert salvaged.warnings
