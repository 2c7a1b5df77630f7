"""Which instructions came and went: the opcodes that make up a change of the instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.comparison.causes.counted import Counts
from gpuprof.comparison.causes.reason import Reason
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.words import Values, both_text, known
from gpuprof.comparison.work.counts import OPCODES
from gpuprof.model.sass_opcodes import may_write_memory

_NOTED = 0.01
"""An opcode is told whose change is at least so much of all instructions; with a meaning, a fifth of that."""
_TOLD = 3
_FP64 = ("DFMA", "DMUL", "DADD")
_PER_DIVISION = 3
"""A division in FP64 takes at least so many FP64 instructions beside its MUFU: a step of Newton's method, and more."""
_MEANINGS = {
    "MUFU": "reciprocals, roots", "CALL": "calls", "LDL": "local loads", "STL": "local stores", "LDS": "shared loads",
    "STS": "shared stores", "LDG": "global loads", "STG": "global stores", "BAR": "barriers", "ATOM": "atomics",
    "ATOMG": "global atomics", "ATOMS": "shared atomics", "RED": "reductions", "SHFL": "shuffles",
    "F2F": "conversions", "I2F": "conversions", "F2I": "conversions", "LDGSTS": "asynchronous copies",
    "HMMA": "tensor cores", "IMMA": "tensor cores", "DMMA": "tensor cores", "HGMMA": "tensor cores",
    "QGMMA": "tensor cores", "IGMMA": "tensor cores", "UTCHMMA": "tensor cores", "UTCQMMA": "tensor cores",
}  # fmt: skip
"""CUDA Binary Utilities, "Instruction Set Reference": what an opcode stands for, where that tells a reader more."""


STORES = "stores"
"""The mechanism of a cause that says that one side alone stores."""


def stores_nothing(counts: Counts) -> str:
    """Say that one side alone stores to global memory, which no kernel that computes something does without; empty
    where both do, neither does, or the opcodes of a side are not known.
    """
    stores = known(counts.get("global-store-requests"))
    if stores is None or (stores.base > 0) == (stores.new > 0):
        return ""
    opcodes = (name for name in counts if name.startswith(OPCODES))
    writes = [name for name in opcodes if may_write_memory(name.removeprefix(OPCODES))]
    told = [values for name in writes if (values := known(counts[name])) is not None]
    side = "new" if stores.base > 0 else "base"
    if not told or any((values.new if side == "new" else values.base) > 0 for values in told):
        return ""
    return f"the {side} side stores nothing to global memory: check what it computes"


def effect_lost(change: KernelChange) -> str:
    """Say of a kernel that was compared that one side alone stores; empty where that is not so."""
    return next((cause.sentence for cause in change.causes if cause.mechanism == STORES), "")


def opcode_reasons(counts: Counts, effect: float, *, fp64_binds: bool) -> Iterator[Reason]:
    """Yield the opcodes that moved most, in one reason; `effect` is what the change of all instructions makes.

    Divisions are told first where `fp64_binds`: the pipe that they keep busy binds the slower side.
    """
    opcodes = dict(_opcodes(counts))
    if not opcodes:
        return
    whole = max(sum(values.base for values in opcodes.values()), sum(values.new for values in opcodes.values()))
    told = sorted(
        (opcode for opcode, values in opcodes.items() if _notable(opcode, values, whole)),
        key=lambda opcode: -_telling(opcode, opcodes[opcode]),
    )[:_TOLD]
    if not told:
        return
    divisions = _divisions(opcodes)
    if divisions:
        change = opcodes["MUFU"].new - opcodes["MUFU"].base
        yield Reason(
            "opcodes", divisions, effect=effect if change * effect > 0 else 0.0, certainty="inferred", first=fp64_binds
        )
        told = [opcode for opcode in told if opcode != "MUFU"]
    moves = sum(opcodes[opcode].new - opcodes[opcode].base for opcode in told)
    if told:
        yield Reason(
            "opcodes",
            ", ".join(_text(opcode, opcodes[opcode]) for opcode in told),
            effect=effect if moves * effect > 0 else 0.0,
            certainty="counted",
        )


def _opcodes(counts: Counts) -> Iterator[tuple[str, Values]]:
    """Yield every opcode of both sides. One that only a side has was not executed on the other, if that has any."""
    every = [change for name, change in counts.items() if name.startswith(OPCODES)]
    if not any(change.base is not None for change in every) or not any(change.new is not None for change in every):
        return
    for change in every:
        values = Values(change.base or 0.0, change.new or 0.0)
        if change.word in ("less", "more", "only-base", "only-new") or values.base == values.new:
            yield change.name.removeprefix(OPCODES), values


def _notable(opcode: str, values: Values, whole: float) -> bool:
    share = abs(values.new - values.base) / whole if whole > 0 else 0.0
    return share >= (_NOTED / 5 if opcode in _MEANINGS else _NOTED)


def _telling(opcode: str, values: Values) -> float:
    """Rank an opcode: by how much it moved, in numbers and against itself; a meaning makes it more telling."""
    return abs(values.new - values.base) * abs(values.log_ratio) * (3.0 if opcode in _MEANINGS else 1.0)


def _text(opcode: str, values: Values) -> str:
    meaning = f" ({_MEANINGS[opcode]})" if opcode in _MEANINGS else ""
    return f"{opcode}{meaning} {both_text(*values)}"


def _divisions(opcodes: Mapping[str, Values]) -> str:
    """Say that divisions or roots in FP64 came or went: reciprocals did, and with each several FP64 instructions."""
    mufu = opcodes.get("MUFU")
    if mufu is None or mufu.base == mufu.new:
        return ""
    change = mufu.new - mufu.base
    fp64 = sum(opcodes[opcode].new - opcodes[opcode].base for opcode in _FP64 if opcode in opcodes)
    if fp64 * change <= 0 or abs(fp64) < _PER_DIVISION * abs(change):
        return ""
    return f"{'fewer' if change < 0 else 'more'} FP64 divisions or roots (MUFU {both_text(*mufu)})"
