"""Holds what `gpuprof check` reads in compiled code against what ncu counted for each instruction.

    python -m benchmarks.code_against_counters [REPORT|FOLDER …]

Of every launch of the reports that counts accesses by instruction: sectors of a global or local request, wavefronts of
a shared one, registers, static shared memory, local instructions, theoretical occupancy. Block and grid are the
launch's; no argument is known. Prints a table in Markdown, for each memory how much of its traffic is known, and the
instructions that differ most.

The status is 1 where an aim is missed, for any memory: 99 % of the traffic of what is known is right, and 75 % of the
traffic is known of what neither arguments nor loaded values decide. Of all traffic, 75 % cannot be known here without
arguments: 93 % of the sectors of global memory are those of gpu_workshop-MW_Baseline and -MW_DivToMult, whose lanes
index by what is left of a division by an argument, and of the second launch of cutlass-report-s8-persist, whose rows
are as long as an argument says.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.counted_accesses import Compared, Row, aim_lines, reached, table_lines, worst_lines
from gpuprof.errors import EnvironmentProblem
from gpuprof.model.recorded import Launch, ProfiledInstruction, Report
from gpuprof.review.contract import ReviewedKernel

_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "reports"
_COUNTERS = {
    "global": "memory_l2_theoretical_sectors_global",
    "local": "memory_l2_theoretical_sectors_local",
    "shared": "memory_l1_wavefronts_shared",
}
_EXECUTED, _LANES = "inst_executed", "thread_inst_executed_true"
_TAGS = "memory_l1_tag_requests_global"
_LEAST_REGISTERS = 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the status says whether the aims are reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", type=Path, default=[_FOLDER], metavar="REPORT")
    named = parser.parse_args(arguments).reports
    files = sorted(file for path in named for file in (path.glob("*.ncu-rep") if path.is_dir() else [path]))
    rows: dict[tuple[str, str], Row] = defaultdict(Row)
    resources: dict[str, list[bool]] = defaultdict(list)
    worst: list[Compared] = []
    launches: dict[str, int] = defaultdict(int)
    for report, launch, kernel in _launches(files):
        device = report.devices[launch.device].name or "?"
        launches[device] += 1
        for item in compared(launch, kernel, f"{report.file} launch {kernel.launch}"):
            rows[device, item.access.space].add(item)
            rows["all", item.access.space].add(item)
            worst += [item] if item.outcome == "wrong" else []
        for name, equal in resources_of(launch, kernel):
            resources[name].append(equal)
    parts = (table_lines(rows, launches), aim_lines(rows), _resource_lines(resources), worst_lines(worst))
    print("\n\n".join("\n".join(lines) for lines in parts))
    return 0 if reached(rows) and all(all(equal) for equal in resources.values()) else 1


def _launches(files: Sequence[Path]) -> Iterator[tuple[Report, Launch, ReviewedKernel]]:
    """Yield the launches that count accesses by instruction, each with its kernel as the command reviews it."""
    from gpuprof.read.files import read_file
    from gpuprof.review.inputs.modules import modules_of
    from gpuprof.review.inputs.request import ReviewRequest
    from gpuprof.review.parallel import reviewed_kernels

    for file in files:
        report = read_file(str(file))
        if not isinstance(report, Report):
            continue
        counting = {number for number, launch in enumerate(report.launches) if _counts(launch)}
        if not counting:
            continue
        try:
            modules = list(modules_of(ReviewRequest(files=(str(file),))))
        except EnvironmentProblem as problem:
            sys.stderr.write(f"left out: {problem.message}\n")
            continue
        kernels = [kernel for module in modules for kernel in module.kernels if kernel.launch in counting]
        for kernel in reviewed_kernels(kernels, lambda *_: None):
            yield report, report.launches[kernel.launch or 0], kernel


def _counts(launch: Launch) -> bool:
    return any(launch.metrics.instances(name) for name in _COUNTERS.values())


def compared(launch: Launch, kernel: ReviewedKernel, where: str) -> Iterator[Compared]:
    """Yield the accesses of a launch that ran, each with what was counted for it."""
    at = _by_offset(launch.details.instructions((*_COUNTERS.values(), _EXECUTED, _LANES, _TAGS)), kernel)
    for access in kernel.accesses:
        counts = at.get(access.offset, {})
        counted, executed = counts.get(_COUNTERS[access.space]), counts.get(_EXECUTED)
        if counted is None or not executed:
            continue
        yield Compared(
            where=where,
            access=access,
            static=access.wavefronts_per_request if access.space == "shared" else access.sectors_per_request,
            counted=counted,
            executed=executed,
            lanes=counts.get(_LANES, 0.0) / executed,
            tags=counts.get(_TAGS, 0.0),
        )


def _by_offset(
    instructions: Sequence[ProfiledInstruction], kernel: ReviewedKernel
) -> Mapping[int, Mapping[str, float]]:
    """Return counts by the offset in the kernel. Functions that it calls lie elsewhere: gaps part them.

    The kernel is where most of what was counted as an access is one by its code.
    """
    addresses = sorted(item.pc for item in instructions)
    starts = addresses[:1] + [after for before, after in pairwise(addresses) if after - before != 16]
    touching = [item.pc for item in instructions if any(item.counts.get(name) for name in _COUNTERS.values())]
    offsets = {access.offset for access in kernel.accesses}
    start = max(starts, key=lambda first: sum(pc - first in offsets for pc in touching), default=0)
    return {item.pc - start: item.counts for item in instructions}


def resources_of(launch: Launch, kernel: ReviewedKernel) -> Iterator[tuple[str, bool]]:
    """Yield what a kernel takes, and whether the report says the same; what either lacks is left out."""
    taken, number = kernel.resources, launch.metrics.number
    ran = _local_instructions(launch, kernel)
    listed = {access.offset for access in kernel.accesses if access.space == "local"}
    pairs: tuple[tuple[str, float | None, float | None], ...] = (
        ("registers", number("launch__registers_per_thread"), _at_least(taken.registers)),
        ("static shared memory", number("launch__shared_mem_per_block_static"), taken.static_shared_bytes),
        (
            "theoretical occupancy",
            number("sm__maximum_warps_per_active_cycle_pct"),
            None if kernel.occupancy is None else 100 * kernel.occupancy.fraction,
        ),
        ("instructions on local memory that ran", float(len(ran)), float(len(ran & listed))),
        ("spills of those that ran", *_spills(kernel, ran)),
    )
    for name, theirs, ours in pairs:
        if theirs is not None and ours is not None:
            yield name, abs(ours - theirs) < 0.01


def _at_least(registers: int | None) -> int | None:
    """Return the registers of a thread as it is launched: 16 at least, as reports of smaller kernels show."""
    return None if registers is None else max(_LEAST_REGISTERS, registers)


def _local_instructions(launch: Launch, kernel: ReviewedKernel) -> set[int]:
    """Return the offsets of instructions for which sectors of local memory were counted."""
    at = _by_offset(launch.details.instructions((*_COUNTERS.values(), _EXECUTED)), kernel)
    return {offset for offset, counts in at.items() if counts.get(_COUNTERS["local"])}


def _spills(kernel: ReviewedKernel, ran: set[int]) -> tuple[float | None, float | None]:
    """Return the local instructions that were counted, and the spills by the code; where others ran, neither."""
    spills = kernel.resources.spills
    if spills is None or not ran:
        return (None, None) if spills is None else (0.0, 0.0)
    return float(len(ran)), float(spills.loads + spills.stores)


def _resource_lines(resources: Mapping[str, Sequence[bool]]) -> Iterator[str]:
    for name, equal in resources.items():
        yield f"{name}: {sum(equal)} of {len(equal)} launches as recorded"


if __name__ == "__main__":
    sys.exit(main())
