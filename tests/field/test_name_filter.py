"""Kernels of reports, exports and timelines of others are found under the names that ncu of 2022 to 2026 compares."""

from __future__ import annotations

import csv
from io import BytesIO
from pathlib import Path

from gpuprof.read.torch_json import TraceJson
from tests.field.folder import folder, report
from tests.kernel_name_corpus import library_name, renamed
from tests.readings import report_of
from tests.test_name_filter import GEMV, finds

COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, 4, "
    "TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::"
    "LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, at::native::direct_copy_kernel_cuda(at::"
    "TensorIteratorBase&)::{lambda()#3}, std::array<char*, 2ul>)"
)


def csv_names(place: Path) -> set[str]:
    """The kernels of an export of ncu."""
    lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
    head = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return {row["Kernel Name"] for row in csv.DictReader(lines[head:]) if row.get("Kernel Name")}


def test_every_kernel_of_reports_is_found() -> None:
    names: dict[str, str] = {}
    for file in sorted(folder().glob("*.ncu-rep")):
        names |= {launch.mangled: launch.demangled for launch in report_of(file) if launch.mangled is not None}
    assert len(names) > 30
    for symbol, nvidia in names.items():
        for source in (library_name(symbol), nvidia):
            assert finds(source, nvidia) and finds(source, renamed(nvidia))


def test_every_kernel_of_exports_and_traces_is_found() -> None:
    exported = {name for file in (folder() / "csv").glob("*.csv") for name in csv_names(file)}
    traced = set()
    for file in (folder() / "traces").glob("*.pt.trace.json*"):
        events = [each for each in TraceJson(BytesIO(file.read_bytes()), file.name).events() if isinstance(each, dict)]
        traced |= {each["name"] for each in events if each.get("cat", "").lower() == "kernel"}
    assert len(exported) >= 14 and len(traced) > 100
    for name in exported | traced:
        assert finds(name, name) and finds(name, renamed(name))
    for library, export in ((GEMV, "rtx5090-details.csv"), (COPY, "rtx5090-details-2.csv")):
        (name,) = csv_names(report(f"csv/{export}"))
        assert finds(library, name)
