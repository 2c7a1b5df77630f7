"""The rule on atomics: all lanes of a warp on one address, and atomics in loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.session import Evidence
from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeCertainty, CodeFinding
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress
from gpuprof.sass.dataflow.expressions import LANES, lane_mask
from gpuprof.sass.dataflow.reaching_definitions import RegisterPlace
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import named

_RULE = "atomic-contention"
_ACTION = "Reduce within the warp and the block first, then issue one atomic per block"
_ADVICE = (
    "Reduce first and add once: within the warp (__reduce_add_sync, warp shuffles), then within the block in shared "
    "memory, then with one atomic per block. Spread counters over several addresses (privatisation)."
)
_WHY = "Atomics on one address run one after the other, and warps queue behind them."
_LEADS = ("VOTE", "REDUX", "CREDUX", "MATCH", "ELECT", "FLO", "POPC")
"""Opcodes by which a warp agrees on the lane that acts for it, as ptxas does when it aggregates atomics."""
_MOST_FOLLOWED = 64


def atomic_contention(case: CodeCase) -> Iterator[CodeFinding]:
    """Yield atomics of whole warps on one address, and those in loops."""
    if not any(access.kind == "atomic" for access in case.accesses):
        return
    addresses = case.addresses
    if addresses is None:
        return
    items = [item for item in addresses.of.values() if item.request.kind == "atomic" and not _swaps(item)]
    led = {item.instruction.address for item in items if _is_led(addresses, item)}
    together = [item for item in items if item.same and item.instruction.address not in led]
    others = [item for item in items if not item.same and item.instruction.address not in led]
    yield from _together(case, together)
    yield from _looping(case, [item for item in others if case.depth(item.instruction.address) and _may_meet(item)])


def _swaps(item: LaneAddress) -> bool:
    return ".CAS" in item.instruction.opcode


def _may_meet(item: LaneAddress) -> bool:
    """Tell whether threads may meet in an address of global memory: not where lanes, and turns, each have their own.

    In shared memory it is the fix that this rule names: counters of a block of its own.
    """
    own = item.known and len(set(item.apart)) == LANES and item.moves
    return item.request.space != "shared" and not own


def _together(case: CodeCase, items: Sequence[LaneAddress]) -> Iterator[CodeFinding]:
    if not items:
        return
    loop = any(case.depth(item.instruction.address) for item in items)
    yield _finding(
        case,
        items,
        headline=f"Atomic contention: all lanes of a warp update one address{' in a loop' if loop else ''}",
        why=f"The {LANES} lanes of a warp have the same address in this atomic, so that each adds to it by itself. "
        f"{_WHY}",
        evidence=(code_evidence(LANES, "lane", "lanes of a warp with the same address", threshold=1.0),),
        certainty="from code",
    )


def _looping(case: CodeCase, items: Sequence[LaneAddress]) -> Iterator[CodeFinding]:
    if not items:
        return
    count = f"{len(items)} atomics" if len(items) > 1 else "an atomic"
    yield _finding(
        case,
        items,
        headline=f"Atomic contention: {count} in a loop",
        why=f"Each iteration of the loop issues {'them' if len(items) > 1 else 'it'} again; the code does not tell "
        f"how many threads meet in one address. {_WHY}",
        evidence=(code_evidence(len(items), "instruction", "atomics in loops"),),
        certainty="guess",
    )


def _finding(
    case: CodeCase,
    items: Sequence[LaneAddress],
    *,
    headline: str,
    why: str,
    evidence: tuple[Evidence, ...],
    certainty: CodeCertainty,
) -> CodeFinding:
    return finding_at(
        case,
        _RULE,
        [item.instruction for item in items],
        headline=headline,
        why=why,
        action=_ACTION,
        advice=_ADVICE,
        evidence=evidence,
        certainty=certainty,
    )


def _is_led(addresses: KernelAddresses, item: LaneAddress) -> bool:
    """Tell whether an atomic may be run by one lane for its warp: a comparison or a vote chooses who comes to it."""
    sums = addresses.sums
    block, index = item.block, item.index
    guards = [sums.read_by(block, index, name) for name in named(item.instruction.predicate or "")]
    if any(_chooses(addresses, guard) for guard in guards):
        return True
    seen = {block}
    while len(seen) < _MOST_FOLLOWED:
        block = sums.branches.dominators.get(block, block)
        if block in seen:
            return False
        seen.add(block)
        last = sums.graph.blocks[block][-1]
        if last.name in {*JUMPS, "EXIT"} and (last.predicate or len(last.operands) > 1):
            operands = (last.predicate or "", *last.operands[:-1])
            names = [name for operand in operands for name in named(operand) if "P" in name]
            at = len(sums.graph.blocks[block]) - 1
            if any(_chooses(addresses, sums.read_by(block, at, name)) for name in names):
                return True
    return False


def _chooses(addresses: KernelAddresses, guard: RegisterPlace) -> bool:
    """Tell whether a predicate is one of few lanes: it tests for equality what lanes differ in, or follows a vote."""
    waiting, seen = [guard], {guard}
    first = True
    while waiting and len(seen) < _MOST_FOLLOWED:
        place = waiting.pop()
        instruction = _written_by(addresses, place)
        if instruction is None:
            continue
        if instruction.name.removeprefix("U").startswith(_LEADS):
            return True
        if "P" in place.name and _tests_lanes(addresses, place, instruction):
            return True
        reads = _reads(addresses, place, instruction)
        follow = [read for read in reads if read not in seen and (first or "P" in read.name or len(seen) < 16)]
        seen.update(follow)
        waiting += follow
        first = False
    return False


def _written_by(addresses: KernelAddresses, place: RegisterPlace) -> Instruction | None:
    block = addresses.sums.graph.blocks[place.block]
    return block[place.at] if 0 <= place.at < len(block) else None


def _reads(addresses: KernelAddresses, place: RegisterPlace, instruction: Instruction) -> list[RegisterPlace]:
    names = dict.fromkeys(name for operand in instruction.operands for name in named(operand) if name != place.name)
    return [addresses.sums.read_by(place.block, place.at, name) for name in names]


def _tests_lanes(addresses: KernelAddresses, place: RegisterPlace, instruction: Instruction) -> bool:
    """Tell whether an instruction tests for equality a number by which lanes are told apart, and nothing loaded.

    Where it is known which lanes pass, one does, or all but one.
    """
    tests = instruction.name in {"LOP3", "PLOP3", "R2P"} or {"EQ", "NE"} & set(instruction.opcode.split("."))
    if not tests:
        return False
    exact = lane_mask(addresses.sums.symbols.lanes_of(addresses.sums.held(place)))
    if exact is not None:
        return min(exact.bit_count(), LANES - exact.bit_count()) == 1
    held = [addresses.sums.held(read) for read in _reads(addresses, place, instruction) if "P" not in read.name]
    terms = [term for value in held for term, _ in value.terms if addresses.symbol(term).varies]
    kinds = {addresses.symbol(leaf).kind for leaf in addresses.leaves(*terms)} if terms else set()
    return any(map(addresses.sums.symbols.varies, held)) and not kinds & {"loaded", "shared"}
