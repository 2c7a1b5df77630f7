"""What `gpuprof check` says of the code in reports of others, against what ncu recorded and counted of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.code_against_counters import main
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.batch import reviewed_batch
from gpuprof.review.parallel import reviewed_kernels
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.instruction import instruction_of
from gpuprof.sass.tools.disassemble import disassembler_for
from tests.field.folder import folder, report
from tests.followed_code import trip_counts
from tests.readings import report_of
from tests.review_inputs import modules
from tests.table import each_row
from tests.test_review_memory import judged_right
from tests.test_review_resources import agreed


def test_all_launches_have_code_that_agrees_with_what_was_recorded() -> None:
    """Registers, static shared memory, occupancy, and a kernel for each launch in its order."""
    reads_volta = disassembler_for("sm_70") is not None
    compared = launches = 0
    for path in sorted(folder().glob("*.ncu-rep")):
        compared += agreed(path)
        if path.name.startswith("gpu_workshop") and not reads_volta:
            continue
        recorded = read_ncu_rep(path).launches
        kernels = sorted(
            (item for module in modules(path) for item in module.kernels), key=lambda item: item.launch or 0
        )
        assert [(item.launch, item.shape.block, item.shape.grid) for item in kernels] == [
            (number, launch.block, launch.grid) for number, launch in enumerate(recorded)
        ], path.name
        launches += len(kernels)
    assert compared > 50 and launches > 50


def test_launches_of_another_target_stand_in_a_module_of_their_own() -> None:
    listed = modules(report("esmm-research-profile.ncu-rep"))
    assert [(module.target, module.holds) for module in listed] == [("sm_86", 10), ("sm_80", 2)]
    assert [kernel.launch for module in listed for kernel in module.kernels] == list(range(12))


def test_code_that_was_copied_from_a_running_program_has_its_functions_where_they_are() -> None:
    """In this report the symbols of kernel and functions are addresses in memory."""
    program = read_ncu_rep(report("indexspaces.jl-profile-3176628.ncu-rep")).launches[1].details.program()
    assert program is not None
    (kernel,) = (item for item in read_cubin(program.cubin).kernels if item.mangled == program.mangled)
    assert [function.offset for function in kernel.inner] == [0x61B0, 0x62A0]
    assert kernel.required_block == (768, 1, 1)


def test_trips_are_those_that_the_counters_tell() -> None:
    ratios = []
    for name in ("indexspaces.jl-profile-3176628.ncu-rep", "indexspaces.jl-profile.ncu-rep"):
        for launch in read_ncu_rep(report(name)).launches:
            listing = launch.details.instructions(("inst_executed",))
            executed = {item.pc: item.counts.get("inst_executed", 0.0) for item in listing}
            code = tuple(filter(None, (instruction_of(item.sass, item.pc) for item in listing)))
            before = {after.address: executed[item.address] for item, after in pairwise(code)}
            trips = sorted(trip_counts(code, {}).items())
            ratios += [(count, executed[header] / before[header]) for header, count in trips]
    assert [count for count, _ in ratios] == [256, 4, 43, 12]
    assert all(counted == count for count, counted in ratios)


@each_row("name", ["cutlass-report80.ncu-rep", "indexspaces.jl-profile.ncu-rep"])
def test_what_is_known_is_what_ncu_counted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(report(name))])
    judged_right(capsys.readouterr().out.splitlines(), None)


@each_row(
    ("launch", "lines", "requests"),
    [
        (2, 2 * 1, 2 + 2 + 32 + 8),
        (5, 1 * 16 + 1 * 4, 1 + 1 + 4 + 1 + 16 + 16),
        (7, 4 * 4 + 4 * 4, 8 + 16 + 4 + 32 + 128),
        (8, 4 * 4 + 4 * 4, 8 + 16 + 4 + 128 + 128),
    ],
)
def test_wavefronts_of_wide_loads_are_those_that_ncu_counted_of_a_whole_launch(
    launch: int, lines: int, requests: int
) -> None:
    """Matrix products on an A10G, which takes a request every other cycle and a wavefront each cycle.

    Nearly all requests are those of the loop: what comes behind it adds 1 % or so. `lines`: the cache lines that its
    loads from global memory touch, which take a wavefront each; by hand, as the length of a row is an argument.
    """
    file = report("esmm-research-profile-26b457a.ncu-rep")
    (kernel,) = (item for module in modules(file) for item in module.kernels if item.launch == launch)
    (reviewed,) = reviewed_kernels([kernel], lambda *_: None)
    loop = [access for access in reviewed.accesses if access.loop is not None]
    assert len(loop) == requests
    shared = sum(access.wavefronts_per_request or 0.0 for access in loop if access.space == "shared")
    number = report_of(file).launches[launch].metrics.number
    wavefronts, asked = (
        number(f"l1tex__{name}.avg.pct_of_peak_sustained_elapsed")
        for name in ("data_pipe_lsu_wavefronts", "lsuin_requests")
    )
    assert wavefronts and asked
    assert (shared + lines) / requests == pytest.approx(2 * wavefronts / asked, rel=0.02)


def test_lines_of_a_launch_are_those_that_the_report_names() -> None:
    """For inlined functions, ncu and `gpuprof show` name the calling line; for a file it is the innermost line."""
    path = report("cutlass-384.ncu-rep")
    ((kernel,),) = [module.kernels for module in modules(path, kernel="B2bGemm")]
    ((of_launch,), (of_file,)) = [reviewed_batch([item]) for item in (kernel, replace(kernel, launch=None))]
    recorded = read_ncu_rep(path).launches[kernel.launch or 0].details.instructions()
    outer = {16 * index: (entry.file, entry.line) for index, entry in enumerate(recorded)}
    inner = line_tables(kernel.cubin, innermost=True)[kernel.kernel.mangled]
    assert [(item.file, item.line) for item in of_launch.accesses] == [
        outer[item.offset] for item in of_launch.accesses
    ]
    assert [(item.file, item.line) for item in of_file.accesses] == [inner[item.offset] for item in of_file.accesses]
    assert of_launch.accesses != of_file.accesses
