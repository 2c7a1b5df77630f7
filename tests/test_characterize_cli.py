"""`gpuprof characterize` without a GPU: what it prints and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprof.characterize.gates import table
from gpuprof.characterize.probes import library
from gpuprof.characterize.probes.probe import Probe
from gpuprof.cli.characterize import command
from gpuprof.errors import EnvironmentProblem, GpuprofError, UsageError
from gpuprof.sass.tools import nvrtc
from gpuprof.sass.tools.nvrtc import find_nvrtc
from tests.cuda_tools import needs_cuda_wheels, twin_named
from tests.table import each_row

FMA, MMA = "twins/fma", "twins/mma"


def characterize(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


@pytest.fixture(autouse=True)
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Probe, ...]:
    """Let the probes of the tests be all that there are."""
    probes = tuple(twin_named(name, tmp_path) for name in ("chase", "fma", "fp8-mma", "mma"))
    monkeypatch.setattr(library, "load_probes", lambda folder: probes)
    return probes


@needs_cuda_wheels
@pytest.mark.compilers
def test_gates_of_compiled_probes_are_told_as_json_and_as_a_table() -> None:
    chosen = ("--only", FMA, "--only", MMA, "--arch", "sm_75", "--arch", "sm_90")
    result = characterize("--compile-only", *chosen, "--format", "json")
    assert result.return_value == 0
    written = json.loads(result.stdout)
    assert set(written) == {"kernels"}
    rows = {(row["probe"], row["arch"]): row for row in written["kernels"]}
    assert list(rows) == [(FMA, "sm_75"), (FMA, "sm_90a"), (MMA, "sm_75"), (MMA, "sm_90a")]
    assert all(set(row) == {"probe", "arch", "gate", "why", "opcodes"} for row in rows.values())
    assert [row["gate"] for row in rows.values()] == ["pass", "pass", "unsupported", "pass"]
    assert rows[FMA, "sm_90a"]["opcodes"]["FFMA"] == 128
    assert (rows[MMA, "sm_75"]["opcodes"], "sm_80" in rows[MMA, "sm_75"]["why"]) == ({}, True)
    table_of = characterize("--compile-only", "--only", MMA, "--arch", "sm_75", "--arch", "sm_80").stdout
    assert [line.split() for line in table_of.splitlines()] == [["probe", "sm_75", "sm_80"], [MMA, "-", "pass"]]


@needs_cuda_wheels
@pytest.mark.compilers
def test_a_failed_gate_ends_with_1_and_names_the_variant() -> None:
    result = characterize("--compile-only", "--arch", "sm_90a")
    assert result.return_value == 1
    for fragment in ("CHAINS=2: 16 of 16 LDG", "STEPS=1 REPEAT=4: 2 HMMA.16816.F32", "TILES=4 UNROLL=8: 32 HMMA"):
        assert fragment in result.stdout
    assert "2 failed" in result.stderr
    result = characterize("--compile-only", "--only", "twins/chase", "--arch", "sm_80", "--format", "json")
    (row,) = json.loads(result.stdout)["kernels"]
    assert (result.return_value, row["gate"], row["opcodes"]["LDG.E.64"]) == (1, "fail", 16)


def error_of(*arguments: str) -> GpuprofError:
    result = characterize(*arguments)
    assert isinstance(result.exception, GpuprofError)
    return result.exception


@each_row(
    ("arguments", "named"), [(("--compile-only", "--arch", "sm_9"), "--arch sm_9"),
        (("--compile-only", "--only", "nothing"), "--only nothing"), (("--arch", "sm_90"), "--compile-only")],
)  # fmt: skip
def test_wrong_use_is_a_usage_error_with_a_hint(arguments: tuple[str, ...], named: str) -> None:
    error = error_of(*arguments)
    assert isinstance(error, UsageError)
    assert named in error.message
    assert error.hint


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(nvrtc, "_candidates", lambda: [])
    find_nvrtc.cache_clear()
    yield
    find_nvrtc.cache_clear()


@pytest.mark.usefixtures("no_compiler")
def test_what_is_missing_is_an_environment_problem_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprof.collect.machine.gpus_here", lambda environ: ())
    errors = {"--compile-only": error_of()}
    for disassemblers, needed in ((("one",), "nvidia-cuda-nvrtc"), ((), "nvidia-cuda-nvdisasm")):
        monkeypatch.setattr(table, "find_disassemblers", lambda tools=disassemblers: tools)
        errors[needed] = error_of("--compile-only", "--only", FMA)
    for needed, error in errors.items():
        assert isinstance(error, EnvironmentProblem)
        assert needed in (error.hint or "")
