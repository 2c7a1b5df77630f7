"""Judges whether the planted cause is in the compiled `slow`, gone from `fixed`, and the only one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.diagnosis.access import accesses_of
from benchmarks.diagnosis.case import FIXED, SLOW, TYPICAL, Bound, Case, Room, Twin
from benchmarks.diagnosis.compiled import CaseCode, CompiledKernel, code_of, compile_case, kernels_of
from benchmarks.diagnosis.twins import second_causes
from gpuprof.characterize.gates.gate import judge
from gpuprof.errors import DamagedInput
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.sass.dataflow.request_costs import Access, sectors, ways
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.tools.compile import NotCompiled

_PATTERNS = {"sectors": sectors, "ways": ways}


class Answer(NamedTuple):
    """What the gate says of a case on a target: pass, fail or unsupported; why; and the kernels as compiled.

    `excused`: the traits that it would have failed for, had the case not named them under `besides`.
    """

    case: Case
    target: str
    gate: str
    why: str
    kernels: Mapping[str, CompiledKernel] = MappingProxyType({})
    excused: tuple[str, ...] = ()


def check_cases(cases: Sequence[Case], target: str) -> tuple[Answer, ...]:
    """Compile and judge cases for one target; one run of nvdisasm, for it starts slowly.

    Raises EnvironmentProblem without NVRTC or nvdisasm.
    """
    seen = [_code(case, target) for case in cases]
    kernels = iter(kernels_of([code for code in seen if not isinstance(code, Answer)], target))
    return tuple(
        code if isinstance(code, Answer) else _judged(case, target, next(kernels))
        for case, code in zip(cases, seen, strict=True)
    )


def _code(case: Case, target: str) -> CaseCode | Answer:
    """Return the code of a case, or the answer where there is none."""
    if target not in case.targets:
        return Answer(case, target, "unsupported", why=case.unsupported.get(target, "the case is not for it"))
    compiled = compile_case(case, target)
    if isinstance(compiled, NotCompiled):
        return Answer(case, target, "unsupported" if compiled.unsupported else "fail", why=compiled.why)
    try:
        return code_of(compiled)
    except DamagedInput as error:
        return Answer(case, target, "fail", why=error.message)


def _judged(case: Case, target: str, kernels: dict[str, CompiledKernel]) -> Answer:
    rooms = _rooms(case, target, kernels)
    seconds = dict(second_causes(case, kernels, rooms))
    problems = [
        *_problems(case, target, kernels, rooms),
        *(
            f"{text}: a second cause, or {trait} must be excused under besides"
            for trait, text in seconds.items()
            if trait not in case.besides
        ),
    ]
    excused = tuple(trait for trait in seconds if trait in case.besides)
    gate, why = ("fail", "; ".join(problems)) if problems else ("pass", _census(kernels))
    return Answer(case, target, gate, why=why, kernels=kernels, excused=excused)


def _census(kernels: dict[str, CompiledKernel]) -> str:
    return ", ".join(f"{name} {kernel.registers} registers" for name, kernel in kernels.items())


def _problems(case: Case, target: str, kernels: dict[str, CompiledKernel], rooms: dict[str, Room]) -> Iterator[str]:
    homeless = [entry for entry, room in rooms.items() if room.blocks_per_sm < 1]
    if homeless:
        yield f"a block of {' and '.join(homeless)} does not fit on an SM"
        return
    for entry, kernel in kernels.items():
        for problem in _broken(case, target, entry, case.twin(entry, target), kernel, rooms):
            yield f"{entry}: {problem}"
    if case.gate is not None and SLOW in kernels:
        slow = case.twin(SLOW, target)
        if not any(_broken(case, target, FIXED, slow, kernels[FIXED], rooms)):
            yield "the gate of slow lets fixed pass: it does not see the fix"


def _broken(
    case: Case, target: str, entry: str, twin: Twin, kernel: CompiledKernel, rooms: dict[str, Room]
) -> Iterator[str]:
    """Say which rules a kernel breaks."""
    if twin.code is not None:
        judgement = judge(twin.code, {}, kernel.code, clocked=False)
        if judgement.gate != "pass":
            yield judgement.why
    for bound in twin.bounds:
        yield from _outside(bound, case, target, entry, kernel, rooms)


def _outside(
    bound: Bound, case: Case, target: str, entry: str, kernel: CompiledKernel, rooms: dict[str, Room]
) -> Iterator[str]:
    if bound.opcode is not None:
        yield from _pattern_problems(bound, accesses_of(case, target, entry, kernel, rooms))
        return
    value = _value(bound.what, case, entry, kernel, rooms)
    if (bound.low is not None and value < bound.low) or (bound.high is not None and value > bound.high):
        yield f"{bound.what} is {value:g}, not {_range(bound)}"


def _value(what: str, case: Case, entry: str, kernel: CompiledKernel, rooms: dict[str, Room]) -> float:
    if what == "code":
        return kernel.code_bytes
    if what == "self_moves":
        return 100 * sum(map(_is_self_move, kernel.code)) / max(1, sum(not item.idle for item in kernel.code))
    if what == "blocks_per_sm":
        return rooms[entry].blocks_per_sm
    if what == "waves":
        shape = case.launches[entry].shape(case.sized(rooms[case.entries[0]]), rooms[entry])
        return shape.blocks / (rooms[entry].sm_count * rooms[entry].blocks_per_sm)
    return {"registers": kernel.registers, "local": kernel.local, "shared": kernel.shared}[what]


def _is_self_move(item: Instruction) -> bool:
    return item.name == "MOV" and len(item.operands) > 1 and item.operands[0] == item.operands[1]


def _pattern_problems(bound: Bound, accesses: Sequence[Access]) -> Iterator[str]:
    """Judge the pattern of the instructions of an opcode: one must reach `least`, all must stay within `most`."""
    assert bound.opcode is not None
    numbers = [
        _PATTERNS[bound.what](access) for access in accesses if access.runs and _is_a(access.opcode, bound.opcode)
    ]
    known = [number for number in numbers if number is not None]
    if not known:
        yield f"no {bound.opcode} whose addresses can be known, of {len(numbers)}"
        return
    if bound.low is not None and max(known) < bound.low:
        yield f"at most {max(known):g} {bound.what} of {bound.opcode}, not {_range(bound)}"
    if bound.high is not None and max(known) > bound.high:
        yield f"{max(known):g} {bound.what} of {bound.opcode}, not {_range(bound)}"
    if bound.high is not None and len(known) < len(numbers):
        yield f"{len(numbers) - len(known)} of {len(numbers)} {bound.opcode} have addresses that cannot be known"


def _is_a(opcode: str, wanted: str) -> bool:
    return opcode == wanted or opcode.startswith(wanted + ".")


def _range(bound: Bound) -> str:
    if bound.low == bound.high:
        return f"{bound.low:g}"
    limits = [f"at least {bound.low:g}"] if bound.low is not None else []
    return " and ".join([*limits, *([f"at most {bound.high:g}"] if bound.high is not None else [])])


def _rooms(case: Case, target: str, kernels: dict[str, CompiledKernel]) -> dict[str, Room]:
    """Return the SMs of a typical product, and how many blocks of each kernel one holds, by the arch spec."""
    sm_count, arch = _typical(target)
    return {entry: Room(sm_count, _blocks_per_sm(case, entry, kernel, arch)) for entry, kernel in kernels.items()}


def _blocks_per_sm(case: Case, entry: str, kernel: CompiledKernel, arch: ArchSpec) -> int:
    shape = case.launches[entry].shape(case.small, Room(1, 1))
    reserved = arch.limits["shared_reserved_per_block"].value if "shared_reserved_per_block" in arch.limits else 0
    shared = round(kernel.shared + shape.shared_bytes + reserved)
    occupancy = theoretical_occupancy(LaunchResources(shape.threads, kernel.registers, shared), arch)
    return occupancy.blocks_per_sm if occupancy is not None else 1


@lru_cache(maxsize=8)
def _typical(target: str) -> tuple[int, ArchSpec]:
    gpu = TYPICAL[target]
    arch = SpecLibrary().arch(gpu.arch)
    assert arch is not None
    return int(gpu.number("sm_count") or 1), arch
