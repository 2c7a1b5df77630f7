"""Reports of ncu give a kernel for each launch, from the code that they embed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from gpuprof.code.binary.cubin import read_cubin
from gpuprof.code.binary.elf import kernel_code
from gpuprof.code.binary.line_table import line_tables
from gpuprof.code.tools.disassemble import find_disassemblers
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import DictMetrics, EmbeddedProgram, FixedDetails, Launch, Metric, Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.inputs import reports as inputs
from gpuprof.review.slices import reviewed_slice
from tests.review_inputs import CACHE, modules

CUBIN = next(iter(sorted(CACHE.glob("*/row_sums.cubin")))).read_bytes()
VOLTA = "gpu_workshop-MW_Baseline.ncu-rep"
STATIC_SHARED = "launch__shared_mem_per_block_static"


def test_each_launch_is_a_kernel_with_its_shape_in_the_order_of_the_report(reports: Path) -> None:
    path = reports / "cutlass-384.ncu-rep"
    (module,) = modules(path)
    report = read_ncu_rep(path)
    assert module.target == "sm_80"
    assert [kernel.launch for kernel in module.kernels] == [0, 1, 2]
    for kernel, launch in zip(module.kernels, report.launches, strict=True):
        assert (kernel.shape.block, kernel.shape.grid) == (launch.block, launch.grid)
        assert kernel.shape.dynamic_shared_bytes == launch.metrics.number("launch__shared_mem_per_block_dynamic")
        assert kernel.name == launch.demangled
        assert kernel.kernel.mangled == launch.mangled
        assert kernel.kernel.code == launch.details.machine_code()
    assert module.kernels[1].cubin is module.kernels[2].cubin, "launches share the bytes of their cubin"


def test_all_launches_of_the_reports_have_code_that_agrees_with_what_was_recorded(reports: Path) -> None:
    seen = 0
    for path in sorted(reports.glob("*.ncu-rep")):
        if path.name.startswith("gpu_workshop") and not _reads_volta():
            continue
        report = read_ncu_rep(path)
        kernels = [kernel for module in modules(path) for kernel in module.kernels]
        assert len(kernels) == len(report.launches)
        for kernel, launch in zip(kernels, report.launches, strict=True):
            assert launch.metrics.number(STATIC_SHARED) in (None, kernel.kernel.static_shared_bytes)
            seen += 1
    assert seen > 50


def _reads_volta() -> bool:
    return any(tool.reads("sm_70") for tool in find_disassemblers())


def test_launches_of_another_target_stand_in_a_module_of_their_own(reports: Path) -> None:
    listed = modules(reports / "esmm-research-profile.ncu-rep")
    assert [(module.target, module.holds) for module in listed] == [("sm_86", 10), ("sm_80", 2)]
    assert [kernel.launch for module in listed for kernel in module.kernels] == list(range(12))


def test_kernels_of_a_report_are_chosen_by_name(reports: Path) -> None:
    (module,) = modules(reports / "cutlass-384.ncu-rep", kernel="B2bGemm")
    assert (module.holds, [kernel.launch for kernel in module.kernels]) == (3, [0])


def test_the_program_of_a_launch_is_its_whole_cubin(reports: Path) -> None:
    details = read_ncu_rep(reports / "sglang-profile.ncu-rep").launches[0].details
    program = details.program()
    assert program is not None
    assert kernel_code(program.cubin, program.mangled) == details.machine_code()
    assert program.mangled in {kernel.mangled for kernel in read_cubin(program.cubin).kernels}


class Embedded(FixedDetails, frozen=True):
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


def test_launches_without_code_are_noted_and_keep_their_numbers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = (
        launch_of("bare", None),
        launch_of("row_sums", CUBIN),
        launch_of("graph", None, kind="graph"),
        launch_of("absent", CUBIN),
        launch_of("broken", b"\x7fELF"),
        launch_of("row_sums", CUBIN),
    )
    monkeypatch.setattr(inputs, "read_ncu_rep", lambda *_, **__: report_of(*launches))
    (module,) = modules(file)
    assert [kernel.launch for kernel in module.kernels] == [1, 5]
    assert len(module.notes) == 4
    assert module.notes[0] == f"{file}: 1 launch left out (bare): the report embeds no code of it"


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
    told = reviewed_slice([(1, bare)])[0]
    assert (told.target, told.launch, told.unreviewed) == ("sm_80", 1, "the report embeds no code of it")
    taken = told.resources
    assert (taken.registers, taken.static_shared_bytes, taken.dynamic_shared_bytes) == (40, 1024, 2048)
    assert (taken.spills, taken.code_bytes, taken.instructions, taken.barriers) == (None, None, None, None)
    assert told.occupancy is not None
    assert (told.occupancy.blocks_per_sm, told.occupancy.fraction) == (12, 0.75)
    assert told.findings == ()
    unknown = reviewed_slice([(2, absent)])[0]
    assert (unknown.resources.static_shared_bytes, unknown.occupancy) == (None, None)
    assert unknown.unreviewed == "its cubin has no kernel absent"


def test_a_report_without_any_code_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "read_ncu_rep", lambda *_, **__: report_of(launch_of("bare", None)))
    with pytest.raises(InputError, match="none of its 1 launches has code that can be read"):
        modules(file)


def test_lines_of_a_launch_are_those_that_the_report_names(reports: Path) -> None:
    """Where functions were inlined, ncu and `gpuprof show` name the line that calls; of a file it is the innermost."""
    path = reports / "cutlass-384.ncu-rep"
    ((kernel,),) = [module.kernels for module in modules(path, kernel="B2bGemm")]
    ((of_launch,), (of_file,)) = [reviewed_slice([(0, item)]) for item in (kernel, replace(kernel, launch=None))]
    recorded = read_ncu_rep(path).launches[kernel.launch or 0].details.instructions()
    outer = {16 * index: (entry.file, entry.line) for index, entry in enumerate(recorded)}
    inner = line_tables(kernel.cubin, innermost=True)[kernel.kernel.mangled]
    assert [(item.file, item.line) for item in of_launch.accesses] == [
        outer[item.offset] for item in of_launch.accesses
    ]
    assert [(item.file, item.line) for item in of_file.accesses] == [inner[item.offset] for item in of_file.accesses]
    assert of_launch.accesses != of_file.accesses
