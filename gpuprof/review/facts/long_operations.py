"""Recognition of operations that ptxas expands to many instructions: divisions, square roots, slow functions.

Each is recognised by a marker: an instruction or a constant that nothing else has in code by CUDA 11.8 to 13.3 for
architectures 7.5 to 12.0. Markers are FCHK of an FP32 division, I2F.RP of an integer division, the bounds within which
a reciprocal or a square root needs no slow path, and the largest argument whose sine needs no long reduction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from gpuprof.diagnose.facts.code import FP64_SEEDS
from gpuprof.review.code import KernelCode
from gpuprof.review.facts.definitions import definitions_of
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.flow.graph import flow_of
from gpuprof.sass.instruction import JUMPS, Instruction, Operation

_INTEGER_SEED = re.compile(r"^U?I2FP?\.(?:U32\.|F32\.U32\.|S32\.|F32\.S32\.)?RP$")
_CALLS = (
    (re.compile(r"__cuda_sm\w{0,40}_(?:div|rem)_[us]64"), "integer-64"),
    (re.compile(r"__cuda_sm\w{0,40}_(?:div|rem)_[us]16"), "integer-16"),
    (re.compile(r"__internal_trig_reduction_slowpathd"), "trigonometry-fp64"),
    (re.compile(r"__internal_accurate_pow"), "power-fp64"),
)
_WINDOW = 64
"""The maximum length of an operation, with other instructions in between."""
_LEAVES = ("ST", "RED", "ATOM", "BSYNC", "CALL", *JUMPS)
_INTEGER_STEP = re.compile(r"^U?(?:IMAD|IADD|VIADD|LOP3|SEL|ISETP|IABS|MOV)|^MUFU\.RCP$|^F2I|^I2F|^R2UR")
_LONGEST_QUOTIENT = 16
"""The most dependent steps from the divisor as FP32 to the signed quotient."""
_DIVISION_BY_ZERO = "0x33"
"""The truth table of the LOP3 in the last step, which returns the quotient of a division by zero."""


@dataclass(frozen=True, slots=True)
class LongOperation:
    """An operation in the code: its kind, its marker (`at`), and the offsets of its instructions (`parts`).

    - `slow` is the number of instructions of its slow path, which only some operands take: a called function, or code
      that other operands jump over. `slow_code` is the range of such code, with the comparison before it.
    - `prepares` is the number of instructions whose offsets are unknown.
    - `times` is the number of quotients that use one reciprocal.
    """

    kind: str
    at: Instruction
    parts: tuple[int, ...]
    slow: int = 0
    slow_code: range = range(0)
    prepares: int = 0
    times: int = 1

    @property
    def cost(self) -> int:
        """Return the number of its instructions without the slow path; with it if it is a call."""
        return 1 + self.slow if self.is_call else len(self.parts) + self.prepares

    @property
    def is_call(self) -> bool:
        """Return whether it is a call, of which only the slow path is known."""
        return len(self.parts) == 1


def operations(body: KernelCode) -> tuple[LongOperation, ...]:
    """Return the operations of a kernel by offset, except those inside called functions."""
    called = _called_code(body)
    found: list[LongOperation] = []
    regions: list[range] = []
    for index, instruction in enumerate(body.code):
        reader = _reader_of(instruction.operation)
        if reader is None or any(instruction.address in span for span in called):
            continue
        operation = reader(body, index)
        if operation is not None:
            found.append(operation)
            if instruction.name == "CALL":
                regions.append(_region(body, index))
    # A 32-bit division beside the call of a 64-bit one is its fast path for small operands.
    own = [item for item in found if item.kind != "integer-32" or not any(item.at.address in of for of in regions)]
    return tuple(sorted(own, key=lambda operation: operation.at.address))


_Reader = Callable[[KernelCode, int], LongOperation | None]
"""Returns the operation whose marker has this index; None if it is none."""


@lru_cache(maxsize=1 << 14)
def _reader_of(operation: Operation) -> _Reader | None:
    """Return the reader for an instruction that can be the marker of an operation."""
    if operation.opcode in FP64_SEEDS:
        return _in_fp64
    if _INTEGER_SEED.match(operation.opcode):
        return _integer_division
    for sign in ("", *operation.operands):
        reader = _READERS.get((operation.name, sign)) or _READERS.get(("", sign))
        if reader is not None:
            return reader
    return None


def _called_code(body: KernelCode) -> Sequence[range]:
    """Return the ranges of the compiler's functions; if they have no names, all code from the first call target on."""
    if body.functions or not body.has_any(["CALL"]):
        return body.library
    jumps = flow_of(body.code).jumps
    calls = [item for item in body.named("CALL") if item.address not in jumps]
    targets = [item.target for item in calls if item.target is not None and item.target > item.address]
    return [range(min(targets), body.code[-1].address + INSTRUCTION_BYTES)] if targets else []


def _after(body: KernelCode, index: int, count: int = _WINDOW) -> Sequence[Instruction]:
    """Return up to `count` instructions after one."""
    return body.code[index + 1 : index + 1 + count]


def _before(body: KernelCode, index: int, count: int = _WINDOW) -> Sequence[Instruction]:
    """Return up to `count` instructions before one, the nearest first."""
    return body.code[max(0, index - count) : index][::-1]


def _region(body: KernelCode, index: int) -> range:
    """Return the range from the last BSSY before an instruction to the target of that BSSY; empty without one."""
    start = next((item for item in _before(body, index) if item.name == "BSSY" and item.operands), None)
    return range(start.address, start.target or 0) if start is not None else range(0)


def _call(body: KernelCode, index: int) -> LongOperation | None:
    """Return the call of a function whose name shows what it computes."""
    call = body.code[index]
    function = body.functions.get(call.target)
    if function is None:
        return None
    for pattern, kind in _CALLS:
        if pattern.search(function.name):
            return LongOperation(kind, call, (call.address,), slow=function.size_bytes // INSTRUCTION_BYTES)
    return None


def _division(body: KernelCode, index: int) -> LongOperation | None:
    """Return the division that an FCHK checks: refined reciprocal × dividend, refined again."""
    check = body.code[index]
    divisor = definitions_of(body).operands(check)[-1:]
    near = [*_before(body, index, 24), *_after(body, index, 8)]
    seeds = (item for item in near if item.is_a("MUFU.RCP") and definitions_of(body).operands(item) == divisor)
    seed = next(seeds, None)
    if seed is None:
        return None
    branch = _branch_on(body, index)
    if branch is None:
        parts = {check.address, *_dependents(body, seed, index + 17)}
    else:
        parts = {check.address, *_dependents(body, seed, body.index(branch.address)), branch.address}
    return LongOperation("division-fp32", check, tuple(sorted(parts)), slow=_slow(body, index))


def _with_slow_path(body: KernelCode, index: int, *, kind: str, opcode: str, prepares: int) -> LongOperation | None:
    """Return a reciprocal or root whose operand is compared with a bound.

    `prepares` is the number of instructions before the comparison, with the jump.
    """
    compare = body.code[index]
    near = [*_before(body, index, 8), *_after(body, index, 16)]
    seed = next((item for item in near if item.opcode == opcode), None)
    if seed is None:
        return None
    start = body.index(seed.address)
    window = body.code[start : start + _WINDOW]
    end = next((place for place, item in enumerate(window, start) if item.name == "BSYNC"), index + 16)
    parts = {compare.address, *_dependents(body, seed, end)}
    return LongOperation(kind, seed, tuple(sorted(parts)), slow=_slow(body, index), prepares=prepares)


def _in_fp64(body: KernelCode, index: int) -> LongOperation | None:
    """Return an FP64 division, reciprocal or root, up to the branch to its slow path; None without such a branch."""
    seed = body.code[index]
    following = _after(body, index)
    jump = next((place for place, item in enumerate(following) if item.name in JUMPS), None)
    if jump is None or not any(item.name == "CALL" for item in _after(body, index + 1 + jump, 24)):
        return None
    refined = _dependents(body, seed, index + 1 + jump)
    if seed.is_a("MUFU.RSQ64H"):
        kind = "root-fp64"
    elif any(body.at[address].name == "DMUL" for address in refined):
        kind = "division-fp64"
    else:
        kind = "reciprocal-fp64"
    return LongOperation(kind, seed, (*refined, following[jump].address), slow=_slow(body, index))


def _integer_division(body: KernelCode, index: int) -> LongOperation | None:
    """Return a 32-bit division or remainder, which computes a reciprocal of the divisor as FP32.

    Without a last step (the divisor is known not to be zero) it ends after the longest chain of steps to a quotient.
    """
    definitions = definitions_of(body)
    seed = body.code[index]
    depths = {seed.address: 0}
    parts = [seed]
    quotients: set[int] = set()
    for item in _after(body, index, 4 * _WINDOW):
        if item.address - parts[-1].address > _WINDOW * INSTRUCTION_BYTES:
            break
        if not _INTEGER_STEP.match(item.opcode):
            continue
        sources = definitions.sources(item)
        before = [depths[source] for source in sources if source in depths]
        if not before or not sources.isdisjoint(quotients):
            continue
        depths[item.address] = max(before) + 1
        if max(before) < _LONGEST_QUOTIENT:
            parts.append(item)
        if _is_last_step(item):
            quotients.add(item.address)
    if not any(item.is_a("MUFU.RCP") for item in parts):
        return None
    addresses = tuple(item.address for item in parts)
    return LongOperation("integer-32", seed, addresses, times=max(1, len(quotients)))


def _is_last_step(instruction: Instruction) -> bool:
    """Return whether an instruction selects the quotient of a division by zero, the last step."""
    if instruction.name in {"SEL", "USEL"}:
        return True
    return instruction.name in {"LOP3", "ULOP3"} and _DIVISION_BY_ZERO in instruction.operands


def _trigonometry(body: KernelCode, index: int) -> LongOperation | None:
    """Return an FP32 sine, cosine or tangent, which jumps over a reduction by many digits of π."""
    compare = body.code[index]
    branch = _branch_on(body, index)
    if branch is None or branch.target is None or branch.target <= branch.address:
        return None
    slow = len(body.between(branch.address, branch.target)) - 1
    slow_code = range(compare.address, branch.target)
    return LongOperation("trigonometry-fp32", compare, (compare.address,), slow=slow, slow_code=slow_code)


def _power(body: KernelCode, index: int) -> LongOperation | None:
    """Return a powf: logarithm, product and exponential with a few more bits than FP32 has."""
    parts = []
    for item in body.code[index : index + 2 * _WINDOW + 1]:
        if item.name.startswith(("F", "MUFU")):
            parts.append(item.address)
        if item.opcode == "F2I.NTZ":
            return LongOperation("power-fp32", body.code[index], tuple(parts))
    return None


def _remainder(body: KernelCode, index: int) -> LongOperation | None:
    """Return an fmodf: it scales |divisor|, and compares the dividend with the product."""
    scale = body.code[index]
    region = _region(body, index)
    compares = [item for item in _after(body, index, 4) if item.is_a("FSETP.GTU")]
    is_compared = any(scale.address in definitions_of(body).sources(item) for item in compares)
    if not region or not is_compared or not any(operand.startswith("|") for operand in scale.operands[1:]):
        return None
    code = body.between(region.start, region.stop)
    return LongOperation("remainder-fp32", scale, tuple(item.address for item in code))


_READERS: Mapping[tuple[str, str], _Reader] = {
    ("CALL", ""): _call,
    ("FCHK", ""): _division,
    ("ISETP", "0x1ffffff"): partial(_with_slow_path, kind="reciprocal-fp32", opcode="MUFU.RCP", prepares=3),
    ("ISETP", "0x727fffff"): partial(_with_slow_path, kind="root-fp32", opcode="MUFU.RSQ", prepares=2),
    # The largest |x| for which sinf, cosf and tanf subtract multiples of π/2 in three steps (CUDA's math library).
    ("FSETP", "105615"): _trigonometry,
    ("FMUL", "8388608"): _remainder,
    ("", "0x3a2c32e4"): _power,
}
"""Readers by the name of the opcode and a constant among the operands; empty: any."""


def _branch_on(body: KernelCode, index: int) -> Instruction | None:
    """Return the next jump if an instruction writes its condition."""
    jump = next((item for item in _after(body, index) if item.name in JUMPS), None)
    if jump is None or body.code[index].address not in definitions_of(body).sources(jump):
        return None
    return jump


def _dependents(body: KernelCode, seed: Instruction, end: int) -> list[int]:
    """Return the addresses of an instruction and of its dependents before an index."""
    definitions = definitions_of(body)
    parts = [seed.address]
    for item in body.code[body.index(seed.address) + 1 : end]:
        if not item.name.startswith(_LEAVES) and not definitions.sources(item).isdisjoint(parts):
            parts.append(item.address)
    return parts


def _slow(body: KernelCode, index: int) -> int:
    """Return the number of instructions of the function that is called next; 0 if unknown."""
    call = next((item for item in _after(body, index, 32) if item.name == "CALL"), None)
    function = body.functions.get(call.target) if call is not None else None
    return function.size_bytes // INSTRUCTION_BYTES if function is not None else 0
