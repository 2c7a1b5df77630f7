"""Recognises what ptxas writes for operations that no instruction does: divisions, square roots, slow functions.

Each is known by an instruction or a constant that nothing else has, as compilers of CUDA 11.8 to 13.3 write it for
architectures 7.5 to 12.0: FCHK of an FP32 division, I2F.RP of an integer division, the bounds within which a reciprocal
or a square root needs no slow path, the largest argument whose sine needs no long reduction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuprof.review.body import WINDOW, KernelBody
from gpuprof.review.dependents import dependents, is_last_step, quotient_parts
from gpuprof.sass.binary.cubin import InnerFunction
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.instruction import JUMPS, Instruction, Operation
from gpuprof.sass.operands import named

_RCP_BOUND, _SQRT_BOUND = "0x1ffffff", "0x727fffff"
_TRIG_BOUND = "105615"
"""The largest |x| for which sinf, cosf and tanf subtract multiples of π/2 in three steps (CUDA's math library)."""
_POW_CONSTANT = "0x3a2c32e4"
_FMOD_SCALE = "8388608"
_BOUNDS = {"ISETP": {_RCP_BOUND, _SQRT_BOUND}, "FSETP": {_TRIG_BOUND}, "FMUL": {_FMOD_SCALE}}
"""What an instruction that is the sign of an operation compares with, or scales by."""
_SEEDS_FP64 = {"MUFU.RCP64H", "MUFU.RSQ64H"}
_INTEGER_SEED = re.compile(r"^U?I2FP?\.(?:U32\.|F32\.U32\.|S32\.|F32\.S32\.)?RP$")
_CALLS = (
    (re.compile(r"__cuda_sm\w{0,40}_(?:div|rem)_[us]64"), "integer-64"),
    (re.compile(r"__cuda_sm\w{0,40}_(?:div|rem)_[us]16"), "integer-16"),
    (re.compile(r"__internal_trig_reduction_slowpathd"), "trigonometry-fp64"),
    (re.compile(r"__internal_accurate_pow"), "power-fp64"),
)


LONGEST_REDUCTION_ENTRY = 16
"""Instructions from the test for a large argument to the branch around its reduction."""


@dataclass(frozen=True, slots=True)
class LongOperation:
    """An operation in the code: its kind, where it is, its instructions by offset, its slow path in instructions.

    `slow` is what runs only for some operands: a function that is called, or code that is jumped over. `prepares` are
    instructions of it that are known to be there, and not where. `times`: so many quotients use one reciprocal.
    """

    kind: str
    at: Instruction
    parts: tuple[int, ...]
    slow: int = 0
    prepares: int = 0
    times: int = 1

    @property
    def cost(self) -> int:
        """Return its instructions without the slow path; of what is a call, those of the function."""
        return 1 + self.slow if self.is_call else len(self.parts) + self.prepares

    @property
    def is_call(self) -> bool:
        """Tell whether nothing but what it calls or jumps over is known of it."""
        return len(self.parts) == 1


def operations(code: Sequence[Instruction], inner: Sequence[InnerFunction]) -> tuple[LongOperation, ...]:
    """Return the operations of a kernel by offset, without those within the functions that they call."""
    signs = [index for index, instruction in enumerate(code) if _is_sign(instruction.operation)]
    if not signs:
        return ()
    body = KernelBody(code, inner)
    own = body.own(signs)
    calls = list(_called(body, own))
    regions = [region for at, _ in calls if (region := _region(body, at)) is not None]
    every = [operation for _, operation in calls]
    for index in own:
        operation = _at(body, index)
        if operation is not None and not _is_fast_path(operation, regions):
            every.append(operation)
    return tuple(sorted(every, key=lambda operation: operation.at.address))


@lru_cache(maxsize=1 << 14)
def _is_sign(operation: Operation) -> bool:
    """Tell whether an instruction may be the sign of an operation, or call one."""
    if operation.name == "MUFU":
        return operation.opcode in _SEEDS_FP64
    if operation.name in _BOUNDS:
        return not _BOUNDS[operation.name].isdisjoint(operation.operands)
    return (
        operation.name in {"CALL", "FCHK"}
        or _INTEGER_SEED.match(operation.opcode) is not None
        or _POW_CONSTANT in operation.operands
    )


def _called(body: KernelBody, own: Iterable[int]) -> Iterator[tuple[int, LongOperation]]:
    """Yield the calls of functions whose names tell what they compute, with their index."""
    functions = {function.offset: function for function in body.inner}
    for index in own:
        instruction = body.code[index]
        function = functions.get(instruction.target or -1) if instruction.name == "CALL" else None
        kind = next((kind for pattern, kind in _CALLS if function and pattern.search(function.name)), None)
        if function is not None and kind is not None:
            slow = function.size_bytes // INSTRUCTION_BYTES
            yield index, LongOperation(kind, instruction, (instruction.address,), slow=slow)


def _region(body: KernelBody, index: int) -> tuple[int, int] | None:
    """Return the code between the last BSSY before an instruction and where threads meet again."""
    start = next((item for item in body.before(index) if item.name == "BSSY" and item.operands), None)
    end = start.target if start is not None else None
    return (start.address, end) if start is not None and end is not None else None


def _is_fast_path(operation: LongOperation, regions: Iterable[tuple[int, int]]) -> bool:
    """Tell whether a division of 32 bits is what one of 64 bits does for small operands."""
    if operation.kind != "integer-32":
        return False
    return any(start < operation.at.address < end for start, end in regions)


def _at(body: KernelBody, index: int) -> LongOperation | None:
    """Return the operation that an instruction is the sign of."""
    instruction = body.code[index]
    reader = _READERS.get(instruction.name)
    if reader is not None:
        return reader(body, index)
    if _INTEGER_SEED.match(instruction.opcode):
        return _integer_division(body, index)
    return _power(body, index) if _POW_CONSTANT in instruction.operands else None


def _compared(body: KernelBody, index: int) -> LongOperation | None:
    """Return what compares its operand with a bound of integers."""
    operands = body.code[index].operands
    if _RCP_BOUND in operands:
        return _with_slow_path(body, index, "reciprocal-fp32", "MUFU.RCP", before=2)
    return _with_slow_path(body, index, "root-fp32", "MUFU.RSQ", before=1) if _SQRT_BOUND in operands else None


def _division(body: KernelBody, index: int) -> LongOperation | None:
    """Return the division that an FCHK checks: a reciprocal, refined, times the dividend, and refined again."""
    check = body.code[index]
    if not check.operands:
        return None
    divisor = set(named(check.operands[-1]))
    near = [*body.before(index, 24), *body.after(index, 8)]
    seed = next((i for i in near if i.is_a("MUFU.RCP") and divisor & set(named(" ".join(i.operands)))), None)
    if seed is None:
        return None
    branch = _branch_on(body, index)
    end = branch if branch is not None else index + 16
    start = body.index(seed.address)
    parts = {seed.address, check.address, *dependents(body.code[start : end + 1])}
    if branch is not None:
        parts.add(body.code[branch].address)
    return LongOperation("division-fp32", check, tuple(sorted(parts)), slow=_slow(body, index))


def _with_slow_path(body: KernelBody, index: int, kind: str, opcode: str, *, before: int) -> LongOperation | None:
    """Return a reciprocal or root whose operand is compared with a bound, after `before` instructions and a jump."""
    compare = body.code[index]
    near = [*body.before(index, 8), *body.after(index, 16)]
    seed = next((instruction for instruction in near if instruction.opcode == opcode), None)
    if seed is None:
        return None
    start = body.index(seed.address)
    meets = (i.address for i in body.code[start : start + WINDOW] if i.name == "BSYNC")
    end = body.index(next(meets, compare.address + 16 * INSTRUCTION_BYTES))
    branch = _branch_on(body, index)
    fast = list(body.code[start:end])
    if branch is not None and start <= branch < end:
        # What is jumped over calls the slow path, and sets registers that the fast one has other values in.
        fast = [*body.code[start:branch], *body.code[body.index(body.code[branch].target or 0) : end]]
    parts = {seed.address, compare.address, *dependents(fast)}
    return LongOperation(kind, seed, tuple(sorted(parts)), slow=_slow(body, index), prepares=before + 1)


def _in_fp64(body: KernelBody, index: int) -> LongOperation | None:
    """Return an FP64 division, reciprocal or root: refined up to the branch to its slow path; None without one."""
    seed = body.code[index]
    block = []
    for instruction in body.after(index):
        block.append(instruction)
        if instruction.name in JUMPS:
            break
    else:
        return None
    following = body.after(body.index(block[-1].address), 24)
    if not any(instruction.name == "CALL" for instruction in following):
        return None
    cone = dependents([seed, *block])
    at = {instruction.address: instruction for instruction in block}
    parts = {seed.address, *cone, block[-1].address}
    if seed.is_a("MUFU.RSQ64H"):
        kind = "root-fp64"
    else:
        multiplies = any(at[address].name == "DMUL" for address in cone if address in at)
        kind = "division-fp64" if multiplies else "reciprocal-fp64"
    return LongOperation(kind, seed, tuple(sorted(parts)), slow=_slow(body, index))


def _integer_division(body: KernelBody, index: int) -> LongOperation | None:
    """Return a division of 32 bits or a remainder, whose reciprocal is made from the divisor as FP32."""
    seed = body.code[index]
    following = [seed, *body.after(index, 4 * WINDOW)]
    if not any(item.is_a("MUFU.RCP") for item in following) or not any(item.name == "F2I" for item in following):
        return None
    parts = (seed.address, *quotient_parts(following))
    if len(parts) == 1:
        return None
    at = {item.address: item for item in following}
    times = sum(is_last_step(at[address]) for address in parts)
    return LongOperation("integer-32", seed, tuple(sorted(set(parts))), times=max(1, times))


def _trigonometry(body: KernelBody, index: int) -> LongOperation | None:
    """Return a sine, cosine or tangent in FP32: what is jumped over reduces large arguments by many digits of π."""
    branch = _branch_on(body, index) if _TRIG_BOUND in body.code[index].operands else None
    target = body.code[branch].target if branch is not None else None
    if branch is None or target is None or target <= body.code[branch].address:
        return None
    slow = body.index(target) - branch - 1
    return LongOperation("trigonometry-fp32", body.code[index], (body.code[index].address,), slow=slow)


def _power(body: KernelBody, index: int) -> LongOperation | None:
    """Return a powf: logarithm, product and exponential with a few more bits than FP32 has."""
    end = next((i for i in body.after(index, 2 * WINDOW) if i.opcode == "F2I.NTZ"), None)
    if end is None:
        return None
    parts = (i for i in body.code[index : body.index(end.address) + 1] if i.name.startswith(("F", "MUFU")))
    return LongOperation("power-fp32", body.code[index], tuple(item.address for item in parts))


def _remainder(body: KernelBody, index: int) -> LongOperation | None:
    """Return an fmodf: it scales |divisor|, and compares the dividend with that."""
    scale, region = body.code[index], _region(body, index)
    if (
        region is None
        or _FMOD_SCALE not in scale.operands
        or not any(operand.startswith("|") for operand in scale.operands[1:])
    ):
        return None
    product = scale.operands[0]
    compares = (item for item in body.after(index, 4) if item.is_a("FSETP.GTU"))
    if not any(product in named(operand) for item in compares for operand in item.operands):
        return None
    start, end = map(body.index, region)
    return LongOperation("remainder-fp32", scale, tuple(item.address for item in body.code[start:end]))


_READERS: Mapping[str, Callable[[KernelBody, int], LongOperation | None]] = {
    "FCHK": _division,
    "ISETP": _compared,
    "MUFU": _in_fp64,
    "FSETP": _trigonometry,
    "FMUL": _remainder,
}


def _branch_on(body: KernelBody, index: int) -> int | None:
    """Return the index of the jump whose condition an instruction writes."""
    names = {name for name in body.code[index].operands[:2] if re.fullmatch(r"U?P\d", name)}
    for place, instruction in enumerate(body.after(index), index + 1):
        if instruction.name in JUMPS:
            read = {*named(instruction.predicate or ""), *(n for o in instruction.operands for n in named(o))}
            return place if read & names else None
    return None


def _slow(body: KernelBody, index: int) -> int:
    """Return how many instructions the function has that is called next; 0 where that is not known."""
    call = next((item for item in body.after(index, 32) if item.name == "CALL"), None)
    function = body.function(call.target) if call is not None else None
    return function.size_bytes // INSTRUCTION_BYTES if function is not None else 0
