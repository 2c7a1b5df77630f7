"""Values of a review as text, alike in every view: what a kernel takes, occupancy, places, loops, accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.recorded import dims_text
from gpuprof.model.session import Finding, Location
from gpuprof.present.check_blocks import Block, blocks_of, file_name
from gpuprof.review.contract import (
    CodeAccess,
    CodeLoop,
    CodeOccupancy,
    KernelResources,
    Review,
    ReviewedKernel,
    SpillCount,
)
from gpuprof.units import format_binary, format_percent, significant
from gpuprof.words.finding_text import value_text
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import without_stop

NOT_KNOWN = "not known"
_LISTED = 3
_LARGEST = 1e30
"""As the contract has it: what is larger, or not finite, is not a number of anything."""


def headline(review: Review) -> str:
    """Write what was read and how much there is to change: "transpose.cu for sm_90: 3 kernels, 2 with findings"."""
    blocks = blocks_of(review)
    what = _listed([file_name(file) for file in review.files])
    targets = list(dict.fromkeys(kernel.target for kernel in review.kernels))
    of = f" for {', '.join(targets)}" if targets else ""
    launches = sum(block.launches for block in blocks)
    in_launches = f" in {count_text(launches, 'launch', 'es')}" if launches else ""
    read = set(review.files)
    left_out = [("part of " if item.file in read else "") + file_name(item.file) for item in review.unreviewed]
    unread = f"; {_listed(left_out)} not reviewed" if left_out else ""
    return f"{what}{of}: {count_text(len(blocks), 'kernel')}{in_launches}, {_told(blocks)}{unread}"


def _listed(files: Sequence[str]) -> str:
    return ", ".join(files[:_LISTED]) + (f" and {len(files) - _LISTED} more" if len(files) > _LISTED else "")


def _told(blocks: Sequence[Block]) -> str:
    """Write how much there is to change, and how much of it was not looked at."""
    told = [block for block in blocks if block.findings]
    unread = sum(bool(block.unreviewed) for block in blocks)
    number = count_text(sum(len(block.findings) for block in told), "finding") if told else "no findings"
    amount = number if not told or len(blocks) == 1 else f"{number} in {len(told)} of them"
    if not unread:
        return amount
    if unread == len(blocks):
        return f"not reviewed{f'; {amount}' if told else ''}"
    return f"{amount}; {unread} of them not reviewed"


def unreviewed_text(why: str) -> str:
    """Write that a kernel was not reviewed, and why; empty where it was."""
    return f"not reviewed: {why.rstrip('.')}" if why else ""


def takes_text(resources: KernelResources) -> str:
    """Write what a kernel takes: "72 registers, 4.12 KiB shared, 7 spills (2 in loops)"."""
    registers = resources.registers
    parts = [
        count_text(registers, "register") if registers is not None else f"registers {NOT_KNOWN}",
        shared_text(resources),
        spills_text(resources.spills),
    ]
    has_spills = resources.spills is not None and (resources.spills.loads or resources.spills.stores)
    if resources.stack_bytes and not has_spills:
        parts.append(f"{bytes_text(resources.stack_bytes)} of stack")
    return ", ".join(part for part in parts if part)


def shared_text(resources: KernelResources) -> str:
    """Write the shared memory of a block; empty where there is none."""
    static, dynamic = resources.static_shared_bytes, resources.dynamic_shared_bytes
    if static is None:
        return f"shared memory {NOT_KNOWN}"
    if not static and not dynamic:
        return ""
    if not static and dynamic:
        return f"{bytes_text(dynamic)} dynamic shared"
    text = f"{bytes_text(static + (dynamic or 0))} shared"
    return f"{text} ({bytes_text(dynamic)} of it dynamic)" if dynamic else text


def shared_size_text(resources: KernelResources) -> str:
    """Write the shared memory of a block under a head that says so: "4.12 KiB", "0 B"."""
    if resources.static_shared_bytes is None:
        return NOT_KNOWN
    return shared_text(resources).replace(" shared", "") or "0 B"


def code_text(resources: KernelResources, between: str = " ({})") -> str:
    """Write how much code a kernel has: "117 instructions (2 KiB)"; empty where there is none, "2 KiB" if unread."""
    if resources.code_bytes is None:
        return ""
    size = bytes_text(resources.code_bytes)
    if resources.instructions is None:
        return f"{size} of code"
    return count_text(resources.instructions, "instruction") + between.format(size)


def bytes_text(size: int) -> str:
    """Write a number of bytes: below 1 KiB to the byte, "1008 B", else in binary units."""
    return f"{size} B" if abs(size) < 1024 else format_binary(size)


def spills_text(spills: SpillCount | None) -> str:
    """Write how many instructions spill: "7 spills (2 in loops)"; of none, and where it is not known, nothing."""
    number = spills.loads + spills.stores if spills is not None else 0
    if spills is None or number == 0:
        return ""
    where = f" ({spills.in_loops} in loops)" if spills.in_loops else ""
    return f"{count_text(number, 'spill')}{where}"


def spilled_text(spills: SpillCount) -> str:
    """Write what spills move, each instruction counted once: "4 loads of 16 B per thread, 3 stores of 12 B; …"."""
    loads = f"{count_text(spills.loads, 'load')} of {bytes_text(spills.load_bytes)} per thread"
    stores = f"{count_text(spills.stores, 'store')} of {bytes_text(spills.store_bytes)}"
    return f"{loads}, {stores}; {spills.in_loops} in loops"


def occupancy_text(kernel: ReviewedKernel, *, step: bool = True) -> str:
    """Write occupancy with its limiter and the next step: "38 % by registers: at 64 registers …"."""
    occupancy = kernel.occupancy
    if occupancy is None:
        return "needs --block" if kernel.block is None else NOT_KNOWN
    if not is_number(occupancy.fraction):
        return NOT_KNOWN
    limits = f" by {' and '.join(occupancy.limiters)}" if occupancy.limiters else ""
    most = "at most " if occupancy.needs_dynamic else ""
    return f"{most}{format_percent(occupancy.fraction)}{limits}{_next_step(occupancy) if step else ''}"


def _next_step(occupancy: CodeOccupancy) -> str:
    return f": {without_stop(occupancy.steps[0].sentence)}" if occupancy.steps else ""


def launch_text(kernel: ReviewedKernel) -> str:
    """Write how a kernel is launched, as far as that is known: "grid 64, block 16×16"."""
    parts = [
        f"{what} {dims_text(size)}"
        for what, size in (("grid", kernel.grid), ("block", kernel.block))
        if size is not None
    ]
    return ", ".join(parts)


def place_text(place: Location) -> str:
    """Write where an instruction is: "transpose.cu:12"; without line information "at 0x120"; empty for no place."""
    if place.file is not None:
        name = file_name(place.file)
        return f"{name}:{place.line}" if place.line is not None else name
    return f"at 0x{place.pc:x}" if place.pc is not None else ""


def where_text(finding: Finding) -> str:
    """Write the first place of a finding; empty where it has none."""
    return place_text(finding.places[0]) if finding.places else ""


def more_places_text(finding: Finding) -> str:
    """Write where else a finding is: "also at transpose.cu:14, and 3 more places"; empty for one place."""
    where = where_text(finding)
    others = [text for text in dict.fromkeys(map(place_text, finding.places)) if text and text != where]
    more = finding.more_places + max(0, len(others) - _LISTED)
    beyond = f"and {count_text(more, 'more place')}" if more else ""
    listed = f"also {', '.join(others[:_LISTED])}" if others else ""
    return " ".join(part for part in (listed, beyond) if part)


def sure_text(finding: Finding) -> str:
    """Write how sure a finding is, and where in loops it is: "from code, in 2 loops"."""
    depth = finding.loops
    loops = "" if depth == 0 else ", in a loop" if depth == 1 else f", in {depth} nested loops"
    return f"{'guess' if finding.confidence == 'guess' else 'from code'}{loops}"


def evidence_texts(finding: Finding) -> Iterator[str]:
    """Write each number that a finding rests on, and what it was held against."""
    for item in finding.evidence:
        if not is_number(item.value):
            continue
        is_held = item.threshold is not None and is_number(item.threshold)
        held = f", threshold {value_text(item.threshold or 0.0, item.unit)}" if is_held else ""
        yield f"{item.meaning or item.metric}: {value_text(item.value, item.unit)}{held}"


def loop_text(loop: CodeLoop) -> str:
    """Write a loop: "transpose.cu:10: 64 times, 16 instructions"."""
    place = place_text(Location(file=loop.file, line=loop.line, pc=loop.start, sass=None))
    trips = count_text(loop.trips, "trip") if loop.trips is not None else "trips not constant"
    return f"{place}: {trips}, {count_text(loop.instructions, 'instruction')}"


def access_place(access: CodeAccess) -> str:
    """Write where an access is."""
    return place_text(Location(file=access.file, line=access.line, pc=access.offset, sass=None))


def cost_text(access: CodeAccess) -> str:
    """Write what a request costs: "32 sectors", "2 wavefronts", "not known"."""
    cost, unit = access_cost(access), cost_unit(access)
    return f"{significant(cost, strip=True)} {unit}{'s' if cost != 1 else ''}" if cost is not None else NOT_KNOWN


def needed_text(access: CodeAccess) -> str:
    """Write what a request would cost with the lanes side by side; a dash where that is not known."""
    needed = access.needed_per_request
    return significant(needed, strip=True) if needed is not None and is_number(needed) else "–"


def is_costly(access: CodeAccess) -> bool:
    """Tell whether a request costs more than it needs to."""
    cost, needed = access_cost(access), access.needed_per_request
    return cost is not None and needed is not None and cost > needed


def cost_unit(access: CodeAccess) -> str:
    """Return what the cost of an access is counted in."""
    return "wavefront" if access.space == "shared" else "sector"


def access_cost(access: CodeAccess) -> float | None:
    """Return what a request costs: wavefronts of a shared access, sectors of another."""
    cost = access.wavefronts_per_request if access.space == "shared" else access.sectors_per_request
    return cost if cost is not None and is_number(cost) else None


def is_number(value: float) -> bool:
    """Tell whether a value is a number of anything: neither negative nor larger than the contract has it."""
    return 0 <= value <= _LARGEST
