"""Kernels of others' reports: what they executed, at which lines, under which names, and which of them set up data."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.verdicts.__main__ import told_of
from benchmarks.verdicts.expected import read_table
from benchmarks.verdicts.totals import lost, scored
from gpuprof.collect.name_pieces import as_ncu_may_write
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.set_up import set_up_kernels
from tests.field.folder import folder, report
from tests.kernel_name_corpus import library_name
from tests.readings import report_of
from tests.real_sessions import loaded
from tests.table import each_row

BASELINE = "gpu_workshop-MW_Baseline.ncu-rep"


def test_counts_agree_with_each_other() -> None:
    for name in ("cutlass-384.ncu-rep", "indexspaces.jl-profile.ncu-rep", BASELINE):
        for kernel in loaded(report(name)).kernels:
            values = {count.name: count.value for count in kernel.counts}
            assert sum(value for name, value in values.items() if name.startswith("opcode.")) == values["instructions"]
            assert values["thread-instructions"] <= 32 * values["instructions"]
            (bytes_l2,) = (level.bytes for level in kernel.traffic if level.level == "l2")
            assert values["l2-sectors"] * 32 == bytes_l2


def test_lines_execute_what_the_kernels_did() -> None:
    gemm = loaded(report("cutlass-384.ncu-rep")).kernels[0]
    local = {(Path(work.file).name, work.number): work.local for work in gemm.lines if work.local}
    # Five instructions LDL and STL, executed 1920 times in all.
    assert local == {("memory_sm80.h", 341): 1152.0, ("mma_sm80.h", 842): 768.0}
    assert (len(gemm.lines), gemm.lines_dropped) == (64, 192)
    for kernel in loaded(report(BASELINE)).kernels:
        total = next(count.value for count in kernel.counts if count.name == "instructions")
        executed = sum(work.instructions or 0.0 for work in kernel.lines)
        # What the compiler added has no line.
        assert 0.4 * total < executed <= total
        assert all(work.local == 0.0 and work.text for work in kernel.lines)


@each_row(("file", "share"), [
    ("csv/bert-torch-details.csv", 0.05), ("sglang-profile.ncu-rep", 1.0), ("cutlass-384.ncu-rep", 0.0),
    (BASELINE, 0.0), ("indexspaces.jl-profile.ncu-rep", 0.0),
])  # fmt: skip
def test_kernels_set_up_data_where_experts_see_it(file: str, share: float) -> None:
    kernels = loaded(report(file)).kernels
    chosen = set_up_kernels(kernels)
    taken = sum(kernel.time_share or 0.0 for kernel in kernels if kernel.id in chosen)
    assert taken == 0.0 if share == 0.0 else taken >= share - 1e-9


def test_kernels_are_found_by_the_names_that_pytorch_would_write() -> None:
    names: dict[str, str] = {}
    for file in sorted(folder().glob("*.ncu-rep")):
        names |= {launch.mangled: launch.demangled for launch in report_of(file) if launch.mangled is not None}
    assert len(names) > 30
    for mangled, nvidia in names.items():
        library = library_name(mangled)
        fitting = [other for other in names.values() if re.match(as_ncu_may_write(library), other)]
        assert nvidia in fitting
        if not library.startswith("_Z"):
            assert kernel_key(library) == kernel_key(nvidia)
            assert len({kernel_key(name) for name in fitting}) == 1
    assert len(set(map(kernel_key, names.values()))) == len(set(names.values()))


def test_no_aim_of_verdicts_that_was_reached_is_lost() -> None:
    table = read_table()
    assert [name for name in table.reports if not any(folder().rglob(name))] == []
    score = scored(table, told_of(folder(), table.reports))
    assert [aim.name for aim in lost(score)] == []
