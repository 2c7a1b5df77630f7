"""Names of C++ kernels: demangled as reports have them, whatever the name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprof.model.kernel_key import kernel_key
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.sass.tools.demangle import demangled
from tests.table import each_row


def has_demangler() -> bool:
    return demangled(["_Z1fv"]) != {"_Z1fv": "_Z1fv"}


needs_demangler = pytest.mark.skipif(not has_demangler(), reason="no C++ library with a demangler")

DOUBLING = "_Z1f1AIiiE" + "".join(f"S_IS{index}_S{index}_E" for index in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Each argument has the one before it twice: 400 characters that would write out as terabytes."""


@needs_demangler
def test_kernels_read_as_in_reports() -> None:
    names = {
        "_Z11mathKernel1Pf": "mathKernel1(float*)",
        "_Z13gmem_coalesceILi32EEviiiPKfS1_Pf": "void gmem_coalesce<32>(int, int, int, float const*, "
        "float const*, float*)",
        "my_kernel": "my_kernel", "_Znot a name": "_Znot a name", "": "",
    }  # fmt: skip
    assert demangled([*names, "my_kernel"]) == names


@needs_demangler
def test_names_are_those_of_the_kernels_in_a_report(real_report: Path) -> None:
    """The two demanglers write casts, spaces and const in other ways; what is one kernel is one kernel for both."""
    if real_report.suffix not in {".ncu-rep", ".nsight-cuprof-report"}:
        pytest.skip("no report of Nsight Compute")
    pairs = {
        (program.mangled, launch.demangled)
        for launch in read_ncu_rep(real_report).launches
        if (program := launch.details.program()) is not None
    }
    texts = demangled([mangled for mangled, _ in pairs])
    assert {kernel_key(texts[mangled]) for mangled, _ in pairs if texts[mangled] != mangled} <= {
        kernel_key(name) for _, name in pairs
    }
    assert all(texts[mangled] != mangled or len(mangled) > 1024 or not mangled.startswith("_Z") for mangled, _ in pairs)


@needs_demangler
@each_row(
    "name",
    [
        "_Z" + "1a" * 50_000,
        "_Z1fI" + "1AI" * 20_000 + "i" + "E" * 20_000 + "Evv",
        "_Z1fP" + "P" * 500_000 + "i",
        "_Z1f" + "P" * (1 << 21) + "i",
        DOUBLING,
        "_Z\ud800v",
        "_Z1f\n_Z1gv",
        "_Z\x1b[31mv",
    ],
    ids=["nested-names", "nested-templates", "pointers", "too-long", "doubling", "surrogate", "newline", "control"],
)
def test_a_hostile_name_stays_and_harms_no_other(name: str) -> None:
    assert demangled([name, "_Z3fooi"]) == {name: name, "_Z3fooi": "foo(int)"}
