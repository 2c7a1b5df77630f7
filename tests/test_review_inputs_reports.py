"""Reports of ncu give a kernel for each launch, from the code that they embed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import DictMetrics, EmbeddedProgram, Launch, LaunchDetails, Metric, Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.batch import reviewed_batch
from gpuprof.review.inputs import reports as inputs
from tests.conftest import OWN_REPORTS
from tests.review_inputs import CACHE, modules

CUBIN = next(iter(sorted(CACHE.glob("*/row_sums.cubin")))).read_bytes()


def test_each_launch_is_a_kernel_with_its_shape_in_the_order_of_the_report() -> None:
    path = OWN_REPORTS[0]
    (module,) = modules(path)
    report = read_ncu_rep(path)
    assert module.target == "sm_90"
    assert [kernel.launch for kernel in module.kernels] == list(range(len(report.launches)))
    for kernel, launch in zip(module.kernels, report.launches, strict=True):
        assert (kernel.shape.block, kernel.shape.grid) == (launch.block, launch.grid)
        assert kernel.shape.dynamic_shared_bytes == launch.metrics.number("launch__shared_mem_per_block_dynamic")
        assert (kernel.name, kernel.kernel.mangled) == (launch.demangled, launch.mangled)
        assert kernel.kernel.code == launch.details.machine_code()
    assert module.kernels[0].cubin is module.kernels[1].cubin
    (chosen,) = modules(OWN_REPORTS[2], kernel="right")
    assert (chosen.holds, [kernel.launch for kernel in chosen.kernels]) == (3, [2])


class Embedded(LaunchDetails, frozen=True):
    """Details with a program."""

    embedded: EmbeddedProgram | None = None

    def program(self) -> EmbeddedProgram | None:
        return self.embedded


def report_of(*launches: Launch) -> Report:
    return Report(
        file="r.ncu-rep", sha256="", kind="ncu-rep", tool="ncu", tool_version="2025.1", launches=launches, devices=()
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Bytes that are told to be a report; what is in it says the test."""
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(b"NVR\0")
    return path


def launch_of(mangled: str, cubin: bytes | None, kind: str = "kernel") -> Launch:
    program = EmbeddedProgram(mangled, cubin) if cubin is not None else None
    return Launch(
        name=mangled, demangled=mangled, device=0, kind=kind, block=(128, 1, 1), details=Embedded(embedded=program)
    )


def test_launches_without_code_say_why_and_graphs_are_left_out(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = (
        launch_of("bare", None), launch_of("row_sums", CUBIN), launch_of("graph", None, kind="graph"),
        launch_of("absent", CUBIN), launch_of("broken", b"\x7fELF"), launch_of("row_sums", CUBIN),
    )  # fmt: skip
    monkeypatch.setattr(inputs, "read_ncu_rep", lambda *_, **__: report_of(*launches))
    listed = modules(file)
    kernels = [kernel for module in listed for kernel in module.kernels]
    assert [(kernel.launch, kernel.bare is None) for kernel in kernels] == [
        (0, False), (1, True), (3, False), (4, False), (5, True),
    ]  # fmt: skip
    assert reviewed_batch([kernels[0]])[0].unreviewed == "the report embeds no code of it"
    (note,) = [note for module in listed for note in module.notes]
    assert "1 launch left out" in note


def test_launches_without_code_have_what_the_report_recorded_of_them(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a GPU that is known: 40 registers, 1 KiB + 2 KiB of shared memory; nothing that only code tells."""
    recorded = DictMetrics(
        {
            "launch__registers_per_thread": Metric(40.0, "register/thread"),
            "launch__shared_mem_per_block_static": Metric(1024.0, "byte"),
            "launch__shared_mem_per_block_dynamic": Metric(2048.0, "byte"),
        }
    )
    launches = (
        launch_of("row_sums", CUBIN),
        structs.replace(launch_of("bare", None), metrics=recorded),
        launch_of("absent", CUBIN),
    )
    report = structs.replace(report_of(*launches), devices=(RecordedDevice(compute_capability="8.0"),))
    monkeypatch.setattr(inputs, "read_ncu_rep", lambda *_, **__: report)
    _, bare, absent = [kernel for module in modules(file) for kernel in module.kernels]
    told = reviewed_batch([bare])[0]
    assert (told.target, told.launch, bool(told.unreviewed)) == ("sm_80", 1, True)
    taken = told.resources
    assert (taken.registers, taken.static_shared_bytes, taken.dynamic_shared_bytes) == (40, 1024, 2048)
    assert (taken.spills, taken.code_bytes, taken.instructions, taken.barriers) == (None, None, None, None)
    assert told.occupancy is not None
    assert (told.occupancy.blocks_per_sm, told.occupancy.fraction) == (12, 0.75)
    assert told.findings == ()
    unknown = reviewed_batch([absent])[0]
    assert (unknown.resources.static_shared_bytes, unknown.occupancy) == (None, None)
    assert "absent" in (unknown.unreviewed or "")


def test_a_report_of_graphs_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "read_ncu_rep", lambda *_, **__: report_of(launch_of("graph", None, kind="graph")))
    with pytest.raises(InputError, match="1 launch"):
        modules(file)
